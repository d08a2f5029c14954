"""Every decision of a schedule, to be made for a program in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorad.codegen.directives import Choices, switches
from tensorad.codegen.lower import needed_units
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import op_expressions, postorder
from tests.random.generators import Array, Program

TOLERANCE = {"float64": 1e-9, "float32": 3e-4}
TILES = ((1, 1), (2, 1), (3, 2), (4, 1), (5, 3), (6, 4), (7, 1), (8, 2), (16, 8))


def general() -> list[Choices]:
    """Choices that name no axis."""
    found = [Choices(**{name: value}) for name in switches() for value in (True, False)]  # type: ignore[arg-type]  # bools
    packed = [Choices(contract=True, pack=p) for p in ("place", "panel", "relayout", "gaps")]  # type: ignore[arg-type]  # the kinds
    packed += [Choices(contract=True, block=n) for n in (1, 3)]
    packed += [Choices(contract=True, tile=tile) for tile in TILES[::3]]
    return [*found, Choices(vector=False), *[Choices(tile=tile) for tile in TILES], *packed]


def by_name(program: Program, tensors: Sequence[Tensor]) -> list[dict[str, Choices]]:
    """For every axis of every tensor: lanes along it, and its loop outermost."""
    found: list[dict[str, Choices]] = []
    for unit in needed_units(tensors, program.inputs):
        for op in unit.parts:
            inside = [a for e in postorder(*op_expressions(op)) for a in getattr(e, "axes", ())]
            own = [a.name for a in getattr(op, "axes", ())]
            for name in dict.fromkeys([*own, *[a.name for a in inside]]):
                found.append({op.name: Choices(vector=name, tile=(2, 2))})
            found.extend([{op.name: Choices(order=(name,), parallel=True)} for name in own])
    return found


def close(outputs: Sequence[Tensor], have: Sequence[Array], want: Sequence[Array]) -> None:
    """Equal but for the order of float sums."""
    for t, a, b in zip(outputs, have, want, strict=True):
        assert a.shape == b.shape
        if not t.dtype.is_float:
            np.testing.assert_array_equal(a, b.astype(a.dtype), err_msg=str(t))
            continue
        tolerance = TOLERANCE[t.dtype]
        scale = 1.0 + float(np.abs(b[np.isfinite(b)]).max(initial=0))
        np.testing.assert_allclose(a, b, tolerance, tolerance * scale, err_msg=str(t))
