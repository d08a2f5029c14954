"""How many registers a loop that stores takes at a time where the schedule leaves it open.

A processor compares the addresses of loads with those of earlier stores by their last bits: the
element after the one that is stored, read from an array that begins a few bytes earlier in its
page, seems to be what is stored and waits for it. So the reads of several registers come before
their stores. Values do not depend on it: the machine may decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.codegen.cost.operation_costs import takes_long
from tensorad.codegen.loops.ir import Assign, Fold, For, Prefetch, Store
from tensorad.codegen.loops.vector_loops import registers_for
from tensorad.codegen.loops.visit import all_expressions, places, targets
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.expr import Call, Const, Expr, Param, Read, Select
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import children, free_leaves, postorder

GROUPS: Final = (4, 2)
"""Registers at a time that are tried; more gain nothing."""
LEAST_REGISTERS: Final = 16
"""Registers of a loop that is worth the longer code."""
MOST_CALLS: Final = 16
"""Operations of a loop; a longer one computes while it waits, and takes long to compile."""


def group_of(s: For, lanes: int) -> int:
    """Registers of the lane group of a vector loop, the code generator's choice included."""
    if s.width or s.within is not None or not _only_stores(s, lanes):
        return registers_for(s, lanes)
    order = postorder(*all_expressions(s.body))
    floats = [e for e in order if e.dtype.is_float]
    varying = {e: None for e in floats if isinstance(e, Param) or s.axis in free_leaves(e)}
    calls = [e for e in varying if isinstance(e, Call)]
    if len(calls) > MOST_CALLS or any(map(takes_long, calls)):
        return 1
    if not _side_by_side(s, order):
        return 1
    size = max([e.dtype.size_bytes for e in order if isinstance(e, Read)])
    parts = -(-lanes * size // machine.current().vector_bytes)
    fixed, most = _held(varying)
    room = machine.current().registers - fixed * parts
    stores = [c for c in s.body if isinstance(c, Store)]
    beside = sum([c.streaming for c in stores]) or len(stores)
    fitting = [n for n in GROUPS if n * most * parts <= room and n * beside <= GROUPS[0]]
    return fitting[0] if fitting else 1


def _only_stores(s: For, lanes: int) -> bool:
    """Whether it only computes and stores, sums kept in memory included, for long enough; loops of
    unknown length do so past the caches, where the elements beyond whole groups have a loop of
    their own."""
    made = {p: None for c in s.body if isinstance(c, Assign) for p in c.targets}
    folds = [c for c in s.body if isinstance(c, Fold)]
    if not all(isinstance(c, (Assign, Fold, Store, Prefetch)) for c in s.body):
        return False
    if any(p not in made for c in folds for p in c.targets):
        return False  # vectorised sums: the schedule says how many
    stores = [c for c in s.body if isinstance(c, Store)]
    if s.axis.extent is None:
        return bool(stores) and all(c.streaming for c in stores)
    return bool(stores) and s.axis.extent >= LEAST_REGISTERS * lanes


def _side_by_side(s: For, order: Sequence[Expr]) -> bool:
    """Whether lanes read and store neighbours, or all read one element; some are read that are
    not stored."""
    stored = [(t, c.indices) for c in s.body if isinstance(c, Store) for t in c.tensors]
    read = [(e.tensor, e.indices) for e in order if isinstance(e, Read)]
    kept: dict[Tensor, None] = dict.fromkeys([t for t, _ in stored])
    strides = [access(t, indices).stride(s.axis) for t, indices in (*stored, *read)]
    moving = any(
        t not in kept and stride == 1
        for (t, _), stride in zip(read, strides[len(stored) :], strict=True)
    )
    return moving and all(stride in (0, 1) for stride in strides)


def are_neighbours(s: For) -> bool:
    """Whether a loop only computes and stores, its lanes side by side or all at one element.

    Where the first of them is must be known before the loop: not by what an iteration computes,
    nor by elements that are there only if the loop runs.
    """
    if not all(isinstance(c, (Assign, Fold, Store, Prefetch)) for c in s.body):
        return False
    made = targets(s.body)
    for t, indices in places(s.body):
        if access(t, indices).stride(s.axis) not in (0, 1):
            return False
        if any(p in made for p in free_leaves(*indices)):
            return False
        if not s.axis.extent and any(i.kinds & READ for i in indices):
            return False
    return True


def _held(varying: Mapping[Expr, None]) -> tuple[int, int]:
    """Values that are the same for all lanes, and the most that differ and are held at a time."""
    order = [*varying]
    last = {x: n for n, e in enumerate(order) for x in children(e) if x in varying}
    held: dict[Expr, None] = {}
    most = 1
    for n, e in enumerate(order):
        held[e] = None
        most = max(most, len(held))
        for x in [x for x in held if last.get(x, n) <= n]:
            del held[x]
    used = [x for e in order if isinstance(e, (Call, Select)) for x in children(e)]
    fixed = [x for x in used if x.dtype.is_float and x not in varying and not isinstance(x, Const)]
    return len(dict.fromkeys(fixed)), most
