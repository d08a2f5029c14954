"""What data-dependent indices have to be, and which of these facts follow from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isinf

from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.ir.arrays.scan_outputs import last_states
from tensorad.ir.cached import cached_property
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import (
    FALSE,
    ONE,
    TRUE,
    Axis,
    Call,
    Expr,
    Read,
    Reduce,
    Select,
    Size,
    logical_and,
    read,
    select,
)
from tensorad.ir.expr import param as parameter
from tensorad.ir.order import postorder_along
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor, dim_expr, outputs
from tensorad.ir.visit import (
    children,
    conjuncts,
    free_leaves,
    needs,
    outside_reductions,
    reads,
    sizes_in,
    substitute,
    substitute_all,
)
from tensorad.simplify.bounds.reads import dynamic_dimensions
from tensorad.simplify.index.linear import Linear, linear_form
from tensorad.simplify.index.quasi_affine import is_affine
from tensorad.simplify.sets.integer_set import find_point

Key = tuple[int, ...]
"""Nodes by identity; who holds a key holds them, too."""


@dataclass(frozen=True, eq=False)
class Fact:
    """0 <= index < extent at the points of `axes` where all `guards` hold.

    Attributes:
        read: what the index belongs to, a write of a scatter included.
        site: the same as `op` has it.
        axes: the loops that the index and the guards need, outermost first.
        guards: each is evaluated only where those before it hold.
    """

    op: Op
    read: Read
    dimension: int
    site: Read
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]

    @property
    def index(self) -> Expr:
        return self.read.indices[self.dimension]

    @property
    def extent(self) -> Expr:
        return dim_expr(self.read.tensor.shape[self.dimension])

    @property
    def writes(self) -> bool:
        return self.site.tensor.op is self.op

    @property
    def user(self) -> str:
        """How errors call the operation."""
        return self.op.written_name if isinstance(self.op, Scan) else self.op.name

    @property
    def guard(self) -> Expr:
        """The guards as one condition."""
        return short_circuit_and(self.guards)

    def roots(self) -> tuple[Expr, ...]:
        """All that its loops evaluate."""
        bounds = [b for a in self.axes for b in (a.lower, a.upper, a.step)]
        return (*bounds, *self.guards, self.index, self.extent)

    @cached_property
    def form(self) -> Form:
        """The fact in terms that its own axes do not occur in."""
        return Form(self.axes, self.guards, self.index)

    @cached_property
    def elements(self) -> Elements | None:
        """The fact as one about elements of a tensor, if it is."""
        return elements_of(self.axes, self.guards, self.index, self.extent)

    def traits(self) -> list[object]:
        """One of them is the same in two facts if one of the two covers the other."""
        found: list[object] = [self.form.shape]
        return found if self.elements is None else [*found, self.elements.value]

    def covers(self, other: Fact) -> bool:
        """Whether the other holds wherever this one does."""
        mine, its = self.form, other.form
        fewer = mine.shape == its.shape and mine.guards.keys() <= its.guards.keys()
        if fewer and _at_most(self.extent, other.extent, 0):
            return True
        a, b = self.elements, other.elements
        return a is not None and b is not None and a.covers(b)


class Form:
    """An index, its loops and guards with parameters for its axes, by position."""

    def __init__(self, axes: Sequence[Axis], guards: Sequence[Expr], index: Expr) -> None:
        used = needed_axes(axes, (index,))
        order = [a for a in axes if a in used] + [a for a in axes if a not in used]
        common: dict[Expr, Expr] = {a: _stand_in(INT64, n) for n, a in enumerate(order)}
        bounds = [b for a in used for b in (a.lower, a.upper, a.step)]
        nodes = substitute_all((index, *bounds), common)
        self.shape: Key = tuple(map(id, nodes))
        self.guards: dict[Key, tuple[Expr, ...]] = {}
        """What they ask, and how far the loops run that the index does not need."""
        for g in guards:
            own = [a for a in needed_axes(axes, (g,)) if a not in used]
            ends = [b for a in own for b in (a.lower, a.upper, a.step)]
            asked = substitute_all((g, *ends), common)
            self.guards[tuple(map(id, asked))] = asked
        self.nodes = nodes


@dataclass(frozen=True, eq=False)
class Elements:
    """0 <= value + rest < extent for a value made of each element of a tensor in a box.

    Attributes:
        value: which tensor, and what is made of its element.
        node: what is made of it, which `value` identifies.
        box: per dimension the first index and the one behind the last, if they are known.
        shape: the tensor's.
        rest: the least and the largest number that is added.
        complete: whether every element in the box meets the same rest.
    """

    value: tuple[Tensor, int, int]
    node: Expr
    box: tuple[tuple[Linear | None, Linear | None], ...]
    shape: tuple[Linear, ...]
    rest: tuple[float, float]
    extent: Expr
    complete: bool

    def of(self, element: Expr) -> Expr:
        """The value of an element."""
        return substitute(self.node, {_stand_in(element.dtype, 0): element})

    def covers(self, other: Elements) -> bool:
        """Whether the other's elements are among these, and may lie in as wide a range."""
        if not self.complete or self.value != other.value or self.rest[0] > other.rest[0]:
            return False
        if not _at_most(self.extent, other.extent, self.rest[1] - other.rest[1]):
            return False
        return all(map(_covers_range, self.box, other.box, self.shape))


