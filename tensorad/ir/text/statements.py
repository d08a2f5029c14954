"""Programs as text, one binding a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.errors import InternalError
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.arrays.scan_outputs import scan_results
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import TRUE, Apply, Expr, LocalSize, Reduce, Size
from tensorad.ir.functions import Function
from tensorad.ir.nominal import Combiner
from tensorad.ir.records import Fields, Inject, RecordType, Recursion, Tag, stand_ins
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Constant,
    FunctionCall,
    Loop,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.text import program
from tensorad.ir.text.blocks import kept_shape, same_extents
from tensorad.ir.text.formulas import Definitions, ProgramWriter
from tensorad.ir.text.names import Names
from tensorad.ir.text.printer import number_text, same_fold
from tensorad.ir.text.program import (
    Bind,
    Define,
    Field,
    NameTree,
    Operand,
    Program,
    ProgramFunction,
    Run,
    Scope,
    Tree,
    forest_leaves,
    format_type,
    tree_leaves,
)
from tensorad.ir.text.tokens import quoted
from tensorad.ir.text.trampoline import Steps, run
from tensorad.ir.visit import op_expressions, postorder, sizes_in

MOST_ELEMENTS: Final = 16
"""Larger constants are named, and their elements are not in the text."""
SCAN_KINDS: Final = ("after", "before", "last")


def format_program(p: Program) -> str:
    """The program as text: constants, combiners and scalar functions, then its functions."""
    writer = _Writer(p)
    functions = ["\n".join(run(writer.function(f))) for f in p.functions]
    head = [constant_line(name, t) for name, t in p.constants.items()]
    head += definition_lines(writer.definitions)
    writer.sizes = writer.of_calls
    head = [*[writer.type_line(t) for t in writer.types if isinstance(t, RecordType)], *head]
    return "\n\n".join([*(["\n".join(head)] if head else []), *functions]) + "\n"


def constant_line(name: str, t: Tensor) -> str:
    """constant table : float32[2] = [0.5, 2.0]."""
    if not isinstance(t.op, Constant):
        raise InternalError(f"{t.name} is no constant")
    line = f"constant {quoted(name)} : {_constant_type(t)}"
    return line if t.op.array.size > MOST_ELEMENTS else f"{line} = {array_elements(t)}"


def _constant_type(t: Tensor) -> str:
    return format_type(t, lambda t: ", ".join(map(str, t.shape)))


def array_elements(t: Tensor) -> str:
    """All elements of a constant, in brackets as NumPy's lists."""
    if not isinstance(t.op, Constant):
        raise InternalError(f"{t.name} is no constant")
    texts = [str(v) for v in t.op.array.reshape(-1)]
    for n in reversed(t.op.array.shape[1:]):
        texts = [f"[{', '.join(texts[k : k + n])}]" for k in range(0, len(texts), n)] if n else []
    return f"[{', '.join(texts)}]" if t.shape else texts[0]


def definition_lines(definitions: Definitions) -> list[str]:
    """Combiners and scalar functions that formulas use, each after those that it uses."""
    lines: dict[Combiner | Function, str] = {}
    entered: dict[Combiner | Function, None] = {}
    while missing := [d for d in definitions.known if d not in lines]:
        stack: list[Combiner | Function] = missing[::-1]
        while stack:
            thing = stack[-1]
            if thing in lines:
                stack.pop()
            elif thing in entered:
                if isinstance(thing, Combiner):
                    lines[thing] = combiner_line(thing, definitions)
                else:
                    lines[thing] = function_line(thing, definitions)
                stack.pop()
            else:
                entered[thing] = None
                used = _used(thing.results if isinstance(thing, Combiner) else (thing.result,))
                stack.extend([f for f in reversed(used) if f not in entered])
    return list(lines.values())


def _used(roots: Sequence[Expr]) -> list[Function]:
    order = postorder(*roots)
    return list(dict.fromkeys([e.function for e in order if isinstance(e, Apply)]))


