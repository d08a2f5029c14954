"""Formulas as sums of products: definitions unfolded, reductions split into invariant factors
times reductions that are equal whenever their formulas are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    axis,
    cast,
    logical_and,
    read,
    reduce_expr,
)
from tensorad.ir.order import REDUCE, above
from tensorad.ir.visit import (
    children,
    free_leaves,
    fresh_axes,
    outside_reductions,
    rewrite,
    substitute,
    substitute_all,
    uses_any,
)
from tensorad.simplify.formula.dataflow import Definition
from tensorad.simplify.formula.factors import product
from tensorad.simplify.formula.indicators import indicator
from tensorad.simplify.formula.invariant_factors import Factor, beside
from tensorad.simplify.formula.laurent import (
    Monomial,
    Ring,
    Sum,
    TooLong,
    constant,
    is_indicator,
    rational,
)
from tensorad.simplify.index.quasi_affine import free_parameters, starts_at_zero
from tensorad.simplify.zeros.passes import is_solved, nonzero_body

Define = Callable[[Read], Definition | None]
"""What a read stands for, if it is to be unfolded."""

_MAX_NODES: Final = 400
"""Nodes looked at for one normal form; beyond that it is too long."""
_MAX_PROOF: Final = 48
"""The same for a proof: those of softmax and layer normalisation take 10 to 35."""
_SOLVING: Final = 8
"""What finding the points of a condition costs, in nodes."""
_MAX_POWER: Final = 4
_RATIONAL: Final = ("add", "sub", "neg", "mul", "div")


class Interned:
    """Sums that are one object whenever they are equal up to the names and order of factors."""

    def __init__(self) -> None:
        self.axes: dict[tuple[object, ...], Axis] = {}
        self.levels: dict[Expr, int] = {}
        self.sums: dict[tuple[object, ...], Expr] = {}
        self.parts: dict[Expr, tuple[Combiner, tuple[Axis, ...], tuple[Factor, ...], Expr]] = {}
        """What each of the sums is made of."""

    def axis_like(self, a: Axis, bounds: Sequence[Expr], level: int) -> Axis:
        """The axis that stands for every axis with these bounds on this level of nesting."""
        key = (*bounds, level)
        if key not in self.axes:
            self.axes[key] = axis(a.name, *bounds)
            self.levels[self.axes[key]] = level
        return self.axes[key]

    def rename(self, axes: Sequence[Axis], roots: Sequence[Expr]) -> dict[Expr, Expr]:
        """axis -> the axis that stands for it above all reductions under the roots.

        Requires: those reductions are over axes that stand for their own.
        """
        inner = [a for e in above(REDUCE, *roots) if isinstance(e, Reduce) for a in e.axes]
        level = 1 + max((self.levels.get(a, 0) for a in inner), default=0)
        mapping: dict[Expr, Expr] = {}
        for n, a in enumerate(axes):
            bounds = substitute_all((a.lower, a.upper, a.step), mapping)
            mapping[a] = self.axis_like(a, bounds, level + n)
        return mapping

    def reduction(self, e: Reduce) -> Expr:
        """Any reduction over axes that stand for its own."""
        mapping = self.rename(e.axes, e.sources)
        *sources, condition = substitute_all((*e.sources, e.condition), mapping)
        axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
        return reduce_expr(e.combiner, tuple(sources), axes, condition, e.index)

    def closed(self, root: Expr) -> Expr:
        """The formula with all its reductions over axes that stand for their own."""

        def rule(e: Expr) -> Expr | None:
            return self.reduction(e) if isinstance(e, Reduce) else None

        return rewrite(root, rule, kinds=REDUCE)

    def sum_of(
        self, combiner: Combiner, axes: Sequence[Axis], inner: Monomial, condition: Expr
    ) -> Expr:
        """The sum of a product."""
        atoms = [self.closed(atom) for atom, _ in inner]
        mapping = self.rename(axes, atoms)
        *renamed, where = substitute_all((*atoms, condition), mapping)
        powers = [p for _, p in inner]
        images = tuple(zip(renamed, powers, strict=True))
        own = tuple([a for a in mapping.values() if isinstance(a, Axis)])
        key = (combiner, own, frozenset(images), where)
        if key not in self.sums:
            source = product(images, Fraction(1), combiner.identity[0].dtype)
            self.sums[key] = reduce_expr(combiner, (source,), own, where)
            self.parts[self.sums[key]] = (combiner, own, images, where)
        return self.sums[key]

    def merged(
        self, combiner: Combiner, axes: Sequence[Axis], inner: Sequence[Factor]
    ) -> tuple[Sequence[Axis], list[Factor]]:
        """sum_i a_i * (sum_j b_ij) -> sum_ij a_i * b_ij, the axes in an order of their own."""
        all_axes, factors = list(axes), []
        for atom, power in inner:
            found = self.parts.get(atom)
            if power != 1 or found is None or found[0] is not combiner or found[3] is not TRUE:
                factors.append((atom, power))
                continue
            fresh = fresh_axes(found[1])
            all_axes += [a for a in fresh.values() if isinstance(a, Axis)]
            factors += [(substitute(a, fresh), p) for a, p in found[2]]
        if len(all_axes) == len(axes):
            return axes, list(inner)
        return _in_order(all_axes), factors


class Normal:
    """Normal forms that share one order of atoms.

    Args:
        define: what reads stand for; None for those that stay.
        refold: applied to every sum of products before invariant factors leave it.
        keep: which sums stay whole as factors (x - mean is exact where x is near its mean,
            x*a - mean*a is not).
        proof: the form is looked at, not written: conversions between float types are the
            identity, conditions are numbers, sums of sums are one sum, reads may be anywhere.
    """

    def __init__(
        self,
        interned: Interned,
        define: Define = lambda e: None,
        refold: Callable[[Ring, Sum], Sum] = lambda ring, s: s,
        keep: Callable[[Expr], bool] = lambda e: False,
        *,
        proof: bool = False,
    ) -> None:
        self.interned = interned
        self.define = define
        self.refold = refold
        self.keep = keep
        self.proof = proof
        self.ring = Ring()
        self.forms: dict[Expr, Sum] = {}
        self.composite: dict[Expr, Sum] = {}
        """Denominators that are sums: the atom that stands for each, and its form."""
        self.left = _MAX_PROOF if proof else _MAX_NODES
        self.around: Sequence[Axis] = ()
        """The axes of the compute."""

    def body(self, axes: Sequence[Axis], body: Expr) -> Sum:
        """The form of a compute's body; an axis of extent 1 is its only value."""
        self.around = axes
        single: dict[Expr, Expr] = {a: a.lower for a in axes if a.extent == 1}
        return self.refold(self.ring, self.form(substitute(body, single)))

    def form(self, root: Expr) -> Sum:
        """The formula as a sum of products of atoms.

        Raises:
            TooLong: the budget is exceeded.
        """
        for e in outside_reductions([root], self._operands):
            if e not in self.forms:
                self.left -= 1
                if self.left < 0:
                    raise TooLong
                self.forms[e] = self._node(e)
        return self.forms[root]

    def is_zero(self, total: Sum) -> bool:
        """Whether the sum is 0 as a rational function."""
        for atom, value in reversed(self.composite.items()):
            powers = [p for m in total.terms for a, p in m if a is atom]
            if powers:
                total = self._cleared(total, atom, value, -min(0, *powers))
        return not total.terms

    def _cleared(self, total: Sum, atom: Expr, value: Sum, times: int) -> Sum:
        """total * atom**times, with the atom's value in its place."""
        result = Sum({})
        for m, c in total.terms.items():
            power = times + sum(p for a, p in m if a is atom)
            part = Sum({tuple([f for f in m if f[0] is not atom]): c})
            for _ in range(power):
                part = self.ring.times(part, value)
            result = result.plus(part)
        return result

    def _operands(self, e: Expr) -> tuple[Expr, ...]:
        if isinstance(e, Call) and e.dtype.is_float:
            if e.op in _RATIONAL:
                return e.args
            if e.op == "pow" and _small_power(e.args[1]) is not None:
                return e.args[:1]
        if self.proof and isinstance(e, Cast) and e.value.dtype.is_float:
            return children(e)
        if self.proof and isinstance(e, Select):
            return (e.then, e.orelse)
        return ()

    def _node(self, e: Expr) -> Sum:
        operands = [self.forms[x] for x in self._operands(e)]
        match e:
            case Const(value=v) if e.dtype.is_float and abs(v) < float("inf"):
                return constant(rational(float(v), e.dtype))
            case Read():
                return self._read(e)
            case Reduce():
                return self._reduce(e)
            case Cast() if operands:
                return operands[0]
            case Cast(value=v) if self.proof and v.dtype is BOOL:
                return indicator(self.ring, v, e.dtype)
            case Select() if operands:
                chosen = indicator(self.ring, e.cond, e.dtype)
                difference = operands[0].plus(operands[1], -1)
                return operands[1].plus(self.ring.times(chosen, difference))
            case Call() if operands:
                return self._call(e, operands)
        return self.ring.atom(e)

    def _call(self, e: Call, operands: list[Sum]) -> Sum:
        match e.op:
            case "add":
                return operands[0].plus(operands[1])
            case "sub":
                return operands[0].plus(operands[1], -1)
            case "neg":
                return operands[0].scaled(-1)
            case "mul":
                return self.ring.times(self._factor(e.args[0]), self._factor(e.args[1]))
            case "div":
                inverse = self._inverse(e.args[1], operands[1])
                return self.ring.times(self._factor(e.args[0]), inverse)
        power = _small_power(e.args[1]) or 1
        base = self._factor(e.args[0]) if power > 0 else self._inverse(e.args[0], operands[0])
        result = base
        for _ in range(abs(power) - 1):
            result = self.ring.times(result, base)
        return result

    def _factor(self, e: Expr) -> Sum:
        """The form of a factor; one atom if it is a sum to be kept."""
        form = self.forms[e]
        if len(form.terms) < 2 or not self.keep(e):
            return form
        match e:
            case Call(op="neg", args=(x,)):
                return self._factor(x).scaled(-1)
            case Call(op="add", args=(x, y)) if x is y:
                return self._factor(x).scaled(2)
        return self.ring.atom(e)

    def _inverse(self, e: Expr, value: Sum) -> Sum:
        found = self.ring.inverse(value)
        if found is not None:
            return found
        self.composite[e] = value
        return self.ring.atom(e, -1)

    def _read(self, e: Read) -> Sum:
        definition = self.define(e)
        if definition is None:
            return self.ring.atom(_at_single(e))
        axes, body = definition
        values: dict[Expr, Expr] = {}
        for a, index in zip(axes, e.indices, strict=True):
            values[a] = a.lower if a.extent == 1 else index
        return self.form(substitute(body, values))

    def _reduce(self, e: Reduce) -> Sum:
        if not e.combiner.is_sum:
            return self.ring.atom(self.interned.closed(e))
        axes, images = _without_single(e.axes)
        source, condition = substitute_all((e.sources[0], e.condition), images)
        total = Sum({})
        self.form(source)
        for m, c in self.refold(self.ring, self._factor(source)).terms.items():
            total = total.plus(self._sum(e.combiner, axes, m, condition).scaled(c))
        return total

    def _sum(self, combiner: Combiner, axes: Sequence[Axis], m: Monomial, condition: Expr) -> Sum:
        """sum(a * f) -> a * sum(f), where f holds the factors that vary over the axes."""
        bound: dict[Expr, None] = dict.fromkeys(axes)
        if condition is not TRUE:
            bound.update(free_leaves(condition))  # it may keep a factor's reads in range
        varying: list[Factor] = []
        factors: list[Factor] = []
        for f in m:
            outside = None
            if not uses_any(f[0], bound):
                outside = f if self.proof else beside(f, axes, condition, self.around)
            (varying if outside is None else factors).append(outside or f)
        if self.proof and condition is TRUE:
            narrow = self._over_fewer_points(combiner, axes, varying)
            if narrow is not None:
                return self.ring.times(Sum({self.ring.product(factors): Fraction(1)}), narrow)
            axes, varying = self.interned.merged(combiner, axes, varying)
        kept, count = list(axes), constant(1)
        if condition is TRUE:
            kept, count = self._drop_unused(axes, [a for a, _ in varying], combiner)
        if varying or kept:
            whole = self.interned.sum_of(combiner, kept, tuple(varying), condition)
            factors.append((whole, 1))
        monomial = self.ring.product(factors)
        return self.ring.times(Sum({monomial: Fraction(1)}), count)

    def _over_fewer_points(
        self, combiner: Combiner, axes: Sequence[Axis], factors: Sequence[Factor]
    ) -> Sum | None:
        """sum(condition * f) -> the sum of f over the points where the condition holds."""
        guards = [a.value for a, _ in factors if isinstance(a, Cast) and a.value.dtype is BOOL]
        if not guards:
            return None
        rest = tuple([f for f in factors if not is_indicator(f[0])])
        source = product(rest, Fraction(1), combiner.identity[0].dtype)
        whole = reduce_expr(combiner, (source,), tuple(axes), logical_and(*guards))
        free = free_parameters((), *free_leaves(whole))  # an axis's bounds may vary over others
        outer = [a for a in reversed(free) if isinstance(a, Axis)]
        self.left -= _SOLVING
        solved = nonzero_body(outer, whole)
        return None if solved is whole or not is_solved(solved) else self.form(solved)

    def _drop_unused(
        self, axes: Sequence[Axis], atoms: Sequence[Expr], combiner: Combiner
    ) -> tuple[list[Axis], Sum]:
        """The axes that the atoms depend on, and how often the others repeat the value."""
        used = free_leaves(*atoms)
        kept: list[Axis] = []
        count = constant(1)
        for a in reversed(axes):
            if a in used or not (
                a.extent is not None or (starts_at_zero(a) and not free_leaves(a.upper))
            ):
                used.update(free_leaves(a.lower, a.upper))
                kept.append(a)
            else:
                count = self.ring.times(count, self._extent(a, combiner))
        return kept[::-1], count

    def _extent(self, a: Axis, combiner: Combiner) -> Sum:
        if a.extent is not None:
            return constant(a.extent)
        return self.ring.atom(cast(a.upper, combiner.identity[0].dtype))


