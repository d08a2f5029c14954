"""Derivatives by values whose tag data choose: beside the value, whose tag is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorad.autodiff.control.records import parts_of_derivative, places
from tensorad.ir.records import RecordType, fields_of, is_record
from tensorad.ir.tensor import Tensor
from tensorad.language.residual.data import KnownTagged, Sums
from tensorad.language.values import Tagged, Value
from tensorad.program.data.instances import Instance
from tensorad.program.trees import register_tree


@dataclass(frozen=True, eq=False)
class Adjoint:
    """The derivative by a record.

    Attributes:
        by: the record; `change`: a record of the tangent type.
    """

    by: Any
    change: Any
    sums: Sums

    def opened(self, n: int) -> KnownTagged:
        """The derivative by a record of the n-th alternative: () for what there is none by."""
        dtype = self.by.dtype
        assert isinstance(dtype, RecordType), "the value is a record"
        own = self.sums.data_type(str(self.sums.sum_of(dtype))).resolved()[n]
        smooth = places(dtype.variants[n])
        changes = dict(zip(smooth, parts_of_derivative(self.change, dtype, n), strict=True))
        values = fields_of(self.by, n)
        leaves = [self._part(v, changes.get(k)) for k, v in enumerate(values)]
        return self.sums.tagged(own.name, tuple(own.grouped(leaves)))

    def _part(self, by: Tensor, change: Tensor | None) -> Value:
        if change is None:
            return ()
        return Adjoint(by, change, self.sums) if is_record(by.dtype) else change


def shown_adjoint(by: Instance, change: Instance | None, sums: Sums) -> Tagged:
    """What users get in the place of it; None: 0."""
    stack: list[tuple[Instance, Instance | None, bool]] = [(by, change, False)]
    made: list[Tagged] = []
    while stack:
        value, d, is_open = stack.pop()
        own = sums.data_type(str(sums.sum_of(value.record_type))).resolved()[value.tag]
        smooth = places(value.record_type.variants[value.tag])
        parts: Sequence[Any] = d.leaves if d is not None and d.leaves else [None] * len(smooth)
        changes = dict(zip(smooth, parts, strict=True))
        inner = [(k, v) for k, v in enumerate(value.leaves) if isinstance(v, Instance)]
        if not is_open:
            stack.append((value, d, True))
            stack += [(v, changes.get(k), False) for k, v in inner][::-1]
            continue
        count = len(made) - len(inner)
        own_parts = dict(zip([k for k, _ in inner], made[count:], strict=True))
        del made[count:]
        leaves = []
        for k, v in enumerate(value.leaves):
            change_of = changes.get(k)
            if k in own_parts:
                leaves.append(own_parts[k] if k in changes else ())
            elif k not in changes:
                leaves.append(())
            else:
                leaves.append(v * 0 if change_of is None else change_of)
        made.append(Tagged(own.name, tuple(own.grouped(leaves))))
    return made[0]


def shown(value: Value, sums: Sums) -> Value:
    """A result of a call as users get it."""
    if isinstance(value, tuple):
        return tuple([shown(v, sums) for v in value])
    if isinstance(value, Adjoint):
        return shown_adjoint(value.by, value.change, sums)
    if isinstance(value, Instance):
        return sums.value(value, Tagged)
    if isinstance(value, Tagged):
        return Tagged(value.tag, tuple([shown(v, sums) for v in value.fields]))
    return value


def _taken_apart(value: Adjoint) -> tuple[tuple[Value, ...], object]:
    return (value.by, value.change), value.sums


def _put_together(meta: Any, children: Sequence[Value]) -> Adjoint:
    return Adjoint(children[0], children[1], meta)


register_tree(Adjoint, _taken_apart, _put_together)
