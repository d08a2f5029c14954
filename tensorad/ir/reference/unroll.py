"""Programs with known numbers of iterations as formulas: what loops are measured by.

Blocks are copied for each value of the counter, which is a number in each copy; a branch computes
all its blocks and selects. Nothing here knows the compiler, or derivatives of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tensorad.errors import BindError, LimitError
from tensorad.ir.analysis.blocks import inner_ops, op_sizes, ops_between, saves_of, tells_trips
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Expr, LocalSize, Read, const, int_const, read, select, size_var
from tensorad.ir.order import sizes_in
from tensorad.ir.rebuild import map_op
from tensorad.ir.records import Recursion
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Constant,
    Control,
    Dim,
    Loop,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.ir.text.names import SizeNames
from tensorad.ir.visit import (
    fresh_axes,
    rewrite,
    substitute,
    substitute_all,
    topological_ops,
    with_fresh_fold,
)

Image = dict[Tensor, Tensor]
Values = dict[Expr, int]


def unrolled(tensors: Sequence[Tensor], sizes: Mapping[str, int] | None = None) -> list[Tensor]:
    """The tensors without calls, branches and loops; placeholders stay as they are.

    Args:
        sizes: values of the symbolic sizes that decide how often loops run, and of what only
            the run tells of that (`iteration_sizes`).
    Raises:
        BindError: how often a loop runs is not known, or functions call themselves.
        LimitError: that is more than 10,000 iterations of all loops.
    """
    values: Values = {size_var(name): n for name, n in (sizes or {}).items()}
    own = {s: values[e] for s, e in iteration_sizes(tensors).items() if e in values}
    return _Unrolling().tensors(tensors, {}, values | own)


MOST_ITERATIONS: Final = 10_000
"""Of all loops; blocks of more are not copied."""


def iteration_sizes(roots: Iterable[Tensor]) -> dict[Expr, Expr]:
    """For each number of iterations that only the run tells, and each size that calls of a
    definition give, the symbolic size it is called by."""
    ops = topological_ops(roots)
    every = (*ops, *inner_ops(ops))
    own: dict[Expr, None] = dict.fromkeys([op.trips for op in every if tells_trips(op)])
    calls = [op for op in every if isinstance(op, Recursion)]
    own.update(dict.fromkeys([s for op in calls for s in op.definition.sizes]))
    names = SizeNames()
    for s in [s for op in ops for s in op_sizes(op)] if own else ():
        if not isinstance(s, LocalSize):
            names(s)
    return {s: size_var(names(s)) for s in own if isinstance(s, LocalSize)}


class _Unrolling:
    def __init__(self) -> None:
        self.left = MOST_ITERATIONS

    def tensors(self, wanted: Sequence[Tensor], given: Image, values: Values) -> list[Tensor]:
        """Images of tensors, by those of what is given and values of sizes."""
        image = dict(given)
        ops = ops_between(wanted, image)
        kept = saves_of(ops)
        for op in ops:
            if isinstance(op, (Placeholder, Constant)):
                image[outputs(op)[0]] = outputs(op)[0]
            elif isinstance(op, Control):
                image.update(self.control(op, image, values, kept.get(op, [])))
            elif not isinstance(op, Saved):
                image.update(zip(outputs(op), outputs(_copied(op, image, values)), strict=True))
        return [image[t] for t in wanted]

    def control(self, op: Control, image: Image, values: Values, kept: Sequence[Saved]) -> Image:
        """Images of the outputs and of what is saved."""
        if isinstance(op, Loop):
            return self.loop(op, image, values, kept)
        if not op.blocks:
            raise BindError(
                f"only data tell what {op.name} is: a value of a data type, or the result of a "
                "function that calls itself.",
                hint="measure what comes before or after it.",
            )
        operands = [image[t] for t in op.operands]
        index = operands.pop(0) if isinstance(op, Branch) else None
        arms: list[list[Tensor]] = []
        found: Image = {}
        for n, block in enumerate(op.blocks):
            own = [s for s in kept if s.block == n]
            given = dict(zip(block.params, operands, strict=True))
            made = self.tensors((*block.results, *[s.inner for s in own]), given, values)
            arms.append(made[: len(block.results)])
            saves = [outputs(s)[0] for s in own]
            found.update(zip(saves, made[len(block.results) :], strict=True))
        for t, *each in zip(outputs(op), *arms, strict=True):
            found[t] = each[0] if index is None else _chosen(index, each)
        return found

    def loop(self, op: Loop, image: Image, values: Values, kept: Sequence[Saved]) -> Image:
        body, last = op.blocks[0], op.carries + op.scanned
        operands = [image[t] for t in op.operands]
        carries, scanned = operands[: op.carries], operands[op.carries : last]
        count = self.iterations(op, values)
        rows: list[list[Tensor]] = []
        for n in reversed(range(count)) if op.reverse else range(count):
            parts = [_row(x, n) for x in scanned]
            given = dict(zip(body.params, (*carries, *parts, *operands[last:]), strict=True))
            wanted = (*body.results, *[s.inner for s in kept])
            made = self.tensors(wanted, given, {**values, op.counter: n})
            carries = made[: op.carries]
            rows.append(made[op.carries :])
        if op.reverse:
            rows.reverse()
        found = dict(zip(outputs(op), carries, strict=True))
        for k, s in enumerate(kept):
            (t,) = outputs(s)
            found[t] = _stacked(t, [made[k] for made in rows], values)
        return found

    def iterations(self, op: Loop, values: Values) -> int:
        """How often a loop runs."""
        unknown = [s for s in sizes_in(op.trips) if s not in values]
        if unknown:
            raise BindError(
                f"how often the loop of {op.name} runs is not known: {unknown[0]} has no value.",
                where=op.source,
                hint=f'give it: sizes={{"{unknown[0]}": 8}}.',
            )
        count = max(0, size_value(op.trips, values))
        self.left -= count
        if self.left < 0:
            raise LimitError(
                f"the loop of {op.name} runs too often for its block to be copied {count} times.",
                where=op.source,
                hint=f"use sizes for which all loops together run {MOST_ITERATIONS:,} times.",
            )
        return count


def _compute(name: str, shape: Sequence[Dim], body: Callable[[tuple[Expr, ...]], Expr]) -> Tensor:
    axes = compute_axes(tuple(shape))
    return outputs(Compute(name, axes, (body(axes),)))[0]


def _row(x: Tensor, n: int) -> Tensor:
    return _compute(x.name, x.shape[1:], lambda axes: read(x, (int_const(n), *axes)))


def _chosen(index: Tensor, arms: Sequence[Tensor]) -> Tensor:
    """The first arm up to index 0, the last from its own on."""

    def body(axes: tuple[Expr, ...]) -> Expr:
        n = read(index, ())
        found: Expr = read(arms[-1], axes)
        for k in reversed(range(len(arms) - 1)):
            taken = n <= k if n.dtype.is_integer else ~n
            found = select(taken, read(arms[k], axes), found)
        return found

    return _compute(arms[0].name, arms[0].shape, body)


def _stacked(t: Tensor, rows: Sequence[Tensor], values: Values) -> Tensor:
    """Rows as one tensor."""
    own = [dim_of(_known(dim_expr(n), values)) for n in t.shape[1:]]

    def body(axes: tuple[Expr, ...]) -> Expr:
        if not rows:
            return const(0, t.dtype)
        found: Expr = read(rows[-1], axes[1:])
        for n in reversed(range(len(rows) - 1)):
            found = select(axes[0] <= n, read(rows[n], axes[1:]), found)
        return found

    return _compute(t.name, [len(rows), *own], body)


def _known(e: Expr, values: Values) -> Expr:
    return substitute(e, {s: int_const(values[s]) for s in sizes_in(e) if s in values})


def _copied(op: Op, image: Image, values: Values) -> Op:
    """The operation over images of what it reads, over axes of its own."""
    assert isinstance(op, (Compute, Scatter, Scan))
    along = op.along if isinstance(op, Scan) else ()
    fresh = fresh_axes((*op.axes, *along), {s: int_const(n) for s, n in values.items()})
    renew = with_fresh_fold()
    memo: dict[Expr, Expr] = {}

    def over(e: Expr) -> Expr | None:
        return (
            read(image[e.tensor], e.indices) if isinstance(e, Read) and e.tensor in image else None
        )

    def new(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([renew(rewrite(e, over, memo)) for e in substitute_all(exprs, fresh)])

    made = map_op(op, new, lambda t: image[t])
    changed: dict[str, Any] = {"axes": tuple([fresh[a] for a in op.axes])}
    if isinstance(op, Scan):
        changed["along"] = tuple([fresh[a] for a in along])
    if not isinstance(op, Compute):
        changed["shape"] = tuple([dim_of(_known(dim_expr(n), values)) for n in op.shape])
    assert isinstance(made, (Compute, Scatter, Scan))  # what it was made of
    return replace(made, **changed)
