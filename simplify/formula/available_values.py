"""Values that a program computes already: sums and products found again in other formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tensorad.ir.expr import Axis, Call, Expr, Read, Reduce, read
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import postorder, reads, substitute
from tensorad.simplify.formula.laurent import Monomial, Ring, Sum, TooLong
from tensorad.simplify.formula.normal_form import Interned, Normal

Product = tuple[tuple[Axis, ...], Monomial, Fraction]


class Readable(dict[Tensor, None]):
    """Values that may be read; it remembers being asked for another one."""

    missed = False

    def __contains__(self, t: object) -> bool:
        found = super().__contains__(t)
        self.missed = self.missed or not found
        return found


class AvailableValues:
    """The sums and products among the values of some operations, by the tensors they read."""

    def __init__(self, interned: Interned, ops: Iterable[Op]) -> None:
        self.interned = interned
        self.sums: dict[Tensor, list[Tensor]] = {}
        """tensor -> values that are a sum over reads of it."""
        self.products: dict[Tensor, list[Tensor]] = {}
        self.factors: dict[Tensor, dict[Tensor, None]] = {}
        """value -> the tensors it reads."""
        self.forms: dict[Tensor, Sum | None] = {}
        self.found: dict[Expr, Read | None] = {}
        for op in ops:
            for t in outputs(op):
                self.add(t)

    def add(self, t: Tensor) -> None:
        """One more value that may be read."""
        if not isinstance(t.op, Compute) or not t.dtype.is_float:
            return
        body = t.op.bodies[t.index]
        if isinstance(body, Reduce):
            table = self.sums if body.combiner.is_sum else None
        else:
            plain = isinstance(body, Call) and body.op in ("mul", "div")
            table = self.products if plain and not occurs(REDUCE, body) else None
        if table is not None:
            self.found.clear()
            self.factors[t] = inner = dict.fromkeys(r.tensor for r in reads(body))
            for u in inner if table is self.sums or len(inner) > 1 else ():
                table.setdefault(u, []).append(t)

    def may_contain_product(self, among: Sequence[Read]) -> bool:
        """Whether all that some known product reads is among these reads' tensors."""
        present = {r.tensor: None for r in among}
        return any(
            all(u in present for u in self.factors[t])
            for u in present
            for t in self.products.get(u, ())
        )

    def sum_read(self, atom: Reduce) -> Read | None:
        """A read of the value that is this (interned) sum."""
        if atom not in self.found:
            self.found[atom] = self._sum_read(atom)
        return self.found[atom]

    def _sum_read(self, atom: Reduce) -> Read | None:
        inner = reads(atom)
        candidates = self._candidates(inner)
        for anchor in [r for r in inner if r.tensor in self.sums][:2] if candidates else ():
            for t in candidates:
                if anchor.tensor not in self.factors[t]:
                    continue
                found = self._read_as(t, atom, anchor)
                if found is not None:
                    return found
        return None

    def _candidates(self, inner: Sequence[Read]) -> list[Tensor]:
        """The sums, in order, that read every tensor read here but those that indices come from.

        Of a tensor that many sums read (the weights of all steps) few read all the others, too.
        """
        indexing = {s.tensor: None for r in inner for s in reads(*r.indices)}
        needed = [t for t in dict.fromkeys(r.tensor for r in inner) if t not in indexing]
        if not needed:
            return list(dict.fromkeys(t for r in inner for t in self.sums.get(r.tensor, ())))
        fewest = min([self.sums.get(u, []) for u in needed], key=len)
        return [t for t in fewest if all(u in self.factors[t] for u in needed)]

    def _read_as(self, t: Tensor, atom: Reduce, anchor: Read) -> Read | None:
        form = self._form(t)
        single = None if form is None else form.single()
        if single is None or not isinstance(t.op, Compute):
            return None
        monomial, coefficient = single
        if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
            return None
        own = monomial[0][0]
        for r in reads(own):
            if r.tensor is anchor.tensor:
                values = _bind(t.op.axes, r, anchor)
                if values is None or _captures(values, atom):
                    continue
                if self._same(own, values, atom):
                    return _read_at(t, values)
        return None

    def _same(self, own: Expr, values: Mapping[Expr, Expr], atom: Reduce) -> bool:
        normal = Normal(self.interned)
        try:
            found = normal.form(substitute(own, values)).single()
        except TooLong:
            return False
        return found is not None and len(found[0]) == 1 and found[0][0][0] is atom

    def _form(self, t: Tensor) -> Sum | None:
        if t not in self.forms and isinstance(t.op, Compute):
            try:
                self.forms[t] = Normal(self.interned).body(t.op.axes, t.op.bodies[t.index])
            except TooLong:
                self.forms[t] = None
        return self.forms[t]

    def refold(self, ring: Ring, total: Sum, readable: Mapping[Tensor, object]) -> Sum:
        """a * e / s -> a * Y, where Y = e / s is a readable value."""
        if not any(
            isinstance(a, Read) and a.tensor in self.products for m in total.terms for a, _ in m
        ):
            return total
        terms: dict[Monomial, Fraction] = {}
        for m, c in total.terms.items():
            folded, factor = self._refold(ring, m, readable)
            terms[folded] = terms.get(folded, Fraction(0)) + c * factor
        return Sum(terms)

    def _refold(
        self, ring: Ring, m: Monomial, readable: Mapping[Tensor, object]
    ) -> tuple[Monomial, Fraction]:
        for atom, _ in m:
            if not isinstance(atom, Read):
                continue
            for t in self.products.get(atom.tensor, ()):
                if t not in readable:
                    continue
                for monomial, value, coefficient in self._instances(t, atom):
                    rest = _quotient(m, monomial)
                    if rest is not None:
                        return ring.product((*rest, (value, 1))), 1 / coefficient
        return m, Fraction(1)

    def _instances(self, t: Tensor, anchor: Read) -> Iterable[tuple[Monomial, Read, Fraction]]:
        """The value t at the indices at which its formula contains the anchor."""
        form = self._form(t)
        single = None if form is None else form.single()
        if single is None or not isinstance(t.op, Compute):
            return
        monomial, coefficient = single
        if sum(abs(p) for _, p in monomial) < 2:
            return
        for own, _ in monomial:
            if isinstance(own, Read) and own.tensor is anchor.tensor:
                values = _bind(t.op.axes, own, anchor)
                if values is not None:
                    images = tuple([(substitute(a, values), p) for a, p in monomial])
                    yield images, _read_at(t, values), coefficient


