"""The form schedules work on: output axes around folds around one store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.codegen.loops.index_ranges import (
    Ranges,
    comparison,
    fold_by_ranges,
    folder,
    substitutor,
)
from tensorad.codegen.loops.rewrite import renewed
from tensorad.codegen.nest.folds import FoldLoop, component, fold_loops
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    Axis,
    Expr,
    Param,
    Reduce,
    add,
    axis,
    call,
    floordiv,
    int_const,
    logical_and,
    neg,
    param,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import (
    conjuncts,
    free_leaves,
    needs,
    outside_reductions,
    substitute,
    substitute_all,
)
from tensorad.simplify.index.linear import Linear


@dataclass(frozen=True, eq=False)
class Nest:
    """for axes: accumulators = identities; folds in order; tensors[indices] = values.

    Folds that share accumulators continue each other. Iterations of `axes` are independent.
    """

    axes: tuple[Axis, ...]
    folds: tuple[FoldLoop, ...]
    tensors: tuple[Tensor, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]

    def expressions(self) -> tuple[Expr, ...]:
        """Everything the nest evaluates, bounds excepted."""
        folded = [e for f in self.folds for e in (*f.sources, f.condition)]
        return (*folded, *self.indices, *self.values)


def nest_of(
    axes: tuple[Axis, ...], tensors: tuple[Tensor, ...], bodies: tuple[Expr, ...]
) -> Nest | None:
    """The nest of tensors[n][axes] = bodies[n], or None where a reduction holds another.

    A reduction under a branch of a select gets the branch's condition.
    """
    order = outside_reductions(bodies)
    results: dict[Expr, Expr] = {}
    folds: list[FoldLoop] = []
    if any(isinstance(e, Reduce) for e in order):
        for fold, guard in fold_loops(order, needs(bodies, order)):
            guard = substitute(guard, results)
            if occurs(REDUCE, guard, fold.condition, *fold.sources):
                return None
            folds.append(replace(fold, condition=logical_and(guard, fold.condition)))
            for index, value in enumerate(fold.accumulators):
                results[component(fold, index)] = value
    values = substitute_all(bodies, results)
    return Nest(axes, tuple(folds), tensors, axes, values)


def map_nest(nest: Nest, image: Callable[[Expr], Expr], axes: Iterable[Axis] | None = None) -> Nest:
    """The nest with every expression replaced; reduce axes whose bounds change are renewed."""
    folds = tuple([map_fold(f, image) for f in nest.folds])
    return Nest(
        nest.axes if axes is None else tuple(axes),
        folds,
        nest.tensors,
        tuple([image(i) for i in nest.indices]),
        tuple([image(v) for v in nest.values]),
    )


def map_fold(fold: FoldLoop, image: Callable[[Expr], Expr]) -> FoldLoop:
    """The fold with every expression replaced."""
    fresh: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    for a in fold.axes:
        axes.append(renewed(a, lambda b: substitute(image(b), fresh)))
        if axes[-1] is not a:
            fresh[a] = axes[-1]
    renew = substitutor(fresh)
    sources = tuple([renew(image(s)) for s in fold.sources])
    condition = renew(image(fold.condition))
    start = tuple([image(e) for e in fold.start])
    return replace(fold, sources=sources, axes=tuple(axes), condition=condition, start=start)


def substitute_nest(nest: Nest, mapping: Mapping[Expr, Expr], axes: Iterable[Axis]) -> Nest:
    """The nest over other axes."""
    return map_nest(nest, substitutor(mapping), axes)


def simplify_nest(
    nest: Nest, images: Mapping[Expr, Expr] | None = None, axes: Iterable[Axis] | None = None
) -> Nest | None:
    """Fold what the ranges settle, tighten reduce bounds, drop axes of one value.

    None when an output axis is empty.

    Args:
        images: what to put in for nodes, in the same pass; an image may hold nodes before its own.
        axes: the output axes then.
    """
    after = nest.axes if axes is None else tuple(axes)
    single: dict[Expr, Expr] = {a: a.lower for a in after if a.extent == 1}
    after = tuple([a for a in after if a not in single])
    ranges = Ranges(after)
    if any(ranges.of(a)[0] > ranges.of(a)[1] for a in after):
        return None
    image = folder(ranges, {**single, **(images or {})})
    folds: list[FoldLoop] = []
    for f in nest.folds:
        folds.extend(_simplify_fold(f, ranges, image))
    dropped: dict[Expr, Expr] = {}
    alive = {p for f in folds for p in f.accumulators}
    for f in nest.folds:
        if f.accumulators[0] not in alive:
            dropped.update(zip(f.accumulators, f.combiner.identity, strict=True))
    result = replace(nest, axes=after, folds=tuple(folds))
    if dropped:
        result = substitute_nest(result, dropped, after)
    return replace(
        result,
        indices=tuple([image(i) for i in result.indices]),
        values=tuple([image(v) for v in result.values]),
    )


def _simplify_fold(
    fold: FoldLoop, outer: Ranges, settled: Callable[[Expr], Expr]
) -> list[FoldLoop]:
    """The fold over tight bounds, its expressions settled first; nothing when it has no points."""
    fold = _tighten(map_fold(fold, settled))
    if fold.condition is FALSE:
        return []
    ranges = Ranges(known=outer.memo)
    single: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    memo: dict[Expr, Expr] = {}
    for a in fold.axes:
        fresh = renewed(a, lambda b: fold_by_ranges(substitute(b, single), ranges, memo))
        if fresh is not a:
            single[a] = fresh
        if fresh.extent == 0:
            return []
        if fresh.extent == 1:
            single[a] = fresh.lower
        else:
            axes.append(fresh)
        ranges.enter(fresh)
    inside: dict[Expr, Expr] = {}

    def image(e: Expr) -> Expr:
        return fold_by_ranges(substitute(e, single), ranges, inside)

    condition = logical_and(*[image(c) for c in conjuncts(fold.condition)])
    if condition is FALSE:
        return []
    sources = tuple([image(s) for s in fold.sources])
    return [replace(fold, sources=sources, axes=tuple(axes), condition=condition)]


def _tighten(fold: FoldLoop) -> FoldLoop:
    """Affine conjuncts become bounds of the innermost reduce axis they use."""
    if fold.condition is TRUE:
        return fold
    kept: list[Expr] = []
    lower: dict[Axis, list[Expr]] = {}
    upper: dict[Axis, list[Expr]] = {}
    for c in conjuncts(fold.condition):
        if not _as_bound(c, fold.axes, lower, upper):
            kept.append(c)
    if not lower and not upper:
        return fold
    fresh: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    for a in fold.axes:
        low, high = substitute(a.lower, fresh), substitute(a.upper, fresh)
        for e in lower.get(a, ()):
            low = call("maximum", low, substitute(e, fresh))
        for e in upper.get(a, ()):
            high = call("minimum", high, substitute(e, fresh))
        axes.append(axis(a.name, low, high, substitute(a.step, fresh)))
        fresh[a] = axes[-1]
    return replace(
        fold,
        axes=tuple(axes),
        sources=tuple([substitute(s, fresh) for s in fold.sources]),
        condition=substitute(logical_and(*kept), fresh),
    )


def _as_bound(
    condition: Expr,
    axes: tuple[Axis, ...],
    lower: dict[Axis, list[Expr]],
    upper: dict[Axis, list[Expr]],
) -> bool:
    found = comparison(condition)
    if found is None or found[0] == "ne":
        return False
    op, d = found
    used = free_leaves(condition)
    inner = [a for a in axes if a in used]
    if not inner or inner[-1] not in d.terms or not _only_linear_in(d, inner[-1]):
        return False
    a = inner[-1]
    c = d.terms[a]
    rest = Linear({t: k for t, k in d.terms.items() if t is not a}, d.constant)
    if op == "eq" and abs(c) != 1:
        return False
    if a.step is not ONE and (op == "eq" or c > 0):
        return False
    if op == "eq":
        value = rest.scaled(-c).to_expr()
        lower.setdefault(a, []).append(value)
        upper.setdefault(a, []).append(add(value, int_const(1)))
    elif c > 0:  # a >= ceil(-rest / c) = -(rest // c)
        lower.setdefault(a, []).append(neg(floordiv(rest.to_expr(), int_const(c))))
    else:  # a <= rest // -c
        quotient = floordiv(rest.to_expr(), int_const(-c))
        upper.setdefault(a, []).append(add(quotient, int_const(1)))
    return True


def _only_linear_in(d: Linear, a: Axis) -> bool:
    """Whether the axis occurs in no other leaf of the form."""
    return not any(a in free_leaves(t) for t in d.terms if t is not a)


def accumulators_of(nest: Nest) -> list[tuple[tuple[Param, ...], tuple[Expr, ...]]]:
    """Each set of accumulators once, with what it starts from."""
    found: dict[Param, tuple[tuple[Param, ...], tuple[Expr, ...]]] = {}
    for f in nest.folds:
        found.setdefault(f.accumulators[0], (f.accumulators, f.start or f.combiner.identity))
    return list(found.values())


def own_accumulators(nest: Nest) -> dict[Expr, Expr]:
    """New scalars in the place of a nest's accumulators."""
    return {p: param(p.name, p.dtype) for ps, _ in accumulators_of(nest) for p in ps}


