"""Operations inside of blocks: which they are, what they read from outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeGuard
from weakref import WeakKeyDictionary

from tensorad.ir.expr import Axis, Expr, Size
from tensorad.ir.order import REDUCE, sizes_in
from tensorad.ir.records import Recursion
from tensorad.ir.tensor import (
    Block,
    Compute,
    Constant,
    Control,
    Loop,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.visit import op_expressions, op_inputs, topological_ops
from tensorad.process import memo


def ops_between(
    results: Iterable[Tensor],
    given: Collection[Tensor],
    inputs_of: Callable[[Op], Sequence[Tensor]] = op_inputs,
) -> list[Op]:
    """The operations that compute the results, producers first; nothing behind a given tensor.

    What has a size that a loop tells at its end comes after the loop.
    """
    order = _in_order(results, given, inputs_of)
    later = sizes_told(order)
    if not later:
        return order
    return _in_order(results, given, lambda op: (*inputs_of(op), *later.get(op, ())))


def sizes_told(ops: Sequence[Op]) -> dict[Op, list[Tensor]]:
    """What has to be there for its sizes: a tensor of each loop among `ops` that tells them."""
    told: dict[Expr, Tensor] = {op.trips: outputs(op)[0] for op in ops[::-1] if tells_trips(op)}
    found: dict[Op, list[Tensor]] = {}
    for op in ops if told else ():
        own = op.trips if tells_trips(op) else None
        found[op] = [told[s] for s in op_sizes(op) if s in told and s is not own]
    return found


def tells_trips(op: Op) -> TypeGuard[Loop]:
    """Whether how often a loop runs is known at its end only."""
    return isinstance(op, Loop) and (op.count is not None or len(op.blocks) > 1)


def _in_order(
    results: Iterable[Tensor],
    given: Collection[Tensor],
    inputs_of: Callable[[Op], Sequence[Tensor]],
    since: int = 0,
) -> list[Op]:
    """Producers first; operations that are older than `since` are left out."""
    done: dict[Op, None] = {}
    entered: set[Op] = set()
    stack = [t for t in results if t not in given][::-1]
    while stack:
        op = stack[-1].op
        if op in done:
            stack.pop()
        elif op in entered:
            done[op] = None
            stack.pop()
        elif _age(op) < since:
            stack.pop()
        else:
            entered.add(op)
            stack.extend([t for t in reversed(inputs_of(op)) if t not in given])
    return list(done)


def _age(op: Op) -> int:
    """`born`; inputs and constants have no age."""
    known: int = getattr(op.control if isinstance(op, Saved) else op, "born", 0)
    return known


def block_ops(block: Block, extra: Sequence[Tensor] = ()) -> list[Op]:
    """The operations of a block, and those that compute `extra` tensors of it, producers first."""
    return ops_between((*block.results, *extra), dict.fromkeys(block.params))


def has_blocks(roots: Iterable[Tensor]) -> bool:
    """Whether a call, branch or loop is behind the tensors."""
    return any(isinstance(op, (Control, Saved)) for op in topological_ops(roots))


def inner_ops(ops: Iterable[Op]) -> list[Op]:
    """The operations of all blocks of calls, branches and loops, and of those inside of them.

    Those that compute what is saved of a block are among them.
    """
    stack = list(ops)
    kept = saves_of(stack)
    found: dict[Op, None] = {}
    while stack:
        op = stack.pop()
        if not isinstance(op, Control):
            continue
        for n, block in enumerate(op.blocks):
            extra = [s.inner for s in kept.get(op, ()) if s.block == n]
            own = block_ops(block, extra)
            for control, saves in saves_of(own).items():
                kept.setdefault(control, []).extend(saves)
            new = [o for o in own if o not in found]
            found.update(dict.fromkeys(new))
            stack += new
    return list(found)


_sizes: WeakKeyDictionary[Op, tuple[Size, ...]] = memo(WeakKeyDictionary())


def op_sizes(op: Op) -> dict[Size, None]:
    """The symbolic sizes that the operation's values rest on, those in its blocks included; not the
    counters of its own loops."""
    done: dict[Op, tuple[Size, ...]] = {}
    inside: dict[Op, list[Op]] = {}
    stack = [op]
    while op not in done:
        o = stack[-1]
        found = _sizes.get(o)
        if found is None and o not in inside:
            inside[o] = _directly_inside(o)
            stack += inside[o]
            continue
        if found is None:
            control = o.control if isinstance(o, Saved) else o
            counter = control.counter if isinstance(control, Loop) else None
            inner = [s for i in reversed(inside[o]) for s in done[i] if s is not counter]
            found = tuple(dict.fromkeys([*own_sizes(o), *inner]))
            _sizes[o] = found
        done[o] = found
        stack.pop()
    return dict.fromkeys(done[op])


def _directly_inside(op: Op) -> list[Op]:
    """The operations of an operation's blocks; of something saved those that compute it, too."""
    if not isinstance(op, (Control, Saved)):
        return []
    control = op.control if isinstance(op, Saved) else op
    found = [inner for b in control.blocks for inner in block_ops(b)]
    if isinstance(op, Saved):
        found += ops_between([op.inner], dict.fromkeys(control.blocks[op.block].params))
    return found


