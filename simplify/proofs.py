"""Ways of comparing a plan with the contributions it stands for, from the plan's own data.

By structure (the domain under other names), by integer sets, by listing the points, and, if
symbolic sizes allow none of these, by listing them for small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from tensorad import config
from tensorad.errors import TensoradError
from tensorad.ir.expr import TRUE, Axis, Expr, Size, logical_and, size_var
from tensorad.ir.facts import facts_about
from tensorad.ir.points import evaluate
from tensorad.ir.visit import (
    conjuncts,
    free_leaves,
    postorder,
    rewrite,
    substitute,
    substitute_all,
)
from tensorad.simplify.affine import axis_conditions, free_parameters, is_affine
from tensorad.simplify.algebra import simplify
from tensorad.simplify.domain import Piece
from tensorad.simplify.enumerated import Array, TooManyPoints, is_evaluable, points_of
from tensorad.simplify.islset import IntegerSet
from tensorad.simplify.islspace import BudgetExceeded, NotAffine, Space, budget
from tensorad.simplify.record import Elimination

_PATIENCE: Final = 8
"""A check may cost this many times the isl operations of a plan."""
_SAMPLES: Final = (0, 1, 2, 3, 5)
"""Values of symbolic sizes where nothing is proved for all of them."""
_MOST_SAMPLES: Final = 40


class Undecided(TensoradError):
    """This way cannot decide; its text says why."""


class Refuted(TensoradError):
    """The plan is wrong; the text says in which way."""


# By structure: the plan is the domain under other names


def _by_structure(e: Elimination) -> str:
    if len(e.solution.pieces) != 1:
        raise Undecided("")
    (piece,) = e.solution.pieces
    renamed: dict[Expr, Expr] = {}
    if len(piece.axes) != len(e.inner) or piece.guard is not TRUE:
        raise Undecided("")
    for old, new in zip(e.inner, piece.axes, strict=True):
        bounds = [substitute(b, renamed) for b in (old.lower, old.upper, old.step)]
        same = new.lower is bounds[0] and new.upper is bounds[1] and new.step is bounds[2]
        if piece.values[old] is not new or not same:
            raise Undecided("")
        renamed[old] = new
    wanted = dict.fromkeys(conjuncts(substitute(e.condition, renamed)))
    if wanted.keys() != dict.fromkeys(conjuncts(piece.residual)).keys():
        raise Undecided("")
    return ""


# What a way of checking cannot express must be the same on both sides, word for word


def _expressible(
    e: Elimination, test: Callable[[Expr], bool]
) -> tuple[list[Expr], list[list[Expr]]]:
    """The conditions of the domain and of each piece that pass the test.

    Raises:
        Undecided: a piece does not test the others just as the domain does.
    """
    parts = conjuncts(e.condition)
    own = [p for p in parts if test(p)]
    opaque = [p for p in parts if not test(p)]
    pieces: list[list[Expr]] = []
    for piece in e.solution.pieces:
        tested = conjuncts(logical_and(piece.guard, piece.residual))
        found = [p for p in tested if not test(p)]
        wanted = conjuncts(logical_and(*[substitute(p, piece.values) for p in opaque]))
        if not _same_conditions(wanted, found):
            what = (found or wanted or opaque)[0]
            raise Undecided(f"{what} is not tested alike by the domain and the plan")
        pieces.append([p for p in tested if test(p)])
    return own, pieces


def _same_conditions(wanted: Sequence[Expr], found: Sequence[Expr]) -> bool:
    if dict.fromkeys(wanted).keys() == dict.fromkeys(found).keys():
        return True
    one, two = (dict.fromkeys(conjuncts(logical_and(*map(simplify, c)))) for c in (wanted, found))
    return one.keys() == two.keys()


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
    own, of_pieces = _expressible(e, plain.is_affine)
    values = [v for p in e.solution.pieces for v in p.values.values()]
    loops = [a for p in e.solution.pieces for a in p.axes]
    for part in (*values, *[axis_conditions(a) for a in (*e.inner, *loops)]):
        if not plain.is_affine(part):
            raise Undecided(f"{part} is not affine")
    try:
        with budget(_PATIENCE * config.current().isl_operations):
            _compare_sets(e, plain, own, of_pieces)
    except (BudgetExceeded, NotAffine) as error:
        raise Undecided(str(error)) from None
    return ""


def _compare_sets(
    e: Elimination, plain: _Plain, own: Sequence[Expr], of_pieces: Sequence[Sequence[Expr]]
) -> None:
    bounds = [axis_conditions(a) for a in e.inner]
    claims = [
        _claim(e.inner, p, conditions)
        for p, conditions in zip(e.solution.pieces, of_pieces, strict=True)
    ]
    everything = [*bounds, *own, *[p for c in claims for p in c.parts]]
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
    if not rest.is_empty():
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
    if _sizes(e):
        raise Undecided("")
    _compare_points(e, {})
    return ""


def _by_samples(e: Elimination) -> str:
    """The values of the sizes for which the points were compared."""
    sizes = _sizes(e)
    facts = list(facts_about(sizes))
    tried: list[dict[Expr, int]] = []
    for values in product(_SAMPLES, repeat=len(sizes)):
        given: dict[Expr, int] = dict(zip(sizes, values, strict=True))
        if len(tried) < _MOST_SAMPLES and all(bool(v) for v in evaluate(facts, {}, given)):
            _compare_points(e, given)
            tried.append(given)
    if not tried:
        raise Undecided("no small sizes satisfy what is assumed")
    return f"{', '.join(str(s) for s in sizes)} up to {max(max(t.values()) for t in tried)}"


def _sizes(e: Elimination) -> list[Size]:
    roots = [e.condition]
    for p in e.solution.pieces:
        roots += [p.guard, p.residual, *p.values.values()]
    axes = [*e.outer, *e.inner, *[a for p in e.solution.pieces for a in p.axes]]
    found = dict.fromkeys(s for s in free_parameters(axes, *roots) if isinstance(s, Size))
    found.update((s, None) for f in facts_about(found) for s in postorder(f) if isinstance(s, Size))
    return list(found)


def _compare_points(e: Elimination, sizes: dict[Expr, int]) -> None:
    own, of_pieces = _expressible(e, is_evaluable)
    outer = _used_outer(e, [*own, *[p for ps in of_pieces for p in ps]])
    try:
        domain = points_of([*outer, *e.inner], own, [*outer, *e.inner], sizes)
        visited = [
            points_of([*outer, *p.axes], parts, [*outer, *[p.values[a] for a in e.inner]], sizes)
            for p, parts in zip(e.solution.pieces, of_pieces, strict=True)
        ]
    except TooManyPoints:
        raise Undecided("there are too many points to list") from None
    _compare_rows(domain, np.concatenate([*visited, domain[:0]]))


def _used_outer(e: Elimination, parts: Sequence[Expr]) -> list[Axis]:
    roots = [*parts, *[v for p in e.solution.pieces for v in p.values.values()]]
    loops = [a for p in e.solution.pieces for a in p.axes]
    found = dict.fromkeys(free_parameters([*e.inner, *loops], *roots))
    return [a for a in e.outer if a in found]


def _compare_rows(domain: Array, visited: Array) -> None:
    if not domain.shape[1]:
        domain, visited = (np.zeros((len(x), 1), dtype=np.int64) for x in (domain, visited))
    wanted = np.unique(domain, axis=0)
    found, times = np.unique(visited, axis=0, return_counts=True)
    if (times > 1).any():
        raise Refuted("the plan visits points twice")
    both = np.unique(np.concatenate([wanted, found]), axis=0)
    if len(both) > len(wanted):
        raise Refuted("the plan visits points that do not contribute")
    if len(both) > len(found):
        raise Refuted("the plan misses contributions")


WAYS: Final[tuple[tuple[str, Callable[[Elimination], str]], ...]] = (
    ("structure", _by_structure),
    ("isl", _by_sets),
    ("enumeration", _by_points),
    ("samples", _by_samples),
)
"""In the order they are tried; each returns a remark, or raises Undecided or Refuted."""
