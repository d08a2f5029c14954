"""What makes kernels of operations, in order: a list of passes over steps, and one over kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.directives import Schedules
from tensorad.codegen.fusion.epilogues import with_epilogues
from tensorad.codegen.fusion.fuse import fuse_rows
from tensorad.codegen.fusion.fused_stores import fuse_stores
from tensorad.codegen.fusion.horizontal import join_siblings
from tensorad.codegen.fusion.overlapped_tiling import join_stencils
from tensorad.codegen.fusion.row_block_fusion import fuse_row_blocks
from tensorad.codegen.fusion.steps import Step, all_steps
from tensorad.codegen.in_place_scatters import Lowering, Unit
from tensorad.codegen.loops.forms import changes_differ, program_of
from tensorad.codegen.loops.ir import Kernel, LoopProgram
from tensorad.codegen.loops.printer import format_kernel
from tensorad.codegen.loops.verify import verify_loops
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.tensor import Tensor
from tensorad.passes import Form, Pass, run_passes


@dataclass(frozen=True, eq=False)
class Tiling:
    """What is known of a program when its kernels are written.

    Attributes:
        readers: by tensor, what is made of it.
    """

    kept: Mapping[Tensor, None]
    readers: Mapping[Tensor, Mapping[Tensor, None]]
    schedules: Schedules


Steps = Sequence[Step]
Kernels = Iterable[Kernel]
"""In an order that may run; written one after the other, as they are asked for."""

FUSION_PASSES: Final[tuple[Pass[Lowering, Steps], ...]] = (
    Pass(
        "join_siblings",
        lambda lowering, steps: _unless_same(steps, join_siblings(steps)),
        "first: what others join is one step then",
    ),
    Pass(
        "fuse_stores",
        lambda lowering, steps: _unless_same(steps, fuse_stores(steps)),
        "after siblings, whose sums it joins; before epilogues, which would take the stores",
    ),
    Pass(
        "join_epilogues",
        lambda lowering, steps: _unless_same(steps, with_epilogues(steps, lowering.wanted)),
        "before rows: what ends the loop of a sum needs no loop of its own in a row",
    ),
    Pass(
        "fuse_rows",
        lambda lowering, steps: _unless_same(steps, fuse_rows(steps, lowering.wanted)),
        "last: its loops hold whole steps",
    ),
)
"""`Choices.fuse` says True wherever that is possible, False nowhere."""
TILING_PASSES: Final[tuple[Pass[Tiling, Kernels], ...]] = (
    Pass(
        "fuse_row_blocks",
        lambda tiling, kernels: fuse_row_blocks(kernels, tiling.schedules),
        "first: it looks for loops over rows as they were written",
    ),
    Pass(
        "overlap_tiles",
        lambda tiling, kernels: join_stencils(
            kernels, tiling.readers, tiling.kept, tiling.schedules
        ),
        "last: a stage is a kernel that nothing else has joined",
    ),
)


def fuse_units(units: Sequence[Unit], lowering: Lowering) -> Iterator[Kernel]:
    """The kernels of units and those that check them, in an order that may run."""
    steps: Steps = all_steps(units, lowering.schedules)
    steps = run_passes(FUSION_PASSES, lowering, steps, STEPS)
    readers: dict[Tensor, dict[Tensor, None]] = {}
    for s in steps:
        for t in s.reads:
            readers.setdefault(t, {}).update(dict.fromkeys(s.writes))
    tiling = Tiling(dict.fromkeys(lowering.wanted), readers, lowering.schedules)
    kernels = (k for s in steps for k in s.written())
    yield from run_passes(TILING_PASSES, tiling, kernels, KERNELS)


def _unless_same(before: Steps, after: Steps) -> Steps:
    same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
    return before if same else after


def _written(step: Step) -> tuple[Kernel, ...]:
    """The kernels of a step, and no word about them."""
    with listening(Decision):
        return step.written()


def _program(wanted: Iterable[Tensor], kernels: Sequence[Kernel]) -> LoopProgram:
    made = {t: None for k in kernels for t in k.writes}
    return program_of(kernels, [t for t in wanted if t in made])


def _show(kernels: Iterable[Kernel]) -> str:
    return "\n".join([format_kernel(k) for k in kernels])


STEPS: Final[Form[Lowering, Steps]] = Form(
    show=lambda lowering, steps: _show([k for s in steps for k in _written(s)]),
    verify=lambda lowering, steps: verify_loops(
        _program(lowering.wanted, [k for s in steps for k in _written(s)])
    ),
    compare=lambda lowering, before, after: changes_differ(before, after, _written),
)
"""Steps as their loops, new ones beside those that they stand for."""
KERNELS: Final[Form[Tiling, Kernels]] = Form(
    show=lambda tiling, kernels: _show(kernels),
    verify=lambda tiling, kernels: verify_loops(_program(tiling.kept, list(kernels))),
    compare=lambda tiling, before, after: changes_differ(
        list(before), list(after), lambda kernel: (kernel,)
    ),
    fixed=tuple,
)
"""Kernels in order, new ones beside those that they stand for."""
