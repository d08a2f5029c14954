"""Adjoint tensors under construction: gathered sums, scattered updates, and what to inline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import is_

from tensorad.autodiff.adjoints.contributions import Contribution as Contribution
from tensorad.autodiff.adjoints.contributions import (
    explicit,
    grouped,
    merged,
    points_of,
    scattered_along,
    sum_of,
)
from tensorad.autodiff.adjoints.gathers import best_gather, gather_all, in_place
from tensorad.autodiff.adjoints.inlining import (
    Uses,
    has_or,
    is_of_a_formula,
    may_inline,
    where_read,
)
from tensorad.ir.analysis.decisions import Decision, Incoming, note
from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.arrays.elementwise import compute_axes, same_dim
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    TRUE,
    ZERO,
    Axis,
    Expr,
    Read,
    add,
    axis,
    cast,
    const,
    logical_and,
    logical_or,
    read,
    select,
    sub,
)
from tensorad.ir.order import axes_in
from tensorad.ir.tensor import Compute, Scan, Scatter, Shape, Tensor, Update, dim_of, outputs
from tensorad.ir.visit import (
    conjuncts,
    copy_bodies,
    substitute,
    uses_any,
    with_fresh_reductions,
)
from tensorad.simplify.certify.certificate import is_demanded
from tensorad.simplify.domain.memoised import demand_same
from tensorad.simplify.domain.point_tables import tabulate
from tensorad.simplify.domain.solution import Piece, as_given
from tensorad.simplify.index.intervals import surely_false
from tensorad.simplify.index.quasi_affine import axis_conditions, is_affine
from tensorad.simplify.zeros.band import band
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.simplify.zeros.lift import both, is_static, is_zero, lift, split_condition
from tensorad.simplify.zeros.passes import nonzero_body

_LISTED_POINTS = 1 << 12
"""Domains of at most so many points may be listed where loops cannot follow a condition."""
_APART = 4
"""So many conditions on the points that scatter may be followed by loops of their own."""
_GATHER_TERMS = 64
"""Beyond this many reads of one tensor in one body, the body is evaluated once and scattered."""


@dataclass(frozen=True, eq=False)
class Adjoint:
    """An adjoint as a formula over (batch axes, tensor axes), or stored in a tensor.

    Attributes:
        support: an index condition over the tensor axes; it is zero elsewhere.
        sum_of: what collected it, as far as known.
    """

    axes: tuple[Axis, ...]
    body: Expr
    tensor: Tensor | None = None
    support: Expr = TRUE
    sum_of: Target | None = None

    def at(self, indices: Sequence[Expr]) -> Expr:
        """The adjoint at (batch indices, tensor indices)."""
        if self.tensor is not None:
            return read(self.tensor, tuple(indices))
        body = with_fresh_reductions(self.body)
        return substitute(body, dict(zip(self.axes, indices, strict=True)))

    def formula(self) -> tuple[tuple[Axis, ...], Expr]:
        """Its axes and the formula over them, also if it is stored."""
        op = None if self.tensor is None else self.tensor.op
        if self.tensor is None or not isinstance(op, Compute):
            return self.axes, self.body
        return op.axes, op.bodies[self.tensor.index]

    def support_at(self, indices: Sequence[Expr]) -> Expr:
        """Where the adjoint may be other than zero, for given tensor indices."""
        own = self.axes[len(self.axes) - len(indices) :]
        return substitute(self.support, dict(zip(own, indices, strict=True)))


def banded(of: Tensor, axes: tuple[Axis, ...], body: Expr, n_batch: int) -> Adjoint | None:
    """A derivative stored as the window, for each batch index, in which it can be nonzero.

    None if it is nonzero nearly everywhere, as far as one can see.
    """
    lead, own = axes[:n_batch], axes[n_batch:]
    windows = band(lead, own, body) if lead else None
    if windows is None:
        return None
    steps = [axis(f"{w.axis.name}w", 0, w.width) for w in windows]
    there: dict[Expr, Expr] = {w.axis: add(w.start, s) for w, s in zip(windows, steps, strict=True)}
    inside = logical_and(*[axis_conditions(a) for a in own])
    zero = const(0, body.dtype)
    element = select(substitute(inside, there), substitute(body, there), zero)
    fresh, (element,) = copy_bodies((*lead, *steps), (element,))
    tensor = outputs(Compute(f"d{of.name}", fresh, (nonzero_body(fresh, element),)))[0]
    note(Decision((of,), "stored", "only where it can be nonzero", result=tensor))
    places = [sub(w.axis, w.start) for w in windows]
    hit = [logical_and(p >= 0, p < w.width) for p, w in zip(places, windows, strict=True)]
    return Adjoint(axes, select(logical_and(*hit), read(tensor, (*lead, *places)), zero))


@dataclass(eq=False)
class Target:
    """The adjoint of one tensor, collected from the operations that read it."""

    of: Tensor
    batch: Shape
    contributions: list[Contribution] = field(default_factory=list)
    given: dict[Contribution, Contribution] = field(default_factory=dict)
    """Contributions -> what they were before their conditions were made explicit."""

    def finish(self, name: str, stored: bool, uses: Uses) -> Adjoint | None:
        """The sum of the contributions; None if there is none.

        It is left as a formula when recomputing it at its uses is cheaper than storing it.
        """
        self.given = {explicit(c): c for c in self.contributions}
        self.contributions = [c for c in self.given if not is_never(c)]
        if not self.contributions:
            return None
        found = None if stored else self._in_place()
        if found is not None and may_inline(found.body, uses):
            return None if is_zero(found.body) else found
        axes = self._axes()
        gathered, scattered = self._gather(axes) if found is None else (found.at(axes), [])
        if gathered is not None and not scattered:
            if not stored and is_zero(gathered):
                return None
            made = scan_output(gathered, axes)
            if made is not None:
                return self._keep(made, axes)
            gathered = where_read(gathered, uses)
            if not stored and (
                may_inline(gathered, uses) or is_of_a_formula(self.of, gathered, uses)
            ):
                cheap = "computing it where it is read costs no more than reading it"
                note(Decision((self.of,), "inlined", cheap, formula=(axes, gathered)))
                return Adjoint(axes, gathered)
            narrow = None if stored else banded(self.of, axes, gathered, len(self.batch))
            if narrow is not None:
                return narrow
            made = outputs(Compute(name, axes, (gathered,)))[0]
            support = _support(gathered, axes[len(self.batch) :])
            return replace(self._keep(made, axes), support=support)
        init = None
        if gathered is not None:
            init = variable(Adjoint(axes, gathered), name)
        if not scattered:
            return None
        return self._keep(self._scatter(name, scattered, init), axes)

    def _in_place(self) -> Adjoint | None:
        """The adjoint over the axes of the only formula that reads the tensor, at these axes."""
        (c, *others) = self.contributions
        lead = self._lead()
        body = None if others else in_place(c, lead, self.of.shape)
        axes = (*lead, *c.axes)
        if body is None or scan_output(body, axes) is not None:
            return None
        body = cast(body, self.of.dtype)
        if is_demanded():
            self._demand_gathered(axes, body)
        return Adjoint(axes, body)

    def _demand_gathered(self, axes: tuple[Axis, ...], body: Expr) -> None:
        fresh = self._axes()
        there: dict[Expr, Expr] = dict(zip(axes, fresh, strict=True))
        gathered, _ = self._gather(fresh)
        if gathered is None or not is_zero(gathered) or not is_zero(body):
            demand_same(fresh, substitute(body, there), ZERO if gathered is None else gathered)

    def _keep(self, tensor: Tensor, axes: tuple[Axis, ...]) -> Adjoint:
        note(Decision((self.of,), "stored", result=tensor))
        return Adjoint(axes, read(tensor, axes), tensor)

    def _axes(self) -> tuple[Axis, ...]:
        """Axes named after the indices they stand for in the first contribution."""
        names = []
        for d, i in enumerate(self.contributions[0].indices):
            names.append(i.name if isinstance(i, Axis) else f"x{d}")
        if len(set(names)) < len(names):
            names = [f"x{d}" for d in range(len(names))]
        return (*self._lead(), *compute_axes(self.of.shape, tuple(names)))

    def _lead(self) -> tuple[Axis, ...]:
        """Fresh axes over the head's extra leading axes."""
        return compute_axes(self.batch, tuple([f"b{d}" for d in range(len(self.batch))]))

    def _gather(self, axes: tuple[Axis, ...]) -> tuple[Expr | None, list[Contribution]]:
        """(the sum of what can be gathered, the rest)."""
        total: Expr | None = None
        scattered: list[Contribution] = []
        scattered_domains = self.scattered_domains(axes)
        joining = scattered_along(self.contributions, axes, len(self.batch))
        for members in merged(self.contributions):
            c = sum_of(members)
            note(Incoming(self.of, c.axes, logical_and(c.condition, c.guard), c.indices))
            direct = c.axes in scattered_domains or c.axes in joining
            sparse = [_reached(m, m.sparse) for m in members if m.sparse is not None]
            sparse = sparse if len(sparse) == len(members) else []
            part = None if direct else best_gather(c, sparse, axes, len(self.batch))
            if part is None and not direct and not sparse:
                part = self._gather_as_given(members, axes)
            if part is None and not is_live(c):
                continue
            if part is None:
                scattered += sparse or [c]
                why = _ALONG if c.axes in joining else scattered_domains.get(c.axes)
                note(Decision((self.of,), "scattered", why or _why_scattered(c, bool(sparse))))
                continue
            note(Decision((self.of,), "gathered"))
            if not is_zero(part):
                part = cast(part, self.of.dtype)
                total = part if total is None else add(total, part)
        if total is None and not scattered:
            total = const(0, self.of.dtype)
        return total, scattered

    def scattered_domains(self, axes: tuple[Axis, ...]) -> dict[tuple[Axis, ...], str]:
        """The domains whose contributions are scattered in one pass, and why."""
        count: dict[tuple[Axis, ...], int] = {}
        for c in self.contributions:
            count[c.axes] = count.get(c.axes, 0) + 1
        return {own: _MANY for own, n in count.items() if n > _GATHER_TERMS and own}

    def _gather_as_given(
        self, members: Sequence[Contribution], axes: tuple[Axis, ...]
    ) -> Expr | None:
        """Gathered without what conditions on data say of indices, if loops cannot follow it."""
        given = [self.given[m] for m in members]
        if all(g is m for g, m in zip(given, members, strict=True)):
            return None
        return gather_all(given, axes, len(self.batch))

    def _scatter(self, name: str, parts: list[Contribution], init: Tensor | None) -> Tensor:
        """One accumulate loop per operation, each starting from the result of the one before."""
        for axes, members in grouped(parts, lambda c: c.axes).items():
            init = self._scatter_group(name, axes, members, init)
        if init is None:
            raise ValueError("nothing to scatter")
        return init

    def _scatter_group(
        self, name: str, own: tuple[Axis, ...], parts: list[Contribution], init: Tensor | None
    ) -> Tensor:
        lead = self._lead()
        conditions = [_split_static(logical_and(c.condition, c.guard)) for c in parts]
        live = _live_points(own, [index for index, _ in conditions])
        alike: dict[Expr, list[Contribution]] = {}
        for c, (index, _) in zip(parts, conditions, strict=True):
            alike.setdefault(index, []).append(c)
        if 1 < len(alike) <= _APART and _visit_less(own, list(alike), live):
            for members in alike.values():
                init = self._scatter_group(name, own, members, init)
            assert init is not None
            return init
        axes, mapping = (*lead, *live.axes), live.values
        updates = []
        for c, (index, data) in zip(parts, conditions, strict=True):
            value = cast(substitute(c.weight(lead), mapping), self.of.dtype)
            indices = tuple([substitute(i, mapping) for i in c.indices])
            left = live.residual if len(parts) == 1 else substitute(index, mapping)
            condition = both(left, [substitute(d, mapping) for d in data])
            updates.append(Update((*lead, *indices), value, condition))
        shape = (*self.batch, *self.of.shape)
        combiner = sum_combiner(self.of.dtype)
        op = Scatter(name, shape, self.of.dtype, axes, tuple(updates), combiner, init)
        return outputs(op)[0]


