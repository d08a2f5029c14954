"""The derivative of tensors applied to given errors; several ask for one sweep (`deriv`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad.autodiff.heads import Heads
from tensorad.autodiff.reverse import vjp
from tensorad.errors import GradError, ShapeError
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.ir.visit import placeholders
from tensorad.process import memoised

_RECENT = 8
"""So many sweeps are kept: for the derivatives of some outputs by one input after the other."""


def deriv(dependent: Tensor | Sequence[Tensor], independent: Tensor, error: Heads = None) -> Tensor:
    """The derivative of tensors by another one, applied to errors: sum of error * d y / d x.

    Derivatives of the same tensors for the same errors come out of one sweep, if they are by
    inputs: what they have in common is computed once.

    Args:
        dependent: y, float, or several.
        independent: x, float, input or intermediate.
        error: tensor of y's shape, array or number, for several y a list; it may be left out
            where y has no axes.
    Returns:
        a tensor of x's shape; zeros where y does not depend on x.
    Raises:
        ShapeError: an error is missing, or has another shape than its y.
        GradError: an integer tensor; `independent` is several.
    Source: nGraph, "Autodiff" (2018).
    """
    ys = (dependent,) if isinstance(dependent, Tensor) else tuple(dependent)
    errors = (error,) if isinstance(dependent, Tensor) else _errors(error, len(ys))
    if not isinstance(independent, Tensor):
        raise GradError(
            f"deriv takes one tensor to differentiate by, got {type(independent).__name__}.",
            hint="call it for each of them: they share their sweep.",
        )
    for y, e in zip(ys, errors, strict=True):
        shape = getattr(e, "shape", y.shape if e is not None else ())
        if len(shape) != y.ndim:
            raise ShapeError(
                f"deriv of {y.name} of shape {format_shape(y.shape)} needs an error of this shape, "
                f"got {'none' if e is None else format_shape(shape)}.",
                hint="it may be left out where the tensor has no axes.",
            )
    if all(e is None or isinstance(e, Tensor) for e in errors):
        known = _swept(ys, errors)
        if independent in known:
            return known[independent]
    return vjp(list(ys), [independent], list(errors))[0]


def _errors(error: Any, count: int) -> tuple[Any, ...]:
    if error is None:
        return (None,) * count
    if not isinstance(error, (list, tuple)) or len(error) != count:
        raise GradError(
            f"deriv of {count} tensors needs a list of {count} errors.",
            hint="write deriv([y, z], x, [error of y, error of z]).",
        )
    return tuple(error)


@memoised(_RECENT)
def _swept(ys: tuple[Tensor, ...], errors: tuple[Tensor | None, ...]) -> dict[Tensor, Tensor]:
    """The derivatives by all float inputs."""
    inputs = [t for t in placeholders(ys) if t.dtype.is_float]
    found = vjp(list(ys), inputs, list(errors)) if inputs else []
    return dict(zip(inputs, found, strict=True))
