"""The key of a kernel: equal keys are, on one machine, the same code on other buffers."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from tensorad.codegen.loops.ir import (
    Assign,
    Check,
    Fold,
    For,
    If,
    Kernel,
    Prefetch,
    Stmt,
    Store,
    Visit,
)
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key, Numbering
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Const, Expr, LocalSize, Param, Size
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.process import memo

Written = tuple[Key, tuple[Tensor, ...], tuple[LocalSize, ...]]
_keys: WeakKeyDictionary[Kernel, Written] = memo(WeakKeyDictionary())
"""Keys that were written, with the tensors and sizes they number."""


def kernel_key(kernel: Kernel) -> tuple[Key, tuple[Tensor, ...]]:
    """The kernel with its tensors, axes, scalars and counters renamed by position, and the tensors.

    Every distinct expression is named once, so the key is linear in the shared graph; it holds
    texts and numbers alone. Tensors come in the order in which they are met. The key of loops that
    stand for those of others is written once.
    """
    first, mapping = kernel.like or (kernel, None)
    key, tensors, _ = _known(first)
    return key, tensors if mapping is None else tuple([mapping[t] for t in tensors])


def local_sizes(kernel: Kernel) -> tuple[LocalSize, ...]:
    """The sizes of loops around it that the kernel reads, in the order of its key."""
    first, _ = kernel.like or (kernel, None)
    return _known(first)[2]


def _known(kernel: Kernel) -> Written:
    found = _keys.get(kernel)
    if found is None:
        found = _keys[kernel] = _written(kernel)
    return found


def _written(kernel: Kernel) -> Written:
    numbering = _KernelNumbering()
    numbering.tensors(kernel.scratch)  # no argument stands for them
    beside = tuple([numbering.tensors(pair) for pair in kernel.beside])
    unaliased_with = (
        None if kernel.unaliased_with is None else numbering.tensor(kernel.unaliased_with)
    )
    numbering.block(kernel.body)
    key = numbering.key(len(kernel.scratch), beside, unaliased_with)
    return key, tuple(numbering.numbered)[len(kernel.scratch) :], tuple(numbering.locals)


class _KernelNumbering(Numbering):
    """A key of statements; scalars are known by their place."""

    def __init__(self) -> None:
        super().__init__(self.buffer, named=False)
        self.locals: list[LocalSize] = []

    def buffer(self, t: Tensor) -> object:
        dtype = INT64 if is_record(t.dtype) else t.dtype  # copies of handles are the same code
        return (dtype, *self.expressions([dim_expr(n) for n in t.shape]))

    def leaf(self, e: Expr) -> object:
        match e:
            case Const():
                return (e.dtype, repr(e.value))
            case LocalSize():
                self.locals.append(e)
                return ("local", len(self.locals))
            case Size():
                return ("size", e.name)
        self.parts.append((Param, e.dtype))
        return len(self.parts) - 1

    def combiner(self, c: Combiner) -> tuple[object, ...]:
        every = (c.lhs, c.rhs, c.results, c.identity)
        return (*[self.expressions(part) for part in every], c.associative)

    def block(self, body: tuple[Stmt, ...]) -> None:
        self.parts.append("{")
        for s in body:
            self.statement(s)
        self.parts.append("}")

    def statement(self, s: Stmt) -> None:
        match s:
            case For():
                prefetched = self.tensors(s.prefetched)
                within = () if s.within is None else (s.within.lower, s.within.upper)
                work = () if s.work is None else (s.work,)
                used = [self.expressions(part) for part in (within, work, (s.axis,))]
                self.parts.append(("for", s.kind, s.covering, s.width, s.lanes, prefetched, *used))
                self.block(s.body)
            case If():
                self.parts.append(("if", *self.expressions((s.cond,))))
                self.block(s.then)
                self.block(s.orelse)
            case Assign():
                used = [self.expressions(part) for part in (s.targets, s.values)]
                self.parts.append(("assign", *used))
            case Fold():
                combiner = self.combiner(s.combiner)
                used = [self.expressions(part) for part in (s.targets, s.values)]
                self.parts.append(("fold", combiner, *used))
            case Store():
                tensors = self.tensors(s.tensors)
                used = [self.expressions(part) for part in (s.indices, s.values)]
                self.parts.append(("store", tensors, *used, s.streaming))
            case Visit():
                pass
            case Check():
                self.parts.append(("check", *self.expressions((s.index, s.extent))))
            case Prefetch():
                tensor, where = self.tensor(s.tensor), self.expressions(s.indices)
                self.parts.append(("fetch", tensor, where, s.count, s.now))
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")
