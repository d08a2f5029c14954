"""Fuses passes over one row; `pass_legality` decides which.

The loops and the order of every sum are given. What is stored and read again at the same place
stays in a register; its store stays, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tensorad.codegen.caches.pass_legality import with_pass
from tensorad.codegen.directives import Schedules
from tensorad.codegen.loops.ir import For, Kernel, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import statements
from tensorad.ir.analysis.decisions import Decision, note


def with_joined_passes(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with neighbouring passes fused."""
    body = rewrite(kernel.body, partial(_joined, schedules=schedules))
    if body is kernel.body:
        return kernel
    why = "one reads what the other stores or reads at the same place"
    note(Decision(kernel.writes, "passes over a row as one", why))
    return replace(kernel, body=body)


def _joined(s: Stmt, schedules: Schedules) -> Stmt | None:
    """A loop with every pass in it run with one before it, where they may."""
    if not isinstance(s, For) or sum(is_vectorised(c) for c in s.body) < 2:
        return None
    made = [t for c in statements(s.body) if isinstance(c, Store) for t in c.tensors]
    wanted = [schedules.of(t.name).passes for t in dict.fromkeys(made)]
    if False in wanted:
        return None
    body: list[Stmt] = []
    for c in s.body:
        together = with_pass(body, c, free=None not in wanted) if isinstance(c, For) else None
        body = [*body, c] if together is None else together
    return replace(s, body=tuple(body)) if len(body) < len(s.body) else None
