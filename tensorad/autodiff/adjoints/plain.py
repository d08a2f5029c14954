"""Plain adjoints: every read gathered over exactly its live points, formulas as they come.

Nothing is tidied, no sum is split, no winner is scattered to: the loops of such a gradient are
those that the forward program has already, read by read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.autodiff.adjoints.adjoint import (
    Adjoint,
    Target,
    is_live,
    is_never,
    scan_output,
    zeros,
)
from tensorad.autodiff.adjoints.contributions import Contribution, by_read
from tensorad.autodiff.adjoints.inlining import Uses, is_of_a_formula, where_read
from tensorad.autodiff.local.scan_forms import with_addend
from tensorad.ir.analysis.decisions import Decision, Incoming, note
from tensorad.ir.analysis.flow import LINEAR
from tensorad.ir.analysis.points import depends_on_data, possible
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
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
    logical_or,
    reduce_expr,
    select,
    summed,
)
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.reference.forms import BODY
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import (
    conjuncts,
    outside_reductions,
    postorder,
    reads,
    substitute,
    topological_ops,
    uses_any,
)
from tensorad.passes import run_passes
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.simplify.zeros.lift import guarded, is_static, is_zero
from tensorad.simplify.zeros.passes import DROP_IMPLIED_GUARDS, SIMPLIFY_INDICES, SOLVE_DOMAINS

_PASSES: Final = (SOLVE_DOMAINS, DROP_IMPLIED_GUARDS, SIMPLIFY_INDICES)
_MOST_NODES: Final = 400
"""Longer adjoints are stored."""
_SCATTERED: Final = "loops cannot follow the index to the points that read an element"


@dataclass(eq=False)
class PlainTarget(Target):
    """The adjoint of one tensor: one sum for each element it reads, or a scatter by data."""

    def finish(self, name: str, stored: bool, uses: Uses) -> Adjoint | None:
        """The sum of the contributions; None if there is none."""
        self.contributions = [c for c in self.contributions if not is_never(c)]
        if not self.contributions:
            return None
        axes = self._axes()
        parts, scattered = self._collect(axes)
        gathered = summed(parts)
        if scattered:
            init = None if gathered is None else outputs(Compute(name, axes, (gathered,)))[0]
            return self._keep(self._scatter(name, scattered, init), axes)
        if gathered is None:
            shape = (*self.batch, *self.of.shape)
            return self._keep(zeros(name, shape, self.of), axes) if stored else None
        made = _in_one_sweep(parts, axes)
        if made is not None:
            return self._keep(made, axes)
        gathered = where_read(gathered, uses)
        if not stored and (
            self.costs_nothing(gathered, uses) or is_of_a_formula(self.of, gathered, uses)
        ):
            return Adjoint(axes, gathered)
        return self._keep(outputs(Compute(name, axes, (gathered,)))[0], axes)

    def _collect(self, axes: tuple[Axis, ...]) -> tuple[list[Expr], list[Contribution]]:
        """(what each element gathers, the contributions that are scattered)."""
        gathered: list[Expr] = []
        scattered: list[Contribution] = []
        for members in by_read(self.contributions):
            for c, part in _gathered(members, axes, len(self.batch)):
                note(Incoming(self.of, c.axes, logical_and(c.condition, c.guard), c.indices))
                if part is not None:
                    note(Decision((self.of,), "gathered"))
                elif is_live(c):
                    note(Decision((self.of,), "scattered", _SCATTERED))
                    scattered.append(c)
                if part is not None and not is_zero(part):
                    gathered.append(cast(part, self.of.dtype))
        return gathered, scattered

    def _scatter(self, name: str, parts: list[Contribution], init: Tensor | None) -> Tensor:
        """One loop for each piece of each read's live points."""
        return super()._scatter(name, [p for c in parts for p in _pieces(c)], init)

    def costs_nothing(self, body: Expr, uses: Uses) -> bool:
        """Whether a formula is not stored: no point is visited or evaluated more often for it."""
        once = uses.terms <= 1 and uses.pointwise
        return _is_written_out(body) and (once or all(map(_is_light, postorder(body))))


class UnstoredTarget(PlainTarget):
    """The adjoint of one tensor: stored only if it is a sum."""

    def costs_nothing(self, body: Expr, uses: Uses) -> bool:
        """Whether a formula is not stored: no point is visited more often for it."""
        return _is_written_out(body)


def _in_one_sweep(parts: Sequence[Expr], axes: tuple[Axis, ...]) -> Tensor | None:
    """The sum as the result of a scan that one part copies; the others are added in its steps."""
    for n, part in enumerate(parts):
        made = scan_output(part, axes)
        rest = summed([*parts[:n], *parts[n + 1 :]])
        if made is not None and rest is None:
            return made
        if made is None or rest is None or occurs(REDUCE, rest):
            continue
        if made.op not in dict.fromkeys(topological_ops([r.tensor for r in reads(rest)])):
            return with_addend(made, axes, rest)
    return None