def combiner_line(c: Combiner, definitions: Definitions) -> str:
    """combiner f(x : float32; y : float32) from 0.0 = x + y."""
    writer = ProgramWriter({}, {}, definitions)
    writer.declare((*c.lhs, *c.rhs))
    prefix, texts = writer.formulas(c.results, ())
    sides = [", ".join([f"{writer.text(e)} : {e.dtype}" for e in side]) for side in (c.lhs, c.rhs)]
    start = ", ".join([number_text(e) for e in c.identity])
    word = "associative combiner" if c.associative else "combiner"
    name = definitions(c)
    return f"{word} {name}({'; '.join(sides)}) from {start} = {prefix}{', '.join(texts)}"


def function_line(f: Function, definitions: Definitions) -> str:
    """function f(x : float32) = x*x partials y: 2.0*x."""
    writer = ProgramWriter({}, {}, definitions)
    value, partials = f.partials()
    writer.declare((*f.params, value))
    given = ", ".join([f"{writer.text(e)} : {e.dtype}" for e in f.params])
    prefix, (text,) = writer.formulas((f.result,), ())
    line = f"function {definitions(f)}({given}) -> {f.result.dtype} = {prefix}{text}"
    writer.shared.clear()
    found = iter(writer.formulas([e for e in partials if e is not None], ())[1])
    texts = ["none" if e is None else next(found) for e in partials]
    return f"{line} partials {writer.text(value)}: {', '.join(texts)}"


