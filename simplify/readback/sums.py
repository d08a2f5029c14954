"""Two formulas over the same outer axes: whether they are the same sum for each of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tensorad.ir.expr import FALSE, ONE, TRUE, Axis, Call, Cast, Expr, call
from tensorad.ir.order import DATA, REDUCE, occurs
from tensorad.ir.visit import conjuncts, substitute, substitute_all, uses_any
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.listing import compare_points
from tensorad.simplify.readback.monomials import Sum, Term, Terms
from tensorad.simplify.readback.places import Forms, form_of_product
from tensorad.simplify.readback.relations import Part, close, compare_relations

Form = tuple[tuple[int, int], ...]


def settled(outer: Sequence[Axis], t: Term) -> Term | None:
    """The term without loops that an equation gives the value of, and without what bounds say.

    None where it is 0.
    """
    loops, where, atoms = list(t.loops), list(t.where), dict(t.atoms)
    changed = True
    while changed:
        changed = False
        for a in loops:
            value = _given(a, loops, where)
            if value is None:
                continue
            loops = [b for b in loops if b is not a]
            where += [a >= a.lower, a < a.upper]
            new: dict[Expr, Expr] = {a: value}
            where = list(substitute_all(where, new))
            atoms = _powers([(substitute(e, new), n) for e, n in atoms.items()])
            changed = True
            break
    known = {c for a in (*outer, *loops) for c in (a >= a.lower, a < a.upper)}
    for a in outer:
        if a.extent == 1:
            known.update((call("eq", a, a.lower), call("eq", a.lower, a)))
    parts = dict.fromkeys([p for c in where for p in conjuncts(c)])
    left = [p for p in parts if p is not TRUE and p not in known]
    zero = any(p is FALSE for p in left)
    return None if zero else Term(t.number, atoms, tuple(loops), tuple(left))


def _powers(atoms: Sequence[tuple[Expr, int]]) -> dict[Expr, int]:
    found: dict[Expr, int] = {}
    for e, n in atoms:
        found[e] = 1 if e.dtype == "bool" else found.get(e, 0) + n
    return {e: n for e, n in found.items() if n}


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

    def by_form(self, total: Sum, weighted: bool = False) -> dict[Form, list[Part]]:
        """The terms by form; integers of indices alone are factors or, `weighted`, numbers."""
        found: dict[Form, list[Part]] = {}
        for term in total:
            t = settled(self.outer, term)
            if t is not None:
                atoms = list(t.atoms.items())
                weights = [(e.value, n) for e, n in atoms if weighted and _is_count(e)]
                atoms = [(e, n) for e, n in atoms if not (weighted and _is_count(e))]
                form, place = form_of_product(self.forms, atoms)
                part = Part(t.number, place, t.loops, t.where, tuple(weights))
                found.setdefault(form, []).append(part)
        return found

    def differences(
        self, one: Expr, other: Expr, weighted: bool = False
    ) -> list[tuple[Form, list[Part], list[Part]]]:
        """The forms whose sums are not the same as they are written."""
        first = self.by_form(self.terms.of(one), weighted)
        second = self.by_form(self.terms.of(other), weighted)
        found = []
        for form in dict.fromkeys((*first, *second)):
            a, b = _without_shared(first.get(form, []), second.get(form, []))
            if a or b:
                found.append((form, a, b))
        return found

    def compare(self, one: Expr, other: Expr) -> str:
        """How it was proved that two formulas are equal: "structure", "isl" or "enumeration".

        Raises:
            Undecided, Refuted: they are not, or it was not proved.
        """
        left = self.differences(one, other)
        if not left:
            return "structure"
        try:
            for form, a, b in left:
                compare_relations(self.outer, a, b, self.groups(form))
            return "isl"
        except (Undecided, Refuted):
            for form, a, b in self.differences(one, other, weighted=True):
                compare_points(self.outer, a, b, self.groups(form))
            return "enumeration"

    def groups(self, form: Form) -> list[list[list[int]]]:
        """Positions in places, by factor; factors of one form and power together."""
        found: list[list[list[int]]] = []
        at = 0
        widths = {number: len(place) for number, place in self.forms.known.values()}
        for k, one in enumerate(form):
            width = widths[one[0]]
            own = list(range(at, at + width))
            at += width
            if k and form[k - 1] == one:
                found[-1].append(own)
            else:
                found.append([own])
        return found


def _is_count(e: Expr) -> TypeGuard[Cast]:
    """Whether a factor is an integer that indices alone say."""
    return isinstance(e, Cast) and e.value.dtype.is_integer and not occurs(DATA | REDUCE, e)


def _without_shared(one: Sequence[Part], other: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """What is left when terms that are written alike on both sides go."""
    left: list[Part] = []
    rest = list(other)
    for p in one:
        twin = next((q for q in rest if close(p.number, q.number) and _alike(p, q)), None)
        if twin is None:
            left.append(p)
        else:
            rest = [q for q in rest if q is not twin]
    return left, rest


def _alike(p: Part, q: Part) -> bool:
    if len(p.loops) != len(q.loops):
        return False
    new: dict[Expr, Expr] = {}
    for a, b in zip(p.loops, q.loops, strict=True):
        bounds = substitute_all((a.lower, a.upper, a.step), new)
        if any(x is not y for x, y in zip(bounds, (b.lower, b.upper, b.step), strict=True)):
            return False
        new[a] = b
    if any(x is not y for x, y in zip(substitute_all(p.place, new), q.place, strict=True)):
        return False
    weights = [(substitute(e, new), n) for e, n in p.weights]
    if len(weights) != len(q.weights) or set(weights) != set(q.weights):
        return False
    return set(substitute_all(p.where, new)) == set(q.where)