def _without_single(axes: Sequence[Axis]) -> tuple[list[Axis], dict[Expr, Expr]]:
    """The axes of more than one value, and what stands for those replaced."""
    kept: list[Axis] = []
    images: dict[Expr, Expr] = {}
    for a in axes:
        bounds = substitute_all((a.lower, a.upper, a.step), images) if images else ()
        if a.extent == 1:
            images[a] = bounds[0] if bounds else a.lower
            continue
        if any(b is not old for b, old in zip(bounds, (a.lower, a.upper, a.step), strict=False)):
            images[a] = axis(a.name, *bounds)
        image = images.get(a, a)
        assert isinstance(image, Axis)
        kept.append(image)
    return kept, images


def _in_order(axes: Sequence[Axis]) -> list[Axis]:
    """Axes by the texts of their bounds, those that others' bounds need before them."""
    waiting = sorted(axes, key=lambda a: (str(a.lower), str(a.upper)))
    done: list[Axis] = []
    while waiting:
        free = [a for a in waiting if not uses_any(a.lower, waiting)]
        first = next(a for a in free if not uses_any(a.upper, waiting))
        done.append(first)
        waiting = [a for a in waiting if a is not first]
    return done


def _small_power(e: Expr) -> int | None:
    """A constant whole exponent."""
    if isinstance(e, Const) and e.value == int(e.value) and 0 < abs(e.value) <= _MAX_POWER:
        return int(e.value)
    return None


def _at_single(e: Read) -> Read:
    """An index that is an axis of extent 1 is its only value."""
    indices = [i.lower if isinstance(i, Axis) and i.extent == 1 else i for i in e.indices]
    return read(e.tensor, tuple(indices))