def _bind(axes: Sequence[Axis], own: Read, anchor: Read) -> dict[Expr, Expr] | None:
    """Values of the axes that turn the read `own` into `anchor`, if its indices name them."""
    values: dict[Expr, Expr] = {a: a.lower for a in axes if a.extent == 1}
    free = dict.fromkeys(axes)
    for mine, other in zip(own.indices, anchor.indices, strict=True):
        if mine in free:
            if mine in values and values[mine] is not other:
                return None
            values[mine] = other
        elif mine is not other:
            return None
    return values if all(a in values for a in axes) else None


def _captures(values: Mapping[Expr, Expr], atom: Reduce) -> bool:
    """Whether a value varies along the sum: it has no meaning outside of it."""
    bound = dict.fromkeys(atom.axes)
    return any(e in bound for v in values.values() for e in postorder(v))


def _read_at(t: Tensor, values: Mapping[Expr, Expr]) -> Read:
    if not isinstance(t.op, Compute):
        raise TypeError(f"{t.name} is not a compute")
    return read(t, tuple([values[a] for a in t.op.axes]))


def _quotient(m: Monomial, divisor: Monomial) -> Monomial | None:
    """m / divisor, if no power of m grows by it."""
    powers = dict(m)
    for atom, p in divisor:
        have = powers.get(atom, 0)
        if have * p <= 0 or abs(have) < abs(p):
            return None
        powers[atom] = have - p
    return tuple([(a, p) for a, p in powers.items() if p])
