"""What is known when a program is written: numbers, the arm taken, that nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import DTypeError
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.expr import Cast, Const, Expr, Read, int_const
from tensorad.ir.rebuild import map_op
from tensorad.ir.records import Fields, Inject, Tag
from tensorad.ir.tensor import Branch, Compute, Constant, Control, Loop, Op, Tensor, outputs
from tensorad.ir.visit import op_expressions, reads, substitute_all
from tensorad.simplify.bounds.reads import dynamic_dimensions
from tensorad.simplify.control.levels import (
    Around,
    Given,
    Saves,
    at_one_level,
    in_place_of,
    values_of,
    without_values,
)
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs


def choose_known(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
    """The values of an operation: of a branch by a known index those of the arm, of a loop of no
    iterations the first ones, operands that every arm of a branch passes on, and what a record was
    made of."""
    if isinstance(op, Branch):
        index = None if op.operands[0] in around.given else known_index(op.operands[0])
        return _passed_on(op, saves) if index is None else _arm(op, saves, index, around)
    if isinstance(op, (Tag, Fields)) and op.operands[0] not in around.given:
        made = op.operands[0].op
        return values_of(op, saves) if not isinstance(made, Inject) else _of_record(op, made)
    if isinstance(op, Loop) and isinstance(op.trips, Const) and op.trips.value <= 0:
        empty = [without_values(t, (0, *t.shape)) for _, t in saves]
        return [*op.operands[: op.carries], *empty]
    return values_of(op, saves)


def _of_record(op: Tag | Fields, made: Inject) -> list[Tensor]:
    """The number of the variant, or the fields, of a record that the program makes.

    Fields of another variant are in an arm that is not taken.
    """
    if isinstance(op, Tag):
        return [outputs(Compute(op.name, (), (int_const(made.tag),), ""))[0]]
    return [*made.operands] if op.tag == made.tag else [*outputs(op)]


def known_index(t: Tensor) -> int | None:
    """The value of a 0-d tensor that is known when the program is written."""
    if isinstance(t.op, Constant):
        return int(t.op.array)
    if not isinstance(t.op, Compute):
        return None
    body: Expr = t.op.bodies[t.index]
    while isinstance(body, Cast) and not body.value.dtype.is_float:
        body = body.value
    return int(body.value) if isinstance(body, Const) else None


def write_constants(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """The results, computed from numbers in place of formulas that are one."""
    known = dict.fromkeys(given)
    image: dict[Tensor, Tensor] = {}
    for op in ops_between(results, known):
        made = _with_numbers(over_inputs(op, image), known)
        if made is op:
            continue
        pairs = zip(outputs(op), outputs(made), strict=True)
        image.update({a: b for a, b in pairs if a is not b and a not in known})
    return [image.get(t, t) for t in results]


def _with_numbers(op: Op, given: Given) -> Op:
    """The operation, numbers in place of reads that are in range; a call checks the others."""
    found: dict[Read, Expr] = {}
    for r in reads(*op_expressions(op)):
        if isinstance(r.tensor.op, Compute) and r.tensor not in given:
            body = r.tensor.op.bodies[r.tensor.index]
            found.update({r: body} if isinstance(body, Const) else {})
    unproved = dynamic_dimensions(op, sizes=True) if any(r.tensor.shape for r in found) else {}
    numbers: dict[Expr, Expr] = {r: body for r, body in found.items() if r not in unproved}
    if not numbers:
        return op
    try:
        return on_fresh_axes(map_op(op, lambda exprs: substitute_all(exprs, numbers)))
    except DTypeError:  # a negative power of an integer, refused where it is written so
        return op


def _arm(op: Branch, saves: Saves, index: int, around: Around) -> list[Tensor]:
    """What the chosen block computes; the others save nothing that is read.

    What is known of the operands is known in it, then: the variants of records.
    """
    chosen = min(max(index, 0), len(op.blocks) - 1)
    block = op.blocks[chosen]
    own = [t for n, t in saves if n == chosen]
    image = dict(zip(block.params, op.operands[1:], strict=True))
    made = in_place_of((*block.results, *own), image)
    made = at_one_level(
        made, [*around.given, *op.operands],
        lambda o, kept, level: choose_known(o, kept, level._replace(given=around.given)),
    )  # fmt: skip
    found = iter(made[len(block.results) :])
    rows = [next(found) if n == chosen else without_values(t) for n, t in saves]
    return [*made[: len(block.results)], *rows]


def _passed_on(op: Branch, saves: Saves) -> list[Tensor]:
    """The values; an output is an operand where it is that one in every block."""
    found = values_of(op, saves)
    for k in range(len(op.names)):
        operands: dict[Tensor | None, None] = {}
        for block in op.blocks:
            known = dict(zip(block.params, op.operands[1:], strict=True))
            operands[known.get(block.results[k])] = None
        (first, *others) = operands
        if first is not None and not others:
            found[k] = first
    return found
