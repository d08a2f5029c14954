"""Which tensors depend on some of others, differentiably, also through blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tensorad.autodiff.control.handles import moves_handles
from tensorad.autodiff.local.flows import (
    block_operands,
    derivation_order,
    is_ruled,
    outer_deps,
    ruled_deps,
    stops,
)
from tensorad.autodiff.local.overrides import Rule, Rules
from tensorad.autodiff.local.views import compute_terms, differentiable_inputs, view
from tensorad.ir.expr import Read
from tensorad.ir.tensor import (
    Compute,
    Control,
    Loop,
    Op,
    Saved,
    Tensor,
    outputs,
)
from tensorad.process import memo

Tensors = dict[Tensor, None]


def within(params: Sequence[Tensor], rules: Rules) -> dict[Tensor, Rule]:
    """The rules in a block: no derivative flows through its params."""
    return {**rules, **stops(params)}


@dataclass(frozen=True)
class Around:
    """What derivatives flow to out of an operation's blocks.

    Attributes:
        operands: those that params stand for, and `outer`.
        outer: what only rules inside flow to; it stands for itself in each block.
    """

    op: Control
    operands: tuple[Tensor, ...]
    outer: tuple[Tensor, ...]

    @staticmethod
    def of(op: Control, rules: Rules) -> Around:
        """What is around an operation."""
        outer = outer_deps(op, rules)
        return Around(op, (*block_operands(op), *outer), outer)

    def params(self, n: int = 0) -> tuple[Tensor, ...]:
        """What the operands are in a block."""
        return (*self.op.blocks[n].params, *self.outer)


_known: WeakKeyDictionary[Op, tuple[tuple[Tensor, ...], ...]] = memo(WeakKeyDictionary())


def flowing(op: Op, index: int) -> Sequence[Tensor]:
    """The tensors that derivatives of one output flow to; of scans and scatters those of all."""
    known = _known.get(op)
    if known is None:
        viewed = view(op)
        if isinstance(viewed, Compute) and not moves_handles(viewed):
            terms = [compute_terms(viewed, c, _is_float) for c in range(len(viewed.bodies))]
            known = tuple([tuple(dict.fromkeys([t.read.tensor for t in own])) for own in terms])
        else:
            known = (differentiable_inputs(viewed),) * len(outputs(op))
        _known[op] = known
    return known[index]


def _is_float(e: Read) -> bool:
    return e.tensor.dtype.is_float


def _all_inputs(op: Op, index: int) -> Sequence[Tensor]:
    return differentiable_inputs(view(op))


def active_tensors(
    order: Sequence[Op],
    start: Collection[Tensor],
    rules: Rules,
    inputs_of: Callable[[Op, int], Sequence[Tensor]] = _all_inputs,
) -> Tensors:
    """The tensors of some operations, producers first, that depend on `start` (those included).

    Args:
        inputs_of: (operation, output) -> what the output depends on.
    """
    active = dict.fromkeys(start)
    inside: dict[Control, list[Tensors]] = {}

    def blocks(op: Control) -> list[Tensors]:
        if op not in inside:
            inside[op] = active_inside(op, active, rules)
        return inside[op]

    for op in order:
        for t in outputs(op):
            deps = ruled_deps(t, rules)
            if deps is not None:
                moves = any(d in active for d in deps)
            elif isinstance(op, Control):
                moves = _is_active(op, t.index, blocks(op), active)
            elif isinstance(op, Saved):
                moves = op.inner in blocks(op.control)[op.block]
            else:
                moves = any(u in active for u in inputs_of(op, t.index))
            if moves and t.dtype.is_differentiable:
                active[t] = None
    return active


def _is_active(op: Control, k: int, blocks: Sequence[Tensors], around: Collection[Tensor]) -> bool:
    """Whether output k is active; the last carry may be the first one."""
    if not op.blocks:
        return any(t in around for t in op.operands)
    if isinstance(op, Loop):
        return op.blocks[0].params[k] in blocks[0]
    return any(b.results[k] in active for b, active in zip(op.blocks, blocks, strict=True))


def active_inside(op: Control, active: Collection[Tensor], rules: Rules) -> list[Tensors]:
    """The active tensors of each block (of a loop: of the first one), given those outside."""
    around = Around.of(op, rules)
    moving = [t in active for t in around.operands]
    blocks = op.blocks[:1] if isinstance(op, Loop) else op.blocks
    found = [_active_in_block(around, n, moving, rules) for n in range(len(blocks))]
    while isinstance(op, Loop):
        body = op.blocks[0]
        grown = [k for k in range(op.carries) if not moving[k] and body.results[k] in found[0]]
        if not grown:
            break
        for k in grown:
            moving[k] = True
        found = [_active_in_block(around, 0, moving, rules)]
    return found


def _active_in_block(around: Around, n: int, moving: Sequence[bool], rules: Rules) -> Tensors:
    op, params = around.op, around.params(n)
    roots = [*op.blocks[n].results, *[inner for inner, b in op.kept if b == n]]
    own = within(params, rules)
    start = [p for p, m in zip(params, moving, strict=True) if m and p.dtype.is_differentiable]
    return active_tensors(derivation_order(roots, own), start, own, flowing)


def reached(params: Sequence[Tensor], roots: Sequence[Tensor], rules: Rules) -> Tensors:
    """Those of the params of a block (`Around.params`) that derivatives of its tensors flow to."""
    live, _ = live_tensors(roots, within(params, rules))
    return {p: None for p in params if p in live}


def live_tensors(
    roots: Sequence[Tensor], rules: Rules
) -> tuple[Tensors, dict[Control, list[Saved]]]:
    """The tensors that derivatives of some others flow to (those included), and what of it is saved
    of the inside of operations."""
    live = dict.fromkeys([t for t in roots if t.dtype.is_differentiable])
    kept: dict[Control, list[Saved]] = {}
    for op in reversed(derivation_order(list(live), rules)):
        ruled = [ruled_deps(t, rules) or () for t in outputs(op) if t in live]
        live.update(dict.fromkeys([d for deps in ruled for d in deps]))
        made = [t for t in outputs(op) if t in live and not is_ruled(t, rules)]
        if isinstance(op, Saved):
            if made:
                kept.setdefault(op.control, []).append(op)
        elif isinstance(op, Control):
            live.update(dict.fromkeys(_reached_outside(op, made, kept.get(op, ()), rules)))
        else:
            live.update(dict.fromkeys([u for t in made for u in flowing(op, t.index)]))
    return live, kept


def live_inside(
    op: Control, live: Tensors, kept: Mapping[Control, Sequence[Saved]], rules: Rules
) -> list[list[Tensor]]:
    """The tensors of each block (of a loop: of the first one) that derivatives come from."""
    last = [t.index for t in outputs(op) if t in live and not is_ruled(t, rules)]
    own = kept.get(op, ())
    if isinstance(op, Loop):
        body, inner = op.blocks[0], [s.inner for s in own]
        found = reached_in_loop(Around.of(op, rules), last, inner, rules)
        return [
            [*inner, *[r for r, p in zip(body.results, body.params, strict=False) if p in found]]
        ]
    return [
        [*[b.results[k] for k in last], *[s.inner for s in own if s.block == n]]
        for n, b in enumerate(op.blocks)
    ]


def _reached_outside(
    op: Control, made: Sequence[Tensor], kept: Sequence[Saved], rules: Rules
) -> list[Tensor]:
    """The operands that derivatives of outputs, and of what is saved, flow to."""
    found: dict[int, None] = {}
    if not op.blocks:
        return [t for t in op.operands if t.dtype.is_differentiable] if made else []
    around = Around.of(op, rules)
    if isinstance(op, Loop):
        last, inner = [t.index for t in made], [s.inner for s in kept]
        received = reached_in_loop(around, last, inner, rules)
        found = {k: None for k, p in enumerate(around.params()) if p in received}
    else:
        for n, block in enumerate(op.blocks):
            inner = [s.inner for s in kept if s.block == n]
            roots = [*[block.results[t.index] for t in made], *inner]
            received = reached(around.params(n), roots, rules)
            found.update({k: None for k, p in enumerate(around.params(n)) if p in received})
    return [around.operands[k] for k in found]


def reached_in_loop(
    around: Around, last: Sequence[int], inner: Sequence[Tensor], rules: Rules
) -> Tensors:
    """The params of a loop's block that derivatives flow to in some iteration.

    Args:
        last: the carries, and `inner` the tensors inside, that they come from.
    """
    body, params = around.op.blocks[0], around.params()
    found = dict.fromkeys([body.params[k] for k in last])
    while True:
        carried = [r for r, p in zip(body.results, body.params, strict=False) if p in found]
        more = [p for p in reached(params, [*inner, *carried], rules) if p not in found]
        if not more:
            return found
        found.update(dict.fromkeys(more))
