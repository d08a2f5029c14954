"""Two formulas over the same outer axes: whether they are the same sum for each of their values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import FALSE, ONE, TRUE, Axis, Call, Expr, Size, call, cast, const
from tensorad.ir.visit import conjuncts, substitute_all, uses_any
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.alike import Likes
from tensorad.simplify.readback.listing import FEW_POINTS, MOST_POINTS, compare_points
from tensorad.simplify.readback.monomials import Sum, Term, Terms
from tensorad.simplify.readback.places import Forms, form_of_product
from tensorad.simplify.readback.positions import Positions
from tensorad.simplify.readback.relations import Part, compare_relations

_MOST_SPREAD: Final = 1 << 15

Form = tuple[tuple[int, int], ...]
Difference = tuple[Form, list[Part], list[Part]]


def _length(a: Axis) -> Expr:
    """How many points an axis has; sizes are not negative."""
    n = a.upper - a.lower
    return n if isinstance(n, Size) else call("maximum", n, const(0, n.dtype))


def _powers(atoms: Sequence[tuple[Expr, int]]) -> dict[Expr, int]:
    found: dict[Expr, int] = {}
    for e, n in atoms:
        found[e] = 1 if e.dtype == "bool" else found.get(e, 0) + n
    return {e: n for e, n in found.items() if n}


def _first_given(loops: Sequence[Axis], where: Sequence[Expr]) -> tuple[Axis, Expr] | None:
    """A loop that has one value, and the value."""
    for a in loops:
        value = _given(a, loops, where)
        if value is not None:
            return a, value
    return None


def _given(a: Axis, loops: Sequence[Axis], where: Sequence[Expr]) -> Expr | None:
    """What an equation says that a loop's value is, if no other loop depends on it."""
    if a.step is not ONE or any(
        uses_any(e, [a]) for b in loops for e in (b.lower, b.upper, b.step)
    ):
        return None
    if a.extent == 1:
        return a.lower
    for c in where:
        if isinstance(c, Call) and c.op == "eq":
            for x, y in (c.args, c.args[::-1]):
                if x is a and not uses_any(y, [a]):
                    return y
    return None