class _Writer:
    """Writes the functions of a program."""

    def __init__(self, p: Program) -> None:
        self.definitions = Definitions()
        self.constants = {t: name for name, t in p.constants.items()}
        self.types = type_names(p)
        own = [f for f in p.functions if f.definition is not None]
        self.of_calls: dict[Size, str] = {
            s: f.sizes[s] for f in own if f.definition is not None for s in f.definition.sizes
        }
        """Names of sizes that calls give: each has one in the whole text."""
        self.sizes: Mapping[Size, str] = self.of_calls

    def function(self, f: ProgramFunction) -> Steps[list[str]]:
        """The lines of a function."""
        self.sizes = f.sizes
        writer = ProgramWriter({}, self.sizes, self.definitions)
        params = [f"{quoted(n)} : {self.type(tree, writer)}" for n, tree in f.params]
        own = _sizes_of([tree for _, tree in f.params])
        more = [
            quoted(name)
            for size, name in f.sizes.items()
            if not isinstance(size, LocalSize) and size not in own
        ]
        sizes = f"[{', '.join(more)}]" if more else ""
        results = self.type(f.results, writer)
        lines = yield self.bindings(f.scope, self.constants, "  ")
        word = "def" if f.definition is None else "define"
        given = [s for s in f.sizes if isinstance(s, LocalSize) and s in self.of_calls]
        at = writer.sizes_given(given if f.definition is None else f.definition.sizes)
        head = f"{word} {quoted(f.name)}{sizes}{at}({', '.join(params)}) -> {results}:"
        return [head, *lines, f"  return {name_tree(f.scope.results[0])}"]

    def bindings(self, s: Scope, outer: Mapping[Tensor, str], indent: str) -> Steps[list[str]]:
        """The lines of a block but for what it results in."""
        names = {**outer, **s.names}
        lines: list[str] = []
        for b in s.bindings:
            match b:
                case Define():
                    lines.append(indent + self.define(b, names))
                case Bind():
                    lines.append(f"{indent}{quoted(b.name)} = {name_tree(b.value)}")
                case Field():
                    lines.append(f"{indent}{quoted(b.name)} = {quoted(b.of)}[{b.index}]")
                case Run():
                    found = yield self.run(b, names, indent)
                    lines.extend(found)
        return lines

    def writer(self, names: Mapping[Tensor, str]) -> ProgramWriter:
        """What writes the formulas of one statement."""
        return ProgramWriter(names, self.sizes, self.definitions)

    def typed(self, names: Sequence[str], trees: Sequence[Tree]) -> str:
        """a : float32[3], b : int64[]."""
        writer = self.writer({})
        pairs = zip(names, trees, strict=True)
        return ", ".join([f"{quoted(n)} : {self.type(t, writer)}" for n, t in pairs])

    def type(self, tree: Tree, writer: ProgramWriter) -> str:
        """The type of a value."""
        return format_type(tree, writer.extents, self.types)

    def type_line(self, t: RecordType) -> str:
        """type List = Nil | Cons(head : float64[], tail : List)."""
        variants = []
        for v in t.variants:
            own = self.typed([f.name for f in v.fields], stand_ins(v.fields))
            variants.append(f"{quoted(v.name)}({own})" if v.fields else quoted(v.name))
        shapes = [dim_expr(n) for v in t.variants for f in v.fields for n in f.shape]
        sizes = [s for s in sizes_in(*shapes) if isinstance(s, LocalSize)]
        at = self.writer({}).sizes_given(sizes)
        return f"type {self.types[t]}{at} = {' | '.join(variants)}"

    def of_records(self, b: Run) -> str:
        """What makes or reads a record, or calls a definition."""
        op = b.control
        given = ", ".join([name_tree(o.value) for o in b.operands])
        match op:
            case Inject():
                return f"make {quoted(op.variant.name)}({given})"
            case Tag():
                return f"tag {given}"
            case Fields():
                of = op.operands[0].dtype
                name = of.variants[op.tag].name if isinstance(of, RecordType) else ""
                return f"fields {quoted(name)} of {given}"
            case Recursion():
                writer = self.writer({})
                values = ", ".join(map(writer.text, op.sizes))
                at = f" at [{values}]" if values else ""
                return f"recur {quoted(b.function or '')}{at}({given})"
        raise InternalError(f"{type(op).__name__} has no text")

    def define(self, b: Define, names: Mapping[Tensor, str]) -> str:
        """An operation on elements, by its formula."""
        writer = self.writer(names)
        op = b.tensors[0].op
        match op:
            case Constant():
                text = f"constant {array_elements(b.tensors[0])}"
            case Compute():
                text = _compute(op, writer)
            case Scatter():
                text = _scatter(op, writer)
            case Scan():
                text = _scan(op, b.tensors, writer)
            case _:
                raise InternalError(f"{type(op).__name__} {op.name} is no operation on elements")
        return f"{self.typed(b.names, b.tensors)} = {text}"

    def run(self, b: Run, names: Mapping[Tensor, str], indent: str) -> Steps[list[str]]:
        """A call, a branch or a loop."""
        head = f"{indent}{self.typed(b.names, b.trees)} = "
        op = b.control
        if not op.blocks:
            return [head + self.of_records(b)]
        if isinstance(op, FunctionCall):
            given = ", ".join([name_tree(o.value) for o in b.operands])
            kept = f" save {_listed(b.saves[0])}" if b.saves[0] else ""
            if isinstance(op, Checkpoint) and op.keeps:
                kept = f" keep {op.keeps}{kept}"
            return [f"{head}{call_word(op)} {quoted(b.function or op.function)}({given}){kept}"]
        lines = []
        blocks = list(zip(b.scopes, b.saves, strict=True))
        if isinstance(op, Branch):
            head += f"branch {quoted(b.given or '')}{_operands('', b.operands)}:"
            lines.append(head)
            titles = [f"{indent}case {n}:" for n in range(len(blocks))]
        elif isinstance(op, Loop):
            lines.append(head + self.loop_head(op, b))
            titles = [f"{indent}do:", ""] if len(blocks) > 1 else [""]
            blocks, titles = blocks[::-1], titles[::-1]
        inner = indent + "  "
        for (scope, seen), title in zip(blocks, titles, strict=True):
            lines.extend([title] if title else [])
            found = yield self.bindings(scope, self._everywhere(names), inner)
            lines.extend(found)
            lines.append(f"{inner}yield {', '.join([name_tree(r) for r in scope.results])}")
            lines.extend([f"{inner}save {_listed(seen)}"] if seen else [])
        if b.replay is not None and isinstance(op, Loop) and op.replay is not None:
            moving = op.replay.states + 2
            own = ", ".join([quoted(o.name or "") for o in b.replay.operands[:moving]])
            fixed = b.replay.operands[moving:]
            text = _operands(" fixed", fixed) if fixed else ""
            lines.append(f"{indent}replay {op.replay.rows} ({own}){text}:")
            scope = b.replay.scope
            found = yield self.bindings(scope, self._everywhere(names), inner)
            lines.extend(found)
            lines.append(f"{inner}yield {', '.join([name_tree(r) for r in scope.results])}")
        return lines

    def _everywhere(self, names: Mapping[Tensor, str]) -> dict[Tensor, str]:
        """The constants: they need not be given to a block."""
        return {t: name for t, name in names.items() if t.is_constant}

    def loop_head(self, op: Loop, b: Run) -> str:
        """loop t in [0, n) carry (s = zero) scan (row = x) fixed (w):."""
        writer = self.writer({})
        text = f"loop {writer.text(op.counter)} in [0, {writer.text(op.trips)})"
        text += f" times {quoted(b.given)}" if b.given else ""
        text += " reverse" if op.reverse else ""
        kinds = zip(("carry", "scan", "fixed"), loop_operands(op, b.operands), strict=True)
        text += "".join([_operands(f" {kind}", some) for kind, some in kinds if some])
        return f"{text} while:" if len(op.blocks) > 1 else f"{text}:"


