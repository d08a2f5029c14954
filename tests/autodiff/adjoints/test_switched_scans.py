"""Heads of scans and scatters that data have switched off meet no infinite partial derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.adjoints.adjoint import whole
from tensorad.autodiff.adjoints.switched_scans import ScanSwitch
from tensorad.ir.expr import TRUE, axis
from tensorad.ir.tensor import Scan, Tensor

X = te.placeholder((4,), "float64", name="X")
V = te.placeholder((4,), "float64", name="V")
PLACE = te.placeholder((4,), "int64", name="place")
prod = te.comm_reducer(lambda a, b: a * b, lambda t: 1.0, name="prod")
decay = te.comm_reducer(lambda a, b: a * 0.5 + b, lambda t: 0.0, name="decay")
VALUES = np.array([1.0, 0.0, 4.0, 0.0])


def _root() -> Tensor:
    return te.compute((4,), lambda i: te.sqrt(X[i]), name="root")


def _scan(combine: Any) -> Tensor:
    return te.scan(_root(), 0, combine)


def _scatter(combine: Any) -> Tensor:
    root = _root()
    return te.scatter((4,), (4,), lambda k: (PLACE[k], te.sqrt(X[k])), combine=combine, init=root)


@pytest.mark.parametrize(
    "combine", ["sum", "max", prod, decay], ids=["sum", "max", "prod", "decay"]
)
@pytest.mark.parametrize("make", [_scan, _scatter])
def test_rows_that_are_off_have_no_derivative(make: Any, combine: Any) -> None:
    s = make(combine)
    y = te.compute((4,), lambda i: te.select(V[i] > 0, s[i], 0.0), name="Y")
    made = [*ta.vjp(y, [X], np.ones(4)), ta.jacobian(y, X)]
    for signs in ([-1.0, -1, -1, -1], [1.0, -1, -1, -1]):
        arrays = {X: VALUES, V: np.array(signs), PLACE: np.arange(4)}
        for sent, every in (ta.evaluate(made, arrays), ta.interpret(made, arrays)):
            first = 0.0 if signs[0] < 0 else 1.0 if make is _scatter and combine != "max" else 0.5
            first = 0.75 if make is _scatter and combine is decay and first else first
            assert sent.tolist() == every[0].tolist() == [first, 0, 0, 0]
            assert every[1:].tolist() == [[0.0] * 4] * 3


def test_a_pole_that_reaches_a_result_stays() -> None:
    s = _scan("sum")
    y = te.compute((4,), lambda i: te.select(V[i] > 0, s[i], 0.0), name="Y")
    arrays = {X: VALUES, V: np.array([-1.0, 1, -1, -1])}
    assert ta.evaluate(ta.vjp(y, [X], np.ones(4))[0], arrays).tolist() == [0.5, np.inf, 0, 0]


def test_what_the_steps_of_a_scan_do_not_take_gets_nothing() -> None:
    largest = te.scan(_root(), 0, "max")
    found = ta.evaluate(ta.vjp(largest, [X], np.ones(4))[0], {X: VALUES})
    assert found.tolist() == [1.0, 0, 0.5, 0]


def test_heads_are_counted_where_data_decide() -> None:
    s = te.scan(X, 0)
    op, i = s.op, axis("i", 0, 4)
    assert isinstance(op, Scan)
    h = te.placeholder((4,), "float64", name="H")
    plain = ScanSwitch(op, op, {s: whole(h)}, (0,), (), ())
    assert plain.counted is None
    off = te.compute((4,), lambda i: te.select(V[i] > 0, h[i], 0.0), name="off")
    switch = ScanSwitch(op, op, {s: whole(off)}, (0,), (), ())
    assert switch.counted is not None
    arrays = {V: np.array([1.0, -1, 1, -1])}
    assert ta.evaluate(switch.counted.elements[0][0], arrays).tolist() == [2, 1, 1, 0]
    element = switch.element(0, h)
    assert element.tensor is h and element.sum_of is not None
    (c,) = element.sum_of.contributions
    assert c.guard is TRUE and str(c.weight(())) == "H[i]"
    assert i.extent == 4 and "> 0.0" in str(c.switch(()))
