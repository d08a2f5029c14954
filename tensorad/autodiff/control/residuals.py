"""What the reverse of a block needs of the block's own values: stored, or computed again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tensorad.ir.analysis.blocks import block_ops, op_sizes, tells_trips
from tensorad.ir.analysis.cheap import is_cheap
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.expr import Expr
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import (
    Block,
    Constant,
    Control,
    Loop,
    Op,
    Placeholder,
    Replay,
    Saved,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.visit import op_inputs


@dataclass(frozen=True)
class Residuals:
    """The tensors that formulas read of a block and of what is around it.

    Attributes:
        params: of the block.
        stored: computed in the block, needed as they were.
        outside: from around the block, no params of it.
    """

    params: Sequence[Tensor]
    stored: Sequence[Tensor]
    outside: Sequence[Tensor]


def residuals(
    op: Control,
    n: int,
    made: Sequence[Tensor],
    own: Collection[Tensor],
    free: Collection[Tensor],
    *,
    store_all: bool = False,
) -> Residuals:
    """What tensors made of block n read of it, once what is cheap is computed again.

    Args:
        own: placeholders of the tensors made.
        free: params whose values are there after the operation, nothing having been stored.
        store_all: whether a checkpoint stores what is needed.
    """
    search = _Search(op, n, own, free)
    search.kept = None if store_all else search.kept
    return search.run(made)


def note_stored(op: Control, tensors: Sequence[Tensor]) -> None:
    """Tell which tensors inside of an operation are stored for its reverse."""
    for t in tensors:
        why = "the reverse of its block reads it"
        note(Decision((outputs(op)[0],), f"{t.name} stored", why))


def note_replayed(op: Loop, replay: Replay) -> None:
    """Tell what a loop stores, and that the rest of its carries is computed again."""
    for t in op.blocks[0].params[: replay.states]:
        why = f"from the {replay.rows} values of it that are stored"
        note(Decision((outputs(op)[0],), f"{t.name} computed again", why))


def kept_results(op: Control) -> dict[Tensor, None] | None:
    """What a checkpoint stores of its inside; None: it is none, and stores what is needed."""
    if isinstance(op, Loop) and op.replay is not None:
        return {}
    if not isinstance(op, Checkpoint):
        return None
    return dict.fromkeys(op.results[len(op.results) - op.keeps :])


def own_sizes(op: Control, ops: Sequence[Op]) -> dict[Expr, None]:
    """The sizes that have a value only inside of the operation's block."""
    found: dict[Expr, None] = {op.counter: None} if isinstance(op, Loop) else {}
    found.update({o.trips: None for o in ops if tells_trips(o)})
    return found


class _Search:
    def __init__(
        self, op: Control, n: int, own: Collection[Tensor], free: Collection[Tensor]
    ) -> None:
        block: Block = op.blocks[n]
        kept = [inner for inner, b in op.kept if b == n]
        ops = block_ops(block, kept)
        self.about = outputs(op)[0]
        self.params = dict.fromkeys(block.params)
        self.own = dict.fromkeys(own)
        self.free = dict.fromkeys(free)
        self.forward = dict.fromkeys(ops)
        self.sizes = own_sizes(op, ops)
        self.wanted: dict[Tensor, None] = {}
        self.outside: dict[Tensor, None] = {}
        self.again: dict[Op, None] = {}
        self.kept = kept_results(op)
        self.tellers: dict[Expr, list[Op]] = {}
        for o in filter(tells_trips, ops):
            self.tellers.setdefault(o.trips, []).append(o)
        self.told: dict[Expr, None] = {}

    def run(self, made: Sequence[Tensor]) -> Residuals:
        self.read(made)
        open_ = [t for t in self.wanted if t not in self.params]
        for t in open_:
            why = self.reason(t)
            if why and t.op not in self.again:
                self.compute_again(t, why)
        while self.told:
            self.tell(self.told.popitem()[0])
        inner = [t for t in self.wanted if t not in self.params and t.op not in self.again]
        return Residuals([p for p in self.wanted if p in self.params], inner, list(self.outside))

    def is_forward(self, op: Op) -> bool:
        return op in self.forward or (isinstance(op, Saved) and op.control in self.forward)

    def read(self, tensors: Sequence[Tensor]) -> None:
        """What new operations read, directly or through others."""
        stack = list(tensors)[::-1]
        seen: dict[Tensor, None] = {}
        while stack:
            t = stack.pop()
            if t in seen or t in self.own:
                continue
            seen[t] = None
            if t in self.params or (self.is_forward(t.op) and t.op not in self.again):
                self.want(t)
            elif isinstance(t.op, Placeholder):
                self.outside[t] = None
            elif not isinstance(t.op, Constant):
                stack += reversed(op_inputs(t.op))
                self.use_sizes(t.op)

    def use_sizes(self, op: Op) -> None:
        """Sizes that loops of the block tell have to be told where they are used."""
        own = op.trips if tells_trips(op) else None
        self.told.update({s: None for s in op_sizes(op) if s in self.tellers and s is not own})

    def tell(self, size: Expr) -> None:
        """One of the loops that tell a size, of those that are read, runs again."""
        loops = self.tellers[size]
        if not any(o in self.again for o in loops):
            read = [t for t in self.wanted if t.op in loops]
            if read:
                self.compute_again(read[0], "its number of iterations is used")

    def want(self, t: Tensor) -> None:
        if not isinstance(t.op, Constant) or t in self.params:
            self.wanted[t] = None

    def reason(self, t: Tensor) -> str:
        """Why a tensor of the block is computed again; "" if it is stored."""
        if any(s in self.sizes for s in sizes_in(*map(dim_expr, t.shape))):
            return "its shape is known inside of the block only"
        if self.kept is not None and t not in self.kept:
            return "it is not kept"
        if is_cheap(t.op) and all(map(self.is_there, op_inputs(t.op))):
            return "a short formula of what is read anyway"
        return ""

    def is_there(self, t: Tensor) -> bool:
        """Whether a tensor costs nothing that is not spent anyway."""
        stack = [t]
        while stack:
            u = stack.pop()
            if u in self.free or u in self.wanted or isinstance(u.op, Constant):
                continue
            if u in self.params or not is_cheap(u.op):
                return False
            stack += op_inputs(u.op)
        return True

    def compute_again(self, t: Tensor, why: str) -> None:
        """A tensor of the block, with what is behind it and cannot be stored either."""
        stack = [(t, why)]
        while stack:
            u, reason = stack.pop()
            op = u.op
            if op in self.again:
                continue
            self.again[op] = None
            self.use_sizes(op)
            note(Decision((self.about,), f"{u.name} computed again", reason))
            if isinstance(op, Saved):
                self.again[op.control] = None
                op = op.control
            for v in op.inputs if isinstance(op, Control) else op_inputs(op):
                self.want(v)
                reason = "" if v in self.params else self.reason(v)
                if reason:
                    stack.append((v, reason))
