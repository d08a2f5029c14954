"""Derivatives by records as values of users: the gradient type, and conversions to and from it.

A Jacobian by a record is a record of its variants, too, of a type whose fields have further axes.

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
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import const, local_size, read
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
from tensorad.ir.tensor import Block, Branch, Loop, Shape, Tensor, dim_expr, outputs, saved


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
        found = RecordType(f"{dtype}.gradient").later(lambda: _kept_variants(dtype, gradient_type))
        found.derived.update(gradient=found, tangent=tangent_type(dtype), values=dtype)
    dtype.derived["gradient"] = found
    return found


def rows_type(dtype: RecordType, shape: Shape) -> RecordType:
    """The type of Jacobians by values of a data type, of arrays of a shape: these axes stand before
    those of each field. Derivatives by such Jacobians are of the type itself."""
    found = dtype.derived.get(("rows", shape))
    if not isinstance(found, RecordType):
        name = f"{dtype}.rows[{', '.join(map(str, shape))}]"
        found = RecordType(name).later(
            lambda: _kept_variants(dtype, lambda d: rows_type(d, shape), shape)
        )
        found.derived.update(gradient=found, declared=dtype)
        dtype.derived["rows", shape] = found
    return found


def values_type(dtype: RecordType) -> RecordType:
    """The data type whose gradients are of a type; of others the type itself."""
    found = dtype.derived.get("values", dtype)
    assert isinstance(found, RecordType), "this is what the key stands for"
    return found


def declared_type(dtype: RecordType) -> RecordType:
    """The data type whose gradients or Jacobians are of a type; of others the type itself."""
    found = dtype.derived.get("declared", values_type(dtype))
    assert isinstance(found, RecordType), "this is what the key stands for"
    return found


def kept_places(variant: Variant) -> list[int]:
    """The numbers of the fields that gradients have."""
    return [k for k in places(variant) if has_gradient(variant.fields[k].dtype)]


def _kept_variants(
    dtype: RecordType, inner: Callable[[RecordType], RecordType], shape: Shape = ()
) -> list[Variant]:
    """The variants with the fields that gradients have.

    Args:
        inner: what becomes of types of records; `shape`: axes before those of arrays.
    """

    def kept(f: Field) -> Field:
        if isinstance(f.dtype, RecordType):
            return f._replace(dtype=inner(f.dtype))
        return f._replace(shape=(*shape, *f.shape))

    return [
        Variant(v.name, tuple([kept(v.fields[k]) for k in kept_places(v)])) for v in dtype.variants
    ]


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
    """The derivative by a value as users get it: numbers in all places that the value has.

    Args:
        value: a value, or an array of values.
        derivative: of the tangent type; it may have further axes in front, those of an array that
            it is the derivative of.
    Returns:
        of the gradient type, with such axes of `rows_type`.
    """
    shape = derivative.shape[: derivative.ndim - value.ndim]
    if value.shape:
        axes = compute_axes((*value.shape, *shape))
        body = read(derivative, (*axes[value.ndim :], *axes[: value.ndim]))
        own_first = formula(derivative.name, axes, body, "") if shape else derivative
        return _each(value.ndim, (value, own_first), lambda v, d: [as_gradient(v, d)])[0]
    dtype = _type_of(value)

    def definition() -> Definition:
        made = rows_type(dtype, shape) if shape else gradient_type(dtype)
        given = stand_ins([Field("value", (), dtype), Field("d", shape, tangent_type(dtype))])
        found = Definition(f"gradient_{dtype}", given, [Field("gradient", (), made)])

        def arm(n: int) -> Tensor:
            variant = dtype.variants[n]
            own = fields_of(given[0], n)
            parts = _each(len(shape), given[1:], lambda d: parts_of_derivative(d, dtype, n))
            known = dict(zip(places(variant), parts, strict=True))
            kept = [
                as_gradient(own[k], known[k]) if _is_handle(own[k]) else known[k]
                for k in kept_places(variant)
            ]
            return inject(made, n, kept, "gradient")

        return found.later(lambda: [_by_tag(dtype, given, arm)])

    key = ("as_gradient", shape)
    return recursion(_derived(dtype, key, definition), (value, derivative), "")[0]


def _each(depth: int, given: Sequence[Tensor], parts: Callable[..., list[Tensor]]) -> list[Tensor]:
    """What `parts` returns for each element, element by element along the first `depth` axes."""
    if not depth:
        return parts(*given)
    none, *rows = stand_ins([
        Field("none", (), INT64), *[Field(t.name, t.shape[1:], t.dtype) for t in given]
    ])  # fmt: skip
    trips = dim_expr(given[0].shape[0])
    loop = Loop(
        ("none",), (formula("none", (), const(0, INT64), ""), *given),
        (Block((none, *rows), (none,)),), source="",
        counter=local_size("element", trips), trips=trips, carries=1, scanned=len(rows),
    )  # fmt: skip
    return [saved(loop, t) for t in _each(depth - 1, rows, parts)]


def as_derivative(direction: Tensor) -> Tensor:
    """A direction that a user gives for values of a data type, of the tangent type.

    Args:
        direction: of the gradient type; or of the data type, whose fields without derivatives say
            nothing; or of the tangent type. Or an array of such.
    """
    own = _type_of(direction)
    dtype = values_type(own)
    if own is tangent_type(own):
        return direction
    if direction.shape:
        return _each(direction.ndim, (direction,), lambda d: [as_derivative(d)])[0]

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


def _derived(dtype: RecordType, key: object, make: Callable[[], Definition]) -> Definition:
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
