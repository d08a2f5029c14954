"""Tensor arithmetic with NumPy's broadcasting: each result is an ordinary compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir import array_methods, tensor
from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.expr import (
    Axis,
    Call,
    Const,
    Expr,
    Read,
    as_expr,
    axis,
    call,
    cast,
    checked_read,
    int_const,
    promote,
    read,
    reduce_expr,
)
from tensorad.ir.order import AXIS, PARAM, occurs
from tensorad.ir.tensor import Compute, Dim, Shape, Tensor, dim_expr, dim_of, format_shape, outputs
from tensorad.ir.visit import postorder
from tensorad.ir.weak import settled

_NAMES = "ijklmnpq"


def compute_axes(shape: Shape, names: tuple[str, ...] | None = None) -> tuple[Axis, ...]:
    """Fresh compute axes over a shape, called i, j, k, ... unless named."""
    if names is None:
        many = len(shape) > len(_NAMES)
        names = tuple(f"i{d}" if many else _NAMES[d] for d in range(len(shape)))
    return tuple([axis(n, 0, dim_expr(extent)) for n, extent in zip(names, shape, strict=True)])


def formula(name: str, axes: tuple[Axis, ...], body: Expr, source: str | None = None) -> Tensor:
    """The tensor out[axes] = body; a plain copy of a tensor is that tensor."""
    if (
        isinstance(body, Read)
        and len(body.tensor.shape) == len(axes)
        and all(same_dim(n, dim_of(a.upper)) for n, a in zip(body.tensor.shape, axes, strict=True))
        and all(i is a for i, a in zip(body.indices, axes, strict=True))
    ):
        return body.tensor
    if source is None:
        return outputs(Compute(name, axes, (body,)))[0]
    return outputs(Compute(name, axes, (body,), source))[0]


def copy_of(t: Tensor, name: str | None = None) -> Tensor:
    """The same values as another tensor: what is differentiated by it is by nothing else."""
    axes = compute_axes(t.shape)
    return outputs(Compute(name or t.name, axes, (read(t, axes),)))[0]


def broadcast_shapes(name: str, *shapes: Shape, of: Sequence[str] = ()) -> Shape:
    """NumPy's rule: trailing axes align, an extent of 1 stretches.

    Args:
        of: what the shapes belong to, for errors.
    Raises:
        ShapeError: two extents differ and neither is 1.
    """
    ndim = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * ndim
    for shape in shapes:
        for d, extent in enumerate(shape, start=ndim - len(shape)):
            known = result[d]
            if _is_one(known):
                result[d] = extent
            elif not _is_one(extent) and not same_dim(known, extent):
                raise _unlike(name, shapes, of)
    return tuple(result)


def _unlike(name: str, shapes: Sequence[Shape], of: Sequence[str]) -> ShapeError:
    texts = [format_shape(s) for s in shapes]
    hint = "trailing axes must be equal or 1; reshape or transpose first."
    if len(set(texts)) == 1:
        hint = "each loop has a count of its own, also where they are called alike: collect what "
        hint += "belongs together in one loop."
    return ShapeError(
        f"{name}: shapes {' and '.join(texts)} do not broadcast.",
        where=", ".join([" ".join(pair) for pair in zip(of, texts, strict=True)]) if of else None,
        hint=hint,
    )


def _is_one(n: Dim) -> bool:
    return isinstance(n, int) and n == 1


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two extents are the same number or the same polynomial of sizes."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a is b or _polynomial(a) == _polynomial(b)


def difference(a: Dim, b: Dim) -> Dim:
    """a - b, as a number where sizes cancel."""
    rest = (_polynomial(dim_expr(a)) - _polynomial(dim_expr(b))).as_constant()
    return dim_of(dim_expr(a) - dim_expr(b)) if rest is None else int(rest)


def _polynomial(extent: Expr) -> Polynomial:
    """An extent as a polynomial of sizes; divisions, maxima and the like are symbols of it."""
    values: dict[Expr, Polynomial] = {}
    for e in postorder(extent):
        match e:
            case Const():
                values[e] = Polynomial.constant(int(e.value))
            case Call(op="add", args=(x, y)):
                values[e] = values[x] + values[y]
            case Call(op="sub", args=(x, y)):
                values[e] = values[x] - values[y]
            case Call(op="mul", args=(x, y)):
                values[e] = values[x] * values[y]
            case _:
                values[e] = Polynomial.symbol(e)
    return values[extent]


def broadcast_read(t: Tensor, axes: tuple[Axis, ...]) -> Expr:
    """t at the trailing `axes`; an axis of extent 1 is read at 0 when it is stretched."""
    own = axes[len(axes) - t.ndim :]
    indices = [int_const(0) if _is_one(n) else a for n, a in zip(t.shape, own, strict=True)]
    return checked_read(t, tuple(indices))


def elementwise(op: str, *operands: object) -> Tensor:
    """`op` of tensors, arrays and numbers, broadcast.

    A 0-d tensor beside an expression is a scalar.
    """
    operands = with_constants(operands)
    if any(isinstance(o, Expr) for o in operands) and not is_array_program(operands):
        scalars = [o.as_scalar() if isinstance(o, Tensor) and not o.shape else o for o in operands]
        if all(isinstance(o, (Expr, int, float)) for o in scalars):
            first = next(o for o in scalars if isinstance(o, Expr))
            return call(op, *[as_expr(o, first.dtype) for o in scalars])  # type: ignore[return-value]  # a scalar formula
    like = next(o.dtype for o in operands if isinstance(o, Tensor))
    operands = tuple([o if isinstance(o, Tensor) else as_number(op, o, like) for o in operands])
    return over_broadcast(op, operands, lambda at: call(op, *at))


def is_array_program(operands: Sequence[object]) -> bool:
    """Whether 0-d tensors beside expressions are arrays, not elements of a formula: a program is
    traced, and the expressions are of sizes, not of axes."""
    formulas = [o for o in operands if isinstance(o, Expr)]
    return is_tracing() and not occurs(AXIS | PARAM, *formulas)


def over_broadcast(
    name: str, operands: Sequence[object], body: Callable[[list[Any]], Expr]
) -> Tensor:
    """`body(operands)` at every index of the shape the tensors among them are broadcast to,
    where a tensor is its element."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    shape = broadcast_shapes(name, *[t.shape for t in tensors], of=[t.name for t in tensors])
    axes = compute_axes(shape)
    at = [broadcast_read(o, axes) if isinstance(o, Tensor) else o for o in operands]
    return outputs(Compute(name, axes, (settled(body(at)),)))[0]


