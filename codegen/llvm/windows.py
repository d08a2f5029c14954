"""Reads of neighbouring elements by one register group, which may share what they load.

Reads of one tensor whose offsets differ by numbers form windows. Where lanes are a few elements
apart, the reads of a window pick their lanes from the same loaded vectors. Where lanes are far
apart but the reads are neighbours, pieces of rows are loaded, one row per lane, and transposed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from tensorad.codegen.cost.memory_model import MAX_STRIDE
from tensorad.codegen.llvm.addresses import Offset
from tensorad.codegen.llvm.expressions import Expressions
from tensorad.codegen.llvm.row_transposes import OffsetWindow
from tensorad.codegen.loops.ir import Stmt
from tensorad.codegen.loops.visit import all_expressions, direct
from tensorad.ir.expr import Axis, Call, Const, Expr, Read, Size
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder, reads

FEWEST_ROWS: Final = 3
"""Neighbours from which a transposed block costs less than reading element by element."""


def of_axes(unit: Expr) -> bool:
    """Whether an operand of an address is known when a loop starts."""
    return type(unit) is Axis or all(
        isinstance(e, (Axis, Size, Const, Call)) for e in postorder(unit)
    )


def find_windows(
    values: Expressions, body: Sequence[Stmt], stored: Container[Tensor]
) -> dict[Read, OffsetWindow]:
    """The windows of more than one offset among the reads a block itself makes in lanes.

    Of tensors that the kernel writes only those that are transposed, where no store comes between.

    Args:
        stored: the tensors that the block writes, its loops included.
    """
    addresses = values.addresses
    for known in [r for r in addresses.windows if r.tensor in stored]:
        del addresses.windows[known]
    groups: dict[object, tuple[Offset, dict[int, list[Read]]]] = {}
    for e in reads(*all_expressions(direct(body))):
        addresses.windows.pop(e, None)  # of an earlier loop, which may have had more lanes
        if e.tensor in stored:
            continue
        plan = addresses.plan(e.tensor, e.indices)
        if plan.stride in (0, 1) and plan.rows is None:
            continue
        if not all(of_axes(unit) for unit in plan.units):
            continue
        if e.tensor in values.written_level and not plan.has_row_per_lane:
            continue
        key = (e.tensor, tuple(plan.units.items()), plan.stride)
        constants = groups.setdefault(key, (plan, {}))[1]
        constants.setdefault(plan.constant, []).append(e)
    found: dict[Read, OffsetWindow] = {}
    for plan, constants in groups.values():
        most = plan.stride if 0 < plan.stride <= MAX_STRIDE else values.lanes.lanes
        for window in _clusters(constants, most, plan.has_row_per_lane):
            found.update({e: window for same in window.reads.values() for e in same})
    return found


def _clusters(constants: dict[int, list[Read]], most: int, dense: bool) -> list[OffsetWindow]:
    """Runs of offsets of at most `most` values; `dense` ones have no gaps and several rows."""
    result: list[OffsetWindow] = []
    rest = sorted(constants)
    while rest:
        low, count = rest[0], 1
        while count < len(rest) and rest[count] < low + most:
            if dense and rest[count] != low + count:
                break
            count += 1
        run, rest = rest[:count], rest[count:]
        if count >= (FEWEST_ROWS if dense else 2):
            result.append(OffsetWindow(low, run[-1], {c: constants[c] for c in run}))
    return result
