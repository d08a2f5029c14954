"""Drops scratch that is stored and never read, with its stores and loops that do nothing then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorad.codegen.loops.ir import Check, For, If, Kernel, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite, storing
from tensorad.codegen.loops.visit import all_expressions, statements
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reads


def without_unread_scratch(kernel: Kernel) -> Kernel:
    """The kernel without scratch that is stored only."""
    every = [*statements(kernel.body)]
    checked = [s.read for s in every if isinstance(s, Check)]
    found = reads(*all_expressions(every), *checked)
    kept = dict.fromkeys([*kernel.writes, *[e.tensor for e in found]])
    scratch = tuple([t for t in kernel.scratch if t in kept])
    if len(scratch) == len(kernel.scratch):
        return kernel
    return replace(kernel, body=_storing(kernel.body, kept), scratch=scratch)


def _storing(body: tuple[Stmt, ...], kept: Mapping[Tensor, None]) -> tuple[Stmt, ...]:
    """The statements with the stores of these tensors only, without loops that do nothing then."""

    def statement(s: Stmt) -> list[Store] | None:
        match s:
            case For(body=()) | If(then=(), orelse=()):
                return []
            case Store():
                return storing(s, kept.__contains__)
        return None

    return rewrite(body, statement)
