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
from tensorad.ir.hooks import Hook
from tensorad.ir.tensor import Block, Loop, Op, Shape, Tensor, births, format_shape, outputs
from tensorad.program.calls import operand
from tensorad.program.data.function_types import MOST_CODES, codes, written_inside
from tensorad.program.data.rounds import Rounds
from tensorad.program.leaf_types import LeafTypes
from tensorad.program.references.frames import Cell, Frame, check_kept, frame
from tensorad.program.references.leaving import places_of
from tensorad.program.references.slots import Slots
from tensorad.program.references.standing import Standing
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


class Beside(NamedTuple):
    """A value of a loop: a carry, or a part of what is scanned."""

    param: Tensor
    first: Tensor
    """Before the first iteration; of a part all of what is scanned."""
    result: Tensor | None
    """After an iteration; None of a part."""


tangents: Final[Hook[[Sequence[Beside]], list[Beside]]] = Hook("tensorad.levels.carried")
"""What else goes round, since the body asks for tangents of values."""


class Looped(NamedTuple):
    """A loop that was made."""

    op: Loop
    result: Any
    """The last carry, a tree."""
    ys: list[Tensor]
    """What each iteration collects, inside of the loop."""
    ys_structure: Structure


class _Carry(LeafTypes):
    """The carry before the first iteration, and what each leaf is inside.

    Attributes:
        kept: leaves of references of outside that the body writes.
        standing: references in the place of those that the body made.
    """

    def __init__(self, body: Body, init: object) -> None:
        super().__init__(flatten(operand(init, body.name), body.name), body.name)
        self.body = body
        self.kept = Slots(body.name)
        self.standing = Standing(body.where, body.name)

    @property
    def paths(self) -> list[str]:
        return [*self.flat.paths, *self.kept.flat.paths]

    def all_parameters(self) -> list[Tensor]:
        """A placeholder for each leaf, those of references last."""
        owner = f"the body of {self.body.where}"
        return [*self.parameters(owner), *self.kept.parameters(owner)]

    def starts(self) -> list[Tensor]:
        """The first values."""
        return [*self.tensors(self.flat.leaves), *self.kept.tensors(self.kept.flat.leaves)]

    def tree(self, values: Sequence[Tensor]) -> Any:
        """The user's carry of these values."""
        return unflatten(self.flat.structure, values[: len(self.own)])

    def given(self, values: Sequence[Tensor]) -> Any:
        """The carry as the body gets it, in its frame."""
        structure = self.standing.given(self.flat.structure)
        return unflatten(structure, values[: len(self.own)])

    def all_functions(self) -> int:
        """How many functions belong to types of the carry and of references so far."""
        return self.n_functions + self.kept.n_functions

    def numbers(self, params: Sequence[Tensor]) -> list[Tensor]:
        """The parameters that stand for Python numbers, and have met nothing else so far."""
        own, kept = params[: len(self.own)], params[len(self.own) :]
        return [p for n, p in enumerate(own) if self.is_number(n)] + self.kept.numbers(kept)

    def check_structure(self, after: Flat) -> None:
        path = first_difference(self.flat, after, self.body.name)
        if path is not None:
            raise DefinitionError(
                f"the carry of {self.body.where} changes its structure at {path}.",
                where=side_by_side(("before", "after"), self.flat, after, self.body.name),
                hint="return a carry like the one that comes in.",
            )

    def results(self, types: LeafTypes, after: Sequence[object]) -> list[Tensor]:
        """Leaves after the body, as tensors of these types."""
        made: list[Tensor] = []
        for n, value in enumerate(after):
            if not types.same_shape(n, value):
                hint = _shape_hint(types.shapes[n])
                raise self._changed(types, ShapeError, "shape", n, value, hint)
            if not types.takes(n, value):
                hint = f"convert the result with .astype('{types.dtypes[n]}'), or start with "
                hint += f"{alone(dtype_of(value))}."
                raise self._changed(types, DTypeError, "dtype", n, value, hint)
            made.append(as_tensor(value, types.flat.paths[n], types.dtypes[n]))
        return made

    def _changed(
        self, types: LeafTypes, kind: type[UserError], what: str, n: int, value: object, hint: str
    ) -> UserError:
        before = f"{types.dtypes[n]} {format_shape(types.shapes[n])}"
        return kind(
            f"the carry of {self.body.where} changes its {what} at {types.flat.paths[n]}.",
            where=f"before: {before}, after: {leaf_text(value)}",
            hint=hint,
        )


def _shape_hint(shape: Shape) -> str:
    if shape:
        return "a carry has one shape in all iterations."
    return "a carry has one shape in all iterations; start with an array of it, such as zeros."


def _endless(body: Body, carry: _Carry) -> DefinitionError | InternalError:
    """What is wrong where each round finds another carry."""
    if not carry.all_functions():
        return InternalError(f"the carry of {body.where} has no dtype")
    return DefinitionError(
        f"functions in the carry of {body.where} are of more kinds each time, without end.",
        where=", ".join(carry.flat.paths),
        hint="a function, or a value with functions in it, that is carried has the one that was "
        "carried before in it as it is given, not as parts of parts of it.",
    )


