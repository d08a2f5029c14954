"""Which tensors are full Jacobians: a large one is refused before it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from weakref import WeakKeyDictionary

from tensorad import config
from tensorad.errors import LimitError
from tensorad.ir.tensor import Tensor, format_shape

_jacobians: WeakKeyDictionary[Tensor, str] = WeakKeyDictionary()


def note_jacobian(results: Sequence[Tensor], pairs: Sequence[tuple[Tensor, object]]) -> None:
    """Remember the results of a derivation without a head: full Jacobians of one output."""
    (y, head), *others = pairs
    if head is None and y.shape and not others:
        for t in results:
            _jacobians[t] = f"the Jacobian of {y.name}"


def check_dense(tensors: Sequence[Tensor]) -> None:
    """Refuse to store a full Jacobian of too many elements (symbolic ones are judged
    by a call).

    Raises:
        LimitError: one has more than TENSORAD_DENSE_JACOBIAN_ELEMENTS elements.
    """
    for t in tensors:
        shape = [n for n in t.shape if isinstance(n, int)]
        if len(shape) == t.ndim:
            check_dense_shape(t, shape)


def check_dense_shape(t: Tensor, shape: Sequence[int]) -> None:
    """The same for one tensor, whose sizes are known now.

    Raises:
        LimitError: see `check_dense`.
    """
    limit = config.current().dense_jacobian_elements
    if t not in _jacobians or prod(shape) <= limit:
        return
    text = format_shape(tuple(shape))
    raise LimitError(
        f"{_jacobians[t]} of shape {text} has {prod(shape):,} elements, more than the {limit:,} "
        "of TENSORAD_DENSE_JACOBIAN_ELEMENTS.",
        where=f"{t.name} : {t.dtype} {text}",
        hint="ta.sparse_jacobian stores its nonzeros only; vjp and jvp multiply by it without "
        "storing it.",
    )
