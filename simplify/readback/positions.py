"""Positions of what was chosen, as sums over all that they may be.

With f(p) a term that reads the position p of a maximum, and 0 the least that p may be, f(p) is
f(0) and the sum over v > 0 of f(v) - f(0) where p == v: sums over v are left to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Axis, Call, Expr, Param, Read, Reduce, Select, axis, call
from tensorad.ir.order import DATA, FLOAT, PARAM, REDUCE, occurs, reads
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import free_leaves, substitute
from tensorad.simplify.certify.outcomes import Undecided
from tensorad.simplify.readback.columns import Columns
from tensorad.simplify.readback.monomials import Term

_MOST_POINTS: Final = 1 << 13
_VALUES: Final = DATA | REDUCE | FLOAT | PARAM


class Positions:
    """Which tensors are positions, and between which numbers they are."""

    def __init__(self) -> None:
        self.known: dict[Tensor, tuple[int, int] | None] = {}
        self.counters: dict[Axis, None] = {}

    def spread(self, outer: Sequence[Axis], t: Term) -> list[Term]:
        """The term, summed over what the positions that it reads may be."""
        around = dict.fromkeys([*outer, *t.loops])
        for r in reads(*t.atoms):
            inside = all(a in around for i in r.indices for a in free_leaves(i))
            asked = any(_reads(e, r) for e in t.atoms if not self._is_listed(e, r))
            bounds = self.bounds(r.tensor) if inside and asked else None
            if bounds is not None:
                break
        else:
            return [t]
        least, largest = bounds
        v = axis("v", least + 1, largest + 1)
        self.counters[v] = None
        first, each = (_with(t, r, x) for x in (v.lower - 1, v))
        made = [first]
        for sign, u in ((1, each), (-1, first)):
            atoms = {**u.atoms, call("eq", r, v): 1}
            made.append(Term(sign * u.number, atoms, (*u.loops, v), u.where))
        return [p for m in made for p in self.spread((*outer, v), m)]

    def _is_listed(self, e: Expr, r: Read) -> bool:
        """Whether a condition says which of the values that are summed over a position is."""
        return (
            isinstance(e, Call) and e.op == "eq" and e.args[0] is r and e.args[1] in self.counters
        )

    def bounds(self, t: Tensor) -> tuple[int, int] | None:
        """The least and the largest a position may be; None if it is no position."""
        if t not in self.known:
            self.known[t] = _bounds(t)
        return self.known[t]


def _reads(e: Expr, r: Read) -> bool:
    return any(x is r for x in reads(e))


def _with(t: Term, r: Read, value: Expr) -> Term:
    """The term where a read has a value; what is known then are conditions."""
    atoms: dict[Expr, int] = {}
    where = list(t.where)
    for e, n in t.atoms.items():
        made = substitute(e, {r: value})
        if made.dtype is not BOOL:
            atoms[made] = atoms.get(made, 0) + n
        elif occurs(_VALUES, made):
            atoms[made] = 1
        else:
            where.append(made)
    left = {e: n for e, n in atoms.items() if n}
    return Term(t.number, left, t.loops, tuple(where))


def _bounds(t: Tensor) -> tuple[int, int] | None:
    if not (t.dtype.is_integer and isinstance(t.op, Compute)):
        return None
    e = t.op.bodies[t.index]
    if not isinstance(e, Reduce) or occurs(_VALUES, e.sources[e.index]) or not _is_chosen(e):
        return None
    columns = Columns({}, _MOST_POINTS)
    try:
        points = columns.along(columns.begin(t.op.axes), e.axes, ())
        values = columns.values(e.sources[e.index], points)
    except Undecided:
        return None
    none = int(e.combiner.identity[e.index].value)
    return min(none, int(values.min(initial=none))), max(none, int(values.max(initial=none)))


def _is_chosen(e: Reduce) -> bool:
    """Whether the result is always one of the sources' values, or the identity."""
    own = (e.combiner.lhs[e.index], e.combiner.rhs[e.index])
    pending = [e.combiner.results[e.index]]
    while pending:
        match pending.pop():
            case Select(then=a, orelse=b):
                pending += [a, b]
            case Param() as p if any(p is x for x in own):
                pass
            case _:
                return False
    return True