def facts_of(op: Op, into: Tensor | None = None, sizes: bool = False) -> Iterator[Fact]:
    """What the indices of an operation have to be that data may put outside, in order.

    Args:
        into: the tensor that a scatter writes in the place of its own.
        sizes: whether sizes are not checked before.
    """
    dynamic = dynamic_dimensions(op, sizes)
    todo = list(_scopes(op))[::-1] if dynamic else []
    while todo:
        roots, axes, outside = todo.pop()
        order = outside_reductions(roots)
        need = needs(roots, order)
        for e in order:
            guard = _both(outside, need[e])
            if isinstance(e, Read):
                for dimension in dynamic.get(e, ()):
                    yield _fact(op, e, dimension, axes, guard, into)
            elif isinstance(e, Reduce):
                inner = (*axes, *e.axes)
                todo.append((e.sources, inner, _both(guard, e.condition)))
                todo.append(((e.condition,), inner, guard))
                todo.extend(_bounds(axes, e.axes))


Scope = tuple[tuple[Expr, ...], tuple[Axis, ...], Expr]
"""Expressions evaluated in loops over axes where a condition holds."""


def _bounds(around: Sequence[Axis], axes: Sequence[Axis]) -> Iterator[Scope]:
    """The bounds of a nest, read whatever guards what is inside, in the loops outside of each."""
    for n, a in enumerate(axes):
        yield (a.lower, a.upper, a.step), (*around, *axes[:n]), TRUE


def _scopes(op: Op) -> Iterator[Scope]:
    if isinstance(op, Compute):
        yield op.bodies, op.axes, TRUE
    if isinstance(op, Scan):
        cells = () if op.cell is None else (read(last_states(op)[0], op.cell),)
        yield from _bounds((), op.scope)
        yield op.start, op.axes, TRUE
        yield (op.condition,), op.scope, TRUE
        yield (*op.sources, *cells), op.scope, op.condition
    if isinstance(op, Scatter):
        (out,) = outputs(op)
        yield from _bounds((), op.axes)
        for u in op.updates:
            yield (u.condition,), op.axes, TRUE
            yield (u.value, read(out, u.indices)), op.axes, u.condition


def _fact(
    op: Op, e: Read, dimension: int, axes: Sequence[Axis], guard: Expr, into: Tensor | None
) -> Fact:
    index = e.indices[dimension]
    guards = _without_free(axes, index, _guards(guard))
    loops, entered = _needed_loops(axes, (index, *guards))
    named = _named(op, e, into)
    place = dimension - len(e.indices) + len(named.indices)
    return Fact(op, named, place, e, tuple(loops), (*_guards(entered), *guards))


