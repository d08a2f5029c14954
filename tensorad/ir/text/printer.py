"""Expressions and tensors as text: deterministic, without addresses, linear in the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tensorad.errors import InternalError
from tensorad.ir import nodes, tensor
from tensorad.ir.arrays.arguments import check_tensors
from tensorad.ir.arrays.scan_outputs import scan_results
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    Size,
    call,
    int_const,
    sub,
)
from tensorad.ir.functions import Function, is_stop
from tensorad.ir.hooks import Hook
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Control,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.text.names import Names, SizeNames, TensorNames
from tensorad.ir.visit import children, op_expressions, op_inputs, postorder

_BINARY: Final = {
    "or": (" or ", 1), "and": (" and ", 2), "lt": (" < ", 4), "le": (" <= ", 4),
    "gt": (" > ", 4), "ge": (" >= ", 4), "eq": (" == ", 4), "ne": (" != ", 4),
    "add": (" + ", 5), "sub": (" - ", 5), "mul": ("*", 6), "div": ("/", 6),
    "floordiv": ("//", 6), "mod": (" % ", 6),
}  # fmt: skip
_PREFIX: Final = {"not": ("not ", 3), "neg": ("-", 7)}
_POWER: Final = 8
ATOM: Final = 9
_FUNCTIONS: Final = {"minimum": "min", "maximum": "max"}
_MANY_NODES: Final = 200
_BLOW_UP: Final = 4
"""An expression whose tree is so much larger than its DAG prints shared parts once."""
_WORTH_A_NAME: Final = 4
"""Shared parts of fewer nodes are repeated."""

Item = str | tuple[Expr, int]
"""Text, or an expression with the least binding strength that needs no parentheses."""


def format_expr(e: Expr) -> str:
    """One line; a huge shared expression is written `{t0 = ...; t1 = ...} ...`."""
    lines, text = format_expr_lines(e)
    return f"{{{'; '.join(lines)}}} {text}" if lines else text


def format_expr_lines(e: Expr) -> tuple[list[str], str]:
    """Lines `t0 = ...` for shared parts (none unless it pays) and the expression over them."""
    lines, (text,) = ExprWriter().write((e,))
    return lines, text


program_text: Final[Hook[[Sequence[Tensor], bool], str]] = Hook("tensorad.ir.text.listing")


def format_tensor(t: Tensor) -> str:
    """The operation that defines `t`, without what it reads."""
    if isinstance(t.op, (Control, Saved)):
        return program_text.call((t,), False)
    return _format_op(t.op, TensorNames(outputs(t.op)), {t: None})


def format_tensor_recursively(tensors: Tensor | Sequence[Tensor]) -> str:
    """The operations behind `tensors`, consumers first, each once; equal names are numbered.

    With calls, branches and loops among them: a program that returns the tensors.
    """
    roots = check_tensors(tensors, "PrintTensorRecursively")
    order = consumers_first(roots)
    if any(isinstance(op, Control) for op in order):
        return program_text.call(roots, True)
    names = TensorNames([t for op in order for t in outputs(op)])
    used = used_tensors(order, roots)
    return "\n\n".join([_format_op(op, names, used) for op in order])


def number_text(e: Const) -> str:
    """The shortest text that reads back as the same number of its dtype."""
    if e.dtype is FLOAT32:
        return str(np.float32(e.value))
    return repr(e.value)


def consumers_first(roots: Sequence[Tensor]) -> list[Op]:
    """The reverse of a post-order that enters operands from the last to the first."""
    done: dict[Op, None] = {}
    inputs: dict[Op, list[Op]] = {}
    stack = [t.op for t in roots]
    while stack:
        op = stack[-1]
        if op in done:
            stack.pop()
            continue
        if op not in inputs:
            inputs[op] = [t.op for t in op_inputs(op)]
            stack.extend([o for o in inputs[op] if o not in done])
        else:
            done[op] = None
            stack.pop()
    return list(done)[::-1]


class ExprWriter:
    """Writes expressions of one scope: equal names of different axes become distinct."""

    def __init__(self, tensor_name: Callable[[Tensor], str] | None = None) -> None:
        self.tensor_name = tensor_name or TensorNames(())
        names = self.tensor_name
        self.size_names = names.sizes if isinstance(names, TensorNames) else SizeNames()
        self.names = Names()
        self.leaves: dict[Expr, str] = {}
        self.shared: dict[Expr, str] = {}

    def declare(self, leaves: Iterable[Expr]) -> None:
        """Give axes and parameters their names, in this order."""
        for e in leaves:
            if isinstance(e, (Axis, Param)) and e not in self.leaves:
                self.leaves[e] = self.names.unique(e.name)

    def write(
        self, roots: Sequence[Expr], axes: Sequence[Axis] = ()
    ) -> tuple[list[str], list[str]]:
        """Lines for shared parts, and the texts of `roots`; `axes` are named first."""
        order = postorder(*roots)
        for e in order:
            if isinstance(e, Size):
                self.size_text(e)
        self.declare(axes)
        self.declare([leaf for e in order for leaf in (e.axes if isinstance(e, Reduce) else (e,))])
        worth = shared_parts(roots, order)
        lines = self._definitions(order)
        for e in worth:
            text = self.text(e)
            self.shared[e] = self.names.unique(f"t{len(self.shared)}")
            lines.append(f"{self.shared[e]} = {text}")
        return lines, [self.text(r) for r in roots]

    def size_text(self, e: Size) -> str:
        """The name of a size, which axes declared later do not have."""
        text = self.size_names(e)
        self.names.counts.setdefault(text, 1)
        return text

    def _definitions(self, order: Sequence[Expr]) -> list[str]:
        """A line f(x) = formula for every function with derivatives of its own."""
        known: dict[Function, None] = {}
        pending = [e.function for e in order if isinstance(e, Apply)]
        while pending:
            f = pending.pop(0)
            if f not in known and not is_stop(f):
                known[f] = None
                pending += [e.function for e in postorder(f.result) if isinstance(e, Apply)]
        lines = []
        for f in known:
            writer = type(self)(self.tensor_name)
            writer.declare(f.params)
            operands = ", ".join([writer.text(p) for p in f.params])
            lines.append(f"{f.name}({operands}) = {writer.text(f.result)}")
        return lines

    def text(self, root: Expr) -> str:
        """One expression, written with an explicit stack of what is still to come."""
        out: list[str] = []
        stack: list[Item] = [(root, 0)]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                out.append(item)
                continue
            e, least = item
            if e in self.shared:
                out.append(self.shared[e])
                continue
            items, strength = self.node(e)
            if strength < least:
                items = ["(", *items, ")"]
            stack.extend(reversed(items))
        return "".join(out)

    def node(self, e: Expr) -> tuple[list[Item], int]:
        """The parts of one node and how strongly it binds."""
        match e:
            case Const():
                text = number_text(e)
                return [text], 7 if text.startswith("-") else ATOM
            case Axis() | Param():
                return [self.leaves.get(e, e.name)], ATOM
            case Size():
                return [self.size_text(e)], ATOM
            case Read():
                return [f"{self.tensor_name(e.tensor)}[", *listed(e.indices), "]"], ATOM
            case Select():
                return ["select(", *listed(children(e)), ")"], ATOM
            case Cast():
                return [f"{e.dtype}(", (e.value, 0), ")"], ATOM
            case Call():
                return _call_items(e)
            case Apply():
                return [f"{e.function.name}(", *listed(e.args), ")"], ATOM
            case Reduce():
                return self.reduction(e), ATOM
        raise InternalError(f"unknown expression class {type(e).__name__}")

    def reduction(self, e: Reduce) -> list[Item]:
        """sum(source, axes (k : [0, 9]), where condition), and .1 for a later component."""
        sources = listed(e.sources)
        items: list[Item] = [f"{e.combiner.name}("]
        items.extend(sources if len(e.sources) == 1 else ["(", *sources, ")"])
        items.extend([", ", *self.axes(e.axes)])
        if e.condition is not TRUE:
            items.extend([", where ", (e.condition, 0)])
        items.append(f").{e.index}" if len(e.sources) > 1 else ")")
        return items

    def axes(self, axes: Sequence[Axis]) -> list[Item]:
        """axes (i : [0, 31], j : [0, 2999]): both ends included."""
        items: list[Item] = ["axes ("]
        for n, a in enumerate(axes):
            items.append(f"{', ' if n else ''}{self.leaves.get(a, a.name)} : [")
            items.extend([(a.lower, 0), ", ", (_minus_one(a.upper), 0), "]"])
            if a.step is not ONE:
                items.extend([" step ", (a.step, 0)])
        return [*items, ")"]

    def axes_text(self, axes: Sequence[Axis]) -> str:
        """The text of `axes`."""
        parts = [i if isinstance(i, str) else self.text(i[0]) for i in self.axes(axes)]
        return "".join(parts)


def listed(exprs: Sequence[Expr]) -> list[Item]:
    """The expressions with commas between them."""
    items: list[Item] = []
    for n, e in enumerate(exprs):
        items.extend([", ", (e, 0)] if n else [(e, 0)])
    return items


def _call_items(e: Call) -> tuple[list[Item], int]:
    if e.op in _BINARY and len(e.args) == 2:
        symbol, strength = _BINARY[e.op]
        left = strength + 1 if strength == 4 else strength
        right = strength if strength < 4 else strength + 1
        return [(e.args[0], left), symbol, (e.args[1], right)], strength
    if e.op in _PREFIX:
        symbol, strength = _PREFIX[e.op]
        return [symbol, (e.args[0], strength)], strength
    if e.op == "pow":
        return [(e.args[0], ATOM), "**", (e.args[1], ATOM)], _POWER
    return [f"{_FUNCTIONS.get(e.op, e.op)}(", *listed(e.args), ")"], ATOM


def _minus_one(upper: Expr) -> Expr:
    """upper - 1, taken into minima and maxima: min(3, y + 1) - 1 -> min(2, y)."""
    done: dict[Expr, Expr] = {}
    stack = [upper]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
        elif isinstance(e, Call) and e.op in _FUNCTIONS:
            missing = [a for a in e.args if a not in done]
            stack.extend(missing)
            if not missing:
                done[e] = call(e.op, *[done[a] for a in e.args])
        else:
            done[e] = sub(e, int_const(1)) if e.dtype.is_integer else e
    return done[upper]


def shared_parts(roots: Sequence[Expr], order: Sequence[Expr]) -> list[Expr]:
    """Nodes to print once, in post-order; none unless the tree is much larger than the DAG."""
    size: dict[Expr, int] = {}
    uses: dict[Expr, int] = {}
    limit = 1 << 62
    for e in order:
        below = children(e)
        size[e] = min(limit, 1 + sum([size[c] for c in below]))
        for c in below:
            uses[c] = uses.get(c, 0) + 1
    whole = sum([size[r] for r in roots])
    if whole <= max(_MANY_NODES, _BLOW_UP * len(order)):
        return []
    return [e for e in order if uses.get(e, 0) > 1 and size[e] >= _WORTH_A_NAME]


def _format_op(op: Op, names: TensorNames, used: Mapping[Tensor, None]) -> str:
    writer = ExprWriter(names)
    heads = [
        f"{names(t)} : {t.dtype} [{', '.join([writer.text(dim_expr(n)) for n in t.shape])}]"
        for t in named_outputs(op, used)
    ]
    lines = [f"tensor {', '.join(heads)}"]
    match op:
        case Placeholder():
            lines.append(f"    placeholder({names(outputs(op)[0])})")
        case Constant():
            lines.append(f"    constant({array_text(op.array)})")
        case Compute():
            lines.extend(_compute_lines(op, writer))
        case Scatter():
            lines.extend(_scatter_lines(op, writer))
        case Scan():
            lines.extend(_scan_lines(op, writer))
    return "\n".join(lines)


def used_tensors(order: Iterable[Op], roots: Iterable[Tensor]) -> dict[Tensor, None]:
    """The roots, and what the operations read."""
    return dict.fromkeys([*roots, *[t for op in order for t in op_inputs(op)]])


def named_outputs(op: Op, used: Mapping[Tensor, None]) -> tuple[Tensor, ...]:
    """The tensors to list: of a scan, which can keep states of many kinds, those in use."""
    if not isinstance(op, Scan):
        return outputs(op)
    return tuple([t for t in outputs(op) if t in used]) or scan_results(op)


def array_text(array: np.ndarray) -> str:
    """All elements of a small array, the first ones of a large one."""
    flat = array.reshape(-1)
    shown = ", ".join([str(v) for v in flat[:8]])
    return shown if flat.size <= 8 else f"{shown}, ..."


def _compute_lines(op: Compute, writer: ExprWriter) -> list[str]:
    first = op.bodies[0]
    if isinstance(first, Reduce) and all(same_fold(first, b) for b in op.bodies):
        return _reduction_lines(op, first, writer)
    shared, texts = writer.write(op.bodies, op.axes)
    lines = [writer.axes_text(op.axes), *[f"    {line}" for line in shared]]
    if len(texts) == 1:
        return [*lines, f"    {texts[0]}"]
    return [*lines, *[f"    body[{n}] = {text}" for n, text in enumerate(texts)]]


def same_fold(a: Reduce, b: Expr) -> bool:
    """Whether b is a component of the fold that a is a component of."""
    if not isinstance(b, Reduce) or len(a.sources) != len(b.sources) or len(a.axes) != len(b.axes):
        return False
    pairs = zip((*a.sources, *a.axes, a.condition), (*b.sources, *b.axes, b.condition), strict=True)
    return a.combiner is b.combiner and all(x is y for x, y in pairs)


def _reduction_lines(op: Compute, e: Reduce, writer: ExprWriter) -> list[str]:
    bounds = [b for a in e.axes for b in (a.lower, _minus_one(a.upper), a.step)]
    shared, texts = writer.write((e.condition, *e.sources, *bounds), (*op.axes, *e.axes))
    condition, sources = texts[0], texts[1 : 1 + len(e.sources)]
    lines = [writer.axes_text(op.axes), "Reduction", *_combiner_lines(e.combiner)]
    lines.append(f"    {writer.axes_text(e.axes)}")
    lines.extend([f"    {line}" for line in shared])
    lines.append(f"    condition {condition}")
    lines.extend([f"    source[{n}] = {text}" for n, text in enumerate(sources)])
    wanted = [b.index for b in op.bodies if isinstance(b, Reduce)]
    if wanted != list(range(e.combiner.arity)):
        lines.append(f"    component {', '.join(map(str, wanted))}")
    return lines


def _combiner_lines(c: Combiner) -> list[str]:
    writer = ExprWriter()
    writer.declare((*c.lhs, *c.rhs))
    shared, results = writer.write(c.results)
    lhs, rhs = ([writer.leaves[p] for p in side] for side in (c.lhs, c.rhs))
    return [
        f"    identity [{', '.join([number_text(v) for v in c.identity])}]",
        f"    lhs [{', '.join(lhs)}]  rhs [{', '.join(rhs)}]",
        *[f"    {line}" for line in shared],
        f"    combiner [{', '.join(results)}]",
    ]


def _scatter_lines(op: Scatter, writer: ExprWriter) -> list[str]:
    shared, texts = writer.write(op_expressions(op), op.axes)
    name = writer.tensor_name(outputs(op)[0])
    lines = [writer.axes_text(op.axes), "Scatter", *_combiner_lines(op.combiner)]
    lines.append(f"    init {'identity' if op.init is None else writer.tensor_name(op.init)}")
    lines.extend([f"    {line}" for line in shared])
    rest = iter(texts)
    for n, u in enumerate(op.updates):
        where = ", ".join([next(rest) for _ in u.indices])
        lines.append(f"    update[{n}] {name}[{where}] += {next(rest)}")
        condition = next(rest)
        if u.condition is not TRUE:
            lines[-1] += f" where {condition}"
    return lines


def _scan_lines(op: Scan, writer: ExprWriter) -> list[str]:
    bounds = [b for a in op.along for b in (a.lower, _minus_one(a.upper), a.step)]
    roots = (*op.indices, op.condition, *op.start, *op.sources, *(op.cell or ()))
    shared, texts = writer.write((*roots, *bounds), (*op.axes, *op.along))
    rest = iter(texts)
    where = ", ".join([next(rest) for _ in op.indices])
    condition, starts = next(rest), [next(rest) for _ in op.start]
    lines = [writer.axes_text(op.axes), "Scan", *_combiner_lines(op.combiner)]
    lines.append(f"    along {writer.axes_text(op.along)}")
    lines.extend([f"    {line}" for line in shared])
    if any(a is not b for a, b in zip(op.start, op.combiner.identity, strict=True)):
        lines.append(f"    start [{', '.join(starts)}]")
    if op.condition is not TRUE:
        lines.append(f"    condition {condition}")
    lines.append(f"    exclusive {op.exclusive}  reverse {op.reverse}  at [{where}]")
    lines.extend([f"    source[{n}] = {next(rest)}" for n in range(len(op.sources))])
    if op.cell is not None:
        lines.append(f"    cell [{', '.join([next(rest) for _ in op.cell])}]")
    return lines


nodes.format_expr.fill(format_expr)
tensor.format_tensor.fill(format_tensor)
