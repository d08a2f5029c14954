"""Ways of comparing a plan with the contributions it stands for, from the plan's own data.

By structure (the domain under other names), by integer sets, by listing the points, by integer
sets over digits for products of symbolic sizes, and, if nothing else can say, by listing the
points for small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Final

import numpy as np

from tensorad import config
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.analysis.points import evaluate
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Expr,
    Read,
    Size,
    axis,
    logical_and,
    size_var,
)
from tensorad.ir.visit import (
    conjuncts,
    free_leaves,
    postorder,
    rewrite,
    substitute,
    substitute_all,
)
from tensorad.simplify.certify.mixed_radix_proofs import compare_over_digits
from tensorad.simplify.certify.outcomes import Refuted, Undecided, expressible, may_hold
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.identities import runs_to
from tensorad.simplify.domain.listed_points import Array, TooManyPoints, is_evaluable, points_of
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.index.linear import linear_form
from tensorad.simplify.index.quasi_affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine, Space, budget

_PATIENCE: Final = 8
"""A check may cost this many times the isl operations of a plan."""
_SAMPLES: Final = (0, 1, 2, 3, 5)
"""Values of symbolic sizes where nothing is proved for all of them."""
_MOST_SAMPLES: Final = 40
_MANY: Final = 8


# By structure: the plan is the domain under other names


def _by_structure(e: Elimination) -> str:
    if len(e.solution.pieces) != 1:
        raise Undecided("")
    (piece,) = e.solution.pieces
    loops = iter(piece.axes)
    renamed: dict[Expr, Expr] = {}
    rotated: list[Axis] = []
    for old in e.inner:
        value = piece.values[old]
        if isinstance(value, Call):
            rotated.append(old)
            continue
        if not _is_outer_twin(e, old, value) and not (old.extent == 1 and value is old.lower):
            new = next(loops, None)
            if new is None or value is not new or not _same_bounds(old, new, renamed):
                raise Undecided("")
        renamed[old] = value
    if next(loops, None) is not None or piece.guard is not TRUE:
        raise Undecided("")
    parts = conjuncts(e.condition)
    for old in rotated:
        told = next((p for p in parts if _is_rotation(p, old, piece.values[old], renamed)), None)
        if told is None:
            raise Undecided("")
        parts = [p for p in parts if p is not told]
        renamed[old] = piece.values[old]
    wanted = dict.fromkeys(conjuncts(substitute(logical_and(*parts), renamed)))
    if wanted.keys() != dict.fromkeys(conjuncts(piece.residual)).keys():
        raise Undecided("")
    return ""


def _is_rotation(p: Expr, old: Axis, value: Expr, renamed: dict[Expr, Expr]) -> bool:
    """Whether p is x == (v + e) % n or (e - v) % n, with x and v in [0, n), and value solves it.

    v is unique modulo n, and the value is a remainder by n.
    """
    if not isinstance(p, Call) or p.op != "eq" or not isinstance(value, Call):
        return False
    for x, m in (p.args, p.args[::-1]):
        both = isinstance(m, Call) and m.op == "mod" and value.op == "mod"
        if not both or not isinstance(x, Axis) or not isinstance(m, Call):
            continue
        n = m.args[1]
        if n is not value.args[1] or not (runs_to(x, n) and runs_to(old, n)):
            continue
        form = linear_form(m.args[0])
        c = form.terms.get(old, 0)
        if abs(c) != 1 or old in free_leaves(value):
            continue
        form.drop(old)
        rest = form.to_expr()
        back = linear_form(substitute(rest, renamed)).plus(linear_form(value.args[0]), c)
        back = back.plus(linear_form(x), -1)
        if old not in free_leaves(rest) and not back.terms and not back.constant:
            return True
    return False


def _is_outer_twin(e: Elimination, old: Axis, value: Expr) -> bool:
    """Whether the condition equates an axis to an outer one of the same bounds."""
    if not isinstance(value, Axis) or value not in set(e.outer):
        return False
    pairs = [p.args for p in conjuncts(e.condition) if isinstance(p, Call) and p.op == "eq"]
    equated = any((a is old and b is value) or (a is value and b is old) for a, b in pairs)
    return equated and _same_bounds(old, value, {})


def _same_bounds(old: Axis, new: Axis, renamed: dict[Expr, Expr]) -> bool:
    """Whether the new axis runs as the old one, whose bounds are renamed."""
    bounds = [substitute(b, renamed) for b in (old.lower, old.upper, old.step)]
    return all(b is c for b, c in zip(bounds, (new.lower, new.upper, new.step), strict=True))


# By integer sets


class _Plain:
    """Rewrites conditions so that isl understands more of them.

    An integer that depends on sizes and outer axes alone (a product of sizes, an element of a
    table) becomes a parameter of its own: what holds for every value of it holds for its own.
    """

    def __init__(self, e: Elimination) -> None:
        self.outer = dict.fromkeys(e.outer)
        new = [a for p in e.solution.pieces for a in p.axes]
        self.axes = [*e.outer, *e.inner, *new]
        self.names: dict[Expr, Expr] = {}
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, root: Expr) -> Expr:
        return rewrite(root, self._rule, self.memo)

    def _rule(self, e: Expr) -> Expr | None:
        if not e.dtype.is_integer or is_affine(e, self.axes):
            return None
        if any(a not in self.outer for a in free_leaves(e)):
            return None
        return self.names.setdefault(e, size_var(f"#{len(self.names)}"))

    def is_affine(self, e: Expr) -> bool:
        return is_affine(self(e), self.axes)

    def set(self, space: Space, conditions: Sequence[Expr]) -> IntegerSet:
        return IntegerSet.of(space, *map(self, conditions))


def _by_sets(e: Elimination) -> str:
    plain = _Plain(e)
    own, of_pieces = expressible(e, plain.is_affine)
    values = [v for p in e.solution.pieces for v in p.values.values()]
    loops = [a for p in e.solution.pieces for a in p.axes]
    for part in (*values, *[axis_conditions(a) for a in (*e.inner, *loops)]):
        if not plain.is_affine(part):
            raise Undecided(f"{part} is not affine")
    try:
        with budget(_PATIENCE * config.current().isl_operations):
            _compare_sets(e, plain, own, of_pieces, may_hold(e, plain.is_affine))
    except (BudgetExceeded, NotAffine) as error:
        raise Undecided(str(error)) from None
    except Refuted as error:
        if plain.names:  # wrong for some value of a name, perhaps not for its own
            raise Undecided(str(error)) from None
        raise
    return ""


def _compare_sets(
    e: Elimination,
    plain: _Plain,
    own: Sequence[Expr],
    of_pieces: Sequence[Sequence[Expr]],
    needed: Expr,
) -> None:
    bounds = [axis_conditions(a) for a in e.inner]
    claims = [
        _claim(e.inner, p, conditions)
        for p, conditions in zip(e.solution.pieces, of_pieces, strict=True)
    ]
    everything = [*bounds, *own, needed, *[p for c in claims for p in c.parts]]
    params, known = _context(e, plain, everything, [a for c in claims for a in c.extra])
    space = Space(params, e.inner)
    domain = plain.set(space, [*known, *bounds, *own])
    rest = domain
    for claim in claims:
        claimed = _claimed(space, plain, claim, known)
        if not claimed.is_subset(domain):
            raise Refuted("the plan visits points that do not contribute")
        if not claimed.is_subset(rest):
            raise Refuted("the plan visits contributions twice")
        rest = rest.minus(claimed)
    if not rest.intersect(plain.set(space, [*known, needed])).is_empty():
        raise Refuted("the plan misses contributions")


@dataclass(frozen=True, eq=False)
class _Claim:
    """The points a piece visits: conditions over the old axes and `extra` ones."""

    parts: list[Expr]
    extra: list[Axis]


def _claim(inner: Sequence[Axis], piece: Piece, conditions: Sequence[Expr]) -> _Claim:
    back: dict[Expr, Expr] = {}  # a loop that is an old axis goes by its name
    loops = dict.fromkeys(piece.axes)
    for old in inner:
        value = piece.values[old]
        if value in loops and value not in back:
            back[value] = old
    parts = [axis_conditions(a) for a in piece.axes] + list(conditions)
    parts += [old == piece.values[old] for old in inner if back.get(piece.values[old]) is not old]
    return _Claim(list(substitute_all(parts, back)), [a for a in piece.axes if a not in back])


def _claimed(space: Space, plain: _Plain, claim: _Claim, known: Sequence[Expr]) -> IntegerSet:
    """The old points a piece visits.

    Raises:
        Refuted: it visits one twice.
    """
    if not claim.extra:
        return plain.set(space, [*known, *claim.parts])
    wide = plain.set(Space(space.params, [*space.dims, *claim.extra]), [*known, *claim.parts])
    if not wide.restrict_to(claim.extra, space.dims).is_singleton():
        raise Refuted("several points of the plan are the same contribution")
    return wide.restrict_to(space.dims)


def _context(
    e: Elimination, plain: _Plain, parts: Sequence[Expr], extra: Sequence[Axis]
) -> tuple[list[Expr], list[Expr]]:
    """(sizes and outer axes the problem speaks of, what is known about them)."""
    roots = [plain(p) for p in parts]
    inner = dict.fromkeys([*e.inner, *extra])
    found = [x for x in free_parameters((), *roots) if x not in inner]
    outer = [a for a in e.outer if a in set(found)]
    known = [c for c in (axis_conditions(a) for a in outer) if plain.is_affine(c)]
    sizes = dict.fromkeys(s for s in postorder(*roots, *map(plain, known)) if isinstance(s, Size))
    facts = facts_about(sizes)
    sizes.update(dict.fromkeys(s for s in postorder(*facts) if isinstance(s, Size)))
    own = [s for s in sizes if not any(s is name for name in plain.names.values())]
    known += [s >= 0 for s in own] + [f for f in facts if plain.is_affine(f)]
    named = [s for s in free_parameters((), *map(plain, known)) if isinstance(s, Size)]
    return [*dict.fromkeys([*sizes, *named]), *outer], known


# By listing points


def _by_points(e: Elimination) -> str:
    if _sizes(e) or _data_in_bounds(e):
        raise Undecided("")
    _compare_points(e, {})
    return ""


def _by_samples(e: Elimination) -> str:
    """The values of the sizes, and of data in bounds, for which the points were compared."""
    named = _named(e)
    if named is not e:
        try:
            return _by_samples(named)
        except Refuted as error:  # wrong for some value of a name, perhaps not for its own
            raise Undecided(str(error)) from None
    sizes = _sizes(e)
    facts = list(facts_about(sizes))
    tried = [g for g in _samples(sizes) if all(bool(v) for v in evaluate(facts, {}, g))]
    if not tried:
        raise Undecided("no small sizes satisfy what is assumed")
    for given in tried:
        _compare_points(e, given)
    names = ", ".join(str(s) for s in sizes)
    return f"{len(tried)} values of {names} up to {max(max(t.values()) for t in tried)}"


def _data_in_bounds(e: Elimination) -> list[Expr]:
    """The bounds of loops that data say."""
    axes = [*e.outer, *e.inner, *[a for p in e.solution.pieces for a in p.axes]]
    bounds = [b for a in axes for b in (a.lower, a.upper, a.step)]
    return [b for b in bounds if not is_evaluable(b)]


def _named(e: Elimination) -> Elimination:
    """The elimination with a size in the place of each element of data that bounds a loop, where
    outer axes alone say which element it is.

    Raises:
        Undecided: an inner axis says so.
    """
    if not _data_in_bounds(e):
        return e
    outer = dict.fromkeys(e.outer)
    names: dict[Expr, Expr] = {}
    images: dict[Expr, Expr] = {}

    def rule(x: Expr) -> Expr | None:
        data = isinstance(x, Read) and x.dtype.is_integer and not is_evaluable(x)
        if not data or any(a not in outer for a in free_leaves(x)):
            return None
        return names.setdefault(x, size_var(f"#{len(names)}"))

    def image(root: Expr) -> Expr:
        return substitute(rewrite(root, rule), images)

    def loops(axes: Sequence[Axis]) -> tuple[Axis, ...]:
        made = []
        for a in axes:
            made.append(axis(a.name, image(a.lower), image(a.upper), image(a.step)))
            images[a] = made[-1]
        return tuple(made)

    around, inner = loops(e.outer), loops(e.inner)
    pieces = []
    for p in e.solution.pieces:
        own = loops(p.axes)
        values = {images[old]: image(v) for old, v in p.values.items()}
        pieces.append(Piece(image(p.guard), own, values, image(p.residual)))
    found = Elimination(
        around, inner, image(e.condition), replace(e.solution, pieces=tuple(pieces))
    )
    left = _data_in_bounds(found)
    if left:
        raise Undecided(f"data say {left[0]}, other data in each iteration")
    return found


def _samples(sizes: Sequence[Size]) -> list[dict[Expr, int]]:
    """Small values of the sizes: all of them if they are few, otherwise some, fixed."""
    rng = Random(0)
    values = list(product(_SAMPLES, repeat=len(sizes))) if len(sizes) < _MANY else []
    if len(values) > _MOST_SAMPLES or not values:
        values = [(n,) * len(sizes) for n in _SAMPLES]
        values += [tuple(rng.choices(_SAMPLES[1:], k=len(sizes))) for _ in range(_MOST_SAMPLES)]
    return [dict(zip(sizes, v, strict=True)) for v in values]


def _by_digits(e: Elimination) -> str:
    """Over digits for all sizes; and, since digits also made the plan, for some by points."""
    try:
        with budget(_PATIENCE * config.current().isl_operations):
            compare_over_digits(e)
    except (BudgetExceeded, NotAffine) as error:
        raise Undecided(str(error)) from None
    _by_samples(e)
    return ""


def _sizes(e: Elimination) -> list[Size]:
    roots = [e.condition]
    for p in e.solution.pieces:
        roots += [p.guard, p.residual, *p.values.values()]
    axes = [*e.outer, *e.inner, *[a for p in e.solution.pieces for a in p.axes]]
    found = dict.fromkeys(s for s in free_parameters(axes, *roots) if isinstance(s, Size))
    found.update((s, None) for f in facts_about(found) for s in postorder(f) if isinstance(s, Size))
    return list(found)


def _compare_points(e: Elimination, sizes: dict[Expr, int]) -> None:
    own, of_pieces = expressible(e, is_evaluable)
    needed = may_hold(e, is_evaluable)
    outer = _used_outer(e, [*own, needed, *[p for ps in of_pieces for p in ps]])
    try:
        domain = _domain_points([*outer, *e.inner], own, sizes)
        least = domain
        if needed is not TRUE:
            least = _domain_points([*outer, *e.inner], [*own, needed], sizes)
        visited = [
            points_of([*outer, *p.axes], parts, [*outer, *[p.values[a] for a in e.inner]], sizes)
            for p, parts in zip(e.solution.pieces, of_pieces, strict=True)
        ]
    except TooManyPoints:
        raise Undecided("there are too many points to list") from None
    _compare_rows(domain, np.concatenate([*visited, domain[:0]]), least)


def _domain_points(axes: Sequence[Axis], own: Sequence[Expr], sizes: dict[Expr, int]) -> Array:
    """By trying all values of all axes, unless they are too many (tables are made by solving)."""
    try:
        return points_of(axes, own, axes, sizes, solve=False)
    except TooManyPoints:
        return points_of(axes, own, axes, sizes)


def _used_outer(e: Elimination, parts: Sequence[Expr]) -> list[Axis]:
    roots = [*parts, *[v for p in e.solution.pieces for v in p.values.values()]]
    loops = [a for p in e.solution.pieces for a in p.axes]
    found = dict.fromkeys(free_parameters([*e.inner, *loops], *roots))
    return [a for a in e.outer if a in found]


def _compare_rows(domain: Array, visited: Array, least: Array) -> None:
    """Visited points are distinct points of the domain, and all of `least` among them."""
    if not domain.shape[1]:
        domain, visited, least = (
            np.zeros((len(x), 1), dtype=np.int64) for x in (domain, visited, least)
        )
    found, times = np.unique(visited, axis=0, return_counts=True)
    if (times > 1).any():
        raise Refuted("the plan visits points twice")
    if _union_size(domain, found) > len(np.unique(domain, axis=0)):
        raise Refuted("the plan visits points that do not contribute")
    if _union_size(least, found) > len(found):
        raise Refuted("the plan misses contributions")


def _union_size(a: Array, b: Array) -> int:
    return len(np.unique(np.concatenate([a, b]), axis=0))


WAYS: Final[tuple[tuple[str, Callable[[Elimination], str]], ...]] = (
    ("structure", _by_structure),
    ("isl", _by_sets),
    ("enumeration", _by_points),
    ("digits", _by_digits),
    ("samples", _by_samples),
)
"""In the order they are tried; each returns a remark, or raises Undecided or Refuted."""
