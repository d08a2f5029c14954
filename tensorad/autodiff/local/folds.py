"""The derivative of a left fold with any combiner, in time linear in the fold.

A fold is the last state of a scan. One scan forward keeps the states that its steps find (only
those that the partial derivatives mention), one scan backwards gives the adjoint of every
folded element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.linear import Term, body_terms
from tensorad.autodiff.local.scan_forms import traced_scan
from tensorad.autodiff.local.scans import Head, Heads, reverse_sweep
from tensorad.autodiff.local.steps import jacobian_entries
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.levels import first_component
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Const,
    Expr,
    Read,
    Reduce,
    cast,
    const,
    logical_and,
    read,
)
from tensorad.ir.tensor import Compute, Scan, Tensor, outputs
from tensorad.ir.visit import fresh_axes, postorder, reads, substitute_all

Wanted = Callable[[Read], bool]


@dataclass(frozen=True, eq=False)
class FoldScan:
    """A reduction's fold as a scan, of the components that the wanted ones depend on.

    Attributes:
        scan: over axes of its own; its components may go on with origins of selected ones.
        components: the reduction's components that the scan carries, in order.
        place: where a step keeps its states, over the compute's axes and the reduction's.
    """

    scan: Scan
    components: tuple[int, ...]
    place: tuple[Expr, ...]


FoldKey = tuple[Expr, object]
"""One fold (`first_component`), and the components asked for."""
_folds: WeakKeyDictionary[Compute, dict[FoldKey, FoldScan]] = WeakKeyDictionary()
_factors: WeakKeyDictionary[Compute, dict[FoldKey, list[dict[int, Tensor]]]] = WeakKeyDictionary()


def fold_outputs(op: Compute, e: Reduce) -> dict[int, int]:
    """component -> the number of its output, for those of one fold that have one."""
    key = first_component(e)
    return {
        b.index: n
        for n, b in enumerate(op.bodies)
        if isinstance(b, Reduce) and first_component(b) is key
    }


def fold_terms(op: Compute, component: int, e: Reduce, wanted: Wanted) -> list[Term]:
    """The linear terms of output `component`, the fold `e`: the head is still to come."""
    fold = _fold(op, e, (e.index,))
    known = _factors.setdefault(op, {})
    key = (first_component(e), e.index)
    if key not in known:

        def one(_: Sequence[Expr]) -> Expr:
            return const(1, e.dtype)

        seed = _last_heads(fold, {e.index: one})
        name = f"{op.name}.factor"
        known[key] = reverse_sweep(fold.scan, [seed], _smooth(e, fold), name=name).elements
    return _terms(op, component, e, fold, known[key][0], wanted)


def fold_adjoint_terms(
    op: Compute, e: Reduce, heads: Mapping[int, Head], wanted: Wanted
) -> list[Term]:
    """Terms whose coefficients are the whole adjoints of their reads, for given heads.

    Args:
        e: any component of the fold.
        heads: component -> the adjoint of its output at the compute's axes.
    """
    why = "the state before each step is kept, then the steps are walked backwards"
    note(Decision((outputs(op)[0],), "sweep", why, part=e))
    fold = _fold(op, e, tuple(heads))
    seed, name = _last_heads(fold, heads), f"d{op.name}.steps"
    sweep = reverse_sweep(fold.scan, [seed], _smooth(e, fold), name=name)
    return _terms(op, e.index, e, fold, sweep.elements[0], wanted)


def _last_heads(fold: FoldScan, heads: Mapping[int, Head]) -> Heads:
    none = [None] * fold.scan.combiner.arity
    last = [heads.get(c) for c in fold.components]
    return Heads(none, none, [*last, *none[len(last) :]])


def _terms(
    op: Compute,
    component: int,
    e: Reduce,
    fold: FoldScan,
    factors: Mapping[int, Tensor],
    wanted: Wanted,
) -> list[Term]:
    terms: list[Term] = []
    for d, factor in factors.items():
        source = e.sources[fold.components[d]]
        terms += body_terms(
            component, source, wanted, e.axes, e.condition, read(factor, fold.place)
        )
    return terms


def _smooth(e: Reduce, fold: FoldScan) -> list[int]:
    """The scan's elements that read float tensors."""
    return [
        d
        for d, c in enumerate(fold.components)
        if any(isinstance(n, Read) and n.dtype.is_float for n in postorder(e.sources[c]))
    ]