class Sums:
    """One comparison: the forms of both sides."""

    def __init__(self, outer: Sequence[Axis]) -> None:
        self.outer = tuple(outer)
        self.forms = Forms()
        self.terms = Terms()
        self.likes = Likes()
        self.positions = Positions()
        self.bounds: dict[Axis, tuple[Expr, Expr]] = {}
        self.images: dict[Hashable, dict[Expr, Expr]] = {}
        self.sides: dict[Expr, Sum] = {}
        self.left: dict[tuple[Expr, Expr], list[Difference]] = {}

    def by_form(self, total: Sum) -> dict[Form, list[Part]]:
        """The terms by form."""
        found: dict[Form, list[Part]] = {}
        for t in total:
            form, place = form_of_product(self.forms, list(t.atoms.items()))
            found.setdefault(form, []).append(Part(t.number, place, t.loops, t.where, t.atoms))
        return found

    def settled(self, e: Expr) -> Sum:
        """The terms of a formula over the loops that they need."""
        if e not in self.sides:
            found = [self._settled(t, e.dtype) for t in self.terms.of(e)]
            self.sides[e] = [t for t in found if t is not None]
        return self.sides[e]

    def _settled(self, t: Term, dtype: DType) -> Term | None:
        """The term without loops that an equation gives the value of, and without what bounds say.

        Loops that nothing depends on are factors: how often they run.

        None where it is 0.
        """
        loops, where = list(t.loops), list(t.where)
        values: dict[Expr, Expr] = {}
        while (found := _first_given(loops, where)) is not None:
            a, value = found
            loops = [b for b in loops if b is not a]
            new: dict[Expr, Expr] = {a: value}
            where = list(substitute_all((*where, *self._within(a)), new))
            values = dict(zip(values, substitute_all(tuple(values.values()), new), strict=True))
            values[a] = value
        atoms = t.atoms
        if values:
            images = self._images(tuple(atoms), values)
            atoms = _powers([(images[e], n) for e, n in atoms.items()])
        if where:
            known = {c for a in (*self.outer, *loops) for c in self._within(a)}
            for a in self.outer:
                if a.extent == 1:
                    known.update((call("eq", a, a.lower), call("eq", a.lower, a)))
            parts = dict.fromkeys([p for c in where for p in conjuncts(c)])
            where = [p for p in parts if p is not TRUE and p not in known]
            if any(p is FALSE for p in where):
                return None
        return self._counted(Term(t.number, atoms, tuple(loops), tuple(where)), dtype)

    def _within(self, a: Axis) -> tuple[Expr, Expr]:
        """What the bounds of an axis say."""
        found = self.bounds.get(a)
        if found is None:
            found = self.bounds[a] = (a >= a.lower, a < a.upper)
        return found

    def _images(self, atoms: Sequence[Expr], values: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
        """Factors where axes have values: many terms have the same ones."""
        images = self.images.setdefault(frozenset(values.items()), {})
        new = [e for e in atoms if e not in images]
        images.update(zip(new, substitute_all(new, values), strict=True))
        return images

    def _counted(self, t: Term, dtype: DType) -> Term | None:
        """The term without loops that nothing depends on; None where they have no points."""
        if not t.loops:
            return t if t.number else None
        number, loops, atoms = t.number, list(t.loops), dict(t.atoms)
        used = {a for e in (*atoms, *t.where) for a in self.likes.axes_of(e)}
        for a in reversed(t.loops):  # those inside first: their bounds may depend on others
            around = [b for c in loops if c is not a for b in (c.lower, c.upper, c.step)]
            if a in used or any(b is a for e in around for b in self.likes.axes_of(e)):
                continue
            if a.extent is not None:
                number *= a.extent
            elif a.step is ONE:
                count = cast(_length(a), dtype)
                used.update(self.likes.axes_of(count))
                atoms[count] = atoms.get(count, 0) + 1
                if not atoms[count]:
                    del atoms[count]
            else:
                continue
            loops = [b for b in loops if b is not a]
        return Term(number, atoms, tuple(loops), t.where) if number else None

    def differences(self, one: Expr, other: Expr) -> list[Difference]:
        """The forms whose sums are not the same as they are written.

        Raises:
            Undecided: the formulas are too long.
        """
        found = self.left.get((one, other))
        if found is None:
            found = self.left[one, other] = self._differences(one, other)
        return found

    def _differences(self, one: Expr, other: Expr) -> list[Difference]:
        first, second = (self.by_form(self.settled(e)) for e in (one, other))
        found = []
        for form in dict.fromkeys((*first, *second)):
            sides = first.get(form, []), second.get(form, [])
            a, b = self.likes.differences(sides, self.groups(form))
            if a or b:
                found.append((form, a, b))
        return found

    def are_alike(self, one: Expr, other: Expr) -> bool:
        """Whether two formulas are equal as they are written.

        Raises:
            Undecided: they are too long.
        """
        return not self.differences(one, other)

    def compare(self, one: Expr, other: Expr) -> str:
        """How it was proved that two formulas are equal: "structure", "isl" or "enumeration".

        Raises:
            Undecided, Refuted: they are not, or it was not proved.
        """
        left = self.differences(one, other)
        if not left:
            return "structure"
        try:
            self._list(left, FEW_POINTS)
            return "enumeration"
        except Undecided:
            pass  # there are more points, or sizes without a value
        try:
            for form, a, b in left:
                compare_relations(self.outer, a, b, self.groups(form))
            return "isl"
        except (Undecided, Refuted):
            self._list(left, MOST_POINTS)
            return "enumeration"

    def _list(self, left: Sequence[Difference], most: int) -> None:
        """By listing points; if sums differ so, also over what the positions they read may be."""
        one = [_term(p) for _, parts, _ in left for p in parts]
        other = [_term(p) for _, _, parts in left for p in parts]
        try:
            compare_points(self.outer, one, other, most, self.forms)
        except Refuted:
            first, second = (
                [s for t in side for s in self.positions.spread(self.outer, t)]
                for side in (one, other)
            )
            if len(first) == len(one) and len(second) == len(other):
                raise
            compare_points(self.outer, first, second, min(most, _MOST_SPREAD), self.forms)

    def groups(self, form: Form) -> list[list[list[int]]]:
        """Positions in places, by factor; factors of one form and power together."""
        found: list[list[list[int]]] = []
        at = 0
        for k, one in enumerate(form):
            width = self.forms.widths[one[0]]
            own = list(range(at, at + width))
            at += width
            if k and form[k - 1] == one:
                found[-1].append(own)
            else:
                found.append([own])
        return found


def _term(p: Part) -> Term:
    return Term(p.number, dict(p.atoms), p.loops, p.where)
