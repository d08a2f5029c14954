"""Index-set splitting: axes cut where conditions, bounds or divisions switch.

Inside a piece the switched parts are constant, so its inner loops have no guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import gcd, prod

from tensorad.codegen.loops.index_ranges import COMPARES, Ranges, among, substitutor
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import extent_of
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest, map_fold, simplify_nest
from tensorad.codegen.schedule.plan import can_vectorise_fold, preferred_axis
from tensorad.codegen.splitting.cut_points import SHORT, Cut, find_cut
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    add,
    axis,
    floordiv,
    int_const,
    mod,
    mul,
)
from tensorad.ir.visit import conjuncts, free_leaves, postorder, substitute
from tensorad.simplify.index.linear import linear_form

MOST_PIECES = 32
SHARE = 64
"""Pieces of less than this part of a nest's points are not cut into single values."""
LEAST = 512
"""Pieces of less than this part are left as they are."""
MINOR = 32
"""A piece of less than this part of a nest's points becomes few pieces."""
MINOR_PIECES = 6
MOST_SYMBOLIC_PIECES = 12
"""Pieces of a nest with symbolic extents: many of them may be empty at a given size."""
LARGE = 1 << 18
"""Points of a piece from which its windows are worth pieces of their own."""
LONG_WINDOW = 16
"""Values of an axis from which most windows along it are whole."""
MOST_FOLDS = 24
"""Folds that cuts of reduce axes may add to a piece."""
MOST_NODES = 30_000
"""Expression nodes in all pieces together, about."""
_LONG = 1 << 12
"""What a symbolic extent is taken for."""
SWITCHES = (*COMPARES, "maximum", "minimum", "floordiv", "mod")


