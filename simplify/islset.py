"""Integer sets (isl): the only importer of islpy. Takes and returns tensorad's expressions.

Method: integer sets and parametric projection as in S. Verdoolaege, "isl: An Integer Set
Library for the Polyhedral Model" (ICMS 2010). Every answer is exact over the integers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import islpy as isl

from tensorad import config
from tensorad.errors import TensoradError
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Size,
    int_const,
    logical_and,
    logical_or,
    select,
)
from tensorad.ir.visit import conjuncts, postorder
from tensorad.simplify.affine import axis_conditions, free_parameters, widens
from tensorad.simplify.linear import Linear, ceil_div, floor_div, modulo_form

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_IN = isl.dim_type.in_  # how an Aff calls the dims of its domain
_DIV = isl.dim_type.div
_thread = threading.local()


class NotAffine(TensoradError):
    """The expression is outside quasi-affine integer arithmetic."""


class BudgetExceeded(TensoradError):
    """isl spent more operations than `config.isl_operations`."""


def _context() -> Any:
    """One isl context per thread: isl objects are never shared between threads."""
    if not hasattr(_thread, "context"):
        _thread.context = isl.Context()
    return _thread.context


@contextmanager
def budget(operations: int | None = None) -> Iterator[None]:
    """Bound the isl work of a block.

    Raises:
        BudgetExceeded: the block needed more than `operations` (default: the setting).
    """
    ctx = _context()
    ctx.reset_operations()
    ctx.set_max_operations(operations or config.current().isl_operations)
    try:
        yield
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise BudgetExceeded(str(error)) from None
        raise
    finally:
        ctx.set_max_operations(0)
        ctx.reset_operations()


class Space:
    """Names for leaves: `params` (sizes and outer axes) and `dims` (inner axes)."""

    def __init__(self, params: Sequence[Expr], dims: Sequence[Axis]) -> None:
        self.params = tuple(params)
        self.dims = tuple(dims)
        names = [f"p{n}" for n in range(len(params))], [f"v{n}" for n in range(len(dims))]
        made = isl.make_zero_and_vars(names[1], names[0], _context())
        self.zero: Any = made[0]
        self._values: dict[Expr, Any] = {}
        self._sets: dict[Expr, Any] = {}
        for leaf, name in zip((*params, *dims), (*names[0], *names[1]), strict=True):
            self._values[leaf] = made[name]
        self.universe: Any = self.zero.eq_set(self.zero)

    def _constant(self, value: int) -> Any:
        return self.zero + isl.Val(str(value), context=_context())

    def affine(self, root: Expr) -> Any:
        """The PwAff of an integer expression."""
        self._convert(root)
        return self._values[root]

    def condition(self, root: Expr) -> Any:
        """The Set where a boolean expression holds."""
        self._convert(root)
        return self._sets[root]

    def _convert(self, root: Expr) -> None:
        if root in self._values or root in self._sets:
            return
        for e in postorder(root):
            if e in self._values or e in self._sets:
                continue
            if e.dtype == "bool":
                self._sets[e] = self._to_set(e)
            elif e.dtype.is_integer:
                self._values[e] = self._to_aff(e)
            else:
                raise NotAffine(str(e))

    def _to_aff(self, e: Expr) -> Any:
        values = self._values
        match e:
            case Const():
                return self._constant(int(e.value))
            case Call(op="add", args=(a, b)):
                return values[a] + values[b]
            case Call(op="sub", args=(a, b)):
                return values[a] - values[b]
            case Call(op="neg", args=(a,)):
                return values[a].neg()
            case Call(op="mul", args=(a, b)):
                return self._product(e, a, b)
            case Call(op="floordiv" | "mod", args=(a, Const() as c)):
                return self._division(e, values[a], int(c.value))
            case Call(op="minimum", args=(a, b)):
                return values[a].min(values[b])
            case Call(op="maximum", args=(a, b)):
                return values[a].max(values[b])
            case Call(op="abs", args=(a,)):
                return values[a].max(values[a].neg())
            case Select(cond=c, then=a, orelse=b):
                chosen = self._sets[c]
                other = values[b].intersect_domain(chosen.complement())
                return values[a].intersect_domain(chosen).union_add(other)
            case Cast(value=v) if v.dtype == "bool":
                holds = self._sets[v]
                one = self._constant(1).intersect_domain(holds)
                return one.union_add(self.zero.intersect_domain(holds.complement()))
            case Cast(value=v) if v.dtype.is_integer and widens(v, e):
                return values[v]
        raise NotAffine(str(e))

    def _product(self, e: Expr, a: Expr, b: Expr) -> Any:
        for factor, other in ((a, b), (b, a)):
            if isinstance(factor, Const):
                return self._values[other].scale_val(
                    isl.Val(str(int(factor.value)), context=_context())
                )
        raise NotAffine(str(e))

    def _division(self, e: Call, value: Any, divisor: int) -> Any:
        """a // -c is (-a) // c; a % c is a - c*(a // c), for either sign of c."""
        if divisor == 0:
            raise NotAffine(str(e))
        scale = isl.Val(str(abs(divisor)), context=_context())
        quotient = (value if divisor > 0 else value.neg()).scale_down_val(scale).floor()
        if e.op == "floordiv":
            return quotient
        return value - quotient.scale_val(isl.Val(str(divisor), context=_context()))

    def _to_set(self, e: Expr) -> Any:
        match e:
            case Const():
                return self.universe if e.value else self.universe.complement()
            case Call(op="and", args=(a, b)):
                return self._sets[a].intersect(self._sets[b])
            case Call(op="or", args=(a, b)):
                return self._sets[a].union(self._sets[b])
            case Call(op="not", args=(a,)):
                return self._sets[a].complement()
            case Call(op="lt" | "le" | "gt" | "ge" | "eq" | "ne", args=(a, b)):
                if a.dtype.is_integer:
                    compare = getattr(self._values[a], f"{e.op}_set")
                    return compare(self._values[b])
            case Select(cond=c, then=a, orelse=b):
                chosen = self._sets[c]
                other = self._sets[b].subtract(chosen)
                return self._sets[a].intersect(chosen).union(other)
        raise NotAffine(str(e))


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

        for basic in self._data.get_basic_sets():
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
        for basic in self._data.compute_divs().get_basic_sets():
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
        return list(lowers), list(uppers)

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
