"""The canonical text of a kernel: equal texts are the same machine code on other buffers."""

from __future__ import annotations

from typing import cast as static_cast
from weakref import WeakKeyDictionary

from tensorad.codegen.loops.ir import (
    Assign,
    Check,
    Fetch,
    Fold,
    For,
    If,
    Kernel,
    Stmt,
    Store,
    Visit,
)
from tensorad.errors import InternalError
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Param, Read, Select, Size
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import children

_keys: WeakKeyDictionary[Kernel, tuple[str, tuple[Tensor, ...]]] = WeakKeyDictionary()
"""Keys that were written, with the tensors they number."""


def kernel_key(kernel: Kernel) -> tuple[str, tuple[Tensor, ...]]:
    """The kernel with its tensors, axes and scalars renamed by position, and the tensors.

    Every distinct expression is named once, so the text is linear in the shared graph. The key of
    loops that stand for those of others is written once.
    """
    first, mapping = kernel.like or (kernel, None)
    known = _keys.get(first)
    if known is None:
        known = _keys[first] = _written(first)
    text, tensors = known
    return text, tensors if mapping is None else tuple([mapping[t] for t in tensors])


def _written(kernel: Kernel) -> tuple[str, tuple[Tensor, ...]]:
    writer = _Writer()
    for t in kernel.scratch:
        writer.scratch(t)
    for own, other in kernel.beside:
        writer.lines.append(f"{writer.tensor(own)} beside {writer.tensor(other)}")
    if kernel.apart is not None:
        writer.lines.append(f"apart from {writer.tensor(kernel.apart)}")
    writer.block(kernel.body)
    return "\n".join(writer.lines), tuple(writer.tensors)


class _Writer:
    """Names given so far and the lines that define them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.tensors: dict[Tensor, str] = {}
        self.own: dict[Tensor, str] = {}
        """The scratch buffers: no argument stands for them."""

    def tensor(self, t: Tensor) -> str:
        name = self.own.get(t) or self.tensors.get(t)
        if name is None:
            name = f"t{len(self.tensors)}"
            self.tensors[t] = name
            self.declare(name, t)
        return name

    def scratch(self, t: Tensor) -> None:
        """Name a scratch buffer by its position."""
        self.own[t] = f"s{len(self.own)}"
        self.declare(self.own[t], t)

    def declare(self, name: str, t: Tensor) -> None:
        dims = [str(n) if isinstance(n, int) else self.expr(n) for n in t.shape]
        self.lines.append(f"{name}:{t.dtype}[{','.join(dims)}]")

    def expr(self, root: Expr) -> str:
        """The name of an expression, after the lines that define it."""
        names = self.names
        found = names.get(root)
        if found is not None:
            return found
        stack = [root]
        while stack:
            e = stack[-1]
            if e in names:
                stack.pop()
                continue
            missing = [c for c in children(e) if c not in names]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.define(e)
        return names[root]

    def exprs(self, many: tuple[Expr, ...]) -> str:
        return ",".join([self.expr(e) for e in many])

    def define(self, e: Expr) -> None:
        """Name a node whose operands are named."""
        names = self.names
        kind = type(e)
        if kind is Const:
            names[e] = f"{e.dtype}:{static_cast(Const, e).value!r}"
            return
        name = f"e{len(names)}"
        if kind is Read:
            r = static_cast(Read, e)
            text = f"{self.tensor(r.tensor)}[{','.join([names[i] for i in r.indices])}]"
        elif kind is Call:
            c = static_cast(Call, e)
            text = f"{c.op}({','.join([names[a] for a in c.args])}){e.dtype}"
        elif kind is Select:
            text = "?".join([names[c] for c in children(e)])
        elif kind is Cast:
            text = f"{e.dtype}({names[static_cast(Cast, e).value]})"
        elif kind is Param:
            text = f"param {e.dtype}"
        elif kind is Size:
            text = f"size {static_cast(Size, e).name}"
        else:
            raise InternalError(f"a {kind.__name__} cannot stand in a loop nest")
        names[e] = name
        self.lines.append(f"{name}={text}")

    def bind(self, a: Axis) -> str:
        """An axis at the loop that introduces it; it may head several loops."""
        bounds = self.exprs((a.lower, a.upper, a.step))
        name = self.names.setdefault(a, f"i{len(self.names)}")
        return f"{name} {bounds}"

    def combiner(self, c: Combiner) -> str:
        operands = self.exprs((*c.lhs, *c.rhs))
        return f"{operands}->{self.exprs(c.results)} from {self.exprs(c.identity)} {c.associative}"

    def block(self, body: tuple[Stmt, ...]) -> None:
        self.lines.append("{")
        for s in body:
            self.statement(s)
        self.lines.append("}")

    def statement(self, s: Stmt) -> None:
        match s:
            case For():
                ahead = ",".join([self.tensor(t) for t in s.ahead])
                kind = f"{s.kind} covering" if s.covering else f"{s.kind}"
                if s.within is not None:
                    kind += f" {self.expr(s.within.lower)} {self.expr(s.within.upper)}"
                work = "" if s.work is None else f" {self.expr(s.work)}"
                self.lines.append(
                    f"for {self.bind(s.axis)} {kind} {s.width} {s.lanes} {ahead}{work}"
                )
                self.block(s.body)
            case If():
                self.lines.append(f"if {self.expr(s.cond)}")
                self.block(s.then)
                self.block(s.orelse)
            case Assign():
                self.lines.append(f"{self.exprs(s.targets)}:={self.exprs(s.values)}")
            case Fold():
                combiner = self.combiner(s.combiner)
                self.lines.append(f"fold {self.exprs(s.targets)} {self.exprs(s.values)} {combiner}")
            case Store():
                tensors = ",".join([self.tensor(t) for t in s.tensors])
                where = self.exprs(s.indices)
                how = "stream " if s.streaming else ""
                self.lines.append(f"{how}{tensors}[{where}]={self.exprs(s.values)}")
            case Visit():
                pass
            case Check():
                self.lines.append(f"check {self.expr(s.index)} {self.expr(s.extent)}")
            case Fetch():
                where = f"{self.tensor(s.tensor)}[{self.exprs(s.indices)}]"
                self.lines.append(f"fetch {where} {s.count} {s.now}")
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")
