"""Long sums in blocks: partial results of equal stretches, then one sum of the partials.

Blocks depend on the formula and its sizes alone. They give threads something to share where
few elements are stored, and keep every chain of additions short: a sum of n terms is off by
less than 2*sqrt(n) roundings of the sum of the terms' magnitudes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Final

from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.model import Model
from tensorad.codegen.nest.access import Access, extent_of, fold_accesses
from tensorad.codegen.nest.folds import FoldLoop, component, fold_loops
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.plan import can_vectorise_fold
from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Expr,
    Reduce,
    add,
    axis,
    call,
    int_const,
    mul,
    read,
    sub,
)
from tensorad.ir.order import reads
from tensorad.ir.tensor import Compute, Placeholder, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    free_leaves,
    needs,
    outside_reductions,
    postorder,
    substitute,
    substitute_all,
)

LEAST_TERMS: Final = 2
"""Terms of a block where blocks are asked for."""


def block_sums(
    name: str, axes: Sequence[Axis], bodies: Sequence[Expr], model: Model, forced: bool = False
) -> tuple[Compute, tuple[Expr, ...]] | None:
    """The compute of all partial sums and the bodies over them; None where sums stay whole.

    Args:
        model: what blocks are cut by; they depend on nothing else.
        forced: whether sums are split that are not long, too.
    """
    folds = _folds(bodies)
    if not folds or not all(type(a.extent) is int and a.extent for a in axes):
        return None
    choice = _choice(axes, folds, model, forced)
    if choice is None:
        return None
    position, size = choice
    long = folds[0].axes[position]
    count = -(-(long.extent or 0) // size)
    block = axis(f"{long.name}b", 0, count)
    used = free_leaves(*[component(f, 0) for f in folds])
    own = [a for a in axes if a in used]
    parts = [_part(f, position, block, size) for f in folds]
    fresh, copies = copy_bodies([block, *own], parts)
    stage = Compute(f"{name}.blocks", fresh, copies, "")
    replaced: dict[Expr, Expr] = {}
    for f, t in zip(folds, outputs(stage), strict=True):
        replaced[component(f, 0)] = _total(f, t, count, own)
    return stage, substitute_all(bodies, replaced)


def _folds(bodies: Sequence[Expr]) -> list[FoldLoop]:
    """The folds of the bodies if all of them may be cut alike."""
    order = outside_reductions(bodies)
    if not any(isinstance(e, Reduce) for e in order):
        return []
    folds: list[FoldLoop] = []
    for fold, guard in fold_loops(order, needs(bodies, order)):
        roots = postorder(*fold.sources, fold.condition)
        if guard is not TRUE or any(isinstance(e, Reduce) for e in roots):
            return []
        if not can_vectorise_fold(fold.combiner):
            return []
        folds.append(fold)
    shape = [_range(a) for a in folds[0].axes]
    if not shape:
        return []
    alike = all([_range(a) for a in f.axes] == shape for f in folds)
    return folds if alike else []


def _range(a: Axis) -> int | None:
    """n of an axis [0, n) by one."""
    return a.extent if a.lower is ZERO and a.step is ONE and a.extent else None


def _choice(
    axes: Sequence[Axis], folds: Sequence[FoldLoop], model: Model, forced: bool
) -> tuple[int, int] | None:
    """Which reduce axis is cut, and the length of its blocks."""
    found = _slices(axes, folds, model)
    sizes = [_range(a) or 0 for a in folds[0].axes]
    if all(sizes):
        blocks = max(sizes) // LEAST_TERMS if forced else _blocks(axes, folds, model)
        if blocks >= model.fewest_blocks:
            found = max(range(len(sizes)), key=lambda n: (min(sizes[n], blocks), -n)), blocks
    if found is None:
        return None
    position, blocks = found
    size = _even(sizes[position], min(blocks, sizes[position]), model.strip)
    return (position, size) if sizes[position] > (model.fewest_blocks - 1) * size else None


def _slices(
    axes: Sequence[Axis], folds: Sequence[FoldLoop], model: Model
) -> tuple[int, int] | None:
    """The reduce axis that is the first dimension of all that is read, and its blocks.

    Small tensors that are multiplied with each other do not count. Who makes the others shares
    them by slices, images of a batch say, and each thread reads its own again. Not for sums over
    rows of vectorised columns, or where results are many.
    """
    every = [x for f in folds for x in fold_accesses(Nest((), (f,), (), (), ()))]
    own = [a for a in axes if a.extent != 1]
    few = prod(a.extent or 1 for a in own) < model.few_outputs
    if not _is_contraction(every, own) and (not few or (own and _contiguous(every, own[-1]))):
        return None
    ranges = Ranges([*axes, *[a for f in folds for a in f.axes]])
    points = prod(extent_of(a, ranges) for a in (*axes, *folds[0].axes))
    partial = model.slices * len(folds) * prod(extent_of(a) for a in axes)
    tensors = dict.fromkeys(x.tensor for x in every)
    elements = sum([assumed_elements(t.shape, unknown=0) for t in tensors])
    if points < model.slices * model.block or model.sliced * partial > elements:
        return None
    small = _multiplied(folds, every, elements, model)
    long = [n for n, a in enumerate(folds[0].axes) if (_range(a) or 0) >= model.slices]
    long = [n for n in long if not any(_bounds_another(f, n) for f in folds)]
    for position in long:
        if all(_by_slices(f, position, small) for f in folds):
            return position, model.slices
    if small and long and all(isinstance(t.op, Placeholder) for t in tensors if t not in small):
        return long[0], model.slices  # no thread wrote those tensors
    return None


def _multiplied(
    folds: Sequence[FoldLoop], every: Sequence[Access], elements: int, model: Model
) -> dict[Tensor, None]:
    """Small tensors that are two or more factors, whose product over all reduce axes is long.

    Blocks of it are made by whoever needs them; the whole would be made and read by all threads.
    """
    reduced = folds[0].axes
    factors = [x for x in every if x.tensor.dtype.is_float]  # the others are indices
    used = [x for x in factors if any(a in x.uses for a in reduced)]
    sizes = [assumed_elements(x.tensor.shape, unknown=0) for x in used]
    small = [x for x, n in zip(used, sizes, strict=True) if model.small * n < elements]
    whole = any(all(a in x.uses for a in reduced) for x in small)
    found = dict.fromkeys([x.tensor for x in small])
    return found if len(folds) == 1 and len(small) > 1 and not whole else {}


def _bounds_another(f: FoldLoop, position: int) -> bool:
    """Whether another reduce axis begins or ends where this one says."""
    return f.axes[position] in free_leaves(*[e for a in f.axes for e in (a.lower, a.upper, a.step)])


def _by_slices(f: FoldLoop, position: int, besides: Mapping[Tensor, None]) -> bool:
    """Whether a reduce axis is the first dimension of whatever else the reduction reads."""
    first = f.axes[position]
    return all(
        e.indices[0] is first
        for e in reads(*f.sources)
        if e.tensor not in besides
        if any(a in free_leaves(*e.indices) for a in f.axes)
    )


def _blocks(axes: Sequence[Axis], folds: Sequence[FoldLoop], model: Model) -> int:
    """About how many blocks are worth it."""
    reduced = folds[0].axes
    terms = prod(a.extent or 1 for a in reduced)
    points = terms * prod(a.extent or 1 for a in axes)
    if points < model.long:
        return 0
    every = [x for f in folds for x in fold_accesses(Nest((), (f,), (), (), ()))]
    reads = [x for x in every if any(a in x.uses for a in reduced)]
    own = [a for a in axes if a.extent != 1]
    if _is_contraction(reads, own):
        return 0
    lane = own[-1] if own and _contiguous(reads, own[-1]) else None
    others = prod(a.extent or 1 for a in own if a is not lane)
    if lane is None:
        short = others >= model.few_outputs and terms < model.long_alone
        return 0 if short else terms // model.block
    if terms < model.fewest_rows or others >= model.few_outputs:
        return 0
    return min(1 << (isqrt(terms).bit_length() - 1), points // model.block)


def _is_contraction(reads: Sequence[Access], own: Sequence[Axis]) -> bool:
    """Whether values are used again for other outputs."""
    return any(a in x.uses and b not in x.uses for x in reads for a in own for b in own)


def _contiguous(reads: Sequence[Access], a: Axis) -> bool:
    """Whether the reads advance by one element along the axis, or stay."""
    steps = [x.stride(a) for x in reads]
    return all(n in (0, 1, -1) for n in steps) and any(steps)


def _even(extent: int, blocks: int, strip: int) -> int:
    """A block length for about this many blocks, one that leaves no rest if there is one.

    Otherwise strips of rows fill all blocks but the last.
    """
    size = -(-extent // blocks)
    for n in range(size, min(2 * size, extent) + 1):
        if extent % n == 0:
            return n
    return size if size < strip else -(-size // strip) * strip


def _part(fold: FoldLoop, position: int, block: Axis, size: int) -> Expr:
    """The fold over one block."""
    long = fold.axes[position]
    extent = long.extent or 0
    stop: Expr = int_const(size)
    if extent % size:
        left = sub(int_const(extent), mul(int_const(size), block))
        stop = call("minimum", stop, left)
    inside = axis(long.name, 0, stop)
    place: dict[Expr, Expr] = {long: add(mul(int_const(size), block), inside)}
    axes = tuple([inside if a is long else a for a in fold.axes])
    sources = substitute_all(fold.sources, place)
    condition = substitute(fold.condition, place)
    return component(FoldLoop(fold.combiner, sources, axes, condition, fold.accumulators), 0)


def _total(fold: FoldLoop, partials: Tensor, count: int, own: Sequence[Axis]) -> Expr:
    """The fold of all partial results of one element."""
    n = axis("n", 0, count)
    value = read(partials, (n, *own))
    return component(FoldLoop(fold.combiner, (value,), (n,), TRUE, fold.accumulators), 0)
