"""Cuts at borders that quotients decide: lanes stay along contiguous elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.nest.ir import Nest, nest_of
from tensorad.codegen.splitting.index_sets import switches
from tensorad.codegen.splitting.nest_passes import pieces_of
from tensorad.codegen.splitting.quotient_borders import cut_quotients
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor


def gradient(n: int, taps: int, dilation: int, stride: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """X, H and dX of window sums."""
    x, p = te.placeholder((n,), name="X"), te.reduce_axis(taps, name="p")
    size = (n - dilation * (taps - 1) - 1) // stride + 1

    def window(i: Any) -> Any:
        return te.sum(x[stride * i + dilation * p], axis=p)

    h = te.placeholder((size,), name="H")
    return x, h, ta.vjp(te.compute((size,), window, name="Y"), [x], h)[0]


def nest(t: Tensor) -> Nest:
    assert isinstance(t.op, Compute)
    found = nest_of(t.op.axes, (t,), t.op.bodies)
    assert found is not None
    return found


def points(n: Nest) -> int:
    return prod([a.extent or 0 for a in n.axes])


@pytest.mark.parametrize("dilation", [2, 3])
def test_the_middle_has_no_division(dilation: int) -> None:
    whole = nest(gradient(64, 3, dilation)[2])
    assert any(e.op == "floordiv" for e in switches(whole))
    pieces = pieces_of(whole)
    middle = max(pieces, key=points)
    assert points(middle) == 64 - 4 * dilation
    assert not switches(middle)
    assert sum(map(points, pieces)) == 64


def test_windows_that_skip_elements_stay_in_phases() -> None:
    whole = nest(gradient(65, 3, 1, stride=2)[2])
    assert cut_quotients(whole) == [whole]


@pytest.mark.parametrize(("n", "taps", "dilation"), [(9, 3, 2), (10, 3, 4), (23, 4, 3), (40, 2, 5)])
def test_values(n: int, taps: int, dilation: int) -> None:
    x, h, dx = gradient(n, taps, dilation)
    given = {
        x: np.zeros(n, np.float32),
        h: np.arange(1.0, n, dtype=np.float32)[: int(str(h.shape[0]))],
    }
    np.testing.assert_array_equal(ta.evaluate(dx, given), interpret(dx, given))
