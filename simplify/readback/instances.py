"""Formulas at many points at once, as numbers of their values.

A value is what its form and its place say (`places.py`), so it is found once for each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import Apply, Call, Cast, Const, Expr, Read, Reduce, Select
from tensorad.ir.functions import is_stop
from tensorad.ir.order import DATA, FLOAT, PARAM, REDUCE, occurs
from tensorad.ir.visit import conjuncts, free_leaves
from tensorad.simplify.certify.outcomes import Undecided
from tensorad.simplify.readback.columns import Columns, Rows
from tensorad.simplify.readback.places import Forms
from tensorad.simplify.readback.values import Values

Array = Any
_VALUES: Final = DATA | REDUCE | FLOAT | PARAM


class Instances(Columns):
    """Columns of numbers of values, beside those of index expressions.

    Attributes:
        found: numbers by form and place.
    """

    def __init__(self, most: int, forms: Forms) -> None:
        super().__init__({}, most)
        self.table = Values()
        self.forms = forms
        self.found: dict[Hashable, dict[Hashable, int]] = {}

    def of(self, e: Expr, rows: Rows, make: Callable[[Rows], Array] | None = None) -> Array:
        """Numbers of values, each made once."""
        make = make or partial(self.numbers, e)
        what: Hashable
        what, place = self.forms.of(e)
        try:
            columns = [self.values(i, rows) for i in place]
        except Undecided:  # at points where nobody asks for it
            what = e
            columns = [rows.axes[a] for a in free_leaves(e) if a in rows.axes]
        known = self.found.setdefault(what, {})
        keys = _keys(columns, rows.count)
        new: dict[Hashable, int] = {}
        for n, key in enumerate(keys):
            if key not in known and key not in new:
                new[key] = n
        if new:
            every = len(new) == rows.count
            some = rows if every else rows.take(np.array(list(new.values()))).from_here()
            known.update(zip(new, make(some).tolist(), strict=True))
        return np.array([known[k] for k in keys], dtype=np.int64)

    def numbers(self, e: Expr, rows: Rows) -> Array:
        """Numbers of values.

        Raises:
            Undecided: loops inside have bounds that data decide, or too many points.
        """
        found = rows.numbers.get(e)
        if found is None:
            found = rows.numbers[e] = self._number(e, rows)
        return found

    def _number(self, e: Expr, rows: Rows) -> Array:
        if not occurs(_VALUES, e):
            return self._made(self.table.constant, [self.values(e, rows)])
        match e:
            case Const(value=v):
                return np.full(rows.count, self.table.constant(v))
            case Read(tensor=t, indices=indices):
                truth = e.dtype is BOOL
                at = [self.numbers(i, rows) for i in indices]
                return self._made(lambda *n: self.table.number(("read", t), n, truth), at, rows)
            case Cast(value=v) if e.dtype.is_float or v.dtype is BOOL:
                return self.numbers(v, rows)
            case Cast(value=v) if _keeps(v.dtype, e.dtype):
                return self.numbers(v, rows)
            case Cast(value=v):
                return self._node(("cast", e.dtype), (v,), rows)
            case Apply(function=f, args=args):
                return self.numbers(args[0], rows) if is_stop(f) else self._node(f, args, rows)
            case Select():
                return self._select(e, rows)
            case Call():
                return self._call(e, rows)
            case Reduce():
                return self.of(e, rows, partial(self._folded, e))
        return np.full(rows.count, self.table.number(("leaf", e)))

    def _made(
        self, make: Callable[..., int], columns: Sequence[Array], rows: Rows | None = None
    ) -> Array:
        """What is made of the values in each row, once for equal rows."""
        count = rows.count if rows is not None else len(columns[0])
        known: dict[Hashable, int] = {}
        found = []
        for r in zip(*[c.tolist() for c in columns], strict=True) if columns else [()] * count:
            n = known.get(r)
            if n is None:
                n = known[r] = make(*r)
            found.append(n)
        return np.array(found, dtype=np.int64)

    def products(self, atoms: Mapping[Expr, int], rows: Rows) -> tuple[Array, Array]:
        """(products of powers without their numbers, these numbers: nan where a factor is 1/0)."""
        columns = [self.of(e, rows) for e in atoms]
        powers = list(atoms.values())
        whole = self._made(
            lambda *n: self.table.product(zip(n, powers, strict=True)), columns, rows
        )
        some, place = np.unique(whole, return_inverse=True)
        parts = [self.table.parts(n) for n in some.tolist()]
        bad = [n in self.table.undefined for n in some.tolist()]
        made = np.array([n for _, n in parts], dtype=np.int64)
        numbers = np.array([n for n, _ in parts], dtype=float)
        numbers[np.array(bad, dtype=bool)] = np.nan
        return made[place.ravel()], numbers[place.ravel()]

    def _node(self, what: Hashable, args: Sequence[Expr], rows: Rows) -> Array:
        columns = [self.numbers(a, rows) for a in args]
        return self._made(lambda *n: self.table.number(what, n), columns, rows)

    def _call(self, e: Call, rows: Rows) -> Array:
        table, op = self.table, e.op
        match e:
            case Call(op="pow", args=(a, Const(value=n))) if abs(n) < 64 and n == int(n):
                power = int(n)
                return self._made(
                    lambda x: table.product([(x, power)]), [self.numbers(a, rows)], rows
                )
            case Call(op="le" | "ge", args=args) if args[0].dtype.is_integer:
                columns = [self.numbers(a, rows) for a in (args if op == "ge" else args[::-1])]
                return self._made(lambda *n: table.of("not", (table.of("lt", n),)), columns, rows)
        columns = [self.numbers(a, rows) for a in e.args]
        return self._made(lambda *n: table.of(op, n), columns, rows)

    def _select(self, e: Select, rows: Rows) -> Array:
        """Each side only where it may be chosen: loops elsewhere may have other bounds."""
        c = self.numbers(e.cond, rows)
        sides = []
        for side, other in ((e.then, self.table.false), (e.orelse, self.table.true)):
            column = np.zeros(rows.count, dtype=np.int64)
            used = c != other
            if used.any():
                some = rows if used.all() else rows.where(used).from_here()
                column[used] = self.numbers(side, some)
            sides.append(column)
        found = np.where(c == self.table.true, sides[0], sides[1])
        open_ = (c != self.table.true) & (c != self.table.false)
        if open_.any():
            columns = [x[open_] for x in (c, *sides)]
            found[open_] = self._made(self.table.select, columns)
        return found

    def _folded(self, e: Reduce, rows: Rows) -> Array:
        parts = conjuncts(e.condition)
        asked = [p for p in parts if occurs(_VALUES, p)]
        points = self.along(rows.from_here(), e.axes, [p for p in parts if not occurs(_VALUES, p)])
        inside = points.from_here()
        columns = [self.numbers(s, inside) for s in e.sources]
        of, table = ("mul", self.table) if e.combiner.is_sum else ("and", self.table)
        holds = [self.numbers(p, inside) for p in asked]
        if (e.combiner.is_sum and asked) or len(holds) > 1:
            made = [*holds, *columns] if e.combiner.is_sum else holds
            holds = [self._made(lambda *n: table.of(of, n), made)]
        if e.combiner.is_sum:
            order = np.argsort(points.origin, kind="stable")
            steps: list[Any] = (holds or columns)[0].tolist()
            fold: Callable[[Sequence[Any]], int] = table.total
        else:
            order = np.lexsort((*[points.axes[a] for a in reversed(e.axes)], points.origin))
            steps = list(zip(*[c.tolist() for c in (*holds, *columns)], strict=True))
            what = ("fold", e.combiner, e.index)
            fold = partial(self._fold, what, guarded=bool(asked))
        ends = np.searchsorted(points.origin[order], np.arange(rows.count + 1)).tolist()
        at = order.tolist()
        made = [fold([steps[n] for n in at[a:b]]) for a, b in pairwise(ends)]
        return np.array(made, dtype=np.int64)

    def _fold(self, what: Hashable, steps: Sequence[tuple[int, ...]], *, guarded: bool) -> int:
        """A fold by its steps; those that are surely left out are no steps."""
        table = self.table
        if guarded:
            taken = [s for s in steps if s[0] != table.false]
        else:
            taken = [(table.true, *s) for s in steps]
        return table.number((what, len(taken)), [n for s in taken for n in s])


def _keeps(given: DType, dtype: DType) -> bool:
    """Whether every integer of a dtype is one of another."""
    return (
        given.is_integer
        and dtype.is_integer
        and dtype.lowest <= given.lowest
        and given.highest <= dtype.highest
    )


def _keys(columns: Sequence[Array], count: int) -> Sequence[Hashable]:
    """What tells rows apart."""
    if len(columns) == 1:
        found: list[Hashable] = columns[0].tolist()
        return found
    return list(zip(*[c.tolist() for c in columns], strict=True)) if columns else [()] * count
