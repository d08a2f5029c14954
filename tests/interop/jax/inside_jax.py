"""Operators of `tests/interop/operators.py` inside of JAX, for tests; skips where it is missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest

from tests.interop.operators import CASES, Case

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
from tensorad.interop.jax import op  # noqa: E402

MARKS: Final = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("wide_jax"),
]


@cache
def made(name: str) -> tuple[Any, Case]:
    """An operator, and what it is made of."""
    case = CASES[name]()
    return op(case.outputs, case.inputs, f"test_{name}"), case


def several(results: Any) -> tuple[Any, ...]:
    """Results as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def of_floats(f: Callable[..., Any], case: Case) -> tuple[Callable[..., Any], list[Any]]:
    """The function of the float arguments alone, and these."""
    floats = [n for n, a in enumerate(case.arrays) if a.dtype.kind == "f"]

    def called(*given: Any) -> Any:
        every = [jax.numpy.asarray(a) for a in case.arrays]
        for n, a in zip(floats, given, strict=True):
            every[n] = a
        return f(*every)

    return called, [jax.numpy.asarray(case.arrays[n]) for n in floats]


def total(f: Callable[..., Any], *rest: Any) -> Callable[[Any], Any]:
    """A number of the first argument."""
    return lambda x: sum([jax.numpy.sin(y).sum() for y in several(f(x, *rest))])
