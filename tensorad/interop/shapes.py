"""Shapes of outputs by shapes of inputs, on numbers and on symbolic integers of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorad.errors import BindError, DefinitionError, ShapeError
from tensorad.ir.analysis.sizes import shape_values, size_value
from tensorad.ir.expr import Expr, Size
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.ir.visit import placeholders, postorder
from tensorad.simplify.index.linear import linear_form

Extents = tuple[Any, ...]


def output_shapes(
    outputs: Sequence[Tensor], shapes: Mapping[Tensor, Sequence[Any]]
) -> list[Extents]:
    """The shapes of tensors where their inputs have these shapes; nothing is built.

    Args:
        outputs: tensors.
        shapes: {X: shape} for every input that tells a size. Extents are integers, or what counts
            as one elsewhere, such as those of PyTorch and JAX under a trace: results are then
            formulas of these.
    Returns:
        a tuple for each tensor.
    Raises:
        ShapeError: a shape has another rank, or an extent that is none of the tensor's.
        BindError: a symbolic size is not told.
    """
    if not isinstance(shapes, Mapping):
        raise DefinitionError(
            f"output_shapes needs a dict from tensors to shapes, got {type(shapes).__name__}.",
            hint="write output_shapes([Y], {X: (3, 4)}).",
        )
    sizes = sizes_told({t: tuple(shape) for t, shape in shapes.items()})
    missing = [s for t in outputs for s in symbols_of(t) if s not in sizes]
    if missing:
        names = ", ".join([t.name for t in placeholders(outputs)])
        raise BindError(
            f"size {missing[0].name} is not determined by the shapes that are given.",
            where=f"inputs: {names}",
            hint="give the shape of an input that has it.",
        )
    return [shape_values(t.shape, sizes) for t in outputs]


def symbols_of(t: Tensor) -> list[Size]:
    """The symbolic sizes in a tensor's shape."""
    return [s for n in t.shape if isinstance(n, Expr) for s in _symbols_in(n)]


def _symbols_in(extent: Expr) -> list[Size]:
    return [e for e in postorder(extent) if isinstance(e, Size)]


def sizes_told(shapes: Mapping[Tensor, Extents]) -> dict[Expr, Any]:
    """What symbolic sizes are, by extents that are one, then by those linear in one unknown.

    Raises:
        ShapeError: a shape has another rank, or an extent that is none of the tensor's.
    """
    for t, shape in shapes.items():
        if len(shape) != t.ndim:
            raise _unlike(t, shape, {})
    pairs = [
        (e, n)
        for t, shape in shapes.items()
        for e, n in zip(t.shape, shape, strict=True)
        if isinstance(e, Expr)
    ]
    sizes: dict[Expr, Any] = {}
    for e, n in pairs:
        if isinstance(e, Size):
            sizes.setdefault(e, n)
    before = -1
    while before < len(sizes):
        before = len(sizes)
        for e, n in pairs:
            _solve(e, n, sizes)
    for t, shape in shapes.items():
        _check(t, shape, sizes)
    return sizes


def _solve(extent: Expr, n: Any, sizes: dict[Expr, Any]) -> None:
    """Learn the one size that is unknown, if the extent is linear in it."""
    unknown = [s for s in _symbols_in(extent) if s not in sizes]
    if len(set(unknown)) != 1:
        return
    form = linear_form(extent)
    factor = form.terms.pop(unknown[0], 0)
    if factor and not any(s is unknown[0] for leaf in form.terms for s in _symbols_in(leaf)):
        for leaf, c in form.terms.items():
            n = n - c * size_value(leaf, sizes)
        sizes[unknown[0]] = (n - form.constant) // factor


def _check(t: Tensor, shape: Extents, sizes: Mapping[Expr, Any]) -> None:
    for extent, n in zip(t.shape, shape, strict=True):
        if isinstance(extent, Size) and sizes[extent] is n:
            continue
        known = isinstance(extent, int) or all(s in sizes for s in _symbols_in(extent))
        if known and shape_values((extent,), sizes)[0] != n:
            raise _unlike(t, shape, sizes)


def _unlike(t: Tensor, shape: Extents, sizes: Mapping[Expr, Any]) -> ShapeError:
    own = {s: sizes[s] for s in symbols_of(t) if s in sizes}
    values = ", ".join([f"{s} = {n}" for s, n in own.items()])
    return ShapeError(
        f"{t.name} has shape {tuple(shape)}, which is none of its shapes"
        f"{f' where {values}' if values else ''}.",
        where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
        hint="inputs that share a symbolic size must agree on it."
        if len(shape) == t.ndim
        else f"pass an array of rank {t.ndim}; vmap calls it for many.",
    )
