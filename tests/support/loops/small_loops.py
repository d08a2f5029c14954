"""Nests and kernels of single formulas, and what loops made of them compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tensorad.codegen.directives import Given, schedules
from tensorad.codegen.fusion.fusion_passes import fuse_units
from tensorad.codegen.in_place_scatters import Lowering
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, If, Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.codegen.lower import single_units
from tensorad.codegen.nest.ir import Nest, nest_of, simplify_nest
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.unit_passes import CHECK_INDICES, UNIT_PASSES, UNITS
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret, storage_dtype
from tensorad.ir.tensor import Compute, Constant, Tensor, outputs
from tensorad.ir.visit import postorder, reads
from tensorad.passes import run_passes

Array = np.ndarray


def op_of(t: Tensor) -> Compute:
    """The compute that makes a tensor."""
    assert isinstance(t.op, Compute)
    return t.op


def nest_for(t: Tensor) -> Nest:
    """The simplified nest of a compute."""
    nest = nest_of(op_of(t).axes, outputs(t.op), op_of(t).bodies)
    simple = None if nest is None else simplify_nest(nest)
    assert simple is not None
    return simple


def with_bodies(op: Compute, bodies: tuple[Expr, ...]) -> list[Tensor]:
    """The outputs of a compute like `op` with other bodies."""
    return list(outputs(Compute(op.name, op.axes, bodies, "")))


def plainly(nests: Iterable[Nest]) -> tuple[Stmt, ...]:
    """The nests as written, one after the other."""
    return tuple([s for n in nests for s in emit_nest(n, Plan(n.axes))])


def inputs_of(body: Sequence[Stmt]) -> tuple[Tensor, ...]:
    """What statements read and do not store."""
    stored = {t for s in statements(body) if isinstance(s, Store) for t in s.tensors}
    found = [r.tensor for s in statements(body) for r in reads(*every_expression(s))]
    return tuple(dict.fromkeys([t for t in found if t not in stored]))


def every_expression(s: Stmt) -> list[Expr]:
    """What a statement evaluates, bounds of loops included."""
    bounds = [s.axis.lower, s.axis.upper, s.axis.step] if isinstance(s, For) else []
    return [*bounds, *expressions(s)]


def kernel_of(
    body: Sequence[Stmt], writes: Sequence[Tensor], scratch: Sequence[Tensor] = ()
) -> Kernel:
    """A kernel of these statements."""
    own = dict.fromkeys(scratch)
    found = tuple([t for t in inputs_of(body) if t not in own])
    return Kernel("k", tuple(body), tuple(writes), found, tuple(scratch))


def computed(
    kernel: Kernel, arrays: Mapping[Tensor, Array], sizes: Mapping[str, int] | None = None
) -> list[Array]:
    """What a well-formed kernel stores."""
    given = tuple([t for t in kernel.reads if not isinstance(t.op, Constant)])
    return outputs_of(LoopProgram(given, kernel.writes, (kernel,)), arrays, sizes)


def outputs_of(
    program: LoopProgram, arrays: Mapping[Tensor, Array], sizes: Mapping[str, int] | None = None
) -> list[Array]:
    """The outputs of a well-formed program."""
    verify_loops(program)
    return interpret_loops(program, arrays, sizes)[0]


def arrays_for(*tensors: Tensor, seed: int = 0) -> dict[Tensor, Array]:
    """Small whole numbers: sums of them are exact in any order."""
    rng = np.random.default_rng(seed)
    return {t: rng.integers(-4, 5, t.shape).astype(storage_dtype(t.dtype)) for t in tensors}


def check_stores(
    body: Sequence[Stmt], t: Tensor, *inputs: Tensor, scratch: Sequence[Tensor] = ()
) -> None:
    """The statements store what the formula of `t` says."""
    check_kernel(kernel_of(body, [t], scratch), *inputs)


def check_kernel(kernel: Kernel, *inputs: Tensor) -> None:
    """A kernel stores what the formulas of its tensors say."""
    arrays = arrays_for(*inputs)
    got = computed(kernel, arrays)
    for t, a, b in zip(kernel.writes, got, interpret(list(kernel.writes), arrays), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=t.name)


def loops_in(body: Sequence[Stmt]) -> list[For]:
    """All loops, outer ones first."""
    return [s for s in statements(body) if isinstance(s, For)]


def counted(body: Sequence[Stmt], kind: type) -> int:
    """How many statements, or nodes of what they evaluate, are of a kind."""
    found = list(statements(body))
    nodes = [e for s in found for e in postorder(*every_expression(s))]
    return sum([isinstance(x, kind) for x in (*found, *nodes)])


def branches_in(body: Sequence[Stmt]) -> int:
    """How many branches there are."""
    return counted(body, If)


def fused(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], choices: Given = None
) -> list[Kernel]:
    """The kernels of a program before anything is decided about memory."""
    lowering = Lowering(tuple(inputs), tuple(outputs), schedules(choices))
    passes = [p for p in UNIT_PASSES if p is not CHECK_INDICES]
    units = run_passes(passes, lowering, single_units(outputs, inputs), UNITS)
    return list(fuse_units(units, lowering))
