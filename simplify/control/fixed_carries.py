"""Carries, and rows of scanned tensors, that are always the same become fixed operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorad.ir.analysis.blocks import is_everywhere
from tensorad.ir.arrays.elementwise import formula
from tensorad.ir.tensor import Block, Compute, Control, Loop, Tensor, outputs, saved
from tensorad.ir.visit import copy_bodies, postorder
from tensorad.simplify.bounds.reads import is_safe
from tensorad.simplify.control.levels import (
    Around,
    Given,
    Saves,
    in_place_of,
    like,
    rows_of,
    surely_runs,
    values_of,
)


def fix_carries(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
    """The values of a loop whose carries change.

    A carry stays as it is if its next value is itself, or another operand that is the same tensor
    and stays; a scanned tensor has equal rows if its formula says so. What is known when the
    program is written becomes part of the block. Where others use how often a loop ran, they come
    after it because they read its outputs: these stay.
    """
    if not isinstance(op, Loop):
        return values_of(op, saves)
    stays = {} if around.counts else _unchanged(op)
    stays |= _equal_rows(op, around.given)
    return _with_fixed(op, saves, stays, around.given) if stays else values_of(op, saves)


def _unchanged(op: Loop) -> dict[int, Tensor]:
    """Carries that stay what they begin as, by number; a loop keeps one carry."""
    block, last = op.blocks[0], op.carries + op.scanned
    number = {p: k for k, p in enumerate(block.params) if k < op.carries or k >= last}
    after = {k: number[t] for k, t in enumerate(block.results) if t in number}
    found = {k: j for k, j in after.items() if op.operands[j] is op.operands[k]}
    while True:
        left = {k: j for k, j in found.items() if j >= last or j in found}
        if len(left) == len(found):
            break
        found = left
    if len(found) == op.carries:
        del found[0]
    return {k: op.operands[k] for k in found}


def _equal_rows(op: Loop, given: Given) -> dict[int, Tensor]:
    """Scanned tensors whose rows are equal, by number: one of them."""
    found: dict[int, Tensor] = {}
    runs = surely_runs(op)
    for k in range(op.carries, op.carries + op.scanned):
        rows = op.operands[k]
        made = rows.op
        if rows in given or not isinstance(made, Compute) or len(made.bodies) != 1:
            continue
        row, *axes = made.axes
        same = not any(e is row for e in postorder(*made.bodies))
        if same and (runs or is_safe(made)):  # no row may be there to be wrong
            own, bodies = copy_bodies(tuple(axes), made.bodies)
            found[k] = formula(made.name, own, bodies[0], made.source)
    return found


def _with_fixed(op: Loop, saves: Saves, stays: Mapping[int, Tensor], given: Given) -> list[Tensor]:
    """The values of the loop with some operands fixed.

    Args:
        stays: what carries and parts are in each iteration, by their number.
    """
    last = op.carries + op.scanned
    fixed = {t: k for k, t in reversed([*enumerate(op.operands)][last:])}
    for k, t in stays.items():
        if t in given or not is_everywhere(t.op):
            fixed.setdefault(t, k)
    new = [k for k in stays if fixed.get(stays[k]) == k]
    carries = [k for k in range(op.carries) if k not in stays]
    scanned = [k for k in range(op.carries, last) if k not in stays]
    places = [*carries, *scanned, *range(last, len(op.operands)), *new]
    blocks: list[Block] = []
    inner = [t for _, t in saves]
    for n, block in enumerate(op.blocks):
        numbers = [k for k in range(len(op.operands)) if n == 0 or not op.carries <= k < last]
        param = dict(zip(numbers, block.params, strict=True))
        param.update({k: like(stays[k]) for k in new if k not in param})
        image = {
            param[k]: param[fixed[t]] if t in fixed else t
            for k, t in stays.items()
            if k in param and fixed.get(t) != k
        }
        wanted = block.results if n else tuple([block.results[k] for k in carries])
        made = in_place_of((*wanted, *(() if n else inner)), image, dict.fromkeys(block.params))
        params = tuple([param[k] for k in places if k in param])
        blocks.append(Block(params, tuple(made[: len(wanted)])))
        inner = inner if n else made[len(wanted) :]
    loop = replace(
        op, names=tuple([op.names[k] for k in carries]), blocks=tuple(blocks),
        operands=tuple([stays.get(k, op.operands[k]) for k in places]),
        carries=len(carries), scanned=len(scanned),
    )  # fmt: skip
    number = {p: k for k, p in enumerate(op.blocks[0].params)}
    outs = [stays[k] if k in stays else outputs(loop)[carries.index(k)] for k in range(op.carries)]
    rows: list[Tensor] = []
    for (_, before), t in zip(saves, inner, strict=True):
        k = number.get(before, -1)
        if k not in stays:
            rows.append(saved(loop, t))
        else:
            rows.append(rows_of(stays[k], op.trips) if k < op.carries else op.operands[k])
    return [*outs, *rows]