def images_of(scalars: Sequence[Param], copy: Mapping[Expr, Expr]) -> tuple[Param, ...]:
    """What a copy of a nest has in the place of some scalars: others, or these."""
    found = [copy.get(p, p) for p in scalars]
    return tuple([p for p in found if isinstance(p, Param)])


def fold_groups(nest: Nest) -> list[list[FoldLoop]]:
    """Neighbouring folds over the very same axes and condition: they share their loops.

    A fold that goes on with another one, or uses what it leaves, comes after it.
    """
    groups: list[list[FoldLoop]] = []
    for f in nest.folds:
        if groups and _same_loops(groups[-1][0], f) and not _continues(f, groups[-1]):
            groups[-1].append(f)
        else:
            groups.append([f])
    return groups


def _same_loops(f: FoldLoop, g: FoldLoop) -> bool:
    same = len(f.axes) == len(g.axes) and all(a is b for a, b in zip(f.axes, g.axes, strict=True))
    return bool(f.axes) and same and f.condition is g.condition


def share_loops(nest: Nest) -> Nest:
    """Folds over equal axes run beside each other over the first one's, equal folds once."""
    placed: list[FoldLoop] = []
    again: dict[Expr, Expr] = {}
    for f in nest.folds:
        for position, g in enumerate(placed):
            joined = None if _continues(f, placed[position:]) else _over_axes_of(f, g)
            if joined is None:
                continue
            same = next((h for h in placed if _is_same_fold(h, joined)), None)
            if same is not None and not _is_continued(nest, (f, same)):
                again.update(zip(f.accumulators, same.accumulators, strict=True))
            else:
                placed.insert(position + 1, joined)
            break
        else:
            placed.append(f)
    if len(nest.folds) < 2:
        return nest
    return substitute_nest(replace(nest, folds=tuple(placed)), again, nest.axes)


