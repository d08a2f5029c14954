"""What is stored for reverse mode where that is not all that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorad.ir.tensor import Block, FunctionCall


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


@dataclass(frozen=True, eq=False)
class Replay:
    """How the reverse of a loop has the carries of each iteration: from some that the loop stores.

    The first carries of such a loop are states. Then come, for each state, `rows` of its values and
    one row more that may be written over, and then the numbers of the iterations that these rows
    are of, in the order in which they run; -1: of none.

    Attributes:
        states: how many carries are states.
        advance: (number of an iteration, how many, states, what is fixed) -> the states later.
        fixed: which operands of the loop the last params of `advance` are.
    """

    states: int
    rows: int
    advance: Block
    fixed: tuple[int, ...]