def is_never(c: Contribution) -> bool:
    return surely_false(logical_and(c.condition, c.guard))


def is_live(c: Contribution) -> bool:
    """Whether the conditions on indices hold at some point, as far as sets can tell."""
    index, _ = split_condition(logical_and(c.condition, c.guard))
    return index is TRUE or bool(eliminate((), c.axes, index).pieces)


def _reached(every: Contribution, sparse: Contribution) -> Contribution:
    """What is scattered for a selection, where the indices let some operand be selected."""
    index, _ = split_condition(logical_and(every.condition, every.guard))
    outer = dict.fromkeys(sparse.axes)
    inner = [a for a in every.axes if a not in outer]
    if index is TRUE or len(inner) + len(outer) != len(every.axes):
        return sparse
    pieces = eliminate(sparse.axes, inner, index).pieces
    somewhere = logical_or(*[logical_and(p.guard, *_nonempty(p, sparse.axes)) for p in pieces])
    return replace(sparse, condition=logical_and(sparse.condition, somewhere))


def _nonempty(piece: Piece, outer: Sequence[Axis]) -> list[Expr]:
    """Where the loops that begin or end at outer axes have a value."""
    bounded = [a for a in piece.axes if uses_any(a.lower, outer) or uses_any(a.upper, outer)]
    whole = [a for a in bounded if not uses_any(sub(a.upper, a.lower), piece.axes)]
    return [a.lower < a.upper for a in whole]


