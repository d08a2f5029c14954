"""What an explanation says: labelled rows of words and expressions, for text and HTML alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tensorad.autodiff.local.views import derivation_order, view
from tensorad.autodiff.provenance import Derivation, derivation
from tensorad.ir.analysis.decisions import Decision
from tensorad.ir.analysis.symbolic_points import Count
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.expr import ONE, TRUE, Axis, Const, Expr, Reduce, read
from tensorad.ir.tensor import (
    Compute,
    Control,
    FunctionCall,
    Loop,
    Op,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.text.printer import ExprWriter
from tensorad.ir.visit import conjuncts, postorder, topological_ops
from tensorad.simplify.certify.certificate import Certificate
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.index.algebra import simplify
from tensorad.stories import Blocks, Flow, Gradient, Order, Story

Words = list[str | Expr]
LEGEND: Final = (
    "Indices of the gradient's element carry a prime where the forward formula uses their name. "
    "B, the most iterations the gradient may need, is counted on the forward program alone."
)
_KINDS: Final = {
    "Loop": "loop",
    "Branch": "branch",
    "FunctionCall": "call",
    "Checkpoint": "checkpoint",
}
_ROUTES: Final = {
    "winner": "through the position of its winner",
    "sweep": "through a sweep back over its steps",
    "scaled sum": "as one sum, scaled by the last shift",
    "zero": "dropped",
}
_LONG_FORMULA: Final = 400
"""Formulas of more nodes are left to the printed tensor."""


@dataclass(frozen=True, eq=False)
class Row:
    """One labelled line.

    Attributes:
        label: what the line is about; "" continues the line before.
        words: text and expressions.
        names: how the axes in the expressions are called.
        formal: the words are mathematics.
        mark: "good", "weak" or "bad" for the result of a check.
    """

    label: str
    words: Words
    names: Mapping[Expr, str] = field(default_factory=dict)
    formal: bool = False
    mark: str = ""


@dataclass(frozen=True, eq=False)
class Card:
    """One adjoint: a title and its rows."""

    title: Words
    rows: list[Row]


def number(n: Count) -> str:
    """A count with separators, or a polynomial."""
    return f"{n:,}" if isinstance(n, int) else str(n)


def joined(parts: Iterable[Words], separator: str) -> Words:
    """Words with a separator between them."""
    result: Words = []
    for n, part in enumerate(parts):
        result += [separator, *part] if n else part
    return result


def heading(g: Gradient) -> str:
    """What was differentiated by what."""
    y = g.outputs[0]
    of = derivation(y) if len(g.outputs) == 1 else None
    names, by = _names_of(g.outputs), _names_of(g.wrt)
    origin = "" if of is None else f", itself {_origin(of)},"
    if g.along:
        return f"the derivative of {names}{origin} along directions of {by}"
    jacobian = len(g.outputs) == 1 and y.ndim > 0 and g.tensor.ndim == y.ndim + g.about.ndim
    if of is None or (jacobian and of.along):
        return f"the {'Jacobian' if jacobian else 'gradient'} of {names}{origin} by {by}"
    if jacobian:
        first = _names_of(of.outputs)
        return f"the second derivative of {first} by {of.about.name} and {by}"
    return f"the gradient of {names}{origin} by {by}"


def _origin(of: Derivation) -> str:
    outputs_ = _names_of(of.outputs)
    if of.along:
        return f"the derivative of {outputs_} along directions of {_names_of(of.wrt)}"
    return f"the gradient of {outputs_} by {of.about.name}"


def _names_of(tensors: Sequence[Tensor]) -> str:
    return ", ".join([t.name for t in tensors])


def summary(g: Gradient) -> list[Row]:
    """Work, bound, certificates."""
    rows: list[Row] = []
    if g.work is None:
        rows.append(Row("work", ["no count without values: explain(..., sizes={...})"]))
    else:
        words = f"{number(g.work.iterations)} iterations"
        if g.bound is not None and isinstance(g.work.iterations, int):
            ratio = g.work.iterations / g.bound if g.bound else 0.0
            words += f" = {ratio:.2f} of the bound B = {number(g.bound)}"
        words += f", {number(g.work.multiplications)} multiplications"
        rows.append(Row("work", [f"{words}, forward values it needs included"]))
    proofs = g.certificates
    if proofs:
        true = [c.verdict.proof for c in proofs if c.verdict.holds]
        word = "elimination" if len(proofs) == 1 else "eliminations"
        by = f", by {', '.join(dict.fromkeys(true))}" if true else ""
        mark = "bad" if len(true) < len(proofs) else "weak" if "samples" in true else "good"
        text = f"{len(true)} of {len(proofs)} {word} certified{by}"
        rows.append(Row("proof", [text], mark=mark))
    return rows


def cards(g: Gradient) -> list[Card]:
    """One per adjoint on the way, the output's side first."""
    readers = _readers(g.outputs)
    made = {op.name: outputs(op) for op in topological_ops([g.tensor])}
    told = [s for s in g.stories if s.about is g.about or _says_something(s)]
    found = [_card(s, g, readers, made) for s in told]
    if all(s.about is not g.about for s in g.stories):
        found.append(_card(Story(g.about), g, readers, made))
    for c in g.others:
        found.append(Card(["a domain solved on the way"], [*_certificate_rows(c, None), _proof(c)]))
    return found + [_blocks_card(b) for b in g.blocks] + [order_card(o) for o in g.orders]


