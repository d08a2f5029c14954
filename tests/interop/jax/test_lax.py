"""JAX's `lax` operators as formulas: values, and derivatives in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.interop.jax.inside_jax import MARKS, jax
from tests.interop.jax.lax_cases import CASES

pytestmark = MARKS


def _close(found: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11)


def _floats(arrays: Any) -> list[int]:
    return [n for n, a in enumerate(arrays) if a.dtype.kind == "f"]


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_are_those_of_lax(name: str) -> None:
    case = CASES[name]
    xs = [ta.placeholder(a.shape, a.dtype, f"x{n}") for n, a in enumerate(case.arrays)]
    y, at = case.graph(*xs), _floats(case.arrays)
    rng = np.random.default_rng(0)

    def wanted(*floats: Any) -> Any:
        every = [jax.numpy.asarray(a) for a in case.arrays]
        for n, value in zip(at, floats, strict=True):
            every[n] = value
        return case.wanted(*every)

    primals = [jax.numpy.asarray(case.arrays[n]) for n in at]
    result = wanted(*primals)
    tensors, expected = [y], [result]
    if at and result.dtype.kind == "f":
        head = rng.normal(size=result.shape)
        along = [rng.normal(size=case.arrays[n].shape) for n in at]
        wrt = [xs[n] for n in at]
        tensors += [*ta.vjp(y, wrt, head), ta.jvp(y, dict(zip(wrt, along, strict=True)))]
        expected += [*jax.vjp(wanted, *primals)[1](jax.numpy.asarray(head))]
        expected += [jax.jvp(wanted, primals, [jax.numpy.asarray(u) for u in along])[1]]
    bindings = dict(zip(xs, case.arrays, strict=True))
    for found, e in zip(ta.interpret(tensors, bindings), expected, strict=True):
        _close(found, e)


def test_the_operators_are_many() -> None:
    assert len({name.partition(" ")[0] for name in CASES}) >= 46
