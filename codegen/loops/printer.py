"""Loop programs as text: deterministic, one statement a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.codegen.loops.ir import (
    Activate,
    Assign,
    ButLast,
    CallPython,
    Check,
    Choose,
    Exchange,
    Fold,
    For,
    If,
    Inside,
    Kernel,
    LoopProgram,
    Make,
    Node,
    Place,
    Prefetch,
    Repeat,
    Reserve,
    Routine,
    Settle,
    Stmt,
    Store,
    Visit,
)
from tensorad.errors import InternalError
from tensorad.ir.expr import (
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Select,
    Size,
    add,
    int_const,
)
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.text.names import SizeNames
from tensorad.ir.text.printer import number_text
from tensorad.ir.visit import children, postorder, substitute

_BINARY: Final = {
    "or": ("or", 1), "and": ("and", 2), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4),
    "ge": (">=", 4), "eq": ("==", 4), "ne": ("!=", 4), "add": ("+", 5), "sub": ("-", 5),
    "mul": ("*", 6), "div": ("/", 6), "floordiv": ("//", 6), "mod": ("%", 6),
}  # fmt: skip
_PREFIX: Final = {"neg": ("-", 7), "not": ("not ", 3)}
_FUNCTIONS: Final = {"minimum": "min", "maximum": "max"}
_ATOM: Final = 9
_LONGEST = 400
"""Characters from which a subexpression gets a line of its own."""
NONE: Final[Mapping[Kernel, Sequence[str]]] = {}
_SHARED = 16
"""Characters from which a subexpression used twice gets a line of its own."""


def format_loops(program: LoopProgram, comments: Mapping[Kernel, Sequence[str]] = NONE) -> str:
    """The kernels in order; equal names are numbered in order of appearance.

    Args:
        comments: lines that go before a kernel's loops.
    """
    printer = _Printer()
    for t in (*program.inputs, *program.outputs):
        printer.tensor(t)
    printer.nodes(program.nodes, comments)
    for r in program.routines:
        printer.routine(r, comments)
    return "\n".join(printer.lines) + "\n"


def format_kernel(kernel: Kernel) -> str:
    """One kernel."""
    printer = _Printer()
    printer.kernel(kernel)
    return "\n".join(printer.lines) + "\n"


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.taken: dict[str, int] = {}
        self.tensors: dict[Tensor, str] = {}
        self.text: dict[Expr, tuple[str, int]] = {}
        self.sizes = SizeNames()
        self.local: dict[str, int] = {}
        self.indent = 0
        """Loops and branches of nodes around."""

    def unique(self, name: str, counts: dict[str, int]) -> str:
        n = counts.get(name, 0)
        counts[name] = n + 1
        return name if n == 0 else self.unique(f"{name}_{n}", counts)

    def tensor(self, t: Tensor) -> str:
        if t not in self.tensors:
            self.tensors[t] = self.unique(t.name, self.taken)
        return self.tensors[t]

    def nodes(self, nodes: Sequence[Node], comments: Mapping[Kernel, Sequence[str]]) -> None:
        for n in nodes:
            if isinstance(n, Kernel):
                self.kernel(n, comments.get(n, ()))
            else:
                self.text.clear()
                self.control(n, comments)

    def control(
        self,
        n: Place
        | Exchange
        | Settle
        | ButLast
        | Reserve
        | Choose
        | Repeat
        | Make
        | Inside
        | Activate
        | CallPython,
        comments: Mapping[Kernel, Sequence[str]],
    ) -> None:
        if isinstance(n, Place):
            row = "" if n.row is None else f"[{self.expr(add(n.row, int_const(n.offset)), 0)}]"
            there = "" if n.below is None else ", if that is there"
            self.line(0, f"{self.tensor(n.tensor)} lies in {self.tensor(n.source)}{row}{there}")
        elif isinstance(n, CallPython):
            made = [f"{self.tensor(t)} : {self.declare(t)}" for t in n.writes]
            given = ", ".join([self.tensor(t) for t in n.reads])
            self.line(0, f"{', '.join(made)} = {n.name}({given}) in Python")
        elif isinstance(n, Exchange):
            when = "" if n.even is None else f" if {self.expr(n.even, 0)} is even"
            self.line(0, f"exchange {self.tensor(n.a)}, {self.tensor(n.b)}{when}")
        elif isinstance(n, Settle):
            self.line(0, f"unless {self.tensor(n.tensor)} lies in {self.tensor(n.source)}:")
            self.inner(n.nodes, comments)
        elif isinstance(n, ButLast):
            self.line(0, f"unless {self.expr(n.counter, 0)} is the last:")
            self.inner(n.nodes, comments)
        elif isinstance(n, (Make, Inside, Activate)):
            self.record(n)
        elif isinstance(n, Reserve):
            self.line(0, f"reserve {self.tensor(n.tensor)} : {self.declare(n.tensor)}")
        elif isinstance(n, Choose):
            for k, arm in enumerate(n.arms):
                self.line(0, f"arm {k} of {self.tensor(n.index)}:")
                self.inner(arm, comments)
        else:
            self.repeat(n, comments)

    def record(self, n: Make | Inside | Activate) -> None:
        if isinstance(n, Make):
            fields = ", ".join(map(self.tensor, n.fields))
            variant = n.dtype.variants[n.tag].name
            self.line(0, f"{self.tensor(n.handle)} = {variant}({fields})")
        elif isinstance(n, Inside):
            part = "tag" if n.variant is None else n.variant.fields[n.number].name
            self.line(0, f"{self.tensor(n.tensor)} lies in {self.tensor(n.handle)}.{part}")
        else:
            given, made = [", ".join(map(self.tensor, ts)) for ts in (n.operands, n.results)]
            sizes = ", ".join([self.expr(e, 0) for e in n.sizes])
            at = f" at [{sizes}]" if sizes else ""
            sums = ", ".join(map(self.tensor, n.totals))
            adding = f", added to {sums}" if sums else ""
            self.line(0, f"{made} = {n.definition.name}({given}){at}{adding}")

    def routine(self, r: Routine, comments: Mapping[Kernel, Sequence[str]]) -> None:
        """The nodes of a definition, with its params and results."""
        given, made = [", ".join(map(self.tensor, ts)) for ts in (r.params, r.results)]
        sizes = ", ".join([self.expr(e, 0) for e in r.definition.sizes])
        at = f" at [{sizes}]" if sizes else ""
        self.line(0, f"define {r.definition.name}({given}){at} -> {made}:")
        self.inner(r.nodes, comments)

    def repeat(self, n: Repeat, comments: Mapping[Kernel, Sequence[str]]) -> None:
        self.nodes(n.start, comments)
        counter = self.expr(n.counter, 0)
        if n.count is not None:
            order = "reversed " if n.reverse else ""
            c = n.count
            count = self.tensor(c) if isinstance(c, Tensor) else self.expr(c, 0)
            self.line(0, f"repeat {counter} in {order}[0, {count}):")
        else:
            self.line(0, f"repeat {counter} from 0:")
        self.inner(n.test, comments)
        self.indent += 1
        if n.condition is not None:
            self.line(0, f"leave unless {self.tensor(n.condition)}")
        self.nodes(n.body, comments)
        self.nodes(n.moves, comments)
        self.indent -= 1

    def inner(self, nodes: Sequence[Node], comments: Mapping[Kernel, Sequence[str]]) -> None:
        self.indent += 1
        self.nodes(nodes, comments)
        self.indent -= 1

    def kernel(self, kernel: Kernel, comments: Sequence[str] = ()) -> None:
        self.text.clear()
        self.local = dict.fromkeys((*self.tensors.values(), *self.sizes.names.counts), 1)
        for t in (*kernel.reads, *kernel.writes):
            self.local.setdefault(self.tensor(t), 1)
        written = [f"{self.tensor(t)} : {self.declare(t)}" for t in kernel.writes]
        self.line(0, f"# {', '.join(written) or kernel.name}")
        for t in kernel.scratch:
            other = "".join([f" beside {self.tensor(o)}" for s, o in kernel.beside if s is t])
            self.line(0, f"# scratch {self.tensor(t)} : {self.declare(t)}{other}")
        if kernel.unaliased_with is not None:
            self.line(0, f"# scratch apart from {self.tensor(kernel.unaliased_with)}")
        for text in comments:
            self.line(0, text)
        self.block(kernel.body, 0)

    def size(self, e: Size) -> str:
        text = self.sizes(e)
        self.local.setdefault(text, 1)
        return text

    def declare(self, t: Tensor) -> str:
        dims = [self.expr(dim_expr(n), 0) for n in t.shape]
        return f"{t.dtype} [{', '.join(dims)}]"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * (self.indent + depth) + text)

    def block(self, body: Sequence[Stmt], depth: int) -> None:
        scope = dict(self.text)
        for s in body:
            self.statement(s, depth)
        if not body:
            self.line(depth, "pass")
        self.text = scope

    def statement(self, s: Stmt, depth: int) -> None:
        match s:
            case For():
                self.loop(s, depth)
            case If():
                self.line(depth, f"if {self.expr(s.cond, depth)}:")
                self.block(s.then, depth + 1)
                if s.orelse:
                    self.line(depth, "else:")
                    self.block(s.orelse, depth + 1)
            case Assign():
                self.assign(s.targets, self.exprs(s.values, depth), depth)
            case Fold():
                self.fold(s, depth)
            case Store():
                texts = self.exprs((*s.indices, *s.values), depth)
                where, values = (
                    ", ".join(part) for part in (texts[: len(s.indices)], texts[len(s.indices) :])
                )
                targets = ", ".join([f"{self.tensor(t)}[{where}]" for t in s.tensors])
                how = "  # streaming" if s.streaming else ""
                self.line(depth, f"{targets} = {values}{how}")
            case Prefetch():
                where = ", ".join(self.exprs(s.indices, depth))
                how = "load" if s.now else f"fetch {s.count} from"
                self.line(depth, f"{how} {self.tensor(s.tensor)}[{where}]")
            case Visit():
                self.line(depth, "visit")
            case Check():
                index = self.expr(s.index, depth)
                extent = self.expr(s.extent, depth)
                self.line(depth, f"check 0 <= {index} < {extent}  # {self.tensor(s.read.tensor)}")
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")

    def loop(self, s: For, depth: int) -> None:
        a = s.axis
        bounds = f"[{self.expr(a.lower, depth)}, {self.expr(a.upper, depth)})"
        step = "" if isinstance(a.step, Const) and a.step.value == 1 else " step "
        step += self.expr(a.step, depth) if step else ""
        kind = " covering" if s.covering else "" if s.kind == "serial" else f" {s.kind}"
        width = f" {s.width}" if s.width else ""
        width += f" in lanes of {s.lanes}" if s.lanes else ""
        if a not in self.text:
            self.text[a] = (self.unique(a.name, self.local), _ATOM)
        self.line(depth, f"for {self.text[a][0]} in {bounds}{step}{kind}{width}:")
        self.block(s.body, depth + 1)

    def assign(self, targets: Sequence[Param], values: Sequence[str], depth: int) -> None:
        names = [self.scalar(t) for t in targets]
        self.line(depth, f"{', '.join(names)} = {', '.join(values)}")

    def scalar(self, p: Param) -> str:
        if p not in self.text:
            self.text[p] = (self.unique(p.name, self.local), _ATOM)
        return self.text[p][0]

    def fold(self, s: Fold, depth: int) -> None:
        if s.combiner.is_sum:
            self.line(depth, f"{self.scalar(s.targets[0])} += {self.expr(s.values[0], depth)}")
            return
        operands: dict[Expr, Expr] = dict(zip(s.combiner.lhs, s.targets, strict=True))
        operands.update(zip(s.combiner.rhs, s.values, strict=True))
        for t in s.targets:
            self.scalar(t)
        results = [substitute(r, operands) for r in s.combiner.results]
        self.assign(s.targets, self.exprs(results, depth), depth)

    def expr(self, root: Expr, depth: int) -> str:
        """One expression's text."""
        return self.exprs((root,), depth)[0]

    def exprs(self, roots: Sequence[Expr], depth: int) -> list[str]:
        """The expressions' texts, after lines for their long and their shared parts."""
        order = [e for e in postorder(*roots) if e not in self.text]
        uses: dict[Expr, int] = {}
        for e in order:
            for c in children(e):
                uses[c] = uses.get(c, 0) + 1
        made: list[Expr] = []
        for e in order:
            text, strength = self.node(e)
            is_long = len(text) > (_SHARED if uses.get(e, 0) > 1 else _LONGEST)
            if is_long and e in uses and not isinstance(e, (Axis, Param, Size)):
                name = self.unique("v", self.local)
                self.line(depth, f"{name} = {text}")
                text, strength = name, _ATOM
            self.text[e] = (text, strength)
            made.append(e)
        result = [self.text[r][0] for r in roots]
        for e in made:  # a later statement may see other values of scalars
            if not isinstance(e, (Axis, Size)):
                self.text.pop(e, None)
        return result

    def operand(self, e: Expr, least: int) -> str:
        text, strength = self.text[e]
        return text if strength >= least else f"({text})"

    def node(self, e: Expr) -> tuple[str, int]:
        match e:
            case Const():
                return _number(e)
            case Size():
                return self.size(e), _ATOM
            case Axis() | Param():
                return e.name, _ATOM
            case Read():
                where = ", ".join([self.text[i][0] for i in e.indices])
                return f"{self.tensor(e.tensor)}[{where}]", _ATOM
            case Select():
                parts = ", ".join([self.text[c][0] for c in children(e)])
                return f"select({parts})", _ATOM
            case Cast():
                return f"{e.dtype}({self.text[e.value][0]})", _ATOM
            case Call() if e.op in _BINARY:
                symbol, strength = _BINARY[e.op]
                left = self.operand(e.args[0], strength)
                right = self.operand(e.args[1], strength + 1)
                glue = symbol if symbol in ("*", "/", "//") else f" {symbol} "
                return f"{left}{glue}{right}", strength
            case Call() if e.op in _PREFIX:
                symbol, strength = _PREFIX[e.op]
                return f"{symbol}{self.operand(e.args[0], strength)}", strength
            case Call():
                name = _FUNCTIONS.get(e.op, e.op)
                return f"{name}({', '.join([self.text[a][0] for a in e.args])})", _ATOM
        raise InternalError(f"{type(e).__name__} cannot stand in a loop nest")


def _number(e: Const) -> tuple[str, int]:
    text = number_text(e)
    return text, _ATOM if not text.startswith("-") else 7
