"""Tangents of what goes round in loops: they go round beside it, if the body asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.autodiff.control.pieces import zeros_like
from tensorad.ir.tensor import Tensor
from tensorad.levels.duals import tangents_at
from tensorad.levels.stack import Level, levels
from tensorad.program import carries
from tensorad.program.carries import Beside


def asked_tangents(values: Sequence[Beside]) -> list[Beside]:
    """The tangents that a body asked for, at levels around the loop, as values of the loop.

    The next tangent of a carry may ask for others, and tangents at one level for those at another.
    """
    every = list(values)
    done: dict[tuple[Level, Tensor], None] = {}
    while True:
        pairs = [(level, b) for level in levels() for b in every if b.param in level.asked]
        new = [(level, b) for level, b in pairs if (level, b.param) not in done]
        if not new:
            return every[len(values) :]
        for level, b in new:
            done[level, b.param] = None
            result = None if b.result is None else _tangent(level, b.result)
            every.append(Beside(level.asked[b.param], _tangent(level, b.first), result))


def _tangent(level: Level, t: Tensor) -> Tensor:
    found = tangents_at(level, [t]).get(t)
    made = zeros_like(t, ()) if found is None else found
    level.plain[made] = None
    return made


carries.tangents.fill(asked_tangents)