def call_word(op: FunctionCall) -> str:
    """What a text has before the name of the function."""
    if isinstance(op, Checkpoint):
        return "recompute" if op.again else "checkpoint"
    return "foreign" if isinstance(op, Foreign) else "call"


def type_names(p: Program) -> dict[DType, str]:
    """The data types of a program, those of fields included, with names of their own."""
    tensors: list[Tensor] = []
    scopes: list[Scope] = []
    for f in p.functions:
        tensors += forest_leaves([f.results, *[tree for _, tree in f.params]])
        scopes.append(f.scope)
    while scopes:
        for b in scopes.pop().bindings:
            if isinstance(b, Run):
                tensors += forest_leaves([*b.trees, *[o.params for o in b.operands]])
                scopes += b.every_scope
    pending = [t.dtype for t in tensors if isinstance(t.dtype, RecordType)]
    found: dict[DType, str] = {}
    names = Names()
    while pending:
        t = pending.pop(0)
        if t not in found:
            found[t] = quoted(names.unique(str(t)))
            fields = [f.dtype for v in t.variants for f in v.fields]
            pending += [d for d in fields if isinstance(d, RecordType)]
    return found


def loop_operands(op: Loop, operands: Sequence[Operand]) -> tuple[tuple[Operand, ...], ...]:
    """Carries, scanned operands, fixed ones."""
    found: tuple[list[Operand], ...] = ([], [], [])
    at = 0
    for o in operands:
        kind = 0 if at < op.carries else 1 if at < op.carries + op.scanned else 2
        found[kind].append(o)
        at += len(tree_leaves(o.params))
    return tuple([tuple(some) for some in found])


def _operands(word: str, operands: Sequence[Operand]) -> str:
    texts = [
        name_tree(o.value) if o.name is None else f"{quoted(o.name)} = {name_tree(o.value)}"
        for o in operands
    ]
    return f"{word} ({', '.join(texts)})"


def _sizes_of(trees: Sequence[Tree]) -> dict[Size, None]:
    shapes = [dim_expr(n) for t in forest_leaves(trees) for n in t.shape]
    return dict.fromkeys(sizes_in(*shapes))


