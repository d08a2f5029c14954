"""Linear terms: the derivative of a compute, one term per textual read.

A term says d out[o] = coefficient * d tensor[indices], summed over its reduce axes, where its
guard holds. Forward mode, reverse mode and Jacobians are three uses of the same terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from tensorad.autodiff.local.rules import partials_of
from tensorad.errors import InternalError
from tensorad.ir.analysis.points import depends_on_data, possible
from tensorad.ir.combiner import beats
from tensorad.ir.expr import (
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Select,
    add,
    cast,
    const,
    div,
    logical_and,
    logical_not,
    logical_or,
    mul,
    neg,
    summed,
)
from tensorad.ir.functions import Mode, flowing_args, is_stopped, partials_at
from tensorad.ir.visit import children, conjuncts, postorder
from tensorad.simplify.zeros.lift import both, guarded, is_index_condition, split_condition

_MAX_GUARDS = 32
Guarded = dict[Expr, Expr]
"""A derivative as guard -> value: the sum of the values whose guards hold. A value is never
multiplied by 0 to switch it off, so an infinite partial behind a false guard stays harmless."""


@dataclass(frozen=True, eq=False)
class Term:
    """coefficient * d read, summed over `axes` where `condition` and `guard` hold.

    Attributes:
        component: which output of the operation.
        coefficient: over the compute axes and `axes`.
        axes: the reduction's axes; () outside reductions.
        condition: the reduction's own condition.
        guard: the selects between the read and the output.
        switch: what data say, beside the guard, of where the coefficient is other than 0 for a
            select's sake: one of the selects lets the read through.
        at_winner: for a selection, the same term at the selected element alone (no axes,
            a read at an index found at run time); this one asks every element whether it
            is the selected one.
    """

    component: int
    coefficient: Expr
    read: Read
    axes: tuple[Axis, ...] = ()
    condition: Expr = TRUE
    guard: Expr = TRUE
    at_winner: Term | None = None
    switch: Expr = TRUE


@dataclass(frozen=True)
class InMode:
    """Which reads derivatives of one mode flow to: `stop_gradient` may stop this mode alone."""

    wanted: Callable[[Read], bool]
    mode: Mode

    def __call__(self, e: Read) -> bool:
        return self.wanted(e)


def differentiate(
    root: Expr, wanted: Callable[[Expr], bool], mode: Mode | None = None
) -> dict[Expr, Guarded]:
    """d root / d leaf for every wanted leaf (`Read` or `Param`) it depends on.

    One reverse sweep over the expression's DAG: shared parts are differentiated once.

    Args:
        mode: for which the derivative is; None: what stops one mode lets pass.
    """
    order = postorder(root)
    active: dict[Expr, None] = {}
    for e in order:
        if not e.dtype.is_float:
            continue
        leaf = isinstance(e, (Read, Param)) and wanted(e)
        if mode is not None and is_stopped(e, mode):
            continue
        if leaf or any(c in active for c in _differentiable_operands(e)):
            active[e] = None
    adjoint: dict[Expr, Guarded] = {}
    if root in active:
        adjoint[root] = {TRUE: const(1, root.dtype)}
    found: dict[Expr, Guarded] = {}
    for e in reversed(order):
        values = adjoint.pop(e, None)
        if values is None:
            continue
        if isinstance(e, (Read, Param)):
            found[e] = values
        else:
            for operand, guard, factor in _local(e):
                if operand in active:
                    _accumulate(adjoint.setdefault(operand, {}), values, guard, factor)
    return dict(reversed(found.items()))


def _differentiable_operands(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, (Read, Const, Param)):
        return ()
    if isinstance(e, Select):
        return (e.then, e.orelse)
    if isinstance(e, Apply):
        return flowing_args(e)
    return children(e)


def _local(e: Expr) -> Iterable[tuple[Expr, Expr, Expr | None]]:
    """(operand, guard, factor) for each operand; factor None means 1 (after a cast)."""
    match e:
        case Select(cond=c, then=a, orelse=b):
            yield a, c, None
            yield b, logical_not(c), None
        case Cast(value=v):
            yield v, TRUE, None
        case Call(op="maximum" | "minimum", args=(a, b)):
            second = beats(e.op, b, a)
            yield a, logical_not(second), None
            yield b, second, None
        case Call() | Apply():
            factors = partials_of(e) if isinstance(e, Call) else partials_at(e)
            for operand, factor in zip(e.args, factors, strict=True):
                if factor is not None:
                    yield operand, TRUE, factor
        case _:
            raise InternalError(f"no derivative of {type(e).__name__}: {e}")


def _accumulate(into: Guarded, values: Guarded, guard: Expr, factor: Expr | None) -> None:
    for g, v in values.items():
        new = v if factor is None else times(cast(v, factor.dtype), factor)
        both = logical_and(g, guard)
        if both in into:
            into[both] = add(into[both], cast(new, into[both].dtype))
        else:
            into[both] = new
    if len(into) > _MAX_GUARDS:
        merged = merge_guards(into)
        into.clear()
        into.update([merged])


def times(v: Expr, factor: Expr) -> Expr:
    """v * factor as one would write it: -1 * v is -v, v * (1 / b) is v / b."""
    match factor:
        case Const(value=-1):
            return neg(v)
        case Call(op="neg", args=(x,)):
            return neg(times(v, x))
        case Call(op="div", args=(Const(value=1), b)):
            return div(v, b)
    match v:
        case Call(op="neg", args=(x,)):
            return neg(times(x, factor))
        case Call(op="div", args=(Const(value=1), b)):
            return div(factor, b)
        case Const(value=1):
            return factor
    return mul(v, factor)


def merge_guards(values: Guarded, indices: Iterable[Expr] = ()) -> tuple[Expr, Expr]:
    """One guard and one value for several: the sum of selects, where any of them may hold.

    The guard speaks of indices alone, unless the `indices` of the read it protects depend on
    data.
    """
    if len(values) == 1:
        return next(iter(values.items()))
    by_data = depends_on_data(*indices)
    guards = [g if by_data else possible(g) for g in values]
    total = summed(guarded(guard, value) for guard, value in values.items())
    if total is None:
        raise InternalError("no value to merge")
    return any_of(guards), total


def any_of(conditions: Iterable[Expr]) -> Expr:
    """Where one of the conditions holds: what all of them ask for is asked once."""
    alternatives = _resolved([dict.fromkeys(conjuncts(c)) for c in conditions])
    first = alternatives[0]
    shared = {p: None for p in first if all(p in a for a in alternatives)}
    rest = [logical_and(*[p for p in a if p not in shared]) for a in alternatives]
    return logical_and(*shared, logical_or(*[both(*split_condition(c)) for c in rest]))


def _resolved(alternatives: list[dict[Expr, None]]) -> list[dict[Expr, None]]:
    """(p and a) or (not p and a) -> a, as long as there are such pairs."""
    found = list(alternatives)
    pairs = _opposed(found)
    while pairs:
        a, b, p = pairs[0]
        found = [c for c in found if c is not a and c is not b]
        found.append({q: None for q in a if q is not p})
        pairs = _opposed(found)
    return found


def _opposed(
    alternatives: Sequence[dict[Expr, None]],
) -> list[tuple[dict[Expr, None], dict[Expr, None], Expr]]:
    """Pairs that differ in one condition, which holds in the first and not in the second."""
    return [
        (a, b, p)
        for a, b in permutations(alternatives, 2)
        for p in a
        if len(a) == len(b) and logical_not(p) in b and all(q is p or q in b for q in a)
    ]


def body_terms(
    component: int,
    root: Expr,
    wanted: Callable[[Read], bool],
    axes: tuple[Axis, ...] = (),
    condition: Expr = TRUE,
    factor: Expr | None = None,
) -> list[Term]:
    """The terms of an expression without reductions, every one times `factor`.

    Guards on indices keep terms apart (their domains are solved separately); guards on
    data are merged, so that each read has one such term.
    """
    terms: list[Term] = []
    mode = wanted.mode if isinstance(wanted, InMode) else None
    derivatives = differentiate(root, lambda e: isinstance(e, Read) and wanted(e), mode)
    for leaf, values in derivatives.items():
        if not isinstance(leaf, Read):
            raise InternalError(f"{leaf} is not a read")
        on_data: Guarded = {}
        for guard, value in values.items():
            scaled = cast(value, root.dtype)
            scaled = scaled if factor is None else times(factor, scaled)
            if guard is TRUE or is_index_condition(guard):
                terms.append(Term(component, scaled, leaf, axes, condition, guard))
            else:
                on_data[guard] = scaled
        if on_data:
            guard, value = merge_guards(on_data, leaf.indices)
            made = Term(component, value, leaf, axes, condition, guard)
            terms.append(replace(made, switch=any_of(on_data)) if len(on_data) > 1 else made)
    return terms
