"""Tensors as HTML: one framed formula per operation, consumers first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from tensorad.display.formula import FormulaWriter
from tensorad.display.program import program_html
from tensorad.display.style import page
from tensorad.errors import InternalError
from tensorad.ir import array_methods
from tensorad.ir.arrays.arguments import check_tensors
from tensorad.ir.combiner import (
    BY_NAME,
    Combiner,
    all_combiner,
    any_combiner,
)
from tensorad.ir.expr import TRUE, Axis, Expr, Reduce, read
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Control,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.text.listing import program_of
from tensorad.ir.text.names import TensorNames
from tensorad.ir.text.printer import (
    array_text,
    consumers_first,
    named_outputs,
    number_text,
    same_fold,
    used_tensors,
)
from tensorad.ir.visit import op_expressions, postorder

_MOST_OPS: Final = 200
"""Operations shown; a note says how many more there are."""
_MOST_LINES: Final = 60
"""Lines of one operation; a note stands for those left out in the middle."""
_LONGEST: Final = 20_000
"""Characters of HTML one formula may take; longer ones end with a note."""


def tensors_html(tensors: Tensor | Sequence[Tensor]) -> str:
    """The operations behind `tensors`, consumers first, each once."""
    roots = check_tensors(tensors, "the display")
    order = consumers_first(roots)
    if any(isinstance(op, Control) for op in order):
        results = roots[0] if len(roots) == 1 else tuple(roots)
        return program_html(program_of(results, name=roots[0].name))
    names = TensorNames([t for op in order for t in outputs(op)])
    used = used_tensors(order, roots)
    cards = [_card(op, names, used) for op in order[:_MOST_OPS]]
    if len(order) > _MOST_OPS:
        more = len(order) - _MOST_OPS
        cards.append(f'<div class="op dim">… and {more} more operations</div>')
    return page("".join(cards))


def _card(op: Op, names: TensorNames, used: Mapping[Tensor, None]) -> str:
    writer = FormulaWriter(names)
    if isinstance(op, (Compute, Scatter, Scan)):
        writer.colour(op.axes)
    match op:
        case Placeholder():
            kind, lines = "input", []
        case Constant():
            kind, lines = "constant", [escape(array_text(op.array))]
        case Compute():
            kind, lines = "", _compute_lines(op, writer)
        case Scatter():
            kind, lines = "scatter", _scatter_lines(op, writer)
        case Scan():
            kind, lines = "scan", _scan_lines(op, writer, used)
        case _:
            raise InternalError(f"unknown operation {type(op).__name__}")
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES
        note = f'<span class="dim">… {more} lines …</span>'
        lines = [*lines[: _MOST_LINES // 2], note, *lines[-(_MOST_LINES // 2) :]]
    tensors = ", ".join(
        [
            f"<b>{escape(names(t))}</b> : {t.dtype} "
            f"[{', '.join([writer.text(dim_expr(n)) for n in t.shape])}]"
            for t in named_outputs(op, used)
        ]
    )
    head = f'<div class="head">{tensors} {kind}</div>'
    return f'<div class="op">{head}{"".join(map(_line, lines))}</div>'


def _line(html: str) -> str:
    if len(html) > _LONGEST:
        html = f'<span class="dim">a formula of {len(html):,} characters: print the tensor</span>'
    return f'<div class="line">{html}</div>'


def _compute_lines(op: Compute, writer: FormulaWriter) -> list[str]:
    shared, texts = writer.write(op.bodies, op.axes)
    left = [_element(t, op.axes, writer) for t in outputs(op)]
    if len(left) > 1 and _is_whole_fold(op.bodies):
        *items, _ = writer.node(op.bodies[0])[0]
        left, texts = [f"({', '.join(left)})"], [f"{writer.joined(items)})"]
    lines = [f'<span class="dim">{line}</span>' for line in shared]
    lines.extend([f"{element} = {text}" for element, text in zip(left, texts, strict=True)])
    return [*lines, *_for_axes(op.axes, writer), *_combiners(op.bodies)]


def _is_whole_fold(bodies: Sequence[Expr]) -> bool:
    """Whether the bodies are all components of one fold, in order."""
    first = bodies[0]
    return isinstance(first, Reduce) and all(
        isinstance(b, Reduce) and b.index == n and same_fold(first, b) for n, b in enumerate(bodies)
    )


def _element(t: Tensor, indices: Sequence[Expr], writer: FormulaWriter) -> str:
    return writer.text(read(t, tuple(indices)))


def _for_axes(axes: Sequence[Axis], writer: FormulaWriter) -> list[str]:
    if not axes:
        return []
    return [f'<span class="dim">for</span> {writer.joined(writer.ranges(axes))}']


def _combiners(roots: Sequence[Expr]) -> list[str]:
    """How folds other than the built-in ones combine their operands."""
    found: dict[Combiner, None] = {}
    for e in postorder(*roots):
        if isinstance(e, Reduce) and not _is_built_in(e.combiner):
            found[e.combiner] = None
    return [line for c in found for line in _combiner_lines(c)]


def _is_built_in(c: Combiner) -> bool:
    if c.arity > 1:
        return False
    dtype = c.identity[0].dtype
    known = [make(dtype) for make in BY_NAME.values()] + [any_combiner(), all_combiner()]
    return any(c is k for k in known)


def _combiner_lines(c: Combiner) -> list[str]:
    writer = FormulaWriter()
    writer.declare((*c.lhs, *c.rhs))
    shared, results = writer.write(c.results)
    lhs, rhs = (", ".join([writer.text(p) for p in side]) for side in (c.lhs, c.rhs))
    start = escape(", ".join([number_text(v) for v in c.identity]))
    return [
        *[f'<span class="dim">{line}</span>' for line in shared],
        f'<span class="dim">{escape(c.name)}:</span> ({lhs}) ⊕ ({rhs}) = ({", ".join(results)})'
        f'<span class="dim">, from</span> ({start})',
    ]


def _scatter_lines(op: Scatter, writer: FormulaWriter) -> list[str]:
    (out,) = outputs(op)
    shared, texts = writer.write(op_expressions(op), op.axes)
    name = f"<b>{escape(writer.tensor_name(out))}</b>"
    start = number_text(op.combiner.identity[0])
    if op.init is not None:
        start = f"<b>{escape(writer.tensor_name(op.init))}</b>"
    lines = [f"{name} = {start}", *[f'<span class="dim">{line}</span>' for line in shared]]
    rest = iter(texts)
    sign = "+=" if op.combiner.is_sum else "⊕="
    for u in op.updates:
        where = ", ".join([next(rest) for _ in u.indices])
        line = f"{name}[{where}] {sign} {next(rest)}"
        condition = next(rest)
        if u.condition is not TRUE:
            line += f' <span class="dim">where</span> {condition}'
        lines.append(line)
    lines.extend(_for_axes(op.axes, writer))
    return lines if _is_built_in(op.combiner) else [*lines, *_combiner_lines(op.combiner)]


def _scan_lines(op: Scan, writer: FormulaWriter, used: Mapping[Tensor, None]) -> list[str]:
    roots = (*op.indices, *op.sources, op.condition, *op.start, *(op.cell or ()))
    shared, texts = writer.write(roots, (*op.axes, *op.along))
    n, k = len(op.indices), len(op.sources)
    last = 2 * op.combiner.arity
    left = [
        _element(t, op.indices if t.index < last else op.axes, writer)
        for t in named_outputs(op, used)
    ]
    order = [
        word for word, wanted in (("exclusive", op.exclusive), ("reverse", op.reverse)) if wanted
    ]
    how = f" {', '.join(order)}" if order else ""
    where = "" if op.condition is TRUE else f' <span class="dim">where</span> {texts[n + k]}'
    lines = [f'<span class="dim">{line}</span>' for line in shared]
    lines.append(
        f"{', '.join(left)} = prefix {escape(op.combiner.name)} of {', '.join(texts[n : n + k])}"
        f'{where} <span class="dim">along{how}</span> {writer.joined(writer.ranges(op.along))}'
    )
    if any(a is not b for a, b in zip(op.start, op.combiner.identity, strict=True)):
        first = n + k + 1
        lines.append(
            f'<span class="dim">from</span> {", ".join(texts[first : first + len(op.start)])}'
        )
    if op.cell is not None:
        cell = ", ".join(texts[len(texts) - len(op.cell) :])
        lines.append(f'<span class="dim">in the state at</span> {cell}')
    lines.extend(_for_axes(op.axes, writer))
    return lines if _is_built_in(op.combiner) else [*lines, *_combiner_lines(op.combiner)]


array_methods.as_html.fill(tensors_html)
