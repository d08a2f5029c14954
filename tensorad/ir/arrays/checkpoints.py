"""What is stored for reverse mode where that is not all that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorad.ir.tensor import FunctionCall


@dataclass(frozen=True, eq=False)
class Checkpoint(FunctionCall):
    """A call of whose inside little is stored for its reverse: the rest is computed again there.

    Attributes:
        keeps: how many of the last results are stored; what else the reverse needs is computed
            again from these and the operands.
        again: whether it is such a reverse. It stays a block of its own, since what it computes
            may be there already, elsewhere.
    """

    keeps: int = field(default=0, kw_only=True)
    again: bool = field(default=False, kw_only=True)