def run_loop(body: Body, init: object, scanned: Sequence[Tensor], times: Trips) -> Looped:
    """The loop of a body: written down, with everything it reads from outside.

    Args:
        init: the first carry, a tree.
        scanned: tensors with a leading axis.
        times: how often.
    """
    with Rounds.of(body.where).again():
        return _settled(body, init, scanned, times)


def _settled(body: Body, init: object, scanned: Sequence[Tensor], times: Trips) -> Looped:
    """The loop, once a round finds and leaves values of the same types."""
    carry = _Carry(body, init)
    kinds = [t.shape[1:] for t in scanned], [t.dtype for t in scanned]
    parts = parameters(body.part_names, *kinds, f"the body of {body.where}")
    most = _MOST_ROUNDS + 3 * len(carry.own)
    rounds, n_rounds, changes, known = Rounds.of(body.where), 0, False, set[object]()
    while n_rounds <= most + 3 * len(carry.kept.slots) + carry.kept.n_opened:
        n_rounds += 1
        if changes:
            rounds.forget()
        changes = True
        starts = carry.starts()
        start = births()
        params = carry.all_parameters()
        n_functions = carry.all_functions()
        found = codes([*carry.dtypes, *carry.kept.dtypes])
        has_more = len(known) < MOST_CODES and not found <= known
        n_rounds -= has_more  # as often as there is other code
        known |= found
        with weak(carry.numbers(params)), tracing(), written_inside():
            with rounds.again():
                flat, ys, written = _once(carry, params, parts)
            flat, is_new = carry.meet(flat)
            carry.check_structure(flat)
            n_rounds -= is_new  # as often as there are references and functions
            if is_new or not carry.kept.find(written, params[len(carry.own) :]):
                continue
            if carry.join(flat.leaves) or carry.promote(flat.leaves):
                continue
            results = carry.results(carry, flat.leaves)
            results += carry.results(carry.kept, carry.kept.values)
            if carry.all_functions() == n_functions:
                break
            changes = False  # but of functions
    else:
        raise _endless(body, carry)
    inside = [as_tensor(v, p) for v, p in zip(ys.leaves, ys.paths, strict=True)]
    tests = _test(body, carry, params)
    carry.close()
    carry.kept.close()
    values = [Beside(*three) for three in zip(params, starts, results, strict=True)]
    rows = [Beside(p, t, None) for p, t in zip(parts, scanned, strict=True)]
    values, rows = _with_tangents(values, rows)
    op = _loop(carry.paths, values, rows, inside, tests, times, start)
    last = outputs(op)[: len(carry.paths)]
    carry.kept.store(last[len(carry.own) :])
    return Looped(op, carry.tree(last), inside, ys.structure)


def _with_tangents(values: list[Beside], rows: list[Beside]) -> tuple[list[Beside], list[Beside]]:
    with tracing():
        more = tangents.call([*values, *rows])
    carried = [b for b in more if b.result is not None]
    return [*values, *carried], [*rows, *[b for b in more if b.result is None]]


def _once(carry: _Carry, params: Sequence[Tensor], parts: list[Tensor]) -> tuple[Flat, Flat, Frame]:
    """The body written down: the next carry, what is collected, what it leaves in references."""
    body = carry.body
    with frame(f"the body of {body.where}") as written:
        for cell, held in carry.kept.held(params[len(carry.own) :]).items():
            written.hold(cell, held)
        after, collected = body.step(carry.given(params), parts)
        flat, ys = flatten(after, body.name), flatten(collected, "y")
        carry.standing.leave(flat, written)
    flat = carry.standing.stand(carry.flat, flat, written)
    check_kept([(flat.structure, body.name), (ys.structure, "y")], "result", written.owner)
    check_collected([ys.structure], body.where)
    return flat, ys, written


def check_collected(rows: Sequence[Structure], where: str) -> None:
    """A loop collects references that are the same in each iteration, if any.

    Args:
        rows: what iterations collect, one for all of a loop that is written down.
    Raises:
        DefinitionError: data, or iterations, choose one.
    """
    found: dict[str, dict[Cell, None]] = {}
    for row in rows:
        for path, cells in places_of(row, "y").items():
            found.setdefault(path, {}).update(dict.fromkeys(cells))
    for path, several in found.items():
        if len(several) > 1:
            one, other, *_ = several
            raise DefinitionError(
                f"{where} collects a reference that differs between iterations: {one.described}, "
                f"or {other.described}.",
                where=path,
                hint="collect what it holds: return r.get() in the place of r.",
            )


def _test(body: Body, carry: _Carry, params: Sequence[Tensor]) -> list[Tensor]:
    """The condition of a loop, if it has one."""
    if body.test is None:
        return []
    with tracing(), frame(f"the condition of {body.where}", refuses=True) as asked:
        for cell, held in carry.kept.held(params[len(carry.own) :]).items():
            asked.hold(cell, held)
        value = body.test(carry.tree(params))
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
    paths: Sequence[str], carried: Sequence[Beside], rows: Sequence[Beside], inside: list[Tensor],
    tests: list[Tensor], times: Trips, start: int,
) -> Loop:  # fmt: skip
    params, starts = [b.param for b in carried], [b.first for b in carried]
    results = [b.result for b in carried if b.result is not None]
    parts, scanned = [b.param for b in rows], [b.first for b in rows]
    names = [*paths, *[p.name for p in params[len(paths) :]]]
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
