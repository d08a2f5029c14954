"""What goes round in loops: a body is written down once, for carries of one shape and dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tensorad.errors import DefinitionError, DTypeError, InternalError, ShapeError, UserError
from tensorad.ir.analysis.blocks import captures, op_sizes
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.tensor import Block, Loop, Op, Tensor, births, format_shape, outputs
from tensorad.program.calls import operand
from tensorad.program.data.function_types import written_inside
from tensorad.program.leaf_types import LeafTypes
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Flat, Structure, flatten, is_leaf, unflatten
from tensorad.program.values import alone, as_tensor, dtype_of, parameters, weak

_MOST_ROUNDS: Final = 8
"""A number is promoted to another dtype and that one to a float, for one leaf after the other."""


@dataclass(frozen=True)
class Trips:
    """How often a loop runs: see `Loop`."""

    counter: LocalSize
    trips: Expr
    count: Tensor | None = None
    reverse: bool = False


@dataclass(frozen=True)
class Body:
    """What a loop does, in the user's functions."""

    where: str
    """The construct and its line: "scan at model.py:12"."""
    name: str
    """What the user calls the carry."""
    step: Callable[[Any, list[Tensor]], tuple[Any, Any]]
    """(carry, parts of what is scanned) -> (carry, what is collected)"""
    test: Callable[[Any], Any] | None = None
    part_names: Sequence[str] = field(default=())


class Looped(NamedTuple):
    """A loop that was made."""

    op: Loop
    result: Any
    """The last carry, a tree."""
    ys: list[Tensor]
    """What each iteration collects, inside of the loop."""
    ys_structure: Structure


class _Carry(LeafTypes):
    """The carry before the first iteration, and what each leaf is inside."""

    def __init__(self, body: Body, init: object) -> None:
        super().__init__(flatten(operand(init, body.name), body.name), body.name)
        self.body = body

    def numbers(self, params: Sequence[Tensor]) -> list[Tensor]:
        """The parameters that stand for Python numbers, and have met nothing else so far."""
        return [p for n, p in enumerate(params) if self.is_number(n)]

    def check_structure(self, after: Flat) -> None:
        path = first_difference(self.flat, after, self.body.name)
        if path is not None:
            raise DefinitionError(
                f"the carry of {self.body.where} changes its structure at {path}.",
                where=side_by_side(("before", "after"), self.flat, after, self.body.name),
                hint="return a carry like the one that comes in.",
            )

    def results(self, after: Flat) -> list[Tensor]:
        """The carry after the body, as tensors."""
        made: list[Tensor] = []
        for n, value in enumerate(after.leaves):
            if not self.same_shape(n, value):
                raise self._changed(ShapeError, "shape", n, value, self._shape_hint(n))
            if not self.takes(n, value):
                hint = f"convert the result with .astype('{self.dtypes[n]}'), or start with "
                hint += f"{alone(dtype_of(value))}."
                raise self._changed(DTypeError, "dtype", n, value, hint)
            made.append(as_tensor(value, self.flat.paths[n], self.dtypes[n]))
        return made

    def _shape_hint(self, n: int) -> str:
        if self.shapes[n]:
            return "a carry has one shape in all iterations."
        return "a carry has one shape in all iterations; start with an array of it, such as zeros."

    def _changed(
        self, kind: type[UserError], what: str, n: int, value: object, hint: str
    ) -> UserError:
        before = f"{self.dtypes[n]} {format_shape(self.shapes[n])}"
        return kind(
            f"the carry of {self.body.where} changes its {what} at {self.flat.paths[n]}.",
            where=f"before: {before}, after: {leaf_text(value)}",
            hint=hint,
        )


def run_loop(body: Body, init: object, scanned: Sequence[Tensor], times: Trips) -> Looped:
    """The loop of a body: written down, with everything it reads from outside.

    Args:
        init: the first carry, a tree.
        scanned: tensors with a leading axis.
        times: how often.
    """
    carry = _Carry(body, init)
    owner = f"the body of {body.where}"
    inner = [t.shape[1:] for t in scanned]
    parts = parameters(body.part_names, inner, [t.dtype for t in scanned], owner)
    for _ in range(_MOST_ROUNDS + 2 * len(carry.own)):
        starts = carry.tensors(carry.flat.leaves)
        start = births()
        params = carry.parameters(owner)
        n_functions = carry.n_functions
        with weak(carry.numbers(params)), tracing(), written_inside():
            after, collected = body.step(unflatten(carry.flat.structure, params), parts)
            flat, is_new = carry.meet(flatten(after, body.name))
            carry.check_structure(flat)
            if is_new or carry.join(flat.leaves) or carry.promote(flat.leaves):
                continue
            results = carry.results(flat)
            if carry.n_functions == n_functions:
                break
    else:
        raise InternalError(f"the carry of {body.where} has no dtype")
    ys = flatten(collected, "y")
    inside = [as_tensor(v, p) for v, p in zip(ys.leaves, ys.paths, strict=True)]
    tests = _test(body, carry, params)
    carry.close()
    op = _loop(
        carry.flat.paths, params, starts, results, inside, tests, parts, scanned, times, start
    )
    last = outputs(op)[: len(carry.own)]
    return Looped(op, unflatten(carry.flat.structure, last), inside, ys.structure)


def _test(body: Body, carry: _Carry, params: Sequence[Tensor]) -> list[Tensor]:
    """The condition of a loop, if it has one."""
    if body.test is None:
        return []
    with tracing():
        value = body.test(unflatten(carry.flat.structure, params))
    if value is True:
        raise DefinitionError(
            f"the condition of {body.where} is always True: the loop would never end.",
            hint="compare what the body changes, e.g. x < 10.",
        )
    if is_leaf(value):
        test = as_tensor(value, "condition")
        if test.dtype is BOOL and not test.shape:
            return [test]
    shown = leaf_text(value) if is_leaf(value) else f"a {type(value).__name__}"
    raise DTypeError(
        f"the condition of {body.where} must be a 0-d bool, got {shown}.",
        hint="return a comparison of 0-d tensors, e.g. x < 10.",
    )


def _loop(
    paths: Sequence[str], params: list[Tensor], starts: list[Tensor], results: list[Tensor],
    inside: list[Tensor], tests: list[Tensor], parts: list[Tensor], scanned: Sequence[Tensor],
    times: Trips, start: int,
) -> Loop:  # fmt: skip
    names = list(paths)
    if not params:  # a loop has a carry
        names, params = ["nothing"], parameters(["nothing"], [()], [INT64], "a loop")
        starts, results = [as_tensor(0, "nothing", INT64)], list(params)

    def is_inside(op: Op) -> bool:
        return times.counter in op_sizes(op)

    made = (*results, *inside, *tests)
    fixed = captures(made, (*params, *parts), is_inside, start)
    blocks = [Block((*params, *parts, *fixed), tuple(results))]
    if tests:
        blocks.append(Block((*params, *fixed), tuple(tests)))
    return Loop(
        tuple(names), (*starts, *scanned, *fixed), tuple(blocks),
        counter=times.counter, trips=times.trips, carries=len(params), scanned=len(scanned),
        count=times.count, reverse=times.reverse,
    )  # fmt: skip
