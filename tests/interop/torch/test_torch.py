"""Operators inside of PyTorch: checked by its own checks, beside the same operators of PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any

import pytest

import tensorad as ta
from tests.interop.operators import CASES, Case

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.errors import DefinitionError, DTypeError  # noqa: E402
from tensorad.interop.torch import TorchOperator, op  # noqa: E402
from tests.interop.torch.ways import ways  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
_numbers = count()


@cache
def _made(name: str) -> tuple[Any, Case]:
    case = CASES[name]()
    return op(case.outputs, case.inputs, f"test_{name}"), case


def _arguments(case: Case) -> list[Any]:
    made = [torch.from_numpy(a.copy()) for a in case.arrays]
    return [t.requires_grad_() if t.is_floating_point() else t for t in made]


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _scalar(f: Callable[..., Any], fixed: list[Any], at: int) -> Callable[[Any], Any]:
    """A number of one argument."""

    def total(x: Any) -> Any:
        given = [*fixed[:at], x, *fixed[at + 1 :]]
        return sum([torch.sin(y).sum() for y in _several(f(*given))])

    return total


@pytest.mark.parametrize("name", CASES)
def test_derivatives_by_gradcheck(name: str) -> None:
    f, case = _made(name)
    given = _arguments(case)
    assert torch.autograd.gradcheck(f, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, given, check_fwd_over_rev=True)


@pytest.mark.parametrize("name", CASES)
def test_the_registered_operator_is_one(name: str) -> None:
    f, case = _made(name)
    found = torch.library.opcheck(f.registered, _arguments(case))
    assert list(found.values()) == ["SUCCESS"] * 4


@pytest.mark.parametrize("name", CASES)
def test_it_equals_the_operator_of_pytorch(name: str) -> None:
    f, case = _made(name)
    reference = partial(case.reference, torch)
    given = [t.detach() for t in _arguments(case)]
    for own, other in zip(_several(f(*given)), _several(reference(*given)), strict=True):
        torch.testing.assert_close(own, other)
    at = next(n for n, t in enumerate(given) if t.is_floating_point())
    x = given[at]
    for derive in ("grad", "jacrev", "jacfwd", "hessian"):
        own, other = [getattr(torch.func, derive)(_scalar(g, given, at))(x) for g in (f, reference)]
        torch.testing.assert_close(own, other)
    direct = torch.func.hessian(_scalar(f.registered, given, at))(x)
    torch.testing.assert_close(direct, other)
    along = torch.ones_like(x)
    own, other = [torch.func.jvp(_scalar(g, given, at), (x,), (along,)) for g in (f, reference)]
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize("name", CASES)
def test_rows_by_vmap(name: str) -> None:
    f, case = _made(name)
    reference = partial(case.reference, torch)
    given = [t.detach() for t in _arguments(case)]
    at = next(n for n, t in enumerate(given) if t.is_floating_point())
    rows = torch.stack([given[at], given[at] * 1.1, given[at] * 0.9])
    dims = tuple([0 if n == at else None for n in range(len(given))])
    arguments = [*given[:at], rows, *given[at + 1 :]]
    own, other = [torch.func.vmap(g, dims)(*arguments) for g in (f, reference)]
    for a, b in zip(_several(own), _several(other), strict=True):
        torch.testing.assert_close(a, b)
    own, other = [
        torch.func.vmap(torch.func.grad(_scalar(g, given, at)))(rows) for g in (f, reference)
    ]
    torch.testing.assert_close(own, other)


def test_compiled_once_for_all_sizes() -> None:
    f, case = _made("dense")
    testing = importlib.import_module("torch._dynamo.testing")
    counter = testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, w: torch.sin(f(torch.relu(x), w)).sum(),
        fullgraph=True, dynamic=True, backend=counter,
    )  # fmt: skip
    for n in (3, 5, 8):
        x = torch.rand(n, 4, dtype=torch.float64, requires_grad=True)
        w = torch.rand(n + 2, 4, dtype=torch.float64, requires_grad=True)
        own = torch.autograd.grad(compiled(x, w), (x, w))
        value = torch.sin(case.reference(torch, torch.relu(x), w)).sum()
        torch.testing.assert_close(own, torch.autograd.grad(value, (x, w)))
    assert counter.frame_count == 1


def test_exported_with_a_dynamic_size() -> None:
    f, _ = _made("dense")

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.rand(5, 4, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            return f(x, self.w)

    layer = Layer()
    n = torch.export.Dim("n", min=2, max=100)
    example = torch.rand(3, 4, dtype=torch.float64)
    program = torch.export.export(layer, (example,), dynamic_shapes={"x": {0: n}})
    x = torch.rand(7, 4, dtype=torch.float64)
    torch.testing.assert_close(program.module()(x), layer(x))


def test_the_way_that_was_taken() -> None:
    f, case = _made("dense")
    x, w = _arguments(case)
    f(x, w)
    with torch.no_grad():
        assert ways(lambda: f(x, w)) == {"call"}
    assert ways(lambda: f(x.detach(), w.detach())) == {"call", "like"}
    assert ways(lambda: f(x.detach(), w.detach())) == {"call"}
    with torch.inference_mode():
        f(x.detach(), torch.rand(5, 4, dtype=torch.float64))
        assert ways(lambda: f(x.detach(), torch.rand(5, 4, dtype=torch.float64))) == {"call"}
    assert ways(lambda: f(x, w)) == {"call", "like", "forward"}
    assert ways(lambda: f(x, w)) == {"call", "forward"}
    assert ways(lambda: f(x.T.contiguous().T, w)) == {"call", "forward"}
    through = {"call", "in_general", "differentiated"}
    given = w.detach()
    assert ways(lambda: torch.func.grad(lambda a: f(a, given).sum())(x.detach())) == through
    assert ways(lambda: torch.func.jvp(lambda a: f(a, given), (x.detach(),), (given[:3],))) == (
        through
    )
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fakes = [torch.rand(t.shape, dtype=t.dtype) for t in (x, w)]
        assert ways(lambda: f(*fakes)) == {"call", "in_general", "fake"}


def test_autocast_computes_in_the_declared_dtype() -> None:
    f, case = _made("dense")
    x, w = [t.detach() for t in _arguments(case)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f(x.bfloat16(), w).dtype is torch.float64
    gathered, case = _made("gathered")
    index, rows = [t.detach() for t in _arguments(case)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for number in (index.double(), index.bfloat16()):
            with pytest.raises(DTypeError, match=r"argument I of .* expected int64"):
                gathered(number, rows)


def test_names_and_inputs_of_operators() -> None:
    f, case = _made("dense")
    assert isinstance(f, TorchOperator) and f.registered is torch.ops.tensorad.test_dense.default
    with pytest.raises(DefinitionError, match="reads W, which is none of its inputs"):
        op(case.outputs, case.inputs[:1], f"test_other_{next(_numbers)}")
    with pytest.raises(DefinitionError, match=r"input X of operator .* is given twice"):
        op(case.outputs, [*case.inputs, case.inputs[0]], f"test_other_{next(_numbers)}")


def test_a_loop_with_its_gradient_inside_of_a_module() -> None:
    def grown(x: Any) -> Any:
        return ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)

    example = torch.tensor([1.2, 1.1], dtype=torch.float64)
    program = ta.function(grown).trace(example.numpy())
    f = op(program.results, program.parameters, f"test_loop_{next(_numbers)}")
    x = example.requires_grad_()
    assert torch.autograd.gradcheck(f, [x], check_forward_ad=True)
    y = x
    while y.sum() < 10.0:
        y = y * x
    torch.testing.assert_close(f(x), y)


def test_outputs_that_are_no_floats() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), name="X")
    f = op(ta.compute((n,), lambda i: x[i] > 0.5), [x], f"test_outputs_{next(_numbers)}")
    given = torch.rand(4, requires_grad=True)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for call in (f, f.registered, compiled):
        found = call(given)
        assert torch.equal(found, given > 0.5) and not found.requires_grad
    own = torch.func.grad(lambda x: torch.where(f(x), x * x, x).sum())(given.detach())
    torch.testing.assert_close(own, torch.where(given > 0.5, 2.0 * given, torch.ones(4)))
    assert not torch.func.jvp(f, (given.detach(),), (torch.ones(4),))[1].any()


def test_an_operator_of_nothing() -> None:
    f = op(ta.compute((4,), lambda i: i * 2.0), [], f"test_nothing_{next(_numbers)}")
    expected = torch.tensor([0.0, 2.0, 4.0, 6.0])
    for call in (f, f.registered, torch.compile(lambda: f(), fullgraph=True, backend="aot_eager")):
        assert torch.equal(call(), expected)
    x = torch.ones(3, 4)
    assert torch.equal(torch.func.vmap(lambda x: f() * x)(x), expected * x)
    assert torch.equal(torch.func.grad(lambda x: (f() * x).sum())(x[0]), expected)


def test_derivatives_whose_names_are_taken() -> None:
    f, case = _made("stencil")
    for before in ("vjp_1_1", "of_1_1_0", "of_1_1_1", "jvp_1"):
        op(f.operator.outputs, f.operator.inputs, f"test_taken_{before}")
    g = op(case.outputs, case.inputs, "test_taken")
    assert torch.autograd.gradcheck(g, _arguments(case), check_forward_ad=True)
