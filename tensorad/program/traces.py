"""A function written down: parameters, results, and the check that nothing else is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import (
    captures,
    inner_ops,
    op_sizes,
    ops_between,
    tells_trips,
)
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.expr import LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Definition
from tensorad.ir.tensor import (
    Op,
    Placeholder,
    Tensor,
    births,
    dim_expr,
    format_shape,
    outputs,
)
from tensorad.ir.text import program as text
from tensorad.ir.text.listing import program_of
from tensorad.ir.visit import placeholders
from tensorad.process import deep_calls
from tensorad.program.data.function_types import data_of
from tensorad.program.leaf_types import with_values
from tensorad.program.references.frames import Cell, cells_of, frame
from tensorad.program.references.slots import Slots
from tensorad.program.trees import LEAF, Structure, flatten, unflatten
from tensorad.program.values import as_tensor


class Round:
    """One time that a function is written down.

    Attributes:
        definition: what calls inside are calls of; None while their type is not known.
        is_complete: whether it is known what the definition does.
    """

    def __init__(self, definition: Definition | None) -> None:
        self.definition = definition
        self.is_complete = False


@dataclass(frozen=True, eq=False)
class Program:
    """What a function does, as tensors.

    Attributes:
        name: the function's.
        parameters: a placeholder for each leaf of the arguments.
        results: a tensor for each leaf of the result.
        paths: how users write where each result is.
        structure: of the result.
        reads: what the results need beside the parameters: older tensors.
        arguments: the name and the structure of each argument.
        references: what is read or written of references that the function did not make, or
            is one of its own that it returns.
        definition: what the results are calls of, if the function calls itself.
        rests_on: functions that are being written down around it, whose calls are in it.
        kept: leaves of references that calls of the definition are given, and give back: results
            beyond the `paths`.
    """

    name: str
    parameters: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    paths: tuple[str, ...]
    structure: Structure
    reads: tuple[Tensor, ...]
    arguments: tuple[tuple[str, Structure], ...] = ()
    references: tuple[Cell, ...] = ()
    definition: Definition | None = None
    rests_on: tuple[Round, ...] = ()
    kept: Slots | None = None

    def tree(self, leaves: Sequence[object]) -> Any:
        """The result with these leaves."""
        return unflatten(self.structure, leaves)

    @property
    def text(self) -> text.Program:
        """The program binding by binding, its result a tuple of leaves unless it is one tensor."""
        results = self.results[0] if self.structure is LEAF else self.results
        return program_of(results, [(t.name, t) for t in self.parameters], self.name)

    def __str__(self) -> str:
        return str(self.text)

    def _repr_html_(self) -> str:
        return self.text._repr_html_()


def traced(
    name: str, function: Callable[[Sequence[Tensor]], Any], parameters: Sequence[Tensor],
    is_closed: bool = False,
) -> Program:  # fmt: skip
    """The function of the parameters written down.

    Args:
        function: called once, with the parameters.
        is_closed: functions that are returned become values, with what they capture.
    """
    start = births()
    with deep_calls.changed(), tracing(), frame(name) as written:
        result = function(parameters)
    flat = flatten(result, name)
    returned = [cell for _, cell in cells_of(flat.structure, name)]
    if is_closed:
        flat = with_values(flat, name)
    pairs = zip(flat.leaves, flat.paths, strict=True)
    results = tuple([as_tensor(v, path) for v, path in pairs])
    reads = captures(results, parameters, lambda op: True, since=start)
    return Program(
        name, tuple(parameters), results, tuple(flat.paths), flat.structure, tuple(reads),
        references=tuple(dict.fromkeys([*written.touched, *returned])),
    )  # fmt: skip


def check_closed(program: Program) -> None:
    """The results follow from the parameters, and so do their shapes.

    Raises:
        DefinitionError: they need a tensor that has no value, or the counter of a loop that is
            not run there; or only the run tells how large they are. The function reads, writes
            or returns references.
    """
    check_no_references(program)
    for t in placeholders(program.reads):
        op = t.op
        assert isinstance(op, Placeholder), "placeholders are made by these"
        shown = f"{t.name} : {t.dtype} {format_shape(t.shape)}"
        if op.owner:
            raise DefinitionError(
                f"{program.name} uses {t.name} outside of {op.owner}, where it has no value.",
                where=shown,
                hint="return what is needed from the function it belongs to.",
            )
        raise DefinitionError(
            f"{program.name} uses the placeholder {t.name}, which has no value in a call.",
            where=shown,
            hint=f"make it an argument of {program.name}, or use an array in its place.",
        )
    _check_sizes(program)
    for t, path in zip(program.results, program.paths, strict=True):
        if data_of(t) is not None:
            raise DefinitionError(
                f"{path} is a value of {data_of(t)} that data choose, with functions in it, which "
                "no call returns.",
                where=f"the result of {program.name}",
                hint="take it apart inside with ta.match, and return what is computed of it.",
            )
        if t.is_function:
            raise DefinitionError(
                f"{path} is a function that data choose, which no call returns.",
                where=f"the result of {program.name}",
                hint="call it inside, and return what it gives.",
            )
        if any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape))):
            raise DefinitionError(
                f"{path} has a row for each iteration of a loop, and only its run tells how many.",
                where=f"{t.name} : {t.dtype}, of {program.name}",
                hint="return what is computed of all rows, such as their sum; or let an extent, "
                "of xs or another argument, tell how many there are.",
            )


def _check_sizes(program: Program) -> None:
    found = free_size(program.results, program.parameters)
    if found is not None:
        op, size = found
        where = f"{outputs(op)[0].name} at {getattr(op, 'source', '')}"
        if size.extent is None:
            raise DefinitionError(
                f"{program.name} uses how many iterations a loop has, {size.label}, an extent of "
                "its rows, but nothing else of the loop, which does not run then.",
                where=where,
                hint="count them by a carry of the loop, or compute with the number it was given.",
            )
        raise DefinitionError(
            f"{program.name} uses {size.label}, the counter of a loop, outside of the loop.",
            where=where,
            hint="return what is needed from the loop: as a carry, or as y of a scan.",
        )


def check_no_references(program: Program) -> None:
    """The function has no part in references of others, and returns none of its own.

    Raises:
        DefinitionError: it has.
    """
    for path, cell in cells_of(program.structure, program.name):
        raise DefinitionError(
            f"{cell.described} is a result of {program.name}.",
            where=path,
            hint=f"a reference is no value: return what it holds, {cell.name}.get().",
        )
    for cell in program.references:
        raise DefinitionError(
            f"{program.name} reads or writes {cell.described}, outside of it.",
            where=f"a call of {program.name} that is no part of another function",
            hint="what a function computes follows from its arguments: pass what the reference "
            "holds, return what it is to hold, and set it after the call.",
        )


def rests_on_loops(program: Program) -> bool:
    """Whether the program uses counters, or numbers of iterations, of loops around it."""
    return free_size(program.results, (*program.parameters, *program.reads)) is not None


def free_size(results: Sequence[Tensor], given: Sequence[Tensor]) -> tuple[Op, LocalSize] | None:
    """An operation that uses a counter but is in no loop that has it, or the number of iterations
    of a loop that is not there."""
    ops = ops_between(results, dict.fromkeys(given))
    used = [
        (op, s)
        for op in ops
        for s in (op_sizes(op) if not isinstance(op, Placeholder) else ())
        if isinstance(s, LocalSize)
    ]
    if not used:
        return None
    told = dict.fromkeys([o.trips for o in (*ops, *inner_ops(ops)) if tells_trips(o)])
    return next(((op, s) for op, s in used if s not in told), None)
