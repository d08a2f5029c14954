"""What a nest's plan says: the order of its loops, lanes, the register tile, threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorad.codegen.loops.ir import Store
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.expr import Axis


@dataclass(frozen=True)
class Plan:
    """How a nest is to be run."""

    order: tuple[Axis, ...]
    """Output axes, outermost first."""
    vector: Axis | None = None
    """The vectorised axis, an output axis or a reduce axis."""
    width: int = 0
    jam: Mapping[Axis, int] = field(default_factory=dict)
    """Unroll and jam: copies of output axes, all inside the same reduce loops."""
    unroll: frozenset[Axis] = frozenset()
    """Reduce axes of constant extent unrolled innermost."""
    parallel: bool = False
    strip: int = 0
    """Values of the vectorised axis that the loops from the jammed axis inwards take at a time."""
    rows_per_pass: int = 0
    """Values of the last reduce axis added in one pass of the lanes over what they store, which
    holds the sums meanwhile; 0: sums stay in registers, and the lanes are outside."""
    fused_stores: tuple[Store, ...] = ()
    """What else these passes store at each of their points."""


PlannedPieces = tuple[tuple[Nest, Plan], ...]
"""The pieces of a nest, each with how it is to be run."""
