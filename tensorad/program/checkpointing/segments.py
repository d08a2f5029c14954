"""Loops in segments: the carry is stored where a segment begins, all else is computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import op_sizes
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import BOOL, FLOAT64, INT64
from tensorad.ir.expr import Const, Expr, call, cast, const, int_const, local_size, read, select
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Compute, Tensor, dim_of, outputs, saved
from tensorad.program.carries import Body, Trips, run_loop
from tensorad.program.checkpointing.functions import recomputed
from tensorad.program.trees import Structure, flatten, is_leaf, unflatten
from tensorad.program.values import as_tensor, outputs_of

Step = Callable[[Any, list[Tensor]], tuple[Any, Any]]
"""See `Body.step`."""


@dataclass(frozen=True)
class Iterations:
    """What a loop does, for any name of its counter.

    Attributes:
        body: what iteration t does, from t as a formula.
        times: how often.
        scanned: tensors with a leading axis.
    """

    body: Callable[[Expr], Body]
    times: Trips
    scanned: Sequence[Tensor] = ()

    @property
    def where(self) -> str:
        """The construct and its line."""
        return self.body(self.times.counter).where

    @property
    def by_run(self) -> bool:
        """Whether only the run tells how many iterations there are."""
        return self.times.count is not None or self.body(self.times.counter).test is not None

    def run(self, init: object) -> tuple[Any, Any]:
        """The last carry, and all that is collected; everything is stored for the reverse."""
        loop = run_loop(self.body(self.times.counter), init, self.scanned, self.times)
        return loop.result, unflatten(loop.ys_structure, [saved(loop.op, y) for y in loop.ys])


@dataclass(frozen=True)
class _Lengths:
    """Segments: all of one length, or one iteration longer each time."""

    same: int | None

    def first(self, n: Expr) -> Expr:
        """The number of the first iteration of segment n."""
        return n * (n + 1) // 2 if self.same is None else n * self.same

    def length(self, n: Expr) -> Expr:
        """How many iterations segment n has, unless the loop ends."""
        return n + 1 if self.same is None else int_const(self.same)

    def count(self, trips: Expr) -> Expr:
        """How many segments are enough for so many iterations."""
        if self.same is not None:
            return (trips + (self.same - 1)) // self.same
        return cast(call("sqrt", cast(trips * 2, FLOAT64)), INT64) + 1


def in_segments(loop: Iterations, init: object, segments: str | int) -> tuple[Any, Any]:
    """The last carry, and all that is collected: the loop as a loop of checkpoints.

    Args:
        segments: their length, or "sqrt": as many as they are long (Griewank 1992, section 4; where
            only the run tells how many iterations there are, each is one longer than the last).
    Raises:
        DefinitionError: the number of iterations is a symbolic size, or something is collected
            from iterations that only the run counts.
    """
    return _Segments(loop, _lengths(loop, segments)).run(init)


def _lengths(loop: Iterations, segments: str | int) -> _Lengths:
    if isinstance(segments, int):
        return _Lengths(segments)
    if loop.by_run:
        return _Lengths(None)
    trips = loop.times.trips
    if isinstance(trips, Const):
        return _Lengths(isqrt(max(int(trips.value) - 1, 0)) + 1)
    raise DefinitionError(
        f'checkpoint="sqrt" of {loop.where} needs a number of iterations, got {trips}.',
        hint="pass checkpoint=100, how many iterations a segment has.",
    )


class _Segment(NamedTuple):
    """A loop that is one segment.

    Attributes:
        first: the number of its first iteration.
        rows: how many it has, unless only the run tells.
    """

    times: Trips
    first: Expr
    rows: Expr
    test: Callable[[Any], Any] | None


class _Segments:
    """The loop of segments."""

    def __init__(self, loop: Iterations, lengths: _Lengths) -> None:
        self.loop = loop
        self.lengths = lengths
        self.structure: Structure | None = None

    def run(self, init: object) -> tuple[Any, Any]:
        times, lengths = self.loop.times, self.lengths
        trips: Expr = local_size("trips")
        count: Tensor | None = None
        if times.count is not None:
            count = outputs_of(lengths.count(read(times.count, ())), "segments", INT64)
        elif not self.loop.by_run:
            trips = lengths.count(times.trips)
        at = local_size("segment", trips)
        plain = self.loop.body(times.counter)

        def step(carry: Any, _: object) -> tuple[Any, Any]:
            return self.step(self.segment(at), carry)

        body = Body(plain.where, plain.name, step, test=plain.test)
        made = run_loop(body, init, [], Trips(at, trips, count, times.reverse))
        ys = [self.whole(saved(made.op, y)) for y in made.ys]
        assert self.structure is not None, "the body was written down"
        return made.result, unflatten(self.structure, ys)

    def segment(self, at: Expr) -> _Segment:
        """Segment `at`."""
        times, lengths = self.loop.times, self.lengths
        first, rows = lengths.first(at), lengths.length(at)
        label, test = times.counter.label, self.loop.body(times.counter).test
        if not self.loop.by_run:
            if not self.is_even:
                rows = call("minimum", rows, times.trips - first)
            counter = local_size(label, rows)
            return _Segment(Trips(counter, rows, reverse=times.reverse), first, rows, None)
        trips = local_size("trips")
        counter = local_size(label, trips)
        if test is not None:
            bound = partial(_within, counter < rows, test)
            return _Segment(Trips(counter, trips), first, rows, bound)
        assert times.count is not None, "there is a test otherwise"
        left = call("minimum", rows, read(times.count, ()) - first)
        count = outputs_of(call("maximum", left, int_const(0)), "count", INT64)
        return _Segment(Trips(counter, trips, count, times.reverse), first, rows, None)

    @property
    def is_even(self) -> bool:
        """Whether all segments are of one length."""
        trips, same = self.loop.times.trips, self.lengths.same
        return isinstance(trips, Const) and same is not None and int(trips.value) % same == 0

    def step(self, segment: _Segment, carry: Any) -> tuple[Any, Any]:
        """One segment of the loop: its last carry, what its iterations collect."""

        own = {*sizes_in(segment.first), *sizes_in(segment.rows)} - {
            *sizes_in(self.loop.times.trips)
        }

        def segment_of(carry: Any) -> tuple[Any, Any]:
            at = segment.first + segment.times.counter
            body = replace(self.loop.body(at), test=segment.test)
            made = run_loop(
                replace(body, step=row_step(self.loop, at), part_names=()), carry, [], segment.times
            )
            self.structure = made.ys_structure
            if made.ys and self.loop.by_run:
                raise DefinitionError(
                    f"{self.loop.where} collects values in segments, and only its run tells how "
                    "many.",
                    hint="leave out the checkpoint, or return None in place of y.",
                )
            return made.result, [saved(made.op, y) for y in made.ys]

        leaves = flatten(carry, "carry").leaves
        params = [t for t in dict.fromkeys(leaves) if isinstance(t, Tensor)]
        result, rows = recomputed(
            lambda: segment_of(carry), "segment_of", self.loop.where, None, params,
            lambda op: bool(own & {*op_sizes(op)}),
        )  # fmt: skip
        return result, rows if self.is_even else [self.padded(t, segment.rows) for t in rows]

    def padded(self, t: Tensor, rows: Expr) -> Tensor:
        """What a segment collects, with as many rows as the longest one has."""
        assert self.lengths.same is not None, "nothing is collected otherwise"
        axes = compute_axes((self.lengths.same, *t.shape[1:]))
        inside = select(axes[0] < rows, read(t, axes), const(0, t.dtype))
        return outputs(Compute(t.name, axes, (inside,)))[0]

    def whole(self, t: Tensor) -> Tensor:
        """What all segments collect, by iteration."""
        assert self.lengths.same is not None, "nothing is collected otherwise"
        first, *others = compute_axes((dim_of(self.loop.times.trips), *t.shape[2:]))
        at = (first // self.lengths.same, first % self.lengths.same, *others)
        return outputs(Compute(t.name, (first, *others), (read(t, at),)))[0]


def _within(left: Expr, test: Callable[[Any], Any], carry: Any) -> Any:
    """The condition of a loop, in a segment that has iterations left."""
    value = test(carry)
    if value is True or not is_leaf(value):
        return value
    own = as_tensor(value, "condition")
    if own.dtype is not BOOL or own.shape:
        return value
    return outputs_of(left, "left", BOOL) & own


def row_step(loop: Iterations, at: Expr) -> Step:
    """What iteration `at` does; it reads the rows of what is scanned itself."""
    body = loop.body(at)
    pairs = list(zip(loop.scanned, body.part_names, strict=True))
    return lambda carry, _: body.step(carry, [_row(t, name, at) for t, name in pairs])


def _row(t: Tensor, name: str, at: Expr) -> Tensor:
    """The row of what is scanned."""
    axes = compute_axes(t.shape[1:])
    return outputs(Compute(name, axes, (read(t, (at, *axes)),)))[0]