def _blocks_card(b: Blocks) -> Card:
    """What a call, branch or loop is, what it stores, and what derivatives compute again."""
    op = b.control
    rows = [Row("runs", _how_often(op))]
    keeps = op.keeps if isinstance(op, Checkpoint) else 0
    stored = [*[outputs(s)[0] for s in b.saved], *outputs(op)[len(op.names) - keeps :]]
    for n, t in enumerate(stored):
        shape: Words = joined([[dim_expr(extent)] for extent in t.shape], ", ")
        rows.append(Row("" if n else "stores", [f"{t.name} : {t.dtype} [", *shape, "]"]))
    if not stored:
        rows.append(Row("stores", ["its results alone"]))
    for n, (name, why) in enumerate(b.again.items()):
        rows.append(Row("" if n else "again", [f"{name}: {why}"]))
    kind = _KINDS.get(type(op).__name__, "blocks")
    at = f" at {op.source}" if op.source else ""
    return Card([f"{kind} of {', '.join(op.names)}{at}"], rows)


def _how_often(op: Control) -> Words:
    if isinstance(op, FunctionCall):
        return [f"the block of {op.function}"]
    if not isinstance(op, Loop):
        return [f"one of {len(op.blocks)} blocks"]
    if len(op.blocks) > 1:
        return [op.counter, " = 0, 1, ... until its test fails"]
    order = ", the last one first" if op.reverse else ""
    return ["for 0 <= ", op.counter, " < ", op.trips, order]


def order_card(o: Order) -> Card:
    """The stages of a sum of products, and what they save."""
    costs = [w for w in (o.work, o.written) if w is not None]
    counts = [number(w.iterations) for w in costs] if len(costs) == 2 else ["fewer", "more"]
    rows = [Row("work", [f"{counts[0]} iterations; {counts[1]} in the written order"])]
    for n, t in enumerate((*o.stages, o.tensor)):
        assert isinstance(t.op, Compute)
        words: Words = [read(t, t.op.axes), " = ", t.op.bodies[0]]
        rows.append(Row("" if n else "order", words, formal=True))
    return Card([f"{o.tensor.name} is evaluated in the order that costs least"], rows)


def _says_something(s: Story) -> bool:
    return s.outcome is not None or bool(s.flows) or bool(_choice_rows(s))


def _card(
    s: Story, g: Gradient, readers: Mapping[Expr, Tensor], made: Mapping[str, Sequence[Tensor]]
) -> Card:
    final = s.about is g.about
    name = g.tensor.name if final else f"d{s.about.name}"
    result = g.tensor if final else None
    if s.outcome is not None and s.outcome.result is not None and not final:
        result = next(iter(made.get(s.outcome.result.op.name, ())), None)
    rows = _choice_rows(s)
    if any(c.what == "zero" for c in s.choices):
        formula = [] if s.outcome is None else _unstored_rows(name, s.outcome)[:-1]
        return Card([f"{name} : zero"], [*formula, *rows[-1:]])
    title: Words = [f"{name} : not stored"]
    if s.outcome is None and not s.flows and not final:
        return Card([s.about.name], rows)
    if result is not None:
        title = [f"{name} : {result.dtype} [", *joined([[str(n)] for n in result.shape], ", "), "]"]
        rows += _result_rows(name, result)
        if final:
            rows += _helper_rows(g)
    elif s.outcome is not None:
        rows += _unstored_rows(name, s.outcome)
    for flow in s.flows:
        rows += _flow_rows(flow, readers)
    return Card(title, rows)


