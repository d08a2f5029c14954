"""gradcheck: it accepts right derivatives and names the first element of wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorad import checking, te
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, DTypeError, GradError
from tensorad.ir.expr import call
from tensorad.ir.tensor import Compute, Tensor, outputs
from tests.generators import random_program


def test_a_network_passes_at_orders_one_and_two() -> None:
    x, w = te.placeholder((3, 4), name="X"), te.placeholder((2, 4), name="W")
    k = te.reduce_axis((0, 4), name="k")
    dense = te.compute((3, 2), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="dense")
    y = te.compute((3, 2), lambda i, j: call("tanh", dense[i, j]) / (2.0 + i), name="Y")
    assert gradcheck(y, [x, w])
    assert gradcheck(y, x, order=2)
    assert gradcheck(y, [dense])


def test_logarithms_get_positive_inputs() -> None:
    x = te.placeholder((5,), name="X")
    assert gradcheck(te.compute((5,), lambda i: call("log", x[i]), name="Y"), x, order=2)


def test_scalars_empty_and_symbolic_shapes() -> None:
    s = te.placeholder((), name="S")
    assert gradcheck(te.compute((), lambda: call("sin", s[()]), name="Y"), s, order=2)
    e = te.placeholder((0,), name="E")
    assert gradcheck(te.compute((0,), lambda i: e[i] * 2.0, name="Y"), e)
    n = te.size("n")
    x = te.placeholder((n, n), name="X")
    k = te.reduce_axis((0, n), name="k")
    y = te.compute((n,), lambda i: te.sum(x[i, k] * x[k, i], axis=k), name="Y")
    assert gradcheck(y, x, order=2, sizes={"n": 3})


def test_given_arrays_are_used() -> None:
    x, idx = te.placeholder((4,), name="X"), te.placeholder((3,), dtype="int64", name="I")
    y = te.compute((3,), lambda i: x[idx[i]] ** 2, name="Y")
    assert gradcheck(y, x, arrays={idx: np.array([3, 0, 3])})


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_pass(seed: int) -> None:
    program = random_program(seed, computes=4)
    arrays = program.arrays()
    for y in program.outputs:
        used = program.float_inputs
        if y.dtype.is_float:
            assert gradcheck(y, used, arrays=arrays, tol=1e-5)


def _halved(t: Tensor) -> Tensor:
    """`t` with a wrong last element."""
    (last,) = t.shape
    assert isinstance(last, int) and isinstance(t.op, Compute)
    axes = te.compute((last,), lambda i: t[i] * te.select(i < last - 1, 1.0, 0.5), name="wrong")
    return axes  # type: ignore[no-any-return]  # a tuple only for tuple bodies


def test_wrong_reverse_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((4,), name="X")
    y = te.compute((4,), lambda i: x[i] * 3.0, name="Y")
    right = checking.vjp
    monkeypatch.setattr(checking, "vjp", lambda *a: [_halved(g) for g in right(*a)])
    with pytest.raises(GradError) as caught:
        gradcheck(y, x)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("reverse mode disagrees for Y by X: gradient of X[3] is ")
    assert lines[1] == "  in: tensor Y : float32 [4]"
    assert lines[-1] == (
        "  hint: at a kink or a pole this is no error: try another seed or other arrays."
    )


def test_wrong_forward_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((40,), name="X")
    y = te.compute((40,), lambda i: x[i] * 3.0, name="Y")
    right = checking.jvp
    monkeypatch.setattr(checking, "jvp", lambda *a: _halved(right(*a)))
    with pytest.raises(GradError, match=r"forward mode disagrees for Y by X: dY\[39\] is "):
        gradcheck(y, x)


def test_large_inputs_are_searched_for_the_wrong_element(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((40,), name="X")
    y = te.compute((40,), lambda i: call("exp", x[i]), name="Y")
    right = checking.vjp
    monkeypatch.setattr(checking, "vjp", lambda *a: [_halved(g) for g in right(*a)])
    with pytest.raises(GradError, match=r"gradient of X\[39\] is "):
        gradcheck(y, x)


def test_bad_arguments() -> None:
    x: Any = te.placeholder((3,), name="X")
    i = te.placeholder((3,), dtype="int32", name="I")
    with pytest.raises(DefinitionError, match="order must be at least 1, got 0"):
        gradcheck(x, x, order=0)
    with pytest.raises(DTypeError):
        gradcheck(x, i)
    assert len(outputs(x.op)) == 1