def _named(op: Op, e: Read, into: Tensor | None) -> Read:
    """A read as errors show it; one of the operation's own result is a write."""
    if e.tensor.op is not op:
        return e
    target = op.target if isinstance(op, Scan) else into
    if target is None:
        return e
    return Read(target.dtype, target, e.indices[len(e.indices) - target.ndim :])


def _both(first: Expr, second: Expr) -> Expr:
    """The second condition is evaluated only where the first holds."""
    if first is TRUE:
        return second
    return first if second is TRUE else select(first, second, FALSE)


def short_circuit_and(guards: Sequence[Expr]) -> Expr:
    """Conditions as one, each evaluated only where those before it hold."""
    condition: Expr = TRUE
    for g in guards:
        condition = _both(condition, g)
    return condition


def _guards(condition: Expr) -> tuple[Expr, ...]:
    """What has to hold one after the other for a condition to hold."""
    found: list[Expr] = []
    todo = [condition]
    while todo:
        e = todo.pop()
        if isinstance(e, Select) and e.orelse is FALSE:
            todo.extend((e.then, e.cond))
        elif len(parts := conjuncts(e)) > 1:
            todo.extend(reversed(parts))
        elif isinstance(e, Call) and e.op == "or":
            found.extend(_weakest(e))
        else:
            found.extend(parts)
    return tuple(dict.fromkeys(found))


def _weakest(either: Call) -> tuple[Expr, ...]:
    """a or (a and b) -> a"""
    a, b = [_guards(e) for e in either.args]
    for fewer, more in ((a, b), (b, a)):
        if all(e in dict.fromkeys(more) for e in fewer):
            return fewer
    return (either,)


def counts(index: Expr, a: Axis) -> bool:
    """Whether the index goes up in steps of one along the axis."""
    form = linear_form(index)
    others = [e for e in form.terms if e is not a]
    return form.terms.get(a) == 1 and a.step is ONE and a not in free_leaves(*others)


def needed_axes(axes: Sequence[Axis], roots: Sequence[Expr]) -> dict[Axis, None]:
    """The axes that the roots use, directly or through bounds, outermost first."""
    used = free_leaves(*roots)
    found: list[Axis] = []
    for a in reversed(axes):
        if a in used:
            found.append(a)
            used.update(free_leaves(a.lower, a.upper, a.step))
    return dict.fromkeys(reversed(found))


def _needed_loops(axes: Sequence[Axis], roots: Sequence[Expr]) -> tuple[list[Axis], Expr]:
    """The axes that the roots use, directly or through bounds, and that no other is empty."""
    used = free_leaves(*roots)
    needed: list[Axis] = []
    entered: Expr = TRUE
    for a in reversed(axes):
        filled = a.lower < a.upper
        if a in used:
            needed.append(a)
        elif filled is TRUE:
            continue
        else:
            entered = logical_and(filled, entered)
        used.update(free_leaves(a.lower, a.upper, a.step))
    return needed[::-1], entered


def _without_free(axes: Sequence[Axis], index: Expr, guards: Sequence[Expr]) -> tuple[Expr, ...]:
    """The guards but for those about axes of their own, which hold for some of their values."""
    own = needed_axes(axes, (index,))
    others = [a for a in axes if a not in own and a.extent is not None]
    free = [g for g in guards if not sizes_in(g) and not reads(g) and is_affine(g, others)]
    while free:
        kept = dict.fromkeys(g for g in guards if g not in dict.fromkeys(free))
        touched = needed_axes(axes, (index, *kept))
        alone = [g for g in free if not any(a in touched for a in free_leaves(g))]
        if len(alone) == len(free):
            break
        free = alone
    if not free or find_point(others, logical_and(*free)) is None:
        return tuple(guards)
    return tuple(kept)