def _helper_rows(g: Gradient) -> list[Row]:
    """Stages that are neither forward values nor adjoints: winners, shared sums."""
    known = dict.fromkeys([*topological_ops(g.outputs), g.tensor.op])
    made = [s.outcome.result for s in g.stories if s.outcome is not None]
    names = {t.op.name for t in made if t is not None}
    rows: list[Row] = []
    for op in topological_ops([g.tensor]):
        if isinstance(op, Compute) and op not in known and op.name not in names:
            for t in outputs(op):
                formula = _formula_row(t.name, op.axes, op.bodies[t.index])
                rows += [replace(row, label="with") for row in formula]
    return rows


def _unstored_rows(name: str, outcome: Decision) -> list[Row]:
    if outcome.formula is not None:
        return [*_formula_row(name, *outcome.formula), Row("inlined", [outcome.why])]
    rows = [] if outcome.result is None else _result_rows(name, outcome.result)
    return [*rows, Row("inlined", ["it became part of the formula that reads it"])]


def _choice_rows(s: Story) -> list[Row]:
    """Choices that had an alternative, each once; a plain sum has none."""
    rows: dict[tuple[str, Expr | None], Row] = {}
    for c in s.choices:
        if c.what != "sum":
            over: list[Words] = []
            if isinstance(c.part, Reduce):
                over = [[a] for a in c.part.axes]
            kind = c.part.combiner.name if isinstance(c.part, Reduce) else ""
            what: Words = [f"{kind} over ", *joined(over, ", "), ": "] if over else []
            plan = _ROUTES.get(c.what, c.what)
            rows[c.what, c.part] = Row("choice", [*what, f"{plan}: {c.why}" if c.why else plan])
    return list(rows.values())


def _result_rows(name: str, t: Tensor) -> list[Row]:
    if isinstance(t.op, Compute):
        return _formula_row(name, t.op.axes, t.op.bodies[t.index])
    rows: list[Row] = []
    if isinstance(t.op, Scan):
        rows.append(Row("result", [f"{name}: a scan with {t.op.combiner.name}; print the tensor"]))
    if isinstance(t.op, Scatter):
        names = _names(t.op.axes, [])
        for u in t.op.updates:
            left: Words = [f"{name}[", *joined([[i] for i in u.indices], ", "), "] += ", u.value]
            where: Words = [] if u.condition is TRUE else [" where ", u.condition]
            rows.append(Row("result", [*left, *where], names, formal=True))
        loops: Words = ["for ", *joined(map(_range, t.op.axes), ", ")]
        rows.append(Row("", loops, names, formal=True))
    return rows


def _formula_row(name: str, axes: Sequence[Axis], body: Expr) -> list[Row]:
    if len(postorder(body)) > _LONG_FORMULA:
        return [Row("result", [f"{name}: a long formula; print the tensor"])]
    inner = [a for e in postorder(body) if isinstance(e, Reduce) for a in e.axes]
    left: Words = [f"{name}[", *joined([[a] for a in axes], ", "), "]"] if axes else [name]
    return [Row("result", [*left, " = ", body], _names(axes, inner), formal=True)]


def _names(first: Sequence[Axis], second: Sequence[Axis]) -> dict[Expr, str]:
    """Names of axes; equal ones of different axes are numbered."""
    writer = ExprWriter()
    writer.declare([*first, *second])
    return dict(writer.leaves)


def _readers(ys: Sequence[Tensor]) -> dict[Expr, Tensor]:
    """Axis -> the operation it belongs to, among those the outputs depend on."""
    found: dict[Expr, Tensor] = {}
    for y in ys:
        for op in derivation_order(y):
            viewed: Op = view(op)
            if isinstance(viewed, Compute):
                inner = [a for b in viewed.bodies if isinstance(b, Reduce) for a in b.axes]
                for a in (*viewed.axes, *inner):
                    found.setdefault(a, outputs(op)[0])
    return found


