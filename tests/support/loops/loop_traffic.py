"""Bytes that the kernels of a program move to and from memory, by its tensors and sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorad.codegen.loops.ir import LoopProgram
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Constant


@dataclass(frozen=True)
class Traffic:
    """Bytes of one call, each tensor once per kernel that uses it; scratch does not count."""

    read: int
    written: int
    temporaries: int
    """What all temporaries would take side by side."""


def traffic(program: LoopProgram, sizes: Mapping[Expr, int] | None = None) -> Traffic:
    """The bytes that kernels read and write."""
    known = sizes or {}
    read = sum(bytes_of(t, known) for k in program.kernels for t in dict.fromkeys(k.reads))
    written = sum(bytes_of(t, known) for k in program.kernels for t in k.writes)
    outer = dict.fromkeys((*program.inputs, *program.outputs))
    inner = [t for k in program.kernels for t in k.writes if t not in outer]
    temporaries = sum(bytes_of(t, known) for t in inner if not isinstance(t.op, Constant))
    return Traffic(read, written, temporaries)
