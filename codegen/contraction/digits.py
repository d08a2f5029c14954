"""Axes in terms of one position among their points, whose number may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorad.codegen.contraction.recognise import size
from tensorad.codegen.nest.access import access
from tensorad.ir.expr import ONE, Axis, Const, Expr, Read, floordiv, int_const, mod, mul
from tensorad.ir.tensor import Dim

Mapping = dict[Expr, Expr]


def digits(flat: Expr, axes: Sequence[Axis]) -> Mapping:
    """Each axis in terms of the position in their row-major order."""
    found: Mapping = {}
    inner: Expr = ONE
    for position in reversed(range(len(axes))):
        a = axes[position]
        digit = floordiv(flat, inner)
        found[a] = digit if position == 0 else mod(digit, some(a.upper))
        inner = mul(inner, some(a.upper))
    return found


def some(count: Expr) -> Expr:
    """The count as a divisor, which is not 0."""
    return int_const(max(1, int(count.value))) if isinstance(count, Const) else count


def dim(count: Expr) -> Dim:
    """A count as an extent of a tensor."""
    return int(count.value) if isinstance(count, Const) else count


def points(axes: Sequence[Axis]) -> Expr:
    """How many points the axes have."""
    found: Expr = ONE
    for a in axes:
        found = mul(found, a.upper)
    return found


def digits_below(k: Expr, group: Sequence[Axis]) -> Mapping:
    """As `digits`; the first axis may have any extent."""
    found: Mapping = {}
    inner = prod(size(a) for a in group[1:])
    found[group[0]] = floordiv(k, int_const(inner))
    for a in group[1:]:
        inner //= size(a)
        found[a] = mod(floordiv(k, int_const(inner)), int_const(size(a)))
    return found


def merged(
    local: Sequence[Axis], reduced: Sequence[Axis], operands: Sequence[Expr]
) -> list[list[Axis]]:
    """Neighbouring reduce axes that every operand walks as one.

    Args:
        local: the axes inside of a block that stand for `reduced`.
    """
    uses = [access(e.tensor, e.indices).uses for e in operands if isinstance(e, Read)]
    groups: list[list[Axis]] = [[local[0]]]
    for n in range(1, len(local)):
        steps = [(u.get(reduced[n - 1], 0), u.get(reduced[n], 0)) for u in uses]
        if local[n].extent is not None and all(
            x is not None and y is not None and x == y * size(local[n]) for x, y in steps
        ):
            groups[-1].append(local[n])
        else:
            groups.append([local[n]])
    return groups
