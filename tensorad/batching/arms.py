"""Branches of which rows take different arms: each arm runs for the rows that take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.batching.level import Level
from tensorad.batching.rows import Chosen, Rows, listed, numbers_of
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import ZERO, Axis, Expr, Read, call, cast, const, int_const, read, select
from tensorad.ir.order import READ, REDUCE, occurs, postorder
from tensorad.ir.tensor import Branch, Compute, Constant, Placeholder, Saved, Tensor, outputs
from tensorad.ir.visit import rewrite, substitute

_SHORT: Final = 64
"""Nodes of a formula up to which it is written into one choice by element."""
Element = Callable[[Sequence[Axis]], Expr]
"""(a row, axes of a tensor) -> the element there."""


def branch(op: Branch, level: Level, kept: Sequence[Saved]) -> None:
    """Images of the outputs of a branch that rows take different arms of, and of what is saved of
    it.

    Arms that are short formulas are one formula that chooses by element, of which the side that is
    chosen is evaluated; otherwise each arm runs for a list of the rows that take it.
    """
    last = len(op.blocks) - 1
    arm = _arm_of(level.image[op.operands[0]], last)
    wanted = [
        (*block.results, *[s.inner for s in kept if s.block == n])
        for n, block in enumerate(op.blocks)
    ]
    arms = _formulas(op, level, wanted) or [
        _listed(op, level, n, arm, tensors) for n, tensors in enumerate(wanted)
    ]
    for k, t in enumerate(outputs(op)):
        axes = compute_axes((level.rows, *level.shape(t.shape)))
        own = read(arm, (axes[0],))
        body = arms[last][op.blocks[last].results[k]](axes)
        for n in reversed(range(last)):
            value = arms[n][op.blocks[n].results[k]](axes)
            body = select(call("eq", own, int_const(n)), value, body)
        level.image[t] = formula(t.name, axes, body, op.source)
    for s in kept:
        (t,) = outputs(s)
        axes = compute_axes((level.rows, *level.shape(t.shape)))
        there = call("eq", read(arm, (axes[0],)), int_const(s.block))
        body = select(there, arms[s.block][s.inner](axes), const(0, t.dtype))
        level.image[t] = formula(t.name, axes, body, op.source)


def _arm_of(index: Tensor, last: int) -> Tensor:
    """(rows,) the number of the arm that each row takes."""
    (i,) = compute_axes(index.shape)
    number = call("maximum", cast(read(index, (i,)), INT64), ZERO)
    return formula("arm", (i,), call("minimum", number, int_const(last)), "")


# -- arms that run for lists of rows ----------------------------------------------------------


def _listed(
    op: Branch, level: Level, n: int, arm: Tensor, wanted: Sequence[Tensor]
) -> dict[Tensor, Element]:
    """The elements of tensors of an arm, at rows that take it."""
    (i,) = compute_axes(arm.shape)
    taken = formula("taken", (i,), call("eq", read(arm, (i,)), int_const(n)), "")
    chosen = numbers_of(taken, None, level.rows)
    rows = listed(chosen.numbers, chosen.count)
    inner = rows.level(level)
    for p, t in zip(op.blocks[n].params, op.operands[1:], strict=True):
        _give(inner, p, t, rows, level)
    inner.run(inner, wanted)
    arm_rows = _Arm(chosen, inner)
    return {t: arm_rows.element(t) for t in wanted}


def _give(inner: Level, p: Tensor, t: Tensor, rows: Rows, level: Level) -> None:
    """A param of a block that runs for some rows, by the operand."""
    if t in level.image:
        inner.image[p] = rows.gathered(level.image[t])
    else:
        inner.plain[p] = rows.shared(level.of(t))


@dataclass(frozen=True)
class _Arm:
    """The rows that take an arm, and what they find there."""

    chosen: Chosen
    level: Level

    def element(self, t: Tensor) -> Element:
        def at(axes: Sequence[Axis]) -> Expr:
            if t not in self.level.image:
                return read(self.level.of(t), tuple(axes[1:]))
            place = read(self.chosen.before, (axes[0],))
            return read(self.level.image[t], (place, *axes[1:]))

        return at


# -- arms that are short formulas -------------------------------------------------------------


def _formulas(
    op: Branch, level: Level, wanted: Sequence[Sequence[Tensor]]
) -> list[dict[Tensor, Element]]:
    """The elements of tensors of all arms, by formulas of what is outside of them; none if one of
    them is no short formula."""
    arms: list[dict[Tensor, Element]] = []
    for block, tensors in zip(op.blocks, wanted, strict=True):
        inner = level.empty()
        inner.each = dict(level.each)
        given: list[Tensor] = []
        for p, t in zip(block.params, op.operands[1:], strict=True):
            images = inner.image if t in level.image else inner.plain
            images[p] = level.of(t)
            given.append(level.of(t))
        if not all(_is_formula(t, block.params) for t in tensors):
            return []
        inner.run(inner, tensors)
        found = _written_out([inner.of(t) for t in tensors], given)
        if found is None:
            return []
        arms.append({t: _element(found[inner.of(t)], t in inner.image) for t in tensors})
    return arms


def _is_formula(t: Tensor, params: Sequence[Tensor]) -> bool:
    """Whether a tensor of a block is computed by formulas without sums from its params."""
    ops = ops_between([t], dict.fromkeys(params))
    return all(
        isinstance(op, (Constant, Placeholder))
        or (isinstance(op, Compute) and not occurs(REDUCE, *op.bodies))
        for op in ops
    )


Definition = tuple[tuple[Axis, ...], Expr]


def _written_out(
    tensors: Sequence[Tensor], given: Sequence[Tensor]
) -> dict[Tensor, Definition] | None:
    """Tensors as formulas of what is given; None if one is too long."""
    known: dict[Tensor, Definition] = {}

    def write(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or e.tensor not in known:
            return None
        axes, body = known[e.tensor]
        return substitute(body, dict(zip(axes, e.indices, strict=True)))

    for op in ops_between(tensors, dict.fromkeys(given)):
        if isinstance(op, Compute):
            memo: dict[Expr, Expr] = {}
            bodies = [rewrite(e, write, memo, READ) for e in op.bodies]
            if len(postorder(*bodies)) > _SHORT:
                return None
            known.update({t: (op.axes, b) for t, b in zip(outputs(op), bodies, strict=True)})
    for t in tensors:
        axes = compute_axes(t.shape)
        known.setdefault(t, (axes, read(t, axes)))
    return known


def _element(definition: Definition, differs: bool) -> Element:
    axes, body = definition

    def at(own: Sequence[Axis]) -> Expr:
        return substitute(body, dict(zip(axes, own if differs else own[1:], strict=True)))

    return at