def most_pieces(nest: Nest) -> int:
    """How many pieces a nest may become: few where its expressions are large."""
    symbolic = any(a.extent is None for a in nest.axes)
    most = MOST_SYMBOLIC_PIECES if symbolic else MOST_PIECES
    return max(1, min(most, MOST_NODES // len(postorder(*nest.expressions()))))


def has_switches(nest: Nest) -> bool:
    """Whether a pass of this file may change the nest."""
    return any(f.axes for f in nest.folds) or bool(switches(nest))


def switches(nest: Nest, bounds: bool = True) -> list[Call]:
    """Nodes of integer arithmetic that may change their form along an axis.

    Args:
        bounds: those in bounds of reduce axes, too.
    """
    asked = [b for f in nest.folds for a in f.axes for b in (a.lower, a.upper)] if bounds else []
    return _switches_under(*nest.expressions(), *asked)


def _switches_under(*roots: Expr) -> list[Call]:
    nodes = [e for e in postorder(*roots) if type(e) is Call and e.op in SWITCHES]
    return [e for e in nodes if e.args[0].dtype is INT64]


def cut_repeatedly(
    nest: Nest, most: int, parts_of: Callable[[Nest], Sequence[Nest] | None]
) -> list[Nest]:
    """The pieces, in order, of cutting a nest and its pieces while there are fewer than `most`.

    Args:
        parts_of: what a piece becomes; None where it stays.
    """
    done: list[Nest] = []
    todo = [nest]
    while todo:
        piece = todo.pop()
        parts = parts_of(piece) if len(done) + len(todo) < most else None
        if parts is None:
            done.append(piece)
        else:
            todo.extend(parts[::-1])
    return done


def split_divisions(nest: Nest, bounds: bool = True) -> list[Nest]:
    """i // c and i % c: i becomes (outer, inner) with inner < c, and a rest piece.

    Args:
        bounds: also where only bounds of reduce axes divide.
    Requires and ensures: simplified nests.
    """

    def parts_of(piece: Nest) -> list[Nest] | None:
        found = _division(piece, bounds)
        if found is None:
            return None
        if among(found[0], piece.axes):
            parts = _split_output(piece, *found)
        else:
            parts = [simplify_nest(_split_reduce(piece, *found))]
        return [p for p in parts if p is not None]

    return cut_repeatedly(nest, most_pieces(nest), parts_of)


def _division(nest: Nest, bounds: bool) -> tuple[Axis, int] | None:
    """The axis and the smallest factor at which a division by a constant splits."""
    axes = dict.fromkeys(nest.axes)
    ranges = Ranges(nest.axes)
    for f in nest.folds:
        axes.update(dict.fromkeys(f.axes))
        for a in f.axes:
            ranges.enter(a)
    best: tuple[Axis, int] | None = None
    for e in switches(nest, bounds):
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
    return _keeps_parts(fold, a) or (a.extent is not None and a.extent % factor == 0)


def _splittable(a: Axis, factor: int, ranges: Ranges) -> bool:
    closed = not any(isinstance(e, Axis) for e in free_leaves(a.upper))
    return a.lower is ZERO and a.step is ONE and closed and ranges.of(a)[1] >= factor


def _halves(a: Axis, factor: int) -> tuple[Axis, Axis, Axis, Expr]:
    """(outer, inner, rest, start of the rest) of an axis [0, n)."""
    size = int_const(factor)
    whole = floordiv(a.upper, size)
    outer = axis(f"{a.name}o", 0, whole)
    inner = axis(f"{a.name}i", 0, factor)
    rest = axis(a.name, 0, mod(a.upper, size))
    return outer, inner, rest, mul(size, whole)


def _split_output(nest: Nest, a: Axis, factor: int) -> list[Nest | None]:
    outer, inner, rest, start = _halves(a, factor)
    position = add(mul(int_const(factor), outer), inner)
    pieces = [simplify_nest(nest, {a: position}, _replace(nest.axes, a, (outer, inner)))]
    if rest.extent != 0:
        tail = simplify_nest(nest, {a: add(start, rest)}, _replace(nest.axes, a, (rest,)))
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


def split_conditions(nest: Nest, of: Nest | None = None) -> list[Nest]:
    """Cut output and reduce axes where comparisons, max and min switch.

    Args:
        of: what the nest is a piece of; a minor one becomes few pieces.
    Requires and ensures: simplified nests; the pieces cover the points once, in order.
    """
    most, most_folds = most_pieces(nest), len(nest.folds) + MOST_FOLDS
    if of is not None and _points(nest) < _points(of) // MINOR:
        most = min(most, MINOR_PIECES)
    floor = _points(nest) // SHARE
    todo: list[tuple[Nest, dict[Expr, None]]] = [(nest, {})]
    whole: list[Nest] = [nest]
    """All pieces in order, those of `todo` among them."""
    while todo:
        piece, seen = todo.pop(_largest([n for n, _ in todo]))
        if len(whole) >= most or len(piece.folds) >= most_folds:
            continue
        cut = _next_cut(piece, seen, floor)
        if cut is None:
            continue
        made = _apply(piece, cut, seen)
        at = next(n for n, other in enumerate(whole) if other is piece)
        whole[at : at + 1] = [part for part, _ in made]
        todo.extend(made)
    return whole


def _largest(nests: Sequence[Nest]) -> int:
    """The position of the nest with the most points: where pieces are few it is to have them."""
    points = [_points(n) for n in nests]
    return points.index(max(points))


def is_small(piece: Nest, nest: Nest) -> bool:
    """Whether a piece has too few of a nest's points to be worth further pieces."""
    return _points(piece) < _points(nest) // LEAST


def _points(nest: Nest) -> int:
    return prod([_LONG if a.extent is None else a.extent for a in nest.axes])


def _next_cut(nest: Nest, seen: dict[Expr, None], floor: int) -> Cut | None:
    """The first cut that makes some switch constant in a part.

    Args:
        floor: nests of fewer points are not cut into single values.
    """
    target = cache(partial(preferred_axis, nest, MODEL))
    reduced = [a for f in nest.folds for a in f.axes]
    ranges = Ranges([*nest.axes, *reduced])
    everywhere, only_target = ([e for e in found if e not in seen] for found in _located(nest))
    for e in everywhere:
        cut = find_cut(e, _choices(e, nest, target), ranges)
        if cut is not None:
            return cut
    along = dict.fromkeys([*_targets(nest, target()), *_window_axes(nest)] if only_target else [])
    for a in along:
        for e in only_target:
            if a in free_leaves(e):
                cut = find_cut(e, [a], ranges)
                if cut is not None:
                    return cut
    return _singles(nest) if _points(nest) >= floor else None


def _targets(nest: Nest, target: Axis | None) -> list[Axis]:
    """The axes that may come to be vectorised: another one where the best is short and in
    bounds."""
    if target is None:
        return []
    others = tuple([a for a in nest.axes if a is not target])
    stuck = target in _bound_leaves(nest) and target.extent is not None and target.extent <= SHORT
    second = preferred_axis(replace(nest, axes=others), MODEL) if stuck else None
    return [target] if second is None else [target, second]


def _window_axes(nest: Nest) -> list[Axis]:
    """Output axes that are cut for what is inside of them.

    Where long ones bound short reduce axes, windows of neighbours overlap; all blocks but the
    last have as many values.
    """
    large = _points(nest) >= LARGE
    ranges = Ranges(nest.axes)
    found: dict[Expr, None] = {}
    for f in nest.folds:
        for a in f.axes:
            if large and 1 < extent_of(a, ranges) <= SHORT:
                used = free_leaves(a.lower, a.upper)
                long = [b for b in nest.axes if (b.extent or 0) >= LONG_WINDOW]
                found.update(dict.fromkeys(b for b in long if b in used))
            found.update(dict.fromkeys(b for b in nest.axes if _is_block(a, b)))
            ranges.enter(a)
    return [a for a in nest.axes if a in found]


def _is_block(a: Axis, number: Axis) -> bool:
    """Whether a walks through block `number`, the last of which may be shorter."""
    if not isinstance(a.upper, Call) or a.upper.op != "minimum":
        return False
    sizes = [int(e.value) for e in a.upper.args if isinstance(e, Const)]
    rests = [linear_form(e) for e in a.upper.args if not isinstance(e, Const)]
    if len(sizes) != 1 or len(rests) != 1 or sizes[0] <= SHORT:
        return False
    return dict(rests[0].terms) == {number: -sizes[0]}


def _bound_leaves(nest: Nest) -> dict[Expr, None]:
    return free_leaves(*[b for f in nest.folds for a in f.axes for b in (a.lower, a.upper)])


def _singles(nest: Nest, switches: Iterable[Expr] = ()) -> Cut | None:
    """A short output axis in the bounds of a fold (or a switch) is cut into single values."""
    used = {**_bound_leaves(nest), **free_leaves(*switches)}
    for a in nest.axes:
        if a not in used or a.extent is None or not 1 < a.extent <= SHORT:
            continue
        if isinstance(a.lower, Const) and a.step is ONE:
            low = int(a.lower.value)
            points = [int_const(low + n) for n in range(1, a.extent)]
            return Cut(a, tuple(points), None, (None,) * a.extent)
    return None


def split_phases(nest: Nest) -> list[Nest]:
    """Short output axes in the bounds of folds, or where something switches, as single values.

    Requires and ensures: simplified nests.
    """

    def parts_of(piece: Nest) -> list[Nest] | None:
        cut = _singles(piece, switches(piece))
        return None if cut is None else cut_parts(piece, cut)

    return cut_repeatedly(nest, MOST_PIECES, parts_of)


def _located(nest: Nest) -> tuple[list[Call], list[Call]]:
    """Switches in what is evaluated per point, and those in conditions and bounds of folds."""
    inside = [*nest.values, *nest.indices, *[s for f in nest.folds for s in f.sources]]
    outside = [e for f in nest.folds for a in f.axes for e in (a.lower, a.upper)]
    for f in nest.folds:
        for c in conjuncts(f.condition):  # one that uses no reduce axis is tested per point
            (outside if any(a in free_leaves(c) for a in f.axes) else inside).append(c)
    return _switches_under(*inside), _switches_under(*outside)


def _choices(e: Call, nest: Nest, target: Callable[[], Axis | None]) -> list[Axis]:
    """Axes to cut for a switch, the best first; the one to vectorise is found if it matters."""
    used = free_leaves(e)
    found = [a for a in reversed(nest.axes) if a in used]
    if len(found) > 1 and among(target(), found):
        found.sort(key=lambda a: a is not target())
    if found:
        return found
    for f in nest.folds:
        inner = [a for a in f.axes if a in used]
        if len(inner) == 1 and all(_keeps_parts(g, inner[0]) for g in nest.folds):
            return inner
    return []


def _keeps_parts(fold: FoldLoop, a: Axis) -> bool:
    """Whether the fold may visit one part of an axis after the other; parts of folds share axes."""
    return not among(a, fold.axes) or fold.axes[0] is a or can_vectorise_fold(fold.combiner)


def _apply(nest: Nest, cut: Cut, seen: dict[Expr, None]) -> list[tuple[Nest, dict[Expr, None]]]:
    """The parts that are not empty, simplified, each with the switches not to cut again."""
    a = cut.axis
    ends = [a.lower, *cut.points, a.upper]
    done = [*seen, *([] if cut.switch is None else [cut.switch])]
    pieces: list[tuple[Axis, dict[Expr, Expr]]] = []
    for start, stop, image in zip(ends, ends[1:], cut.images, strict=False):
        fresh = axis(a.name, start, stop)
        images: dict[Expr, Expr] = {a: fresh}
        if cut.switch is not None and image is not None:
            images[cut.switch] = substitute(image, images)
        pieces.append((fresh, images))
    if among(a, nest.axes):
        found = [
            (simplify_nest(nest, images, _replace(nest.axes, a, (fresh,))), fresh)
            for fresh, images in pieces
        ]
        return [(part, _renewed(done, a, fresh)) for part, fresh in found if part is not None]
    folds: list[FoldLoop] = []
    for f in nest.folds:
        if not among(a, f.axes):
            folds.append(f)
            continue
        for fresh, images in pieces:
            folds.append(_refold(f, images, _replace(f.axes, a, (fresh,))))
    whole = simplify_nest(replace(nest, folds=tuple(folds)))
    kept = dict.fromkeys([*done, *[k for fresh, _ in pieces for k in _renewed(done, a, fresh)]])
    return [] if whole is None else [(whole, kept)]


def _renewed(switches: Sequence[Expr], a: Axis, fresh: Axis) -> dict[Expr, None]:
    return dict.fromkeys(map(substitutor({a: fresh}), switches))


def cut_parts(nest: Nest, cut: Cut) -> list[Nest]:
    """The parts of a nest that are not empty, simplified."""
    return [part for part, _ in _apply(nest, cut, {})]
