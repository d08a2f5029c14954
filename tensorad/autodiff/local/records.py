"""Derivatives of records: the type they have, how they are added, made and opened.

The derivative by a record is a record of the tangent type: `zero`, or the record's variant with the
derivatives by its fields. Its tangent is of this type, too, and so is the derivative by either.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import GradError
from tensorad.ir.arrays.elementwise import compute_axes, elementwise, formula
from tensorad.ir.arrays.told_sizes import tell
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import LocalSize, call, const, int_const, local_size, read
from tensorad.ir.order import sizes_in
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    inject,
    is_record,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Loop,
    Op,
    Shape,
    Tensor,
    dim_expr,
    outputs,
    saved,
)


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of derivatives by elements of a dtype."""
    return tangent_type(dtype) if isinstance(dtype, RecordType) else dtype


def tangent_type(dtype: RecordType) -> RecordType:
    """The type of derivatives by records of a type; a tangent type is its own."""
    found = dtype.derived.get("tangent")
    if not isinstance(found, RecordType):
        found = RecordType(f"{dtype}'").later(lambda: _tangent_variants(dtype), source=dtype)
        dtype.derived["tangent"] = found.derived["tangent"] = found
    return found


def _tangent_variants(dtype: RecordType) -> list[Variant]:
    """Fields that are arrays of sizes that calls give have these sizes beside them: who adds two
    derivatives knows them by the records alone."""
    found = [Variant("zero", ())]
    for v in dtype.variants:
        fields = [f._replace(dtype=tangent_dtype(f.dtype)) for f in smooth(v)]
        fields += [Field(s.label, (), INT64) for s in _sizes_of(fields)]
        found.append(Variant(v.name, tuple(fields)))
    return found


def _sizes_of(fields: Sequence[Field]) -> list[LocalSize]:
    """The sizes in shapes of fields that only calls tell."""
    found = sizes_in(*[dim_expr(n) for f in fields for n in f.shape])
    return [s for s in found if isinstance(s, LocalSize)]


def smooth(variant: Variant) -> list[Field]:
    """The fields that there are derivatives by."""
    return [f for f in variant.fields if f.dtype.is_differentiable]


def places(variant: Variant) -> list[int]:
    """The numbers of the fields that there are derivatives by."""
    return [k for k, f in enumerate(variant.fields) if f.dtype.is_differentiable]


def _tag(dtype: RecordType, tag: int) -> int:
    """The variant of the tangent type that belongs to one of a type."""
    return tag if tangent_type(dtype) is dtype else tag + 1


def nothing(name: str, shape: Shape, dtype: DType) -> Tensor:
    """A derivative that is 0, of elements of a dtype."""
    if isinstance(dtype, RecordType):
        zero = inject(tangent_type(dtype), 0, (), name)
        return formula(name, compute_axes(shape), read(zero, ()), "") if shape else zero
    return outputs(Compute(name, compute_axes(shape), (const(0, dtype),)))[0]


def derivative_of(dtype: RecordType, tag: int, parts: Sequence[Tensor | None]) -> Tensor:
    """The derivative by a record, of those by its smooth fields (None: 0)."""
    if all(p is None for p in parts):
        return nothing(f"d{dtype}", (), dtype)
    fields = smooth(dtype.variants[tag])
    pairs = zip(fields, parts, strict=True)
    made = [nothing(f"d{f.name}", f.shape, f.dtype) if p is None else p for f, p in pairs]
    made += [outputs(Compute(s.label, (), (s,), ""))[0] for s in _sizes_of(fields)]
    return inject(tangent_type(dtype), _tag(dtype, tag), made, f"d{dtype.variants[tag].name}")


def parts_of_derivative(d: Tensor, dtype: RecordType, tag: int) -> list[Tensor]:
    """The derivatives by the smooth fields of a record of variant `tag`, of that by the record."""
    fields = smooth(dtype.variants[tag])
    if not fields:
        return []
    own = _tag(dtype, tag)
    none = [nothing(f"d{f.name}", f.shape, f.dtype) for f in fields]
    if own == 0:
        return none
    given = (d,)
    blocks = (Block(given, tuple(none)), Block(given, fields_of(d, own)[: len(fields)]))
    names = tuple([f"d{f.name}" for f in fields])
    return list(outputs(Branch(names, (_has_tag(d, own), d), blocks, source="")))


def _has_tag(d: Tensor, tag: int) -> Tensor:
    body = call("eq", read(tag_of(d), ()), int_const(tag))
    assert body.dtype is BOOL
    return outputs(Compute(f"{d.name}.is_{tag}", (), (body,), ""))[0]


def added(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two derivatives by a record, or by an array of records."""
    assert isinstance(a.dtype, RecordType), "these are handles"
    if not a.shape:
        return recursion(_sum_of(a.dtype), (a, b), "")[0]
    fields = [Field(name, t.shape[1:], t.dtype) for name, t in (("a", a), ("b", b))]
    none, one, other = stand_ins([Field("none", (), INT64), *fields])
    trips = dim_expr(a.shape[0])
    loop = Loop(
        ("none",), (formula("none", (), const(0, INT64), ""), a, b),
        (Block((none, one, other), (none,)),), source="",
        counter=local_size("element", trips), trips=trips, carries=1, scanned=2,
    )  # fmt: skip
    return saved(loop, added(one, other))


def _sum_of(dtype: RecordType) -> Definition:
    """How derivatives of a tangent type are added."""
    found = dtype.derived.get("sum")
    if not isinstance(found, Definition):
        a, b = stand_ins([Field("a", (), dtype), Field("b", (), dtype)])
        found = Definition(f"add_{dtype}", (a, b), [Field("sum", (), dtype)])
        dtype.derived["sum"] = found.later(lambda: [_sum(dtype, a, b)])
    return found


def _sum(dtype: RecordType, a: Tensor, b: Tensor) -> Tensor:
    arms = [b]
    for n, variant in enumerate(dtype.variants[1:], 1):
        if not variant.fields:
            arms.append(b)
            continue
        own = len(smooth(variant))
        pairs = list(zip(fields_of(a, n), fields_of(b, n), strict=True))
        parts = [added(x, y) if _is_handle(x) else elementwise("add", x, y) for x, y in pairs[:own]]
        sizes = _sizes_of(variant.fields)
        parts += [tell(s, x) for s, (x, _) in zip(sizes, pairs[own:], strict=True)]
        whole = inject(dtype, n, parts, "sum")
        arms.append(_chosen(_has_tag(b, n), whole, a, (a, b)))
    blocks = tuple([Block((a, b), (t,)) for t in arms])
    return outputs(Branch(("sum",), (tag_of(a), a, b), blocks, source=""))[0]


def _is_handle(t: Tensor) -> bool:
    return isinstance(t.dtype, RecordType)


def _chosen(condition: Tensor, yes: Tensor, no: Tensor, given: tuple[Tensor, ...]) -> Tensor:
    blocks = (Block(given, (no,)), Block(given, (yes,)))
    return outputs(Branch(("sum",), (condition, *given), blocks, source=""))[0]


def check_no_batch(op: Op, batch: Shape, tensors: Sequence[Tensor] | None = None) -> None:
    """Derivatives of records have no further axes.

    Args:
        tensors: those whose derivatives are asked for; None: records among others.
    Raises:
        GradError: they are asked for, by a full Jacobian.
    """
    if batch and (tensors is None or any(is_record(t.dtype) for t in tensors)):
        raise GradError(
            f"a full Jacobian goes through {op.name}, a value of a data type or a call of a "
            "function by itself.",
            hint="use vjp or jvp with one direction, and vmap over directions.",
        )
