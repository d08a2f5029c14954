"""Derivatives of reductions with any combiner, each in time linear in the reduction.

Components that only add differentiate directly. Those that are always one of their operands
(max, min, argmax-like tuples, the second largest) go through the origin of the result. Sums that
follow a shift are sums of scaled terms (`rescaled.py`). Every other one is a fold (`folds.py`).
Which of these holds is read off the combiner's formula, in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.folds import (
    additive_terms,
    closure,
    fold_outputs,
    fold_terms,
)
from tensorad.autodiff.local.linear import Term, body_terms, times
from tensorad.autodiff.local.rescaled import rescaled, sum_terms
from tensorad.autodiff.local.selections import Selection, selected_components, selection
from tensorad.errors import InternalError
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.levels import first_component
from tensorad.ir.expr import (
    Expr,
    Read,
    Reduce,
    add,
    call,
    cast,
    const,
    floordiv,
    int_const,
    logical_and,
    mod,
    mul,
    read,
    reduce_expr,
)
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, substitute_all
from tensorad.simplify.index.intervals import surely_false

Wanted = Callable[[Read], bool]


def reduce_terms(op: Compute, component: int, wanted: Wanted) -> list[Term]:
    """The linear terms of output `component`, whose body is a reduction of plain sources."""
    e = _reduction(op, component)
    made = outputs(op)[component]
    if is_empty(e):
        return []
    terms = additive_terms(component, e, wanted)
    if terms is not None:
        note(Decision((made,), "sum", "each element is only added to the result", part=e))
        return terms
    if e.index in selected_components(e.combiner):
        note(Decision((made,), "winner", "the result always is one of the elements", part=e))
        return _selection_terms(op, component, e, wanted)
    terms = _rescaled_terms(op, component, e, wanted)
    if terms is not None:
        why = "shifting all elements only scales what is summed"
        note(Decision((made,), "scaled sum", why, part=e))
        return terms
    why = "the state before each step is kept, then the steps are walked backwards"
    note(Decision((made,), "sweep", why, part=e))
    return fold_terms(op, component, e, wanted)


def _rescaled_terms(op: Compute, component: int, e: Reduce, wanted: Wanted) -> list[Term] | None:
    """The terms of a sum that is scaled to a shift m: -rate * s for what moves m, and its own.

    None if the fold is none, or nobody has asked for m.
    """
    form, numbers = rescaled(e.combiner), fold_outputs(op, e)
    if form is None or form.shift not in numbers or e.index not in form.scales:
        return None
    made, scale, n = outputs(op), form.scales[e.index], numbers[form.shift]
    last, total = read(made[n], op.axes), read(made[component], op.axes)
    terms = sum_terms(e, component, scale, form.shift, last, wanted)
    factor = mul(const(-float(scale.rate), e.dtype), total)
    moving = _selection_terms(op, n, _reduction(op, n), wanted)
    return terms + [_scaled(t, component, factor) for t in moving]


def _scaled(t: Term, component: int, factor: Expr) -> Term:
    direct = t.at_winner and _scaled(t.at_winner, component, factor)
    coefficient = times(factor, cast(t.coefficient, factor.dtype))
    return replace(t, component=component, coefficient=coefficient, at_winner=direct)


def is_empty(e: Reduce) -> bool:
    """Whether the reduction surely has no operands: its value is the identity."""
    return surely_false(e.condition) or any(a.extent == 0 for a in e.axes)


def is_fold(op: Compute, component: int) -> bool:
    """Whether output `component` is a reduction that only a sweep over its steps differentiates."""
    e = op.bodies[component]
    if not isinstance(e, Reduce) or not e.dtype.is_float or is_empty(e):
        return False
    if e.index in selected_components(e.combiner):
        return False
    return additive_terms(component, e, lambda _: False) is None


def fold_groups(op: Compute) -> list[tuple[Reduce, dict[int, int], dict[int, int]]]:
    """The folds among the outputs: (one of the reductions, swept outputs, outputs beside them).

    Both dicts go from the fold's component to the number of the output; the second has
    components that the swept ones depend on, which a sweep differentiates at no extra cost.
    """
    groups: dict[Expr, tuple[Reduce, dict[int, int], dict[int, int]]] = {}
    for n, e in enumerate(op.bodies):
        if isinstance(e, Reduce) and e.dtype.is_float:
            first, swept, beside = groups.setdefault(first_component(e), (e, {}, {}))
            (swept if is_fold(op, n) else beside)[e.index] = n
    found = []
    for first, swept, beside in groups.values():
        if swept:
            inside = closure(first.combiner, tuple(swept))
            found.append((first, swept, {c: n for c, n in beside.items() if c in inside}))
    return found


def _reduction(op: Compute, component: int) -> Reduce:
    e = op.bodies[component]
    if not isinstance(e, Reduce):
        raise InternalError(f"{e} is not a reduction")
    return e


_winners: WeakKeyDictionary[Compute, dict[Expr, tuple[Tensor, ...]]] = WeakKeyDictionary()


def winners(op: Compute, e: Reduce, chosen: Selection) -> tuple[Tensor, ...]:
    """Where each selected component of the fold was taken from; -1 if from the identity.

    The number is position * n + m for the element at a position in the box of the reduction's
    axes, of the m-th of the n components that it may be taken from.
    """
    known = _winners.setdefault(op, {})
    key = first_component(e)
    if key not in known:
        known[key] = _make_winners(op, e, chosen)
    return known[key]


def _make_winners(op: Compute, e: Reduce, chosen: Selection) -> tuple[Tensor, ...]:
    marks = chosen.marks(Box.around(e.axes).position())
    sources = (*e.sources, *marks)
    places = [chosen.origin(c) for c in chosen.traced]
    whole = [reduce_expr(chosen.combiner, sources, e.axes, e.condition, p) for p in places]
    axes, bodies = copy_bodies(op.axes, whole)
    return outputs(Compute(f"{op.name}.winner", axes, bodies, op.source))


def _selection_terms(op: Compute, component: int, e: Reduce, wanted: Wanted) -> list[Term]:
    """out[o] = source(o, winner[o]): the source's terms where they are the selected ones."""
    chosen = selection(e.combiner)
    if chosen is None:
        raise InternalError(f"{e.combiner.name} selects nothing")
    group = chosen.group(e.index)
    place = chosen.traced.index(e.index)
    winner = read(winners(op, e, chosen)[place], op.axes)
    terms: list[Term] = []
    for m, c in enumerate(group):
        own = body_terms(component, e.sources[c], wanted, e.axes, e.condition)
        terms += [_term_of_winner(t, e, winner, m, len(group)) for t in own]
    return terms


def _term_of_winner(t: Term, e: Reduce, winner: Expr, m: int, n: int) -> Term:
    """The term where its element is the winner; at the winner alone, the same without axes."""
    box = Box.around(e.axes)
    taken = call("maximum", winner, int_const(0))
    mark, own = box.position(), winner >= 0
    if n > 1:
        mark = add(mul(mark, int_const(n)), int_const(m))
        own = logical_and(own, call("eq", mod(taken, int_const(n)), int_const(m)))
        taken = floordiv(taken, int_const(n))
    place = substitute_all((t.coefficient, t.read, t.guard, t.switch), box.at(taken))
    coefficient, there, guard, switch = place
    if not isinstance(there, Read):
        raise InternalError(f"{t.read} became {there}")
    guard = logical_and(own, guard)
    direct = Term(t.component, coefficient, there, guard=guard, switch=switch)
    selected = call("eq", winner, mark)
    return replace(t, guard=logical_and(selected, t.guard), at_winner=direct)
