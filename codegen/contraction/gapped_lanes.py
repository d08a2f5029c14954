"""Lanes that run over an operand as it lies, what is between its rows included.

A row of an image is shorter than the row of the tensor that its windows read: lanes flattened
over the results would need a copy for each tap. Flattened over the operand's own rows they are
contiguous for every tap; some lanes are of no use, and what they sum is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from tensorad.codegen.contraction.operand_layout import are_same
from tensorad.codegen.contraction.recognise import (
    Contraction,
    Operand,
    is_affine,
    is_symbolic,
    size,
)
from tensorad.codegen.loops.index_ranges import Ranges, among, unravelled
from tensorad.ir.expr import ZERO, Axis, Expr, Read, add, axis, int_const, mul, read
from tensorad.ir.tensor import dim_expr
from tensorad.ir.visit import substitute
from tensorad.simplify.index.linear import Linear, linear_form


def pitches(part: Operand, group: Sequence[Axis], c: Contraction) -> tuple[int, ...] | None:
    """Elements between neighbours along each lane axis where the operand lies, or its window.

    None where the axes are not, in this order, the last dimensions of a tensor.
    """
    value, many = part.value, len(group)
    if not isinstance(value, Read) or many < 2 or many > len(value.indices):
        return None
    axes = (*part.axes, *c.batch, *c.reduced)
    if is_symbolic(c.reduced) or not all(is_affine(i, axes) for i in value.indices):
        return None
    inner = value.indices[-many:]
    for position, index in enumerate(value.indices[:-many] + inner):
        used = [a for a in group if a in linear_form(index).terms]
        own = position - (len(value.indices) - many)
        if not are_same(used, [group[own]] if own >= 0 else []):
            return None
        if own >= 0 and linear_form(index).terms[group[own]] != 1:
            return None
    found, shared = [1], shared_columns(part, group, c)
    for index, extent in zip(inner[:0:-1], value.tensor.shape[:-many:-1], strict=True):
        places = _span(index, group, c) - shared if part.padded else _fixed(extent)
        found.append(found[-1] * places)
        shared = -1 if shared > 0 else 0  # a window has one more row then
    return tuple(reversed(found)) if found[-1] > 0 else None


def _fixed(extent: object) -> int:
    return extent if isinstance(extent, int) else 0


def _span(index: Expr, group: Sequence[Axis], c: Contraction) -> int:
    """How many places of a dimension one panel reads."""
    local = (*group, *c.reduced)
    terms = {a: n for a, n in linear_form(index).terms.items() if isinstance(a, Axis)}
    form = Linear({a: n for a, n in terms.items() if among(a, local)}, 0)
    low, high = Ranges(local).of_linear(form)
    return int(high) - int(low) + 1


def shared_columns(part: Operand, group: Sequence[Axis], c: Contraction) -> int:
    """Zeros after each row of a window that those before the next row can stand for.

    No more than leave the lanes of two rows apart.
    """
    value = part.value
    if not part.padded or not isinstance(value, Read) or len(group) < 2:
        return 0
    index, extent = value.indices[-1], value.tensor.shape[-1]
    local = (*group, *c.reduced)
    if not isinstance(extent, int) or not all(among(a, local) for a in linear_form(index).terms):
        return 0
    low, high = Ranges(local).of_linear(linear_form(index))
    spare = int(high) - int(low) + 1 - size(group[-1])
    return max(0, min(-int(low), int(high) + 1 - extent, spare))


def stretched(group: Sequence[Axis], pitch: Sequence[int], lanes: int) -> int:
    """From the first to the last of some lanes with what lies between them."""
    steps = lanes // prod(size(a) for a in group[1:])
    inner = sum((size(a) - 1) * p for a, p in zip(group[1:], pitch[1:], strict=True))
    return (steps - 1) * pitch[0] + inner + 1


def slab(value: Expr, group: Sequence[Axis], c: Contraction) -> tuple[int, int]:
    """Elements that one step along the first lane axis reads, and each further one."""
    assert isinstance(value, Read)
    found: list[int] = []
    for steps in (1, 2):
        first = axis(group[0].name, 0, steps)
        moved = [substitute(i, {group[0]: first}) for i in value.indices]
        found.append(prod(_span(i, (first, *group[1:]), c) for i in moved))
    return found[0], found[1] - found[0]


def steps_of_panel(count: int, most: int, cost: Callable[[int], float]) -> int:
    """Steps of each panel, at most so many, so that all `count` of them cost least."""
    best: tuple[float, int] | None = None
    for n in dict.fromkeys([ceil(count / parts) for parts in range(1, count + 1)]):
        whole, left = divmod(count, n)
        total = whole * cost(n) + (cost(left) if left else 0.0)
        if n <= max(1, most) and (best is None or total < best[0]):
            best = total, n
    return 1 if best is None else best[1]


def flat_read(value: Read, group: Sequence[Axis], place: Expr) -> Read:
    """The operand at a place in its last dimensions, counted from where the lane axes are 0."""
    many = len(group)
    nothing: dict[Expr, Expr] = dict.fromkeys(group, ZERO)
    shape = value.tensor.shape[-many:]
    flat, step = place, 1
    for index, extent in zip(value.indices[: -many - 1 : -1], shape[::-1], strict=True):
        flat = add(flat, mul(substitute(index, nothing), int_const(step)))
        step *= extent if isinstance(extent, int) else 1
    where = unravelled(flat, [dim_expr(n) for n in shape])
    return read(value.tensor, (*value.indices[:-many], *where))