def _split_static(condition: Expr) -> tuple[Expr, list[Expr]]:
    """(the conjunction of the parts on indices and constant tables, those on data in order)."""
    parts = conjuncts(condition)
    static = [p for p in parts if is_static(p)]
    return logical_and(*static), [p for p in parts if not is_static(p)]


def _live_points(own: tuple[Axis, ...], conditions: Sequence[Expr]) -> Piece:
    """The points where one of the conditions holds, as one piece; all points if they are many."""
    condition = logical_or(*conditions)
    if condition is not TRUE:
        pieces = eliminate((), own, condition).pieces
        if len(pieces) == 1 and len(pieces[0].axes) == len(own):
            left = logical_and(pieces[0].guard, pieces[0].residual)
            return replace(pieces[0], guard=TRUE, residual=left)
        if prod([a.extent or _LISTED_POINTS + 1 for a in own]) <= _LISTED_POINTS:
            listed = tabulate((), own, conjuncts(condition))
            if listed is not None and listed.pieces[0].guard is TRUE:
                return listed.pieces[0]
    return as_given(own, condition)


def _visit_less(own: tuple[Axis, ...], conditions: Sequence[Expr], joint: Piece) -> bool:
    """Whether the points of each condition alone are fewer than those of a joint loop."""
    if joint.residual is TRUE:
        return False
    whole = points_of(joint.axes)
    apart = [points_of(_live_points(own, [c]).axes) for c in conditions]
    return whole is not None and sum([whole if n is None else n for n in apart]) < whole


