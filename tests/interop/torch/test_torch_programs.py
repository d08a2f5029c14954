"""Whole programs as operators of PyTorch: loops, branches, recursion, gradients inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import tensorad as ta

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.interop.torch import op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class Program(NamedTuple):
    """A function of trees, arguments for it, and the same in PyTorch."""

    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Callable[..., Any]


def _steps() -> Program:
    """A few steps of descent, whose gradient stands inside of a loop."""

    def descent(w: Any, x: Any, y: Any) -> Any:
        def cost(w: Any) -> Any:
            return ((x @ ta.tanh(w) - y) ** 2).sum()

        return ta.for_loop(0, 4, lambda t, w: w - 0.1 * ta.grad(cost)(w), w)

    def reference(w: Any, x: Any, y: Any) -> Any:
        for _ in range(4):
            inner = torch.tanh(w)
            w = w - 0.1 * (2 * x.T @ (x @ inner - y)) * (1 - inner**2)
        return w

    rng = np.random.default_rng(0)
    given = (rng.uniform(-1, 1, 3), rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, 4))
    return Program(descent, given, reference)


def _grown() -> Program:
    """A loop as long as data say, and a branch that they choose."""

    def grown(x: Any) -> Any:
        last = ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)
        return ta.cond(last[0] > last[1], lambda: last * 2.0, lambda: ta.sin(last))

    def reference(x: Any) -> Any:
        last = x
        while last.sum() < 10.0:
            last = last * x
        return last * 2.0 if last[0] > last[1] else torch.sin(last)

    return Program(grown, (np.array([1.3, 1.1]),), reference)


def _recursion() -> Program:
    """A function that calls itself as often as data say."""

    @ta.function(returns=0.0)
    def power(x: Any, n: Any) -> Any:
        return ta.cond(n < 1.0, lambda: x * 0.0 + 1.0, lambda: ta.sin(x) * power(x, n - 1.0))

    def reference(x: Any, n: Any) -> Any:
        found = x * 0.0 + 1.0
        while n >= 1.0:
            found, n = found * torch.sin(x), n - 1.0
        return found + 0.0 * n

    return Program(power, (np.float64(1.2), np.float64(3.5)), reference)


PROGRAMS: Final = {"steps": _steps, "grown": _grown, "recursion": _recursion}


@cache
def _made(name: str) -> tuple[Any, Program]:
    program = PROGRAMS[name]()
    run = program.run if hasattr(program.run, "trace") else ta.function(program.run)
    traced = run.trace(*program.arguments)
    return op(traced.results, traced.parameters, f"test_program_{name}"), program


def _arguments(program: Program) -> list[Any]:
    return [torch.tensor(a).requires_grad_() for a in program.arguments]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name: str) -> None:
    f, program = _made(name)
    given = _arguments(program)
    torch.testing.assert_close(f(*given), program.reference(*given))
    assert torch.autograd.gradcheck(f, given, check_forward_ad=True)
    own, other = [torch.autograd.grad(g(*given).sum(), given) for g in (f, program.reference)]
    torch.testing.assert_close(own, other)


def test_second_derivatives_of_steps_of_descent() -> None:
    f, program = _made("steps")
    given = [t.detach() for t in _arguments(program)]

    def first(g: Callable[..., Any]) -> Callable[[Any], Any]:
        return torch.func.grad(lambda w: (g(w, *given[1:]) ** 2).sum())  # type: ignore[no-any-return]

    own, other = [torch.func.jacrev(first(g))(given[0]) for g in (f, program.reference)]
    torch.testing.assert_close(own, other)
    along = (torch.ones_like(given[0]),)
    own, other = [
        torch.func.jvp(lambda w, g=g: g(w, *given[1:]), (given[0],), along)
        for g in (f, program.reference)
    ]
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_inside_of_a_module_that_is_compiled(name: str) -> None:
    f, program = _made(name)
    given = _arguments(program)
    compiled = torch.compile(lambda *t: torch.sin(f(*t)).sum(), fullgraph=True, backend="aot_eager")
    own = torch.autograd.grad(compiled(*given), given)
    other = torch.autograd.grad(torch.sin(program.reference(*given)).sum(), given)
    torch.testing.assert_close(own, other)


def test_functionalized_calls_are_the_operator_itself() -> None:
    x = ta.placeholder((3,), dtype="float64", name="X")
    f = op(ta.compute((3,), lambda i: ta.exp(x[i]), name="Y"), [x], "test_functionalized")

    def changed(a: Any) -> Any:
        b = a.clone()
        b.add_(1.0)
        return f(b), f.registered(a)

    a = torch.rand(3, dtype=torch.float64)
    for own, other in zip(torch.func.functionalize(changed)(a), (a + 1.0, a), strict=True):
        torch.testing.assert_close(own, torch.exp(other))
    trace = torch.fx.experimental.proxy_tensor.make_fx(torch.func.functionalize(f))(a)
    assert "torch.ops.tensorad.test_functionalized.default" in trace.code
