"""How loops are looked at before and after a pass: small random calls of the loop interpreter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, TypeVar

import numpy as np

from tensorad.codegen.loops.interpret import Array, TooLongError, interpret_loops
from tensorad.codegen.loops.ir import Check, Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.errors import BoundsError, InternalError, ShapeError
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Const, Expr, LocalSize, Size
from tensorad.ir.tensor import Constant, Tensor, dim_expr
from tensorad.ir.visit import postorder, reads
from tensorad.passes import Form, NotComparedError

Part = TypeVar("Part", bound=Hashable)
"""What has kernels in a program."""
SIZES: Final = (67, 9, 2)
"""What symbolic sizes are, the first with which a call is short enough and in range."""
MOST_ELEMENTS: Final = 1 << 20
"""Elements of all tensors of a call."""
MOST_ITERATIONS: Final = 20_000
"""Turns of all loops of a call."""


def loops_differ(before: LoopProgram, after: LoopProgram) -> str:
    """In which output two programs over the same inputs differ, "" if in none.

    Raises:
        NotComparedError: a call takes too long, or no random data is in range.
    """
    reason = ""
    for sizes, arrays in _calls(before):
        try:
            want, _ = interpret_loops(before, arrays, sizes, MOST_ITERATIONS)
        except (BoundsError, TooLongError) as error:
            reason = str(error)
            continue
        try:
            have, _ = interpret_loops(after, arrays, sizes, 4 * MOST_ITERATIONS)
        except TooLongError as error:
            raise NotComparedError(str(error)) from error
        except (BoundsError, InternalError) as error:
            return str(error)
        for t, one, two in zip(before.outputs, want, have, strict=True):
            if not np.allclose(one, two, 1e-7, 1e-9, equal_nan=True):
                return f"{t.name} has other elements"
        return ""
    raise NotComparedError(reason or f"there are more than {MOST_ELEMENTS:,} elements")


def _calls(
    program: LoopProgram,
) -> Iterator[tuple[dict[Expr, int], dict[Tensor, Array]]]:
    """Sizes and arrays to try: random ones, then those whose integers are 0, a valid index."""
    every = [s for k in program.kernels for s in statements(k.body)]
    used = dict.fromkeys(t for k in program.kernels for t in (*k.reads, *k.writes, *k.scratch))
    extents = [dim_expr(n) for t in (*program.inputs, *used) for n in t.shape]
    found = postorder(*extents, *[e for s in every for e in expressions(s)])
    symbols = [e for e in found if isinstance(e, Size)]
    limits = _index_limits(every)
    for number in SIZES if symbols else SIZES[:1]:
        numbers: dict[Expr, int] = {s: _number(s, number) for s in symbols}
        try:
            shapes = {t: shape_values(t.shape, numbers) for t in (*program.inputs, *used)}
        except ShapeError:
            continue
        if sum([prod(shape) for shape in shapes.values()]) > MOST_ELEMENTS:
            continue
        for random in (True, False):
            rng = np.random.default_rng(0)
            arrays = {
                t: _values(t, shapes[t], limits.get(t, 8) if random else 1, rng)
                for t in program.inputs
            }
            yield numbers, arrays


def _number(s: Size, usual: int) -> int:
    """What a size is: a counter, which is below its extent, is in the middle of it."""
    if not isinstance(s, LocalSize) or s.extent is None:
        return usual
    return int(s.extent.value) // 2 if isinstance(s.extent, Const) else 0


def _values(t: Tensor, shape: Sequence[int], limit: int, rng: np.random.Generator) -> Array:
    if t.dtype.is_float:
        return rng.standard_normal(shape)
    return rng.integers(0, 2 if t.dtype is BOOL else limit, shape)


def _index_limits(every: Sequence[Stmt]) -> dict[Tensor, int]:
    """For tensors read inside of an index: the smallest extent that they index."""
    limits: dict[Tensor, int] = {}
    for s in every:
        places = [(e.tensor, e.indices) for e in reads(*expressions(s))]
        places += [(s.tensors[0], s.indices)] if isinstance(s, Store) else []
        places += [(s.read.tensor, s.read.indices)] if isinstance(s, Check) else []
        for t, indices in places:
            for index, extent in zip(indices, t.shape, strict=True):
                for inner in reads(index):
                    n = extent if isinstance(extent, int) else SIZES[-1]
                    limits[inner.tensor] = max(1, min(n, limits.get(inner.tensor, n)))
    return limits


def alone(kernel: Kernel) -> LoopProgram:
    """A program of one kernel, all that it reads given."""
    return program_of((kernel,), kernel.writes)


PROGRAM: Final[Form[object, LoopProgram]] = Form(
    show=lambda context, program: format_loops(program),
    verify=lambda context, program: verify_loops(program),
    compare=lambda context, before, after: loops_differ(before, after),
)
"""All kernels of a program."""


def program_of(kernels: Sequence[Kernel], outputs: Sequence[Tensor]) -> LoopProgram:
    """A program of kernels in order, all that they read and do not make given."""
    made = {t: None for k in kernels for t in (*k.writes, *k.scratch)}
    read = dict.fromkeys(t for k in kernels for t in k.reads)
    given = [t for t in read if t not in made and not isinstance(t.op, Constant)]
    return LoopProgram(tuple(given), tuple(outputs), tuple(kernels))


def changes_differ(
    before: Sequence[Part], after: Sequence[Part], written: Callable[[Part], Sequence[Kernel]]
) -> str:
    """In what the new parts of a program differ from those whose tensors they store.

    Args:
        written: the kernels of a part.
    Raises:
        NotComparedError: none differs, and some of them take too long.
    """
    stay, old = dict.fromkeys(after), dict.fromkeys(before)
    gone = {p: list(written(p)) for p in before if p not in stay}
    maker = {t: p for p, kernels in gone.items() for k in kernels for t in k.writes}
    reason = ""
    for p in after:
        if p in old:
            continue
        made = program_of(list(written(p)), [])
        stored = [t for k in made.kernels for t in k.writes if t in maker]
        if not stored:
            return f"{', '.join([k.name for k in made.kernels])} stores nothing of what was stored"
        needed = _makers(stored, maker, gone, made.inputs)
        want = program_of([k for q in gone if q in needed for k in gone[q]], stored)
        given = tuple(dict.fromkeys((*want.inputs, *made.inputs)))
        try:
            found = loops_differ(
                replace(want, inputs=given), replace(made, inputs=given, outputs=want.outputs)
            )
        except NotComparedError as error:
            reason = str(error)
            continue
        if found:
            return found
    if reason:
        raise NotComparedError(reason)
    return ""


def _makers(
    stored: Sequence[Tensor],
    maker: Mapping[Tensor, Part],
    gone: Mapping[Part, Sequence[Kernel]],
    given: Sequence[Tensor],
) -> dict[Part, None]:
    """The parts that stored these tensors, and what those need beside what is given."""
    found: dict[Part, None] = {}
    beside = dict.fromkeys(given)
    todo = list(stored)
    while todo:
        p = maker.get(todo.pop())
        if p is not None and p not in found:
            found[p] = None
            todo.extend([t for k in gone[p] for t in k.reads if t not in beside])
    return found
