"""Nests as they are written, in serial loops: what a pass over nests has to keep."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.loops.ir import Assign, Kernel, Stmt, Store
from tensorad.codegen.loops.rewrite import serial
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.codegen.nest.folds import lower_fold
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.expr import Expr
from tensorad.ir.visit import reads


def serial_kernel(nests: Sequence[Nest]) -> Kernel:
    """One kernel that runs nests over the same tensors in order."""
    writes = nests[0].tensors
    body = tuple([s for nest in nests for s in _loops(nest)])
    used = dict.fromkeys(e.tensor for s in statements(body) for e in reads(*expressions(s)))
    return Kernel(writes[0].name, body, writes, tuple(used))


def _loops(nest: Nest) -> tuple[Stmt, ...]:
    """for axes: accumulators = their start, before the first fold into them; folds; one store."""
    inner: list[Stmt] = []
    begun: dict[Expr, None] = {}
    for f in nest.folds:
        if f.accumulators[0] not in begun:
            begun[f.accumulators[0]] = None
            inner.append(Assign(f.accumulators, f.start or f.combiner.identity))
        inner.extend(lower_fold(f))
    return serial(nest.axes, (*inner, Store(nest.tensors, nest.indices, nest.values)))