def _fold(op: Compute, e: Reduce, wanted: tuple[int, ...]) -> FoldScan:
    components = closure(e.combiner, wanted)
    known = _folds.setdefault(op, {})
    key = (first_component(e), components)
    if key not in known:
        known[key] = _make_fold(op, e, components)
    return known[key]


def _make_fold(op: Compute, e: Reduce, components: tuple[int, ...]) -> FoldScan:
    box = Box.around(e.axes)
    mapping = fresh_axes((*op.axes, *e.axes))
    rows = tuple([a for a in (mapping[a] for a in op.axes) if isinstance(a, Axis)])
    along = tuple([a for a in (mapping[a] for a in e.axes) if isinstance(a, Axis)])
    sources = [e.sources[c] for c in components]
    order = _layout((*op.axes, *e.axes), sources)
    around = (*op.axes, *box.place())
    place = tuple([around[n] for n in order])
    *parts, condition = substitute_all((*sources, *place, e.condition), mapping)
    combiner = restricted(e.combiner, components)
    extents = (*op.shape, *box.shape(op.name))
    scan = Scan(
        f"{op.name}.prefix",
        rows,
        along,
        tuple(parts[: len(sources)]),
        combiner,
        combiner.identity,
        tuple([extents[n] for n in order]),
        tuple(parts[len(sources) :]),
        condition,
        exclusive=True,
        source=op.source,
    )
    return FoldScan(traced_scan(scan), components, place)


def _layout(axes: Sequence[Axis], sources: Sequence[Expr]) -> list[int]:
    """The order in which a fold's states are stored: that of a tensor read once at each point.

    The sweep then walks both in the same order, and its result may be the tensor's adjoint.
    """
    number: dict[Expr, int] = {a: n for n, a in enumerate(axes)}
    for r in reads(*sources):
        found = dict.fromkeys([number[i] for i in r.indices if i in number])
        if len(found) == len(axes) == len(r.indices):
            return list(found)
    return list(range(len(axes)))


def closure(combiner: Combiner, wanted: Sequence[int]) -> tuple[int, ...]:
    """The components whose values the wanted ones depend on, those included."""
    number: dict[Expr, int] = {p: n for n, p in enumerate(combiner.lhs)}
    number.update({p: n for n, p in enumerate(combiner.rhs)})
    found: dict[int, None] = {}
    todo = list(wanted)
    while todo:
        c = todo.pop()
        if c not in found:
            found[c] = None
            todo += [number[e] for e in postorder(combiner.results[c]) if e in number]
    return tuple(sorted(found))


_restricted: WeakKeyDictionary[Combiner, dict[tuple[int, ...], Combiner]] = WeakKeyDictionary()


def restricted(combiner: Combiner, components: tuple[int, ...]) -> Combiner:
    """The combiner of some components, which depend on no others."""
    if len(components) == combiner.arity:
        return combiner
    known = _restricted.setdefault(combiner, {})
    if components not in known:
        known[components] = Combiner(
            combiner.name,
            tuple([combiner.lhs[c] for c in components]),
            tuple([combiner.rhs[c] for c in components]),
            tuple([combiner.results[c] for c in components]),
            tuple([combiner.identity[c] for c in components]),
            combiner.associative,
        )
    return known[components]


def additive_terms(component: int, e: Reduce, wanted: Wanted) -> list[Term] | None:
    """The terms of a component that only adds to its state: the other steps do not matter.

    None unless the component's result is its state plus something of the element alone.
    """
    combiner, c = e.combiner, e.index
    for b, entry in enumerate(jacobian_entries(combiner, combiner.lhs)[c]):
        if (entry is not None) != (b == c):
            return None
        if entry is not None and not (entry[0] is TRUE and is_one(entry[1])):
            return None
    state: dict[Expr, None] = dict.fromkeys(combiner.lhs)
    values: dict[Expr, Expr] = dict(zip(combiner.rhs, e.sources, strict=True))
    terms: list[Term] = []
    for entry, source in zip(jacobian_entries(combiner, combiner.rhs)[c], e.sources, strict=True):
        if entry is None:
            continue
        if any(n in state for n in postorder(*entry)):
            return None
        guard, partial = substitute_all(entry, values)
        factor = None if is_one(partial) else cast(partial, source.dtype)
        for t in body_terms(component, source, wanted, e.axes, e.condition, factor):
            terms.append(replace(t, guard=logical_and(t.guard, guard)))
    return terms


def is_one(e: Expr) -> bool:
    """Whether the expression is the constant 1."""
    return isinstance(e, Const) and e.value == 1