def name_tree(tree: NameTree) -> str:
    """A value by the names of its parts: (a, (b,))."""
    if isinstance(tree, str):
        return quoted(tree)
    parts = [name_tree(t) for t in tree]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([quoted(n) for n in names])


def _compute(op: Compute, writer: ProgramWriter) -> str:
    """[i, j] formula."""
    first, n = op.bodies[0], len(op.bodies)
    whole = (
        n > 1
        and isinstance(first, Reduce)
        and n == first.combiner.arity
        and all(isinstance(b, Reduce) and b.index == k for k, b in enumerate(op.bodies))
        and all(same_fold(first, b) for b in op.bodies)
    )
    prefix, texts = writer.formulas(op.bodies[:1] if whole else op.bodies, op.axes)
    if whole and isinstance(first, Reduce):
        texts = [writer.definitions(first.combiner) + writer.joined(writer.fold(first))]
    axes = f"[{', '.join([writer.text(a) for a in op.axes])}] " if op.axes else ""
    return f"{axes}{prefix}{', '.join(texts)}"


def _scatter(op: Scatter, writer: ProgramWriter) -> str:
    """scatter sum from x over (i in [0, 8)) at [p[i]] of v[i] where c."""
    prefix, texts = writer.formulas(op_expressions(op), op.axes)
    rest = iter(texts)
    start = "" if op.init is None else f" from {writer.tensor_name(op.init)}"
    updates = []
    for u in op.updates:
        where = ", ".join([next(rest) for _ in u.indices])
        value, condition = next(rest), next(rest)
        guard = "" if u.condition is TRUE else f" where {condition}"
        updates.append(f"at [{where}] of {value}{guard}")
    name = writer.definitions(op.combiner)
    return f"scatter {name}{start} over {writer.ranges(op.axes)} {prefix}{', '.join(updates)}"


def _scan(op: Scan, tensors: Sequence[Tensor], writer: ProgramWriter) -> str:
    """scan sum for (i in [0, 8)) over (j in [0, 10)) at [i, j] of X[i, j] giving after, last."""
    cell = op.cell or ()
    roots = (*op.start, *op.indices, *op.sources, op.condition, *cell)
    prefix, texts = writer.formulas(roots, (*op.axes, *op.along))
    rest = iter(texts)
    starts, where, sources = (
        ", ".join([next(rest) for _ in some]) for some in (op.start, op.indices, op.sources)
    )
    condition = next(rest)
    words = [w for w, holds in (("exclusive", op.exclusive), ("reverse", op.reverse)) if holds]
    parts = ["scan", *words, writer.definitions(op.combiner)]
    parts += [f"for {writer.ranges(op.axes)}"] if op.axes else []
    parts.append(f"over {writer.ranges(op.along)} {prefix}at [{where}]")
    is_told = any(t.index < 2 * op.combiner.arity for t in tensors)
    if not is_told and not same_extents(op.shape, kept_shape(op.scope)):
        parts.append(f"in [{writer.extents(outputs(op)[0])}]")
    parts.append(f"of {sources}")
    same = all(a is b for a, b in zip(op.start, op.combiner.identity, strict=False))
    parts += [] if same else [f"from {starts}"]
    parts += [] if op.condition is TRUE else [f"where {condition}"]
    parts += [] if op.cell is None else [f"cell [{', '.join(rest)}]"]
    if tuple(tensors) != scan_results(op):
        parts.append(f"giving {', '.join([scan_kind(op, t.index) for t in tensors])}")
    return " ".join(parts)


def scan_kind(op: Scan, index: int) -> str:
    """What output `index` of a scan has: after, before or last, with a component, last[1]."""
    kind, n = divmod(index, op.combiner.arity)
    word = SCAN_KINDS[1 - kind if op.exclusive and kind < 2 else kind]
    return word if op.combiner.arity == 1 else f"{word}[{n}]"


program.format_program.fill(format_program)
