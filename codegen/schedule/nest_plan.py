"""What a nest's plan says: the order of its loops, lanes, the register tile, threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorad.codegen.loops.ir import Store
from tensorad.ir.expr import Axis


@dataclass(frozen=True)
class Plan:
    """How a nest is to be run."""

    order: tuple[Axis, ...]
    """Output axes, outermost first."""
    vector: Axis | None = None
    """The axis run in lanes, an output axis or a reduce axis."""
    width: int = 0
    jam: Mapping[Axis, int] = field(default_factory=dict)
    """Output axes unrolled, all copies inside the same reduce loops."""
    unroll: frozenset[Axis] = frozenset()
    """Reduce axes of constant extent unrolled innermost."""
    parallel: bool = False
    strip: int = 0
    """Values of the lanes' axis that the loops from the jammed axis inwards take at a time."""
    sweep: int = 0
    """Values of the last reduce axis added in one pass of the lanes over what they store, which
    holds the sums meanwhile; 0: sums stay in registers, and the lanes are outside."""
    riders: tuple[Store, ...] = ()
    """What else a sweep stores at each of its points."""