def scan_output(body: Expr, axes: tuple[Axis, ...]) -> Tensor | None:
    """The tensor of a scan that a formula merely copies."""
    if not isinstance(body, Read) or not isinstance(body.tensor.op, Scan):
        return None
    if len(body.indices) != len(axes):
        return None
    copied = all(
        (i is a or a.extent == 1) and same_dim(n, dim_of(a.upper))
        for i, a, n in zip(body.indices, axes, body.tensor.shape, strict=True)
    )
    return body.tensor if copied else None


_ALONG = "other reads of the formula are scattered by data, and this one with them"


_MANY = f"more than {_GATHER_TERMS} reads share one formula, which is evaluated once"


def _why_scattered(c: Contribution, chosen: bool) -> str:
    if chosen:
        return "one element of many is selected, and only it receives anything"
    if any(depends_on_data(i) for i in c.indices):
        return "the element read depends on data"
    return "the index has no exact inverse that loops could follow"


def _support(body: Expr, own: Sequence[Axis]) -> Expr:
    """The index conditions on its own axes that a formula is zero without, if they are simple."""
    condition, _ = lift(body)
    known = dict.fromkeys(own)
    ours = all(e in known for e in axes_in(condition))
    simple = is_static(condition) and (not has_or(condition) or is_affine(condition, own))
    return condition if ours and simple else TRUE


def zeros(name: str, shape: Shape, like: Tensor) -> Tensor:
    """A tensor of zeros."""
    return outputs(Compute(name, compute_axes(shape), (const(0, like.dtype),)))[0]


def store(adjoint: Adjoint, name: str) -> Tensor:
    """The adjoint as a tensor."""
    if adjoint.tensor is not None:
        return adjoint.tensor
    axes, bodies = copy_bodies(adjoint.axes, (adjoint.body,))
    return outputs(Compute(name, axes, bodies))[0]


def variable(adjoint: Adjoint, name: str) -> Tensor:
    """The adjoint as a tensor: one that it is a plain copy of, or stored."""
    e = adjoint.body
    extents = [dim_of(a.upper) for a in adjoint.axes]
    if isinstance(e, Read) and len(e.indices) == len(extents):
        at_axes = all(map(is_, e.indices, adjoint.axes))
        if at_axes and all(map(same_dim, e.tensor.shape, extents)):
            return e.tensor
    return store(adjoint, name)


def whole(t: Tensor) -> Adjoint:
    """A tensor (*batch, ...) as an adjoint."""
    axes = compute_axes(t.shape)
    return Adjoint(axes, read(t, axes), t)
