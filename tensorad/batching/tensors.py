"""`batched`: tensors for many values of what they are computed from, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.autodiff import row_by_row
from tensorad.batching.level import Level
from tensorad.batching.nested import remember
from tensorad.batching.rewrite import give_images
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.arguments import check_tensors
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.process import deep_calls


def batched(tensors: Tensor | Sequence[Tensor], rows: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """The tensors for all rows of others, by operations with one axis more.

    What does not depend on these is computed once. Of a branch whose index differs each row gets
    the results of its own arm, of a loop after its own number of iterations; arms and iterations
    run for the rows that have them.

    A row has the values of the tensors by themselves, rounded alike if sums are added in the order
    of the formula. Compiled sums are added in an order that follows from formula and sizes, rows
    among them, so their last digits may differ: lanes may lie across rows, a long sum is cut
    into other blocks, and a product with a vector becomes one of matrices where rows share the
    other factor. `ta.Schedule(vector=False, split=False, unroll=False, contract=False,
    blocks=False, siblings=False, terms=False, together=False)` adds in order.

    Args:
        tensors: one tensor or several.
        rows: {X: Xb}: what to put in the place of X in each row, Xb of shape (rows, *X.shape);
            X may be any tensor, and all have as many rows.
    Returns:
        a list, of tensors of shape (rows, *shape), or of those given where they are the same in
        all rows.
    Raises:
        ShapeError: an Xb has another shape, or another number of rows.
        DTypeError: it has another dtype.
        DefinitionError: nothing is mapped, or an operation cannot be.
    """
    return [t for t, _ in for_rows(check_tensors(tensors, "batched"), rows)]


@deep_calls.changed()
def for_rows(tensors: Sequence[Tensor], rows: Mapping[Tensor, Tensor]) -> list[tuple[Tensor, bool]]:
    """`batched`, and whether each tensor differs from row to row."""
    level = Level(_check(rows), give_images, dict(rows))
    give_images(level, tensors)
    remember(level, tensors, rows)
    return [(level.of(t), t in level.image) for t in tensors]


def _check(rows: Mapping[Tensor, Tensor]) -> Dim:
    """How many rows there are."""
    if not isinstance(rows, Mapping) or not rows:
        raise DefinitionError(
            "batched needs a dict from tensors to tensors with their rows, got "
            f"{'an empty one' if isinstance(rows, Mapping) else type(rows).__name__}.",
            hint="write batched(Y, {X: Xb}) with Xb of shape (rows, *X.shape).",
        )
    first: tuple[Tensor, Tensor] | None = None
    for x, xb in rows.items():
        if not isinstance(x, Tensor) or not isinstance(xb, Tensor):
            raise DefinitionError(
                f"batched maps tensors to tensors, got {type(x).__name__} and {type(xb).__name__}.",
                hint="make a tensor of an array with ta.const(array).",
            )
        if xb.ndim != x.ndim + 1 or not all(map(same_dim, xb.shape[1:], x.shape)):
            raise ShapeError(
                f"the rows of {x.name} have shape {format_shape(xb.shape)}.",
                where=x.described,
                hint="their shape is that of the tensor behind one more axis.",
            )
        if xb.dtype is not x.dtype:
            raise DTypeError(
                f"the rows of {x.name} have dtype {xb.dtype}.",
                where=x.described,
                hint=f"convert them: .astype('{x.dtype}').",
            )
        if first is None:
            first = (x, xb)
        elif not same_dim(xb.shape[0], first[1].shape[0]):
            raise ShapeError(
                f"{first[0].name} has {first[1].shape[0]} rows and {x.name} has {xb.shape[0]}.",
                where=f"{format_shape(first[1].shape)} and {format_shape(xb.shape)}",
                hint="all tensors are mapped together: give them as many rows.",
            )
    assert first is not None, "there is one"
    return first[1].shape[0]


row_by_row.for_rows.fill(for_rows)