def _is_same_fold(f: FoldLoop, g: FoldLoop) -> bool:
    alike = _same_loops(f, g) and f.combiner is g.combiner
    return alike and all(a is b for a, b in zip(f.sources, g.sources, strict=True))


def _is_continued(nest: Nest, folds: Iterable[FoldLoop]) -> bool:
    """Whether one of the folds shares its accumulators with others."""
    taken = {f.accumulators[0]: None for f in folds}
    return sum(f.accumulators[0] in taken for f in nest.folds) > len(taken)


def _continues(f: FoldLoop, before: Iterable[FoldLoop]) -> bool:
    """Whether the fold uses what an earlier one leaves, or goes on with it."""
    used = free_leaves(f.condition, *f.sources)
    return any(p in used or p is f.accumulators[0] for g in before for p in g.accumulators)


def _over_axes_of(f: FoldLoop, g: FoldLoop) -> FoldLoop | None:
    """The fold over the other's axes, if they are equal and so is the condition."""
    if len(f.axes) != len(g.axes) or not f.axes:
        return None
    mapping: dict[Expr, Expr] = {}
    for a, b in zip(f.axes, g.axes, strict=True):
        bounds = ((a.lower, b.lower), (a.upper, b.upper), (a.step, b.step))
        if any(substitute(x, mapping) is not y for x, y in bounds):
            return None
        mapping[a] = b
    if substitute(f.condition, mapping) is not g.condition:
        return None
    sources = substitute_all(f.sources, mapping)
    return replace(f, sources=sources, axes=g.axes, condition=g.condition)
