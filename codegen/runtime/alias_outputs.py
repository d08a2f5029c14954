"""Temporaries that live in the memory of outputs until something is written there.

A program has its outputs anyway, and nobody looks at them before it ends. Temporaries that no
cache of a core holds are put there; the others stay in the arena, which calls reuse while it is
in a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from tensorad.codegen.llvm.phases import phases
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.loops.ir import For, LoopProgram, Stmt, Store
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reads


@dataclass(frozen=True)
class OutputAlias:
    """Where a temporary lies: from the first line of the output behind so many bytes on."""

    output: Tensor
    offset: int


Rows = dict[Tensor, float]
"""How many rows of the first dimension, from the first on, hold all elements that are used."""


def alias_temporaries(program: LoopProgram) -> dict[Tensor, OutputAlias]:
    """The temporaries that outputs have room for while nothing of their own is there.

    Looks at the kernels phase by phase: between them all threads wait.
    """
    outer = dict.fromkeys((*program.inputs, *program.outputs))
    least = machine.current().l2
    stored = dict.fromkeys(t for k in program.kernels for t in k.writes if t not in outer)
    large = [t for t in stored if (fixed_bytes(t) or 0) > least]
    if not large:
        return {}
    used = [_used(body) for k in program.kernels for body, _ in phases(k.body)]
    last = {t: n for n, rows in enumerate(used, 1) for t in rows}
    most = {
        o: [*accumulate([u.get(o, 0.0) for u in used], max, initial=0.0)] for o in program.outputs
    }
    found: dict[Tensor, OutputAlias] = {}
    taken: dict[Tensor, int] = {}
    for t in large:
        need = fixed_bytes(t) or 0
        for o in program.outputs:
            room = fixed_bytes(o) or 0  # none where sizes are symbolic
            if taken.get(o, 0) + need + ALIGNMENT > room:
                continue
            start = max(_written(o, room, most[o][last.get(t, 0)]), taken.get(o, 0))
            if start + need + ALIGNMENT <= room:
                found[t] = OutputAlias(o, start)
                taken[o] = start + need + ALIGNMENT
                break
    return found


def _written(o: Tensor, size_bytes: int, rows: float) -> int:
    """Bytes of so many rows from the first on, of an output of so many bytes."""
    if not rows or not o.shape:
        return size_bytes if rows else 0
    extent = int(o.shape[0])
    return size_bytes if rows >= extent else int(rows) * (size_bytes // extent)


def _used(body: Iterable[Stmt]) -> Rows:
    """What a phase reads and stores."""
    found: Rows = {}
    ranges = Ranges()

    def use(t: Tensor, indices: Sequence[Expr]) -> None:
        rows = ranges.of(indices[0])[1] + 1 if indices else inf
        found[t] = max(found.get(t, 0), rows)

    for s in statements(body):
        for e in reads(*expressions(s)):
            use(e.tensor, e.indices)
        if isinstance(s, Store):
            for t in s.tensors:
                use(t, s.indices)
        elif isinstance(s, For):
            ranges.enter(s.axis)
            if s.within is not None:  # the code generator may move the borders of a strip
                low, high = ranges.of(s.within.lower)[0], ranges.of(s.within.upper)[1]
                ranges.memo[s.axis] = (low, high - 1)
    return found
