"""Which loops are vectorised, how wide, and which scalars they fold in lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorad.codegen.loops.ir import Assign, Fold, For, Stmt, Store
from tensorad.codegen.loops.visit import (
    all_expressions,
    blocks,
    expressions,
    inside,
    statements,
    targets,
)
from tensorad.codegen.model import MODEL
from tensorad.errors import InternalError
from tensorad.ir.expr import ONE, Expr, Param
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import params_in, postorder, reads


def is_vectorised(s: Stmt) -> bool:
    """Whether a loop is executed as vectors."""
    return isinstance(s, For) and s.kind == "vector" and s.axis.step is ONE


def store_run(body: Sequence[Stmt]) -> int:
    """How many statements from the first on store to one tensor that none of them reads."""
    first = body[0]
    if not isinstance(first, Store) or len(first.tensors) > 1 or len(body) == 1:
        return 1
    t = first.tensors[0]
    count = 0
    for s in body:
        if not isinstance(s, Store) or s.tensors != first.tensors:
            break
        if any(r.tensor is t for r in reads(*s.values, *s.indices)):
            break
        count += 1
    return max(1, count)


def lanes_for(values: Iterable[Expr | Tensor]) -> int:
    """Lanes of one register of a loop: fixed by the widest float, not by the machine."""
    return MODEL.lanes(8 if any(_is_wide(e) for e in values) else 4)


def _is_wide(e: Expr | Tensor) -> bool:
    return e.dtype.bits == 64 and e.dtype.is_float


def registers_for(s: For, lanes: int) -> int:
    """Registers of the lane group of a vector loop; short loops need fewer."""
    wanted = max(1, (s.width or lanes) // lanes)
    extent = s.axis.extent
    if extent is not None:
        wanted = min(wanted, max(1, extent // lanes))
    return min(MODEL.group, wanted)


class InLanes(NamedTuple):
    """How a scalar is folded in lanes."""

    fold: Fold
    lanes: int
    registers: int

    def merged_with(self, other: InLanes | None) -> InLanes:
        """For this loop and another one that goes on with the same lanes."""
        if other is None:
            return self
        if other.lanes != self.lanes:
            raise InternalError(f"{self.fold.targets[0].name} is folded in lanes of two kinds")
        return self._replace(registers=max(self.registers, other.registers))


class LaneUse:
    """For every block of a kernel: which scalars it folds in lanes and which it uses as such.

    Requires: no statement stands in two places (`rewrite.py` `each_once`).
    """

    def __init__(self, body: Sequence[Stmt]) -> None:
        self.lanes: dict[Stmt, int] = {}
        """Lanes of the registers of every vector loop."""
        self.folded: dict[Stmt, dict[tuple[Param, ...], InLanes]] = {}
        """Per statement: targets set outside that vector loops in it fold into, and how."""
        self.used: dict[Stmt, dict[Param, None]] = {}
        """Per statement: scalars read or written otherwise in it."""
        self.assigned: dict[Stmt, dict[Param, None]] = {}
        """Per statement: scalars set in it by any statement."""
        self.stored: dict[Stmt, dict[Tensor, None]] = {}
        order = list(statements(body))
        around = _vector_loops(order)
        for loop in dict.fromkeys(around.values()):
            self.lanes[loop] = loop.lanes or lanes_for(_evaluated(loop))
        for s in reversed(order):
            self._visit(s, around.get(s))
        self._go_on(body)

    def _visit(self, s: Stmt, loop: For | None) -> None:
        folded: dict[tuple[Param, ...], InLanes] = {}
        used = dict.fromkeys(params_in(*expressions(s)))
        assigned = targets((s,))
        stored: dict[Tensor, None] = dict.fromkeys(s.tensors if isinstance(s, Store) else ())
        if isinstance(s, Assign):
            used.update(assigned)
        if isinstance(s, Fold):
            if loop is not None and not _set_inside(s, loop):
                lanes = self.lanes[loop]
                folded[s.targets] = InLanes(s, lanes, registers_for(loop, lanes))
            else:
                used.update(assigned)
        for block in blocks(s):
            self._go_on(block)
        for c in inside(s):
            used.update(self.used[c])
            assigned.update(self.assigned[c])
            stored.update(self.stored[c])
            for scalars, found in self.folded[c].items():
                folded[scalars] = found.merged_with(folded.get(scalars))
        if is_vectorised(s):  # each iteration sets its own: nothing is carried in or out
            for c in statements(inside(s)):
                for p in c.targets if isinstance(c, Assign) else ():
                    used.pop(p, None)
                    assigned.pop(p, None)
        self.folded[s], self.used[s] = folded, used
        self.assigned[s], self.stored[s] = assigned, stored

    def _go_on(self, block: Sequence[Stmt]) -> None:
        """What later statements of a block fold on, earlier ones begin with registers for all."""
        later: dict[tuple[Param, ...], InLanes] = {}
        for s in reversed(block):
            folded, used = self.folded[s], self.used[s]
            later = {t: way for t, way in later.items() if not any(p in used for p in t)}
            for scalars, way in folded.items():
                if not any(p in used for p in scalars):
                    folded[scalars] = later[scalars] = way.merged_with(later.get(scalars))


def _evaluated(loop: For) -> list[Expr]:
    """Everything that a loop evaluates or sets."""
    inner = [*statements(loop.body)]
    return postorder(*all_expressions(inner), *targets(inner))


def _vector_loops(order: Iterable[Stmt]) -> dict[Stmt, For]:
    """Each statement inside a vector loop, with the outermost one in which it stands."""
    around: dict[Stmt, For] = {}
    for s in order:
        if isinstance(s, For) and is_vectorised(s) and s not in around:
            around.update(dict.fromkeys(statements(s.body), s))
    return around


def _set_inside(fold: Fold, loop: For) -> bool:
    return any(
        isinstance(s, Assign) and fold.targets[0] in dict.fromkeys(s.targets)
        for s in statements(loop.body)
    )
