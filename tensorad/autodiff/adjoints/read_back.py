"""Adjoints read back: what a final adjoint sums is what was contributed to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.autodiff.adjoints.adjoint import Adjoint, Target
from tensorad.autodiff.adjoints.contributions import Contribution
from tensorad.autodiff.adjoints.inlining import Uses
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import Axis, Expr, add, const, logical_and, select
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import fresh_axes, reads, substitute_all
from tensorad.simplify.certify.certificate import Verdict, is_read_back
from tensorad.simplify.certify.outcomes import Undecided
from tensorad.simplify.readback import compare
from tensorad.simplify.readback.reading import Reading
from tensorad.simplify.readback.written_out import stops_at, summed_where, written_out


def finished(target: Target, name: str, stored: bool, uses: Uses) -> Adjoint | None:
    """The adjoint that a target comes to.

    Raises:
        InternalError: with TENSORAD_DEBUG=readback, it is not the sum of the contributions.
    """
    given = list(target.contributions)
    found = target.finish(name, stored, uses)
    if is_read_back() and given:
        _demand_collected(target, given, found, uses.where)
    return found


def _demand_collected(
    target: Target, given: Sequence[Contribution], found: Adjoint | None, where: Expr
) -> None:
    batch = compute_axes(target.batch, tuple([f"b{d}" for d in range(len(target.batch))]))
    axes = (*batch, *compute_axes(target.of.shape))
    zero = const(0, target.of.dtype)
    final = zero if found is None else select(where, found.at(axes), zero)
    made = final
    for parts in _ways(given):
        naive = select(where, naive_sum(target.of, batch, axes[len(batch) :], parts), zero)
        try:
            made = written_out(final, stops_at([r.tensor for r in reads(naive)]))
            verdict = compare.read_back(axes, naive, made)
        except Undecided as reason:
            verdict = Verdict(False, "none", str(reason))
        if verdict.holds:
            break
    if not verdict.holds and compare.reads_others(naive, made):
        verdict = Verdict(False, "none", "a scan or loop takes a part of the adjoint in")
    compare.told(Reading(f"adjoint of {target.of.name}", verdict), naive, made)


def _ways(given: Sequence[Contribution]) -> list[Sequence[Contribution]]:
    """The contributions; where one element of many is selected, also those of the selected."""
    thin = [c if c.sparse is None else replace(c.sparse, sparse=None) for c in given]
    return [given] if all(a is b for a, b in zip(given, thin, strict=True)) else [given, thin]


def naive_sum(
    of: Tensor, batch: Sequence[Axis], own: Sequence[Axis], parts: Sequence[Contribution]
) -> Expr:
    """What is contributed to an element, each contribution summed over all its points."""
    combiner = sum_combiner(of.dtype)
    total: Expr | None = None
    for c in parts:
        new = fresh_axes(c.axes)
        roots = (*c.indices, c.weight(batch), logical_and(c.condition, c.guard))
        *there, value, where = substitute_all(roots, new)
        loops = tuple([a for a in map(new.__getitem__, c.axes) if isinstance(a, Axis)])
        part = summed_where(combiner, loops, there, own, value, where)
        total = part if total is None else add(total, part)
    return const(0, of.dtype) if total is None else total
