"""The loops of one kernel for other tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from tensorad.codegen.loops.ir import Check, For, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.visit import statements
from tensorad.ir.order import reads
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reading


def with_tensors(kernel: Kernel, name: str, mapping: Mapping[Tensor, Tensor]) -> Kernel:
    """The kernel with every tensor replaced; scalars are shared with the original, and so are axes
    whose bounds read no tensor."""

    checks = [s for s in statements(kernel.body) if isinstance(s, Check)]
    named = {r.tensor: r.tensor for s in checks for r in reads(s.read)}
    """What errors speak of, whose elements a kernel need not read."""

    def tensors(many: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple([mapping[t] for t in many])

    def statement(s: Stmt) -> Stmt | None:
        match s:
            case Store():
                return replace(s, tensors=tensors(s.tensors))
            case Prefetch():
                return replace(s, tensor=mapping[s.tensor])
            case For() if s.prefetched:
                return replace(s, prefetched=tensors(s.prefetched))
        return None

    made = Kernel(
        name,
        rewrite(kernel.body, statement, partial(reading, tensors=named | dict(mapping), memo={})),
        tensors(kernel.writes),
        tensors(kernel.reads),
        tensors(kernel.scratch),
        tuple([(mapping[t], mapping[other]) for t, other in kernel.beside]),
        None if kernel.unaliased_with is None else mapping[kernel.unaliased_with],
    )
    object.__setattr__(made, "like", (kernel, mapping))
    return made


def with_buffers(kernel: Kernel, mapping: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """What takes the place of a kernel's tensors: those not given are buffers of its own."""
    found = dict(mapping)
    for t in (*kernel.writes, *kernel.scratch):
        if t not in found:
            found[t] = buffer(t.name, t.shape, t.dtype)
    return found