def _flow_rows(flow: Flow, readers: Mapping[Expr, Tensor]) -> list[Row]:
    into = flow.incoming
    reader = next((readers[a] for a in into.axes if a in readers), None)
    where: Words = []
    if reader is not None and isinstance(reader.op, Compute):
        where = [f" in {reader.name}"]
    there: Words = [read(into.about, tuple(map(simplify, into.indices))), *where]
    rows = [Row("read", there, _names(into.axes, []), formal=True)]
    if flow.decision.what != "gathered":
        once = "every forward point is visited once: nothing had to be solved"
        reasons = [c.solution.reason for c in flow.certificates if c.solution.reason]
        found = f" ({reasons[0]})" if reasons else ""
        plan = Row("plan", [f"scattered: {flow.decision.why}{found}"])
        return [*rows, plan, Row("proof", [once], mark="good")]
    certificates = list(flow.certificates)
    if all(_is_pointwise(c) for c in certificates):
        rows.append(Row("plan", ["one contribution per element, from its own point: no loop"]))
        return [*rows, *map(_proof, certificates)]
    for c in certificates:
        rows += _certificate_rows(c, flow if len(certificates) == 1 else None)
    if flow.visited is not None:
        rows.append(Row("", [f"visits {number(flow.visited)} points"]))
    return [*rows, Row("plan", [_gather_text(flow)]), *map(_proof, certificates)]


def _proof(c: Certificate) -> Row:
    v = c.verdict
    mark = "good" if v.is_proof else "weak" if v.holds else "bad"
    return Row("proof", [c.verdict_text()], mark=mark)


def _is_pointwise(c: Certificate) -> bool:
    """Whether the plan just says which forward point each element is."""
    return len(c.solution.pieces) == 1 and all(
        not p.axes and p.guard is TRUE and p.residual is TRUE
        and all(isinstance(v, (Axis, Const)) for v in p.values.values())
        for p in c.solution.pieces
    )  # fmt: skip


def _gather_text(flow: Flow) -> str:
    loops = [p.axes for c in flow.certificates for p in c.solution.pieces]
    if not flow.certificates:
        return "gathered: the read is at the element's own indices, there is nothing to solve"
    if not loops:
        return "gathered: nothing ever reaches it"
    if not any(loops):
        return "gathered: at most one contribution per element, so no loop is left"
    return "gathered: each element adds up the points that reach it, and no others"


def _certificate_rows(c: Certificate, flow: Flow | None) -> list[Row]:
    names = _scope(c)
    before: list[Words] = [*map(_range, c.inner)]
    before.extend([p] for p in conjuncts(simplify(c.condition)))
    rows = [Row("before", _set(c.outer, c.inner, before), names, formal=True)]
    if flow is not None and flow.pairs is not None and flow.live is not None:
        asked, live = number(flow.pairs), number(flow.live)
        rows.append(Row("", [f"of {asked} pairs (element, forward point) {live} count"]))
    for piece in c.solution.pieces:
        solved = _solved(c, piece)
        if solved:
            rows.append(Row("solved", solved, names, formal=True))
        after = _set(c.outer, piece.axes, _after(piece))
        rows.append(Row("after", after, names, formal=True))
    if not c.solution.exact and c.solution.reason:
        rows.append(Row("", [f"some points are tested in vain: {c.solution.reason}"]))
    return rows


def _scope(c: Certificate) -> dict[Expr, str]:
    """Forward axes keep their names; those of the gradient get a prime where they collide."""
    names = _names(c.inner, [])
    taken = set(names.values())
    for a in c.outer:
        text = a.name
        while text in taken:
            text += "'"
        names[a] = text
        taken.add(text)
    for piece in c.solution.pieces:
        for a in piece.axes:  # a loop that is one of the old axes goes by its name
            names[a] = next((names[old] for old in c.inner if piece.values[old] is a), a.name)
    return names


def _set(outer: Sequence[Axis], inner: Sequence[Axis], parts: Sequence[Words]) -> Words:
    given: Words = ["[", *joined([[a] for a in outer], ", "), "] -> "] if outer else []
    whole: Words = ["{ ", *given, "[", *joined([[a] for a in inner], ", "), "]"]
    return [*whole, " : ", *joined(parts, " and "), " }"] if parts else [*whole, " }"]


def _range(a: Axis) -> Words:
    step: Words = [] if a.step is ONE else [" step ", a.step]
    return [a.lower, " <= ", a, " < ", a.upper, *step]


def _after(piece: Piece) -> list[Words]:
    tests = [*conjuncts(piece.guard), *conjuncts(piece.residual)]
    found: list[Words] = [*map(_range, piece.axes)]
    found.extend([p] for p in tests)
    return found


def _solved(c: Certificate, piece: Piece) -> Words:
    loops = dict.fromkeys(piece.axes)
    given = [old for old in c.inner if piece.values[old] not in loops]
    return joined([[old, " := ", piece.values[old]] for old in given], ", ")