def _pieces(c: Contribution) -> list[Contribution]:
    """The contribution over domains without conditions on indices, if there are such."""
    whole = logical_and(c.condition, c.guard)
    index = possible(whole)
    pieces = eliminate((), c.axes, index).pieces if index is not TRUE else ()
    left = [r for p in pieces for r in conjuncts(p.residual) if is_static(r)]
    if not pieces or left:
        return [c]
    return [_on_piece(c, p, _beyond(whole, index)) for p in pieces]


def _on_piece(c: Contribution, piece: Piece, tested: Expr) -> Contribution:
    """The contribution over the points of one piece alone."""

    def weight(batch: Sequence[Expr]) -> Expr:
        return substitute(c.weight(batch), piece.values)

    rest = logical_and(substitute(tested, piece.values), piece.residual)
    indices = tuple([substitute(i, piece.values) for i in c.indices])
    return Contribution(_switched(piece), TRUE, indices, weight, rest)


def _switched(piece: Piece) -> tuple[Axis, ...]:
    """The axes of a piece: no points where its guard, a condition on sizes, does not hold."""
    if piece.guard is TRUE:
        return piece.axes
    return (axis("o", 0, select(piece.guard, ONE, ZERO)), *piece.axes)


def _gathered(
    members: Sequence[Contribution], axes: tuple[Axis, ...], n_batch: int
) -> list[tuple[Contribution, Expr | None]]:
    """Contributions, each with the sum over the points that reach an element if there is one."""
    if len(members) > 1:
        whole = _together(members)
        part = _sum(whole, axes, n_batch)
        if part is not None or not _is_static(whole):
            return [(whole, part)]
    single = [_together([c]) for c in members]
    return [(c, _in_pieces(c, axes, n_batch)) for c in single]


def _in_pieces(c: Contribution, axes: tuple[Axis, ...], n_batch: int) -> Expr | None:
    """The sum as one, or else over each piece of the live points; None if loops cannot follow."""
    whole = _sum(c, axes, n_batch)
    pieces = _pieces(c) if whole is None and _is_static(c) else []
    if len(pieces) < 2:
        return whole
    sums = [_sum(p, axes, n_batch) for p in pieces]
    found = [s for s in sums if s is not None]
    return summed(found) if len(found) == len(sums) else None


def _together(members: Sequence[Contribution]) -> Contribution:
    """One contribution where some guard holds, or may hold if the read's indices are no data.

    What the guard leaves open is asked for each value.
    """
    static = _is_static(members[0])
    places = [possible(c.guard) if static else c.guard for c in members]
    same = all(p is places[0] for p in places)
    guards = [
        _beyond(c.guard, p) if same else c.guard for c, p in zip(members, places, strict=True)
    ]

    def weight(batch: Sequence[Expr]) -> Expr:
        parts = [guarded(g, c.weight(batch)) for g, c in zip(guards, members, strict=True)]
        total = summed(parts)
        assert total is not None  # there are members
        return total

    return replace(members[0], weight=weight, guard=logical_or(*places), sparse=None)


def _beyond(guard: Expr, known: Expr) -> Expr:
    """The conjuncts of a guard that are not among the known ones."""
    given = dict.fromkeys(conjuncts(known))
    return logical_and(*[p for p in conjuncts(guard) if p not in given])


def _is_static(c: Contribution) -> bool:
    return all(is_static(i) for i in c.indices)


def _sum(c: Contribution, axes: tuple[Axis, ...], n_batch: int) -> Expr | None:
    """The sum over the points that reach each element; None if loops cannot follow them."""
    if not _is_static(c):
        return None
    own = axes[n_batch:]
    hits = logical_and(*[x == i for x, i in zip(own, c.indices, strict=True)])
    condition = logical_and(hits, c.condition, c.guard)
    value = c.weight(axes[:n_batch])
    everywhere = reduce_expr(sum_combiner(value.dtype), (value,), c.axes, condition)
    body = run_passes(_PASSES, axes, everywhere, BODY)
    return body if _is_followed(body) else None


def _is_followed(body: Expr) -> bool:
    """Whether no loop tests at its points what its bounds could have told."""
    folds = [e for e in outside_reductions((body,)) if isinstance(e, Reduce)]
    tests = [(e, c) for e in folds for c in conjuncts(e.condition)]
    return not any(is_static(c) and uses_any(c, e.axes) for e, c in tests)


def _is_written_out(body: Expr) -> bool:
    """Whether a formula is short and without loops."""
    return not occurs(REDUCE, body) and len(postorder(body)) <= _MOST_NODES


def _is_light(e: Expr) -> bool:
    """Whether a node only adds, scales by a number, or is switched by indices."""
    if not e.dtype.is_float:
        return True
    match e:
        case Select(cond=c):
            return not depends_on_data(c)
        case Call(op="mul" | "div", args=(a, b)):
            return isinstance(b, Const) or (e.op == "mul" and isinstance(a, Const))
        case Call():
            return e.op in LINEAR
    return isinstance(e, (Read, Const, Cast))
