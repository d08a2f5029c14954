"""Derivatives by records as values of users: the gradient type, and conversions to and from it.

The derivative by a record is of the tangent type, which is `zero` wherever nothing flows to. Users
get it with numbers everywhere, and give directions so: as a record of the value's own variant, with
the derivatives by its fields in their places. That is a value of the data type itself where all
that it holds are floats; otherwise of one with the same variants, that have no other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.autodiff.local.records import (
    derivative_of,
    parts_of_derivative,
    places,
    tangent_type,
)
from tensorad.ir.dtypes import DType
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    inject,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.tensor import Block, Branch, Tensor, outputs


def has_gradient(dtype: DType) -> bool:
    """Whether users get a derivative by elements of a dtype: floats, and values with some."""
    return dtype.is_differentiable and not dtype.is_function


def gradient_type(dtype: RecordType) -> RecordType:
    """The type of gradients by values of a data type; that of gradients by these is itself."""
    found = dtype.derived.get("gradient")
    if isinstance(found, RecordType):
        return found
    if _holds_floats_alone(dtype):
        found = dtype
    else:
        found = RecordType(f"{dtype}.gradient").later(lambda: _gradient_variants(dtype))
        found.derived.update(gradient=found, tangent=tangent_type(dtype), values=dtype)
    dtype.derived["gradient"] = found
    return found


def values_type(dtype: RecordType) -> RecordType:
    """The data type whose gradients are of a type; of others the type itself."""
    found = dtype.derived.get("values", dtype)
    assert isinstance(found, RecordType), "this is what the key stands for"
    return found


def kept_places(variant: Variant) -> list[int]:
    """The numbers of the fields that gradients have."""
    return [k for k in places(variant) if has_gradient(variant.fields[k].dtype)]


def _gradient_variants(dtype: RecordType) -> list[Variant]:
    return [
        Variant(v.name, tuple([_gradient_field(v.fields[k]) for k in kept_places(v)]))
        for v in dtype.variants
    ]


def _gradient_field(f: Field) -> Field:
    return f._replace(dtype=gradient_type(f.dtype)) if isinstance(f.dtype, RecordType) else f


def _holds_floats_alone(dtype: RecordType) -> bool:
    """Whether gradients are values of the type: it has no field without a derivative, however
    deep."""
    seen: dict[RecordType, None] = {}
    stack = [dtype]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen[at] = None
        fields = [f.dtype for v in at.variants for f in v.fields]
        if not all(map(has_gradient, fields)):
            return False
        stack += [d for d in fields if isinstance(d, RecordType)]
    return True


Part = Callable[[Tensor, int], list[Tensor]]
"""(a record, the number of the variant that it has) -> what becomes of its kept fields."""


def as_gradient(value: Tensor, derivative: Tensor) -> Tensor:
    """The derivative by a value, of the gradient type: numbers in all places that the value has."""
    dtype = _type_of(value)

    def definition() -> Definition:
        made = gradient_type(dtype)
        given = stand_ins([Field("value", (), dtype), Field("d", (), tangent_type(dtype))])
        found = Definition(f"gradient_{dtype}", given, [Field("gradient", (), made)])

        def arm(n: int) -> Tensor:
            variant = dtype.variants[n]
            own = fields_of(given[0], n)
            parts = dict(zip(places(variant), parts_of_derivative(given[1], dtype, n), strict=True))
            kept = [
                as_gradient(own[k], parts[k]) if _is_handle(own[k]) else parts[k]
                for k in kept_places(variant)
            ]
            return inject(made, n, kept, "gradient")

        return found.later(lambda: [_by_tag(dtype, given, arm)])

    return recursion(_derived(dtype, "as_gradient", definition), (value, derivative), "")[0]


def as_derivative(direction: Tensor) -> Tensor:
    """A direction that a user gives for values of a data type, of the tangent type.

    Args:
        direction: of the gradient type; or of the data type, whose fields without derivatives say
            nothing; or of the tangent type.
    """
    own = _type_of(direction)
    dtype = values_type(own)
    if own is tangent_type(own):
        return direction

    def definition() -> Definition:
        made = tangent_type(dtype)
        given = stand_ins([Field("direction", (), own)])
        found = Definition(f"direction_{own}", given, [Field("d", (), made)])

        def arm(n: int) -> Tensor:
            variant = dtype.variants[n]
            fields = fields_of(given[0], n)
            kept = kept_places(variant)
            some = fields if own is not dtype else [fields[k] for k in kept]
            made_of = [as_derivative(t) if _is_handle(t) else t for t in some]
            parts = dict(zip(kept, made_of, strict=True))
            return derivative_of(dtype, n, [parts.get(k) for k in places(variant)])

        return found.later(lambda: [_by_tag(own, given, arm)])

    return recursion(_derived(own, "as_derivative", definition), (direction,), "")[0]


def _derived(dtype: RecordType, key: str, make: Callable[[], Definition]) -> Definition:
    found = dtype.derived.get(key)
    if not isinstance(found, Definition):
        found = dtype.derived[key] = make()
    return found


def _by_tag(dtype: RecordType, given: Sequence[Tensor], arm: Callable[[int], Tensor]) -> Tensor:
    """A branch by the variant of the first of what is given."""
    blocks = [Block(tuple(given), (arm(n),)) for n in range(len(dtype.variants))]
    return outputs(Branch(("d",), (tag_of(given[0]), *given), tuple(blocks), source=""))[0]


def _is_handle(t: Tensor) -> bool:
    return isinstance(t.dtype, RecordType)


def _type_of(t: Tensor) -> RecordType:
    assert isinstance(t.dtype, RecordType), "this is a handle"
    return t.dtype
