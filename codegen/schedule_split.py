"""Index-set splitting: axes cut where conditions, bounds or divisions switch.

Inside a piece the switched parts are constant, so its inner loops have no guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf, prod

from tensorad.codegen.affine import COMPARES, Ranges, among, comparison, substitutor
from tensorad.codegen.loopnest import Nest, map_fold, simplify_nest, substitute_nest
from tensorad.codegen.lower_body import FoldLoop
from tensorad.codegen.schedule_plan import folds_in_lanes, preferred_axis
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Size,
    add,
    axis,
    call,
    floordiv,
    int_const,
    mod,
    mul,
)
from tensorad.ir.visit import free_leaves, postorder
from tensorad.simplify.linear import Linear, linear_form

MOST_PIECES = 32
MOST_SYMBOLIC_PIECES = 12
"""Pieces of a nest with symbolic extents: many of them may be empty at a given size."""
MOST_FOLDS = 24
"""Folds that cuts of reduce axes may add to a piece."""
MOST_NODES = 30_000
"""Expression nodes in all pieces together, about."""
_LONG = 1 << 12
"""What a symbolic extent is taken for."""
SHORT = 4
"""A mixed border of at most this many values is cut into single values."""
SWITCHES = (*COMPARES, "maximum", "minimum", "floordiv", "mod")


def _most_pieces(nest: Nest) -> int:
    """How many pieces a nest may become: few where its expressions are large."""
    symbolic = any(a.extent is None for a in nest.axes)
    most = MOST_SYMBOLIC_PIECES if symbolic else MOST_PIECES
    return max(1, min(most, MOST_NODES // len(postorder(*nest.expressions()))))


def has_switches(nest: Nest) -> bool:
    """Whether a pass of this file may change the nest."""
    return bool(_switches(nest)) or any(f.axes for f in nest.folds)


def _switches(nest: Nest) -> list[Call]:
    """Nodes of integer arithmetic that may change their form along an axis."""
    bounds = [b for f in nest.folds for a in f.axes for b in (a.lower, a.upper)]
    return [
        e
        for e in postorder(*nest.expressions(), *bounds)
        if type(e) is Call and e.op in SWITCHES and e.args[0].dtype is INT64
    ]


def split_divisions(nest: Nest) -> list[Nest]:
    """i // c and i % c: i becomes (outer, inner) with inner < c, and a rest piece.

    Requires and ensures: simplified nests.
    """
    most = _most_pieces(nest)
    done: list[Nest] = []
    todo = [nest]
    while todo:
        piece = todo.pop()
        found = _division(piece) if len(done) + len(todo) < most else None
        if found is None:
            done.append(piece)
            continue
        a, factor = found
        if among(a, piece.axes):
            parts = [simplify_nest(p) for p in _split_output(piece, a, factor)]
        else:
            parts = [simplify_nest(_split_reduce(piece, a, factor))]
        todo.extend([p for p in parts if p is not None][::-1])
    return done


def _division(nest: Nest) -> tuple[Axis, int] | None:
    """The axis and the smallest factor at which a division by a constant splits."""
    axes = dict.fromkeys(nest.axes)
    ranges = Ranges(nest.axes)
    for f in nest.folds:
        axes.update(dict.fromkeys(f.axes))
        for a in f.axes:
            ranges.enter(a)
    best: tuple[Axis, int] | None = None
    for e in _switches(nest):
        if e.op not in ("floordiv", "mod") or not isinstance(e.args[1], Const):
            continue
        divisor = int(e.args[1].value)
        form = linear_form(e.args[0])
        factors = {t: divisor // gcd(divisor, c) for t, c in form.terms.items()}
        cut = [(t, f) for t, f in factors.items() if f > 1]
        if divisor <= 1 or len(cut) != 1:
            continue
        leaf, factor = cut[0]
        if not isinstance(leaf, Axis) or leaf not in axes:
            continue
        if not _splittable(leaf, factor, ranges):
            continue
        if not all(_keeps_order(f, leaf, factor) for f in nest.folds):
            continue
        if best is None or factor < best[1]:
            best = leaf, factor
    return best


def _keeps_order(fold: FoldLoop, a: Axis, factor: int) -> bool:
    """Whether the fold may visit the rest of a split axis after all whole parts."""
    if not among(a, fold.axes) or fold.axes[0] is a or folds_in_lanes(fold.combiner):
        return True
    return a.extent is not None and a.extent % factor == 0


def _splittable(a: Axis, factor: int, ranges: Ranges) -> bool:
    from_zero = isinstance(a.lower, Const) and a.lower.value == 0
    by_one = isinstance(a.step, Const) and a.step.value == 1
    closed = not any(isinstance(e, Axis) for e in free_leaves(a.upper))
    return from_zero and by_one and closed and ranges.of(a)[1] >= factor


def _halves(a: Axis, factor: int) -> tuple[Axis, Axis, Axis, Expr]:
    """(outer, inner, rest, start of the rest) of an axis [0, n)."""
    size = int_const(factor)
    whole = floordiv(a.upper, size)
    outer = axis(f"{a.name}o", 0, whole)
    inner = axis(f"{a.name}i", 0, factor)
    rest = axis(a.name, 0, mod(a.upper, size))
    return outer, inner, rest, mul(size, whole)


def _split_output(nest: Nest, a: Axis, factor: int) -> list[Nest]:
    outer, inner, rest, start = _halves(a, factor)
    position = add(mul(int_const(factor), outer), inner)
    pieces = [substitute_nest(nest, {a: position}, _replace(nest.axes, a, (outer, inner)))]
    if rest.extent != 0:
        tail = substitute_nest(nest, {a: add(start, rest)}, _replace(nest.axes, a, (rest,)))
        pieces.append(tail)
    return pieces


def _split_reduce(nest: Nest, a: Axis, factor: int) -> Nest:
    folds: list[FoldLoop] = []
    for f in nest.folds:
        if not among(a, f.axes):
            folds.append(f)
            continue
        outer, inner, rest, start = _halves(a, factor)
        position = add(mul(int_const(factor), outer), inner)
        folds.append(_refold(f, {a: position}, _replace(f.axes, a, (outer, inner))))
        if rest.extent != 0:
            folds.append(_refold(f, {a: add(start, rest)}, _replace(f.axes, a, (rest,))))
    return replace(nest, folds=tuple(folds))


def _replace(axes: Sequence[Axis], a: Axis, parts: tuple[Axis, ...]) -> tuple[Axis, ...]:
    return tuple([p for b in axes for p in (parts if b is a else (b,))])


def _refold(fold: FoldLoop, mapping: Mapping[Expr, Expr], axes: tuple[Axis, ...]) -> FoldLoop:
    return map_fold(replace(fold, axes=axes), substitutor(mapping))


@dataclass(frozen=True, eq=False)
class Cut:
    """Where an axis is cut, and what a switch becomes in each of the parts."""

    axis: Axis
    points: tuple[Expr, ...]
    switch: Call | None
    images: tuple[Expr | None, ...]
    """One per part; None where the switch stays."""


def split_conditions(nest: Nest) -> list[Nest]:
    """Cut output and reduce axes where comparisons, max and min switch.

    Requires and ensures: simplified nests; the pieces cover the points once, in order.
    """
    most, most_folds = _most_pieces(nest), len(nest.folds) + MOST_FOLDS
    todo: list[tuple[Nest, dict[Expr, None]]] = [(nest, {})]
    whole: list[Nest] = [nest]
    """All pieces in order, those of `todo` among them."""
    while todo:
        piece, seen = todo.pop(_largest([n for n, _ in todo]))
        if len(whole) >= most or len(piece.folds) >= most_folds:
            continue
        cut = _next_cut(piece, seen)
        if cut is None:
            continue
        parts = [(simplify_nest(part), keep) for part, keep in _apply(piece, cut, seen)]
        made = [(part, keep) for part, keep in parts if part is not None]
        at = next(n for n, other in enumerate(whole) if other is piece)
        whole[at : at + 1] = [part for part, _ in made]
        todo.extend(made)
    return whole


def _largest(nests: Sequence[Nest]) -> int:
    """The position of the nest with the most points: where pieces are few it is to have them."""
    points = [prod([_LONG if a.extent is None else a.extent for a in n.axes]) for n in nests]
    return points.index(max(points))


def _next_cut(nest: Nest, seen: dict[Expr, None]) -> Cut | None:
    """The first cut that makes some switch constant in a part."""
    target = preferred_axis(nest)
    reduced = [a for f in nest.folds for a in f.axes]
    ranges = Ranges([*nest.axes, *reduced])
    everywhere, only_target = _located(nest)
    for e in everywhere:
        if e not in seen:
            cut = _cut(e, _choices(e, nest, target), ranges)
            if cut is not None:
                return cut
    for e in only_target:
        if e not in seen and target is not None and among(target, free_leaves(e)):
            cut = _cut(e, [target], ranges)
            if cut is not None:
                return cut
    return _singles(nest)


def _singles(nest: Nest, switches: Iterable[Expr] = ()) -> Cut | None:
    """A short output axis in the bounds of a fold (or a switch) is cut into single values."""
    bounds = [b for f in nest.folds for a in f.axes for b in (a.lower, a.upper)]
    used = free_leaves(*bounds, *switches)
    for a in nest.axes:
        if a not in used or a.extent is None or not 1 < a.extent <= SHORT:
            continue
        if isinstance(a.lower, Const) and isinstance(a.step, Const) and a.step.value == 1:
            low = int(a.lower.value)
            points = [int_const(low + n) for n in range(1, a.extent)]
            return Cut(a, tuple(points), None, (None,) * a.extent)
    return None


def split_phases(nest: Nest) -> list[Nest]:
    """Short output axes in the bounds of folds, or where something switches, as single values.

    Requires and ensures: simplified nests.
    """
    done: list[Nest] = []
    todo = [nest]
    while todo:
        piece = todo.pop()
        cut = _singles(piece, _switches(piece)) if len(done) + len(todo) < MOST_PIECES else None
        if cut is None:
            done.append(piece)
            continue
        parts = [simplify_nest(part) for part, _ in _apply(piece, cut, {})[::-1]]
        todo.extend([p for p in parts if p is not None])
    return done


def _located(nest: Nest) -> tuple[list[Call], list[Call]]:
    """Switches in what is evaluated per point, and those in conditions and bounds of folds."""
    inside = [*nest.values, *nest.indices, *[s for f in nest.folds for s in f.sources]]
    outside = [e for f in nest.folds for a in f.axes for e in (a.lower, a.upper)]
    outside += [f.condition for f in nest.folds]
    chosen = []
    for roots in (inside, outside):
        chosen.append(
            [
                e
                for e in postorder(*roots)
                if type(e) is Call and e.op in SWITCHES and e.args[0].dtype is INT64
            ]
        )
    return chosen[0], chosen[1]


def _choices(e: Call, nest: Nest, target: Axis | None) -> list[Axis]:
    """Axes to cut for a switch, the best first."""
    used = free_leaves(e)
    found = [a for a in reversed(nest.axes) if a in used]
    if target is not None and target in used:
        found = [target, *[a for a in found if a is not target]]
    if found:
        return found
    for f in nest.folds:
        inner = [a for a in f.axes if a in used]
        if len(inner) == 1 and (f.axes[0] is inner[0] or folds_in_lanes(f.combiner)):
            return inner
    return []


def _cut(e: Call, axes: Iterable[Axis], ranges: Ranges) -> Cut | None:
    for a in axes:
        one = isinstance(a.step, Const) and a.step.value == 1
        if not one or a.extent == 1:
            continue
        divides = e.op in ("floordiv", "mod")
        cut = _cut_division(e, a) if divides else _cut_order(e, a, ranges)
        if cut is not None:
            return cut
    return None


def _cut_division(e: Call, a: Axis) -> Cut | None:
    """(a + r) // d switches where a + r passes a multiple of d: cut a short axis there."""
    form = linear_form(e.args[0])
    if not isinstance(e.args[1], Const) or a not in form.terms or a.extent is None:
        return None
    if not isinstance(a.lower, Const) or a.extent > 2 * SHORT:
        return None
    d = int(e.args[1].value)
    rest = [t for t, c in form.terms.items() if t is not a and c % d]
    if d <= 0 or rest:
        return None
    low = int(a.lower.value)
    at = [(form.terms[a] * v + form.constant) // d for v in range(low, low + a.extent)]
    points = [low + n for n in range(1, a.extent) if at[n] != at[n - 1]]
    if not points:
        return None
    return Cut(a, tuple(map(int_const, points)), e, (None,) * (len(points) + 1))


def _cut_order(e: Call, a: Axis, ranges: Ranges) -> Cut | None:
    """Cut where the sign of the difference of the operands switches."""
    form, holds, fails = _condition(e)
    c = form.terms.get(a, 0)
    if not c:
        return None
    sizes: dict[Expr, int] = {t: k for t, k in form.terms.items() if isinstance(t, Size)}
    rest = Linear(
        {t: k for t, k in form.terms.items() if t is not a and t not in sizes}, form.constant
    )
    low, high = ranges.of_linear(rest)
    if low == -inf or high == inf or any(among(a, free_leaves(t)) for t in rest.terms):
        return None
    low_, high_ = int(low), int(high)
    if sizes or a.extent is None:
        return _symbolic_cut(e, a, c, Linear(sizes, 0), low_, high_, (holds, fails))
    assert isinstance(a.lower, Const)  # it has an extent
    start = int(a.lower.value)
    true_at, false_at = _thresholds(c, low_, high_)
    stop = start + a.extent
    first, last = sorted((true_at, false_at))
    points = sorted({p for p in (first, last) if start < p < stop})
    mixed = min(last, stop) - max(first, start)
    if not points:
        if a.extent > SHORT or mixed <= 0:
            return None
        points = list(range(start + 1, stop))
    elif 2 * mixed > a.extent and mixed > SHORT:
        return None
    images: tuple[Expr | None, ...] = (None,) * (len(points) + 1)
    return Cut(a, tuple(map(int_const, points)), e, images)


def _thresholds(c: int, low: int, high: int) -> tuple[int, int]:
    """Where c*a + [low, high] >= 0 starts (c > 0) or stops to hold surely, and possibly."""
    if c > 0:
        return -(low // c), -(high // c)
    return low // -c + 1, high // -c + 1


def _symbolic_cut(
    e: Call, a: Axis, c: int, sizes: Linear, low: int, high: int, images: tuple[Expr, Expr]
) -> Cut | None:
    """The same at thresholds that are expressions of sizes; only for unit coefficients."""
    if abs(c) != 1 or e.op in ("eq", "ne") or high - low > SHORT:
        return None

    def at(value: int) -> Expr:
        threshold = sizes.plus(Linear({}, value)).scaled(-c)
        shift = 0 if c > 0 else 1
        point = threshold.plus(Linear({}, shift)).to_expr()
        return call("maximum", a.lower, call("minimum", a.upper, point))

    sure, possible = at(low), at(high)
    holds, fails = images
    if low == high:
        parts = (fails, holds) if c > 0 else (holds, fails)
        return Cut(a, (sure,), e, parts)
    if c > 0:
        return Cut(a, (possible, sure), e, (fails, None, holds))
    return Cut(a, (sure, possible), e, (holds, None, fails))


def _condition(e: Call) -> tuple[Linear, Expr, Expr]:
    """(d, image where d >= 0, image where d < 0) of a comparison, max or min."""
    if e.op in ("maximum", "minimum"):
        x, y = e.args
        d = linear_form(x).plus(linear_form(y), -1)
        images = (x, y) if e.op == "maximum" else (y, x)
        if isinstance(images[1], Const):  # where both are equal the constant is simpler
            d = d.plus(Linear({}, -1))
        return (d, *images)
    found = comparison(e)
    assert found is not None  # a switch over int64
    return found[1], TRUE, FALSE


def _apply(nest: Nest, cut: Cut, seen: dict[Expr, None]) -> list[tuple[Nest, dict[Expr, None]]]:
    """The parts of the nest, each with the switches not to cut again."""
    a = cut.axis
    ends = [a.lower, *cut.points, a.upper]
    done = [*seen, *([] if cut.switch is None else [cut.switch])]
    pieces: list[tuple[Axis, Nest]] = []
    for start, stop, image in zip(ends, ends[1:], cut.images, strict=False):
        settled = nest
        if cut.switch is not None and image is not None:
            settled = substitute_nest(nest, {cut.switch: image}, nest.axes)
        pieces.append((axis(a.name, start, stop), settled))
    if among(a, nest.axes):
        return [_output_part(a, fresh, settled, done) for fresh, settled in pieces]
    folds: list[FoldLoop] = []
    for position, f in enumerate(nest.folds):
        if not among(a, f.axes):
            folds.append(f)
            continue
        for fresh, settled in pieces:
            g = settled.folds[position]
            folds.append(_refold(g, {a: fresh}, _replace(g.axes, a, (fresh,))))
    images = [substitutor({a: fresh}) for fresh, _ in pieces]
    kept = dict.fromkeys([*done, *[renew(k) for renew in images for k in done]])
    return [(replace(nest, folds=tuple(folds)), kept)]


def _output_part(
    a: Axis, fresh: Axis, nest: Nest, done: Sequence[Expr]
) -> tuple[Nest, dict[Expr, None]]:
    renew = substitutor({a: fresh})
    part = substitute_nest(nest, {a: fresh}, _replace(nest.axes, a, (fresh,)))
    return part, dict.fromkeys(renew(k) for k in done)
