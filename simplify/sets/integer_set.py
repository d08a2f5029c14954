"""Integer sets (isl): with `space.py`, `visit_points.py` the only importers of islpy.

Takes and returns tensorad's expressions. Method: integer sets and parametric projection as in
S. Verdoolaege, "isl: An Integer Set Library for the Polyhedral Model" (ICMS 2010). Every answer
is exact over the integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import islpy as isl

from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Expr,
    Size,
    axis,
    int_const,
    logical_and,
    logical_or,
    select,
)
from tensorad.ir.visit import conjuncts
from tensorad.simplify.index.linear import Linear, about_remainder, ceil_div, floor_div, modulo_form
from tensorad.simplify.index.quasi_affine import axis_conditions, free_parameters
from tensorad.simplify.sets.space import Space, budget

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_IN = isl.dim_type.in_  # how an Aff calls the dims of its domain
_DIV = isl.dim_type.div


class IntegerSet:
    """The values of `space.dims` that satisfy a condition, for each value of the parameters."""

    def __init__(self, space: Space, data: Any) -> None:
        self.space = space
        self._data = data

    @classmethod
    def of(cls, space: Space, *conditions: Expr) -> IntegerSet:
        """The points where all conditions hold.

        Raises:
            NotAffine: a condition is not quasi-affine.
        """
        data = space.universe
        for c in conditions:
            for part in conjuncts(c):
                data = data.intersect(space.condition(part))
        return cls(space, data.coalesce())

    def _with(self, data: Any) -> IntegerSet:
        return IntegerSet(self.space, data)

    def intersect(self, other: IntegerSet) -> IntegerSet:
        return self._with(self._data.intersect(other._data))

    def minus(self, other: IntegerSet) -> IntegerSet:
        return self._with(self._data.subtract(other._data))

    def is_empty(self) -> bool:
        return bool(self._data.is_empty())

    def implies(self, condition: Expr) -> bool:
        """Whether the condition holds at every point."""
        return bool(self._data.is_subset(self.space.condition(condition)))

    def is_subset(self, other: IntegerSet) -> bool:
        return bool(self._data.is_subset(other._data))

    def equals(self, other: IntegerSet) -> bool:
        return bool(self._data.is_equal(other._data))

    def simplify(self) -> IntegerSet:
        """The same set with explicit equalities and divisions."""
        return self._with(self._data.detect_equalities().coalesce().compute_divs())

    def disjoint_pieces(self) -> list[IntegerSet]:
        """Convex pieces without common points; one if the set is its own convex hull."""
        if self._data.n_basic_set() <= 1:
            return [] if self.is_empty() else [self]
        hull = isl.Set.from_basic_set(self._data.simple_hull())
        if hull.is_equal(self._data):
            return [self._with(hull)]
        disjoint = self._data.make_disjoint().coalesce().compute_divs()
        return [self._with(isl.Set.from_basic_set(b)) for b in disjoint.get_basic_sets()]

    def components(self) -> list[tuple[Axis, ...]]:
        """Dims that share a constraint, directly or not, in order of their first dim."""
        owner = list(range(len(self.space.dims)))

        def find(n: int) -> int:
            while owner[n] != n:
                n = owner[n]
            return n

        for basic in self._data.compute_divs().get_basic_sets():
            for constraint in basic.get_constraints():
                involved = [n for n in range(len(owner)) if _involves(constraint.get_aff(), _IN, n)]
                for a, b in pairwise(involved):
                    low, high = sorted((find(a), find(b)))
                    owner[high] = low
        groups: dict[int, list[Axis]] = {}
        for position, dim in enumerate(self.space.dims):
            groups.setdefault(find(position), []).append(dim)
        return [tuple(g) for g in groups.values()]

    def restrict_to(self, dims: Sequence[Axis], as_params: Sequence[Axis] = ()) -> IntegerSet:
        """The projection onto `as_params` (now parameters) and `dims`."""
        space = Space((*self.space.params, *as_params), dims)
        old = {a: n for n, a in enumerate(self.space.dims)}
        keep = [*as_params, *dims]
        drop = sorted(set(range(len(old))) - {old[a] for a in keep}, reverse=True)
        data = self._data
        left = list(self.space.dims)
        for n in drop:
            data = data.project_out(_SET, n, 1)
            del left[n]
        for a in as_params:
            position = next(n for n, b in enumerate(left) if b is a)
            data = data.move_dims(_PARAM, data.dim(_PARAM), _SET, position, 1)
            del left[position]
        for target, a in enumerate(dims):  # the order of `dims`
            position = next(n for n, b in enumerate(left) if b is a)
            if position != target:
                raise ValueError("dims keep their order")
        for n in range(len(space.params)):
            data = data.set_dim_name(_PARAM, n, f"p{n}")
        for n in range(len(space.dims)):
            data = data.set_dim_name(_SET, n, f"v{n}")
        return IntegerSet(space, data)

    def is_singleton(self) -> bool:
        """Whether there is at most one point for each value of the parameters."""
        return bool(self._data.is_singleton())

    def static_range(self, a: Axis) -> tuple[int, int] | None:
        """The smallest and largest value of a dim over all parameters; None if unbounded."""
        n = self._position(a)
        data = self._data.project_out(_PARAM, 0, self._data.dim(_PARAM))
        low, high = data.dim_min_val(n), data.dim_max_val(n)
        if not low.is_int() or not high.is_int():
            return None
        return int(low.to_str()), int(high.to_str())

    def _position(self, a: Axis) -> int:
        return next(n for n, b in enumerate(self.space.dims) if b is a)

    def bounds(self, a: Axis) -> tuple[list[Expr], list[Expr]]:
        """Inclusive lower and upper bounds of a dim, from constraints free of divisions by it."""
        n = self._position(a)
        lowers: dict[Expr, None] = {}
        uppers: dict[Expr, None] = {}
        basics = list(self._data.compute_divs().get_basic_sets())
        union = len(basics) > 1
        if union:
            basics.append(self._data.simple_hull().compute_divs().get_basic_sets()[0])
        for basic in basics:
            for constraint in basic.get_constraints():
                aff = constraint.get_aff()
                c = int(aff.get_coefficient_val(_IN, n).to_str())
                if c == 0 or _div_involves(aff, _IN, n):
                    continue
                rest = self._linear(aff)
                rest.drop(a)
                if c > 0 or constraint.is_equality():
                    negated = rest.scaled(-1 if c > 0 else 1)
                    lowers[ceil_div(negated, abs(c))] = None
                if c < 0 or constraint.is_equality():
                    positive = rest.scaled(1 if c < 0 else -1)
                    uppers[floor_div(positive, abs(c))] = None
        if union:  # a bound of one part need not hold in another
            return (
                [e for e in lowers if self.implies(a >= e)],
                [e for e in uppers if self.implies(a <= e)],
            )
        return list(lowers), list(uppers)

    def largest(self, e: Expr) -> int | None:
        """The largest value of an expression over all points; None if there is none."""
        value = self.space.affine(e).intersect_domain(self._data).floor().max_val()
        return int(value.to_str()) if value.is_int() else None

    def where_parameters_of(self, other: IntegerSet) -> IntegerSet:
        """The points at whose parameters `other` has points."""
        return self._with(self._data.intersect_params(other._data.params()))

    def lifted(self) -> IntegerSet | None:
        """The set with the quotients in its constraints as further dims; None if there are none.

        Requires: one convex piece. Each point keeps exactly one image.
        """
        (basic,) = self._data.compute_divs().get_basic_sets()
        data = isl.Set.from_basic_set(basic.lift()).flatten()
        own = len(self.space.dims)
        for n in range(basic.dim(_DIV) - 1, -1, -1):
            div = basic.get_div(n)
            if not any(_involves(div, _IN, d) for d in range(own)):
                data = data.project_out(_SET, own + n, 1)
        count = data.dim(_SET) - own
        if not count:
            return None
        dims = (*self.space.dims, *[axis(f"t{n}", 0, 0) for n in range(count)])
        for n in range(len(dims)):
            data = data.set_dim_name(_SET, n, f"v{n}")
        return IntegerSet(Space(self.space.params, dims), data.coalesce())

    def stride(self, a: Axis) -> tuple[int, Expr]:
        """(s, offset) with a = offset modulo s at every point; (1, 0) if there is none."""
        info = self._data.get_stride_info(self._position(a))
        s = int(info.get_stride().to_str())
        offset = self._linear(info.get_offset().floor()).to_expr()
        # isl 0.27's offset was once seen wrong: use it only when it is proved
        if s > 1 and self.implies((a - offset) % s == 0):
            return s, offset
        return 1, int_const(0)

    def value_of(self, a: Axis) -> Expr | None:
        """The value of the only dim as an expression of the parameters, if isl has one piece."""
        value = self._data.as_pw_multi_aff().get_pw_aff(self._position(a)).coalesce()
        pieces = _pieces(value)
        if not pieces:
            return None
        over = Space(self.space.params, ())
        result: Expr = _to_linear(pieces[-1][1].floor(), over).to_expr()
        for domain, aff in reversed(pieces[:-1]):
            guard = IntegerSet(over, domain).to_condition()
            result = select(guard, _to_linear(aff.floor(), over).to_expr(), result)
        return result

    def parameter_guard(self, context: IntegerSet) -> Expr:
        """The condition on the parameters under which the set has points, given `context`."""
        own = self._data.project_out(_SET, 0, self._data.dim(_SET))
        given = context._data.project_out(_SET, 0, context._data.dim(_SET))
        guard = own.coalesce().gist(given).coalesce().compute_divs()
        return IntegerSet(Space(self.space.params, ()), guard).to_condition()

    def gist_condition(self, context: IntegerSet) -> Expr:
        """What has to be tested, given that the point lies in `context`."""
        rest = self._data.gist(context._data).coalesce().compute_divs()
        return self._with(rest).to_condition()

    def to_condition(self) -> Expr:
        """The set as an expression."""
        result: Expr = FALSE
        for basic in self._data.compute_divs().get_basic_sets():
            parts: Expr = TRUE
            for constraint in basic.get_constraints():
                parts = logical_and(parts, self._constraint(constraint))
            result = logical_or(result, parts)
        return result

    def _constraint(self, constraint: Any) -> Expr:
        linear = self._linear(constraint.get_aff())
        known = about_remainder(linear, equal=bool(constraint.is_equality()))
        if known is not None:
            return known
        positive, negative = linear.split_signs()
        if constraint.is_equality():
            return positive.to_expr() == negative.to_expr()
        if not positive.terms:
            return negative.to_expr() <= positive.to_expr()
        return positive.to_expr() >= negative.to_expr()

    def sample(self) -> dict[Expr, int] | None:
        """The lexicographically first point (parameters first), or None if empty."""
        if self.is_empty():
            return None
        n = self._data.dim(_PARAM)
        flat = self._data.move_dims(_SET, 0, _PARAM, 0, n)
        point = flat.lexmin().sample_point()
        leaves = (*self.space.params, *self.space.dims)
        return {
            leaf: int(point.get_coordinate_val(_SET, k).to_str()) for k, leaf in enumerate(leaves)
        }

    def _linear(self, aff: Any) -> Linear:
        return _to_linear(aff, self.space)


def _involves(aff: Any, kind: Any, n: int) -> bool:
    return not aff.get_coefficient_val(kind, n).is_zero() or _div_involves(aff, kind, n)


def _div_involves(aff: Any, kind: Any, n: int) -> bool:
    return any(
        not aff.get_coefficient_val(_DIV, d).is_zero() and _involves(aff.get_div(d), kind, n)
        for d in range(aff.dim(_DIV))
    )


def _pieces(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    value.foreach_piece(lambda domain, aff: found.append((domain, aff)))
    return found


def _to_linear(aff: Any, space: Space) -> Linear:
    """Numerator of an Aff over its denominator: floor(numerator / denominator)."""
    denominator = aff.get_denominator_val()
    whole = aff.scale_val(denominator)
    terms: dict[Expr, int] = {}
    for kind, leaves in ((_PARAM, space.params), (_IN, space.dims)):
        for n, leaf in enumerate(leaves):
            c = int(whole.get_coefficient_val(kind, n).to_str())
            if c:
                terms[leaf] = c
    linear = Linear(terms, int(whole.get_constant_val().to_str()))
    for d in range(whole.dim(_DIV)):
        c = int(whole.get_coefficient_val(_DIV, d).to_str())
        if c:
            inner = whole.get_div(d)
            numerator = _to_linear(inner.scale_val(inner.get_denominator_val()), space)
            linear = modulo_form(linear, c, numerator, int(inner.get_denominator_val().to_str()))
    scale = int(denominator.to_str())
    return linear if scale == 1 else Linear({floor_div(linear, scale): 1}, 0)


def find_point(axes: Sequence[Axis], condition: Expr, facts: Expr = TRUE) -> dict[Expr, int] | None:
    """A point (sizes first) where `condition` holds inside the axes' bounds; None if there is none.

    Raises:
        NotAffine: a bound or the condition is not quasi-affine.
        BudgetExceeded: isl gave up.
    """
    sizes = [e for e in free_parameters(axes, condition, facts) if isinstance(e, Size)]
    space = Space(sizes, axes)
    with budget():
        conditions = [axis_conditions(a) for a in axes]
        positive = [s >= 0 for s in sizes]
        return IntegerSet.of(space, *positive, facts, *conditions, condition).sample()