def elements_of(
    axes: Sequence[Axis], guards: Sequence[Expr], index: Expr, extent: Expr
) -> Elements | None:
    """0 <= index < extent as a fact about elements of a tensor, if it is."""
    form = linear_form(index)
    data = [e for e in form.terms if reads(e)]
    if len(data) != 1 or form.terms[data[0]] < 0:
        return None
    (value,) = data
    factor = form.terms[value]
    found = _outer_reads(value)
    if found is None or len(found) != 1:
        return None
    (r,) = found
    element = _stand_in(r.dtype, 0)
    made = substitute(value, {r: element})
    if any(leaf is not element for leaf in free_leaves(made)):
        return None
    ranges = Ranges(axes)
    rest = ranges.of_linear(form.plus(Linear({value: factor}, 0), -1))
    return Elements(
        (r.tensor, factor, id(made)),
        made,
        tuple([_range_of(i, ranges) for i in r.indices]),
        tuple([linear_form(dim_expr(n)) for n in r.tensor.shape]),
        rest,
        extent,
        not guards and rest[0] == rest[1] and not isinf(rest[0]) and _is_box(r, axes),
    )


def _outer_reads(root: Expr) -> list[Read] | None:
    """The distinct reads that are not inside of others; None with a reduction among them."""
    leaves = (Read, Reduce)
    every = postorder_along((root,), lambda e: () if isinstance(e, leaves) else children(e))
    found = [e for e in every if isinstance(e, leaves)]
    return None if any(isinstance(e, Reduce) for e in found) else found  # type: ignore[return-value]


def _range_of(index: Expr, ranges: Ranges) -> tuple[Linear | None, Linear | None]:
    form = linear_form(index)
    a = _moving(form)
    if a is not None and _is_fixed(a):
        start = Linear({}, form.constant)
        return start.plus(linear_form(a.lower)), start.plus(linear_form(a.upper))
    low, high = ranges.of_linear(form)
    first = None if isinf(low) else Linear({}, int(low))
    return first, None if isinf(high) else Linear({}, int(high) + 1)


def _moving(form: Linear) -> Axis | None:
    """The axis that an index is, but for a constant."""
    (leaf, factor), *others = [*form.terms.items(), (None, 0)]
    return leaf if isinstance(leaf, Axis) and factor == 1 and len(others) == 1 else None


def _is_fixed(a: Axis) -> bool:
    """Whether a loop is the same wherever it runs."""
    ends = [*linear_form(a.lower).terms, *linear_form(a.upper).terms]
    return a.step is ONE and all(isinstance(e, Size) for e in ends)


def _is_box(r: Read, axes: Sequence[Axis]) -> bool:
    """Whether loops over the axes meet all elements in the ranges of the read's indices."""
    forms = [linear_form(i) for i in r.indices]
    moving = [_moving(f) for f in forms]
    found = dict.fromkeys([a for a in moving if a is not None])
    single = len(found) == sum(a is not None for a in moving)
    plain = all(a is not None or not f.terms for a, f in zip(moving, forms, strict=True))
    return single and plain and all(a in found and _is_fixed(a) for a in axes)


def _covers_range(
    mine: tuple[Linear | None, Linear | None],
    its: tuple[Linear | None, Linear | None],
    extent: Linear,
) -> bool:
    """Whether a range holds all of another inside of [0, extent)."""
    first, end = mine
    other_first, other_end = its
    low = first is not None and (
        _is_at_most(first, Linear({}, 0))
        or (other_first is not None and _is_at_most(first, other_first))
    )
    return (
        low
        and end is not None
        and (_is_at_most(extent, end) or (other_end is not None and _is_at_most(other_end, end)))
    )


def _at_most(a: Expr, b: Expr, more: float) -> bool:
    """Whether a <= b + more for certain."""
    return _is_at_most(linear_form(a), linear_form(b), more)


def _is_at_most(a: Linear, b: Linear, more: float = 0) -> bool:
    difference = a.plus(b, -1)
    return not difference.terms and difference.constant <= more


@cache
def _stand_in(dtype: DType, n: int) -> Expr:
    """The parameter that stands for an axis or an element."""
    return parameter(f"x{n}", dtype)
