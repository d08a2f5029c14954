"""What programs are written with: tensorad, or plain Python that means the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tensorad as ta
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.reference.verify import verify
from tensorad.program.calling.arguments import as_result
from tensorad.program.data.instances import Instance

F64 = np.float64
I64 = np.int64


class Kit(NamedTuple):
    """The constructs of programs."""

    function: Callable[..., Any]
    cond: Callable[..., Any]
    switch: Callable[..., Any]
    for_loop: Callable[..., Any]
    while_loop: Callable[..., Any]
    fn: Callable[..., Any]
    number: Callable[..., Any]


def _for_loop(lower: int, upper: int, body: Callable[..., Any], x: Any) -> Any:
    for i in range(lower, upper):
        x = body(i, x)
    return x


def _while_loop(test: Callable[..., Any], body: Callable[..., Any], x: Any) -> Any:
    while test(x):
        x = body(x)
    return x


def _switch(n: int, branches: Sequence[Callable[..., Any]]) -> Any:
    return branches[min(max(int(n), 0), len(branches) - 1)]()


def _identity(f: Any = None, **options: Any) -> Any:
    return (lambda g: g) if f is None else f


PYTHON = Kit(
    _identity, lambda c, yes, no: yes() if c else no(), _switch, _for_loop, _while_loop, _identity,
    lambda x: F64(x),
)  # fmt: skip
TRACED = Kit(
    ta.function, ta.cond, ta.switch, ta.for_loop, ta.while_loop, ta.fn,
    lambda x: x.astype("float64") if hasattr(x, "astype") else ta.const(x, "float64"),
)  # fmt: skip


class Case(NamedTuple):
    """A program and arguments to run it with."""

    make: Callable[[Kit], Callable[..., Any]]
    arguments: tuple[tuple[Any, ...], ...]


class Cases(dict[str, Case]):
    """Programs by name."""

    def run(self, *arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Decorates what makes a program of a kit."""

        def decorated(make: Callable[[Kit], Callable[..., Any]]) -> Any:
            self[make.__name__] = Case(make, arguments)
            return make

        return decorated


def parts(value: object) -> list[Any]:
    """The numbers of a result, values of data types with the names of their alternatives."""
    if isinstance(value, Instance):
        found = [part for leaf in value.leaves for part in parts(leaf)]
        return [type(value).__name__, *found]
    if isinstance(value, dict):
        return [part for key in sorted(value) for part in parts(value[key])]
    if isinstance(value, (tuple, list)):
        return [part for inner in value for part in parts(inner)]
    return [np.asarray(value)]


def same(found: object, wanted: object) -> None:
    """Results that agree up to rounding."""
    pairs = list(zip(parts(found), parts(wanted), strict=True))
    for a, b in pairs:
        if isinstance(b, str):
            assert a == b
        else:
            assert a.shape == b.shape
            assert np.allclose(a, b, rtol=1e-12, atol=1e-12), (a, b)


def interpreted(f: Any, arguments: tuple[Any, ...]) -> Any:
    """The program's result by the interpreter, and its dtypes' by the rules."""
    program = f.trace(*arguments)
    verify(program.results)
    given = dict(zip(program.parameters, arguments, strict=True))
    found = [as_result(ta.interpret(t, given)) for t in program.results]
    for t, value in zip(program.results, found, strict=True):
        is_value = isinstance(value, Instance)
        assert is_value or value.dtype.kind == to_dtype(t.dtype).kind[0]
    return program.tree(found)


def check(case: Case) -> None:
    """The interpreter, the compiled program and Python agree."""
    traced: Any = case.make(TRACED)
    f = traced if hasattr(traced, "trace") else ta.function(traced)
    for arguments in case.arguments:
        wanted = case.make(PYTHON)(*arguments)
        same(interpreted(f, arguments), wanted)
        same(f(*arguments), wanted)
