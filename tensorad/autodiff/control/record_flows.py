"""Both modes through the making and opening of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tensorad.autodiff.adjoints.adjoint import Adjoint, whole
from tensorad.autodiff.control.heads import Given, Head, Sent, always
from tensorad.autodiff.local.records import (
    added,
    check_no_batch,
    derivative_of,
    parts_of_derivative,
    places,
)
from tensorad.ir.records import Fields, Inject, RecordType
from tensorad.ir.tensor import Shape, Tensor, outputs


def inject_adjoints(op: Inject, given: Given) -> list[Sent]:
    """What the fields of a new record receive."""
    check_no_batch(op, given.batch)
    own = places(op.variant)
    wanted = [k for k in own if op.operands[k] in given.active]
    if not wanted:
        return []
    head = given.heads[outputs(op)[0]]
    parts = dict(zip(own, parts_of_derivative(head.value, op.dtype, op.tag), strict=True))
    return [Sent(op.operands[k], parts[k], always) for k in wanted]


def fields_adjoints(op: Fields, given: Given) -> list[Sent]:
    """What a record receives whose fields are used."""
    check_no_batch(op, given.batch)
    (record,) = op.operands
    return [Sent(record, _of_fields(op, _values(given.heads)), always)]


def _values(heads: Mapping[Tensor, Head]) -> Callable[[Tensor], Tensor | None]:
    return lambda t: heads[t].value if t in heads else None


def _of_fields(op: Fields, find: Callable[[Tensor], Tensor | None]) -> Tensor:
    dtype = op.operands[0].dtype
    assert isinstance(dtype, RecordType), "the operand is a handle"
    made = outputs(op)
    return derivative_of(dtype, op.tag, [find(made[k]) for k in places(dtype.variants[op.tag])])


def inject_tangents(
    op: Inject, tangents: Mapping[Tensor, Tensor], batch: Shape
) -> Sequence[Tensor]:
    """The tangent of a new record."""
    check_no_batch(op, batch)
    own = [tangents.get(op.operands[k]) for k in places(op.variant)]
    return [derivative_of(op.dtype, op.tag, own)]


def fields_tangents(
    op: Fields, tangents: Mapping[Tensor, Tensor], batch: Shape
) -> dict[Tensor, Tensor]:
    """The tangents of the smooth fields of a record."""
    check_no_batch(op, batch)
    (record,) = op.operands
    dtype = record.dtype
    assert isinstance(dtype, RecordType), "the operand is a handle"
    parts = parts_of_derivative(tangents[record], dtype, op.tag)
    made = outputs(op)
    return dict(zip([made[k] for k in places(dtype.variants[op.tag])], parts, strict=True))


class RecordSums(dict[Tensor, Tensor]):
    """Derivatives by records that a sweep has collected so far."""

    def receive(self, t: Tensor, part: Tensor) -> None:
        """One more part."""
        self[t] = added(self[t], part) if t in self else part

    def adjoint(self, t: Tensor) -> Adjoint | None:
        """What is collected."""
        return whole(self[t]) if t in self else None