def as_number(op: str, o: object, like: DType) -> Expr:
    """A number, or an expression of sizes, beside tensors.

    Raises:
        DefinitionError: an expression of an index.
    """
    if isinstance(o, Expr) and occurs(AXIS, o):
        raise DefinitionError(
            f"{op}: a whole tensor cannot be combined with an expression of one index.",
            where=str(o),
            hint="read the tensor at indices, X[i, j], inside compute.",
        )
    return as_expr(o, like)


def astype(t: Tensor, dtype: object) -> Tensor:
    """Every element converted to `dtype`; the tensor itself if it has that dtype."""
    wanted = to_dtype(dtype)
    if t.dtype is wanted:
        return t
    axes = compute_axes(t.shape)
    return outputs(Compute("astype", axes, (cast(checked_read(t, axes), wanted),)))[0]


def matmul(a: object, b: object) -> Tensor:
    """NumPy's a @ b of tensors and arrays: 1-d operands, batch axes broadcast.

    Raises:
        ShapeError: an operand is 0-d, or the contracted extents differ.
    """
    a, b = with_constants((a, b))
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        side, other = ("left", a) if isinstance(b, Tensor) else ("right", b)
        raise DefinitionError(
            f"@ needs two tensors, got {type(other).__name__} on the {side}.",
            hint="make a tensor of a list with ta.const(list).",
        )
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"@ needs at least one axis on each side, got shapes {format_shape(a.shape)} "
            f"and {format_shape(b.shape)}.",
            hint="use * with a scalar.",
        )
    contracted, other = a.shape[-1], b.shape[-1 if b.ndim == 1 else -2]
    if not same_dim(contracted, other):
        raise ShapeError(
            f"@ contracts axes of different extents {contracted} and {other}.",
            where=f"{a.name} {format_shape(a.shape)} @ {b.name} {format_shape(b.shape)}",
            hint="transpose one operand.",
        )
    batch = broadcast_shapes("@", a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.ndim > 1 else ()
    axes = compute_axes(batch + rows + columns)
    k = axis("k", 0, dim_expr(contracted))
    lead = axes[: len(batch)]
    row = axes[len(batch) : len(batch) + len(rows)]
    column = axes[len(batch) + len(rows) :]
    left = broadcast_read(a, (*lead, *row, k) if a.ndim > 1 else (k,))
    right = broadcast_read(b, (*lead, k, *column) if b.ndim > 1 else (k,))
    x, y = promote(left, right)
    product = call("mul", x, y)
    body = reduce_expr(sum_combiner(product.dtype), (product,), (k,))
    return outputs(Compute("matmul", axes, (body,)))[0]


tensor.elementwise.fill(elementwise)
tensor.astype.fill(astype)
array_methods.matmul.fill(matmul)


def copied_from(t: Tensor) -> Tensor | None:
    """The tensor that has all elements of this one at the same places, if it is a copy."""
    op = t.op
    body = op.bodies[0] if isinstance(op, Compute) and len(op.bodies) == 1 else None
    if not isinstance(op, Compute) or not isinstance(body, Read):
        return None
    whole = all(map(same_dim, body.tensor.shape, t.shape)) and body.tensor.ndim == t.ndim
    return (
        body.tensor
        if whole and all(i is a for i, a in zip(body.indices, op.axes, strict=True))
        else None
    )
