"""What stops a call while it runs, in the words of the user's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.codegen.loops.ir import Activate, Check, Make, Repeat
from tensorad.codegen.runtime.step_table import Reserved, Word
from tensorad.errors import BoundsError, LimitError, counted
from tensorad.ir.analysis.sizes import bytes_text
from tensorad.ir.arrays.indexing import as_given
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.order import READ, axes_in, occurs, sizes_in
from tensorad.ir.references import Read
from tensorad.ir.tensor import dim_expr, format_shape


def out_of_bounds(
    check: Check, index: int, extent: int, loops: Sequence[Repeat], values: Mapping[Word, int]
) -> BoundsError:
    """An index lies outside of its tensor.

    Args:
        loops: those around it, outermost first.
        values: of their counters.
    """
    iterations = [
        f", in iteration {values[loop.counter]} of the loop at {loop.source}" for loop in loops
    ]
    t = check.read.tensor
    given = _given(check)
    verb = "written" if check.writes else "read"
    place = check.read.indices[check.dimension]
    by_data = occurs(READ, place, *[b for a in axes_in(place) for b in (a.lower, a.upper)])
    if given[check.dimension] is not None and index < 0:
        index -= extent
    return BoundsError(
        f"{t.name} is {verb} at index {index} of axis {check.dimension}, "
        f"which has extent {extent}.",
        where=_place(check) + "".join(iterations[::-1]),
        hint=f"the index comes from {'the data' if by_data else 'sizes and counters'} of this "
        "call: correct it, or clamp it in the formula with minimum and maximum.",
    )


def no_longer_known(check: Check | None) -> BoundsError:
    """A call failed whose index, or whose exception, was not asked for in time.

    Args:
        check: the one that failed; None: something else did.
    """
    hint = "ask what a code means after the call that returned it, before thousands of others fail."
    if check is None:
        return BoundsError(
            "a call took too much memory, or a function of Python raised in it; of that nothing "
            "is kept any more.",
            hint=hint,
        )
    verb = "written" if check.writes else "read"
    return BoundsError(
        f"{check.read.tensor.name} is {verb} at an index outside of axis {check.dimension}; "
        "which one is not kept any more.",
        where=_place(check),
        hint=hint,
    )


def _given(check: Check) -> list[Expr | None]:
    """The indices as they were written, where they were."""
    pairs = zip(check.read.indices, check.read.tensor.shape, strict=True)
    return [as_given(i, dim_expr(n)) for i, n in pairs]


def _place(check: Check) -> str:
    """The access that a check belongs to."""
    t, indices = check.read.tensor, check.read.indices
    given = zip(_given(check), indices, strict=True)
    shown = Read(t.dtype, t, tuple([i if g is None else g for g, i in given]))
    return f"{shown} in {check.user}" + (f" at {check.source}" if check.source else "")


def too_large(
    reserved: Reserved, values: Mapping[Word, int], limit: int, depth: int = 0
) -> LimitError:
    """Memory for a row per iteration, or for an array of a call of a definition, would exceed the
    limit.

    Args:
        depth: calls of definitions that have not ended.
    """
    t, loop, _ = reserved
    local = [s for s in sizes_in(*map(dim_expr, t.shape)) if isinstance(s, LocalSize)]
    known = "".join([f", {s.label} = {values[s]:,}" for s in local])
    if depth and loop is None:
        return LimitError(
            f"the arrays of {counted(depth, 'call')} that {'has' if depth == 1 else 'have'} not "
            f"ended exceed {bytes_text(limit)}.",
            where=f"{t.name} : {t.dtype} {format_shape(t.shape)}{known}",
            hint="have the recursion end earlier, pass smaller arrays, or raise the limit with the "
            "environment variable TENSORAD_MAX_BYTES.",
        )
    place = "" if loop is None else f" at {loop.source}"
    return LimitError(
        f"what the loop{place} stores of its iterations exceeds {bytes_text(limit)}.",
        where=f"{t.name} : {t.dtype} {format_shape(t.shape)}{known}",
        hint="run fewer iterations, store less of each, or raise the limit with the "
        "environment variable TENSORAD_MAX_BYTES.",
    )


def too_deep(taking: Activate | Make, depth: int, limit: int) -> LimitError:
    """Memory for a call of a definition, or for a record, would exceed the limit.

    Args:
        depth: calls of definitions that have not ended.
    """
    if isinstance(taking, Make):
        variant = taking.dtype.variants[taking.tag].name
        return LimitError(
            f"what the call makes of {taking.dtype} while it runs exceeds {bytes_text(limit)}.",
            where=f"{variant}({', '.join([t.name for t in taking.fields])}), in {depth:,} calls "
            "that have not ended",
            hint="make fewer, or raise the limit with the environment variable TENSORAD_MAX_BYTES.",
        )
    name = taking.definition.name
    return LimitError(
        f"{name} is called {depth + 1:,} deep, and what these calls have to keep exceeds "
        f"{bytes_text(limit)}.",
        where=f"{name}({', '.join([p.name for p in taking.definition.params])})",
        hint="have the recursion end earlier, keep less in each call, or raise the limit with the "
        "environment variable TENSORAD_MAX_BYTES.",
    )
