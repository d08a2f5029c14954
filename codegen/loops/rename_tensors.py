"""The loops of one kernel for other tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Placeholder, Tensor
from tensorad.ir.visit import reading


def with_tensors(kernel: Kernel, name: str, mapping: Mapping[Tensor, Tensor]) -> Kernel:
    """The kernel with every tensor replaced; axes and scalars are shared with the original."""
    renamer = _Renamer(mapping)
    made = Kernel(
        name,
        renamer.block(kernel.body),
        renamer.tensors(kernel.writes),
        renamer.tensors(kernel.reads),
        renamer.tensors(kernel.scratch),
        tuple([(mapping[t], mapping[other]) for t, other in kernel.beside]),
        None if kernel.apart is None else mapping[kernel.apart],
    )
    object.__setattr__(made, "like", (kernel, mapping))
    return made


def with_buffers(kernel: Kernel, mapping: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """What takes the place of a kernel's tensors: those not given are buffers of its own."""
    found = dict(mapping)
    for t in (*kernel.writes, *kernel.scratch):
        if t not in found:
            own = Placeholder(t.name, t.shape, t.dtype)
            found[t] = Tensor(own, 0, t.shape, t.dtype)
    return found


class _Renamer:
    def __init__(self, mapping: Mapping[Tensor, Tensor]) -> None:
        self.mapping = mapping
        self.memo: dict[Expr, Expr] = {}

    def tensors(self, many: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple([self.mapping[t] for t in many])

    def image(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        return reading(e, self.mapping, self.memo) if found is None else found

    def images(self, many: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([self.image(e) for e in many])

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple([self.statement(s) for s in body])

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return replace(s, body=self.block(s.body), ahead=self.tensors(s.ahead))
            case If():
                sides = self.block(s.then), self.block(s.orelse)
                return If(self.image(s.cond), *sides, s.rare)
            case Assign():
                return Assign(s.targets, self.images(s.values))
            case Fold():
                return Fold(s.targets, s.combiner, self.images(s.values))
            case Store():
                tensors, indices = self.tensors(s.tensors), self.images(s.indices)
                return Store(tensors, indices, self.images(s.values), s.streaming)
            case Fetch():
                (t,) = self.tensors((s.tensor,))
                return Fetch(t, self.images(s.indices), s.count, s.now)
            case Visit():
                return s
            case Check():
                pass
        raise InternalError(f"a {type(s).__name__} stands in the loops of an item")
