"""`explain`: how a gradient was made, read off by deriving it once more with somebody listening."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.autodiff.provenance import Derivation, derivation
from tensorad.bound import bound
from tensorad.counting import Work, work
from tensorad.display.explain_html import explanation_html
from tensorad.display.explain_text import explanation_text
from tensorad.errors import GradError, UserError
from tensorad.ir.analysis.blocks import inner_ops, saves_of
from tensorad.ir.analysis.decisions import Decision, Incoming, Record, listening
from tensorad.ir.analysis.points import possible
from tensorad.ir.analysis.symbolic_points import Count, count_nest
from tensorad.ir.arrays.arguments import check_sizes, check_tensors
from tensorad.ir.expr import Axis, Expr, size_var
from tensorad.ir.tensor import Compute, Control, Op, Tensor, outputs
from tensorad.ir.visit import copy_bodies, op_inputs, reads, topological_ops, uses_any
from tensorad.simplify.certify.certificate import Certificate, certify
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.formula.product_order import written_body
from tensorad.simplify.readback.reading import Reading
from tensorad.stories import Blocks, Flow, Gradient, Order, Story

_MODES: Final = ("reverse mode", "forward mode")
_OUTCOMES: Final = ("stored", "inlined")
_AGAIN: Final = " computed again"
_OF_BLOCKS: Final = (" stored", _AGAIN)


@dataclass(frozen=True, eq=False)
class Explanation:
    """How gradients were made: prints as text, displays itself in a notebook.

    Attributes:
        orders: of the tensors that are no gradients.
    """

    gradients: tuple[Gradient, ...]
    orders: tuple[Order, ...] = ()

    def __str__(self) -> str:
        return explanation_text(self.gradients, self.orders)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return explanation_html(self.gradients, self.orders)


def explain(
    gradients: Tensor | Iterable[Tensor], sizes: Mapping[str, int] | None = None
) -> Explanation:
    """How each gradient was made: its reads, sets, loops, plans, work and certificates.

    For a tensor that is no gradient: the order in which its products are summed.

    Args:
        gradients: results of vjp, jvp, JacobianRecursive, jacobian, hessian, hvp; or sums of
            products that are not evaluated as they were written.
        sizes: values of symbolic sizes for the counts; without them they are polynomials.
    Raises:
        GradError: a tensor is neither.
        DefinitionError: something is no tensor, or a size no integer >= 0.
    """
    tensors = check_tensors(gradients, "explain")
    given = check_sizes(sizes)
    made: list[Gradient] = []
    orders: list[Order] = []
    for t in tensors:
        found = derivation(t)
        own = [] if found is not None else _orders([t], given)
        if found is not None:
            made.append(_explain_one(t, found, given))
        elif not own:
            raise GradError(
                "explain tells how a gradient was made and how sums of products were ordered, but "
                "this is no gradient made here, and is evaluated as it was written.",
                where=repr(t),
                hint="pass a result of vjp, jvp, JacobianRecursive, jacobian, hessian or hvp.",
            )
        orders += own
    return Explanation(tuple(made), tuple(orders))


def can_explain(t: Tensor) -> bool:
    """Whether there is something to tell of a tensor."""
    if derivation(t) is not None:
        return True
    ops = [op for op in topological_ops([t]) if isinstance(op, Compute)]
    return any(written_body(op) is not None for op in ops)


def _orders(roots: Sequence[Tensor], sizes: Mapping[str, int] | None) -> list[Order]:
    """Of the formulas behind some tensors."""
    found: list[Order] = []
    for op in topological_ops(roots):
        body = written_body(op) if isinstance(op, Compute) else None
        if isinstance(op, Compute) and body is not None:
            (t,) = outputs(op)
            given = {r.tensor for r in reads(body)}
            stages = [outputs(o)[0] for o in topological_ops([t], stop=[u.op for u in given])]
            (written,) = outputs(Compute(op.name, *copy_bodies(op.axes, (body,))))
            inner = tuple([s for s in stages if s is not t and s not in given])
            found.append(Order(t, inner, _work(t, sizes), _work(written, sizes)))
    return found


def _explain_one(t: Tensor, found: Derivation, sizes: Mapping[str, int] | None) -> Gradient:
    with listening(Record) as heard:
        again = found.again()
    wrt = found.wrt if found.along else (found.wrt[found.position],)
    stories, others = _stories(heard, _Counter(sizes), _between(wrt))
    modes = [r.what for r in heard if isinstance(r, Decision) and r.what in _MODES]
    if found.along:
        stories = tuple([_choices_only(s) for s in stories if s.choices])
    elif modes[-1:] == ["forward mode"]:
        stories = tuple([_choices_only(s) for s in stories if s.about is found.about])
    elif modes:
        others = ()  # of the mode that was not taken
    work, most = _work(t, sizes), _bound(found, t, sizes)
    about, result = found.about, again[found.position]
    return Gradient(
        result, found.outputs, wrt, about, stories, others, work, most, found.along,
        tuple(_orders(found.outputs, sizes)), tuple(_blocks(result, heard)),
        tuple([r for r in heard if isinstance(r, Reading)]),
    )  # fmt: skip


def _blocks(t: Tensor, heard: Sequence[Record]) -> list[Blocks]:
    """What is stored and computed again of the blocks in a gradient's program."""
    ops = topological_ops([t])
    every = (*ops, *inner_ops(ops))
    kept = saves_of(every)
    told = [d for d in heard if isinstance(d, Decision) and d.what.endswith(_AGAIN)]
    found: list[Blocks] = []
    for op in dict.fromkeys([o for o in every if isinstance(o, Control)]):
        again = {d.what.removesuffix(_AGAIN): d.why for d in told if d.about[0].op is op}
        found.append(Blocks(op, tuple(kept.get(op, ())), again))
    return found


