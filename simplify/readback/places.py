"""What a factor is, apart from where: its form, and the indices that say which one it is.

X[2*i, j + 1] is the form X[#, #] at the place (2*i, j + 1). Two factors of one form are the same
value wherever their places are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Apply, Axis, Call, Cast, Const, Expr, Param, Read, Reduce, Select, cast
from tensorad.ir.functions import is_stop
from tensorad.ir.order import DATA, FLOAT, PARAM, REDUCE, occurs
from tensorad.ir.visit import uses_any

Place = tuple[Expr, ...]
_VALUES: Final = DATA | REDUCE | FLOAT | PARAM
_ORDERLESS: Final = frozenset(("add", "mul", "minimum", "maximum", "and", "or", "eq", "ne"))
_TURNED: Final = {"gt": "lt", "ge": "le"}
_HERE: Final = "#"


class Forms:
    """Numbers of forms: equal ones have equal numbers."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.known: dict[Expr, tuple[int, Place]] = {}
        self.texts: dict[Expr, str] = {}
        self.widths: dict[int, int] = {}
        """How many indices the place of a form has."""

    def of(self, e: Expr) -> tuple[int, Place]:
        """(the form of a value, its place)."""
        found = self._within(e, ())
        self.widths[found[0]] = len(found[1])
        return found

    def _within(self, e: Expr, bound: tuple[Axis, ...]) -> tuple[int, Place]:
        """The same inside of reductions over some axes; outside of them each node once."""
        if bound:
            return self._of(e, bound)
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._of(e, ())
        return found

    def text(self, e: Expr) -> str:
        found = self.texts.get(e)
        if found is None:
            found = self.texts[e] = str(e)
        return found

    def number(self, what: Hashable) -> int:
        return self.numbers.setdefault(what, len(self.numbers))

    def _of(self, e: Expr, bound: tuple[Axis, ...]) -> tuple[int, Place]:
        if not occurs(_VALUES, e) and not (bound and uses_any(e, bound)):
            return self.number(_HERE), (cast(e, INT64) if e.dtype is BOOL else e,)
        match e:
            case Axis():
                return self.number(("axis", [a is e for a in bound].index(True))), ()
            case Const(value=v):
                return self.number(("const", float(v))), ()
            case Param():
                return self.number(e), ()
            case Read(tensor=t, indices=indices):
                return self._node(("read", t), indices, bound)
            case Cast(value=v) if v.dtype.is_float and e.dtype.is_float:
                return self._of(v, bound)
            case Cast(value=v):
                return self._node(("cast", e.dtype.is_float or e.dtype), (v,), bound)
            case Apply(function=f, args=args):
                return self._of(args[0], bound) if is_stop(f) else self._node(f, args, bound)
            case Select(cond=c, then=a, orelse=b):
                return self._node("select", (c, a, b), bound)
            case Call():
                return self._call(e, bound)
            case Reduce():
                return self._reduce(e, bound)
        return self.number(e), ()

    def _call(self, e: Call, bound: tuple[Axis, ...]) -> tuple[int, Place]:
        if e.op in _TURNED:
            return self._node(_TURNED[e.op], e.args[::-1], bound)
        if e.op in _ORDERLESS:
            return self._orderless(e.op, e, bound)
        return self._node(e.op, e.args, bound)

    def _node(
        self, what: Hashable, parts: Iterable[Expr], bound: tuple[Axis, ...]
    ) -> tuple[int, Place]:
        found = [self._within(p, bound) for p in parts]
        place = tuple([i for _, own in found for i in own])
        return self.number((what, *[form for form, _ in found])), place

    def _orderless(self, op: str, e: Call, bound: tuple[Axis, ...]) -> tuple[int, Place]:
        """Operands in the order of their forms; equal ones in the order of their places' texts."""
        found = [self._within(p, bound) for p in _operands(op, e)]
        found.sort(key=lambda p: p[0])
        if len(dict.fromkeys([form for form, _ in found])) < len(found):
            found.sort(key=lambda p: (p[0], tuple(map(self.text, p[1]))))
        place = tuple([i for _, own in found for i in own])
        return self.number((op, *[form for form, _ in found])), place

    def _reduce(self, e: Reduce, bound: tuple[Axis, ...]) -> tuple[int, Place]:
        inside = bound
        forms: list[Hashable] = []
        place: list[Expr] = []
        for a in e.axes:
            for part in (a.lower, a.upper, a.step):
                form, own = self._of(part, inside)
                forms.append(form)
                place += own
            inside = (*inside, a)
        for part in (e.condition, *e.sources):
            form, own = self._of(part, inside)
            forms.append(form)
            place += own
        what = ("reduce", e.combiner, e.index, len(e.axes), *forms)
        return self.number(what), tuple(place)


def _operands(op: str, e: Expr) -> list[Expr]:
    """The operands of a chain of one operation."""
    if isinstance(e, Call) and e.op == op and op not in ("eq", "ne"):
        return [p for a in e.args for p in _operands(op, a)]
    return list(e.args) if isinstance(e, Call) and e.op == op else [e]


def form_of_product(
    forms: Forms, atoms: Sequence[tuple[Expr, int]]
) -> tuple[tuple[tuple[int, int], ...], Place]:
    """(the forms and powers of a product's factors, in order; their places)."""
    found = [(*forms.of(e), n) for e, n in atoms]
    found.sort(key=lambda f: (f[0], f[2]))
    return tuple([(form, n) for form, _, n in found]), tuple([i for _, p, _ in found for i in p])