def own_sizes(op: Op) -> dict[Size, None]:
    """The symbolic sizes in an operation's formulas and in its shape, blocks apart."""
    roots = [*op_expressions(op), *_bounds(op)]
    if isinstance(op, Loop):
        roots.append(op.trips)
    elif isinstance(op, Recursion):
        roots += op.sizes
    elif not isinstance(op, Control):
        roots += map(dim_expr, op.shape)
    return dict.fromkeys(sizes_in(*roots))


def _bounds(op: Op) -> list[Expr]:
    axes: tuple[Axis, ...] = ()
    if isinstance(op, (Compute, Scatter)):
        axes = op.axes
    elif isinstance(op, Scan):
        axes = (*op.axes, *op.along)
    return [b for a in axes for b in (a.lower, a.upper, a.step)]


def captures(
    results: Sequence[Tensor],
    params: Sequence[Tensor],
    is_inside: Callable[[Op], bool],
    since: int = 0,
) -> list[Tensor]:
    """The tensors from outside that a block of these params and results reads, in order of use.

    An operation is inside if one of its inputs is, or a parameter, or a loop that tells one of its
    sizes, or if `is_inside` says so, of it or of what is saved of it. Constants are everywhere, and
    so are formulas that read nothing.

    Args:
        since: operations that are older (`born`) are outside.
    """
    own = dict.fromkeys(params)
    inside: dict[Op, None] = {}
    order = _in_order(results, own, op_inputs, since)
    kept, told = saves_of(order), sizes_told(order)
    more = True
    while more:
        before = len(inside)
        for op in order:
            saves = kept.get(op, []) if isinstance(op, Control) else []
            read = any(t in own or t.op in inside for t in (*op_inputs(op), *told.get(op, ())))
            if read or any(map(is_inside, (op, *saves))):
                inside[op] = None
        more = any(told.values()) and len(inside) > before  # who tells a size may come later
    found: dict[Tensor, None] = {}
    for op in order:
        if op in inside:
            found.update(dict.fromkeys(op_inputs(op)))
    found.update(dict.fromkeys(results))
    return [t for t in found if t not in own and t.op not in inside and not is_everywhere(t.op)]


def is_everywhere(op: Op) -> bool:
    """Whether a block has the operation for itself: its values are known, or read nothing."""
    if isinstance(op, Compute):
        return not op_inputs(op) and not any(e.kinds & REDUCE for e in op.bodies)
    return isinstance(op, Constant)


def saves_of(ops: Iterable[Op]) -> dict[Control, list[Saved]]:
    """What is read of the insides of operations with blocks, by operation."""
    found: dict[Control, list[Saved]] = {}
    for op in ops:
        if isinstance(op, Saved):
            found.setdefault(op.control, []).append(op)
    return found