def _choices_only(s: Story) -> Story:
    return Story(s.about, [], s.choices)


def _between(wrt: Sequence[Tensor]) -> Callable[[Tensor], bool]:
    """Whether a tensor's adjoint is on the way to that of one of `wrt`."""
    known: dict[Op, bool] = {}
    tensors, ops = dict.fromkeys(wrt), dict.fromkeys([t.op for t in wrt])

    def depends(t: Tensor) -> bool:
        for op in topological_ops([t], stop=known):
            if op not in known:
                known[op] = op in ops or any(known[u.op] for u in op_inputs(op))
        return t in tensors or (known[t.op] and t.op not in ops)

    return depends


def _stories(
    heard: Sequence[Record], counter: _Counter, wanted: Callable[[Tensor], bool]
) -> tuple[tuple[Story, ...], tuple[Certificate, ...]]:
    """(the adjoints on the way, the domains that were solved outside them)."""
    stories: dict[Tensor, Story] = {}
    others: list[Certificate] = []
    flow: Incoming | None = None
    proofs: list[Certificate] = []
    for record in heard:
        match record:
            case Incoming():
                flow, proofs = record, []
            case Elimination(inner=inner) if inner:
                if flow is None:
                    others.append(certify(record))
                elif wanted(flow.about):
                    proofs.append(certify(record))
            case Decision(what=what) if what.endswith(_OF_BLOCKS):
                pass
            case Decision(about=(t,)) if wanted(t):
                story = stories.setdefault(t, Story(t))
                if flow is not None and flow.about is t:
                    story.flows.append(_flow(flow, proofs, record, counter))
                elif record.what in _OUTCOMES:
                    story.outcome = record
                else:
                    story.choices.append(record)
                flow = None
            case Decision():
                flow = None
    return tuple(stories.values()), tuple(others)


def _flow(
    incoming: Incoming, proofs: Sequence[Certificate], decision: Decision, counter: _Counter
) -> Flow:
    live = counter.count((*incoming.axes, possible(incoming.condition)))
    pairs = visited = None
    if proofs:
        pairs = counter.product(*[counter.count(a) for a in (proofs[0].outer, proofs[0].inner)])
        live = counter.product(live, counter.count(_free_batch(incoming, proofs[0])))
    if proofs and decision.what == "gathered":
        nests = [(*c.outer, possible(p.guard), *p.axes) for c in proofs for p in c.solution.pieces]
        visited = counter.total(nests)
    return Flow(incoming, tuple(proofs), decision, pairs, live, visited)


def _free_batch(incoming: Incoming, c: Certificate) -> tuple[Axis, ...]:
    """Leading axes of the head that the forward points have nothing to do with."""
    batch = c.outer[: len(c.outer) - incoming.about.ndim]
    return () if uses_any(c.condition, batch) else batch


class _Counter:
    """Counts of points; None where nothing is known without values of the sizes."""

    def __init__(self, sizes: Mapping[str, int] | None) -> None:
        self.sizes: dict[Expr, int] = {size_var(n): v for n, v in (sizes or {}).items()}

    def count(self, items: Sequence[Expr]) -> Count | None:
        try:
            return count_nest(items, self.sizes)
        except UserError:
            return None

    def total(self, nests: Iterable[Sequence[Expr]]) -> Count | None:
        counts = [self.count(items) for items in nests]
        result: Count = 0
        for n in counts:
            if n is None:
                return None
            result = result + n
        return result

    @staticmethod
    def product(a: Count | None, b: Count | None) -> Count | None:
        return None if a is None or b is None else a * b


def _work(t: Tensor, sizes: Mapping[str, int] | None) -> Work | None:
    try:
        return work(t, sizes)
    except UserError:
        return None


def _bound(found: Derivation, t: Tensor, sizes: Mapping[str, int] | None) -> int | None:
    if found.along or len(found.outputs) != 1 or t.ndim != found.about.ndim:
        return None
    try:
        return bound(found.outputs[0], [found.about], sizes)
    except UserError:
        return None
