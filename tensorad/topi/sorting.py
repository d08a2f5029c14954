"""Elements in order: their places by how many come before them."""

from __future__ import annotations

from tensorad import te
from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor
from tensorad.topi.arguments import check_extents, check_flag
from tensorad.topi.checks import check_tensor, normalize_axis
from tensorad.topi.definition import define
from tensorad.topi.indexing import gather


def argsort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """Positions along an axis in the order of their elements; equal ones keep their order.

    NaN counts as larger than every number, as in NumPy. Each element is compared with all of its
    row: n * n comparisons for n of them, which vectorise and have no depth.

    Returns:
        int64, shape of x.
    """
    return _places("argsort", x, axis, None, descending)


def sort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The elements along an axis in their order, NaN last; `argsort` says what it costs.

    The gradient of each goes to the element that it is.
    """
    x = check_tensor("sort", "x", x)
    places = _places("sort", x, axis, None, descending)
    return gather(x, places, normalize_axis("sort", axis, x.ndim))


def top_k(x: Tensor, k: Dim, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, elements along an axis in their order, and their positions.

    Of equal ones the first come first; NaN counts as larger than every number. The gradient of a
    value goes to the element that it is.

    Raises:
        DefinitionError: k is more than the axis has.
    """
    x = check_tensor("top_k", "x", x)
    places = _places("top_k", x, axis, k, check_flag("top_k", "largest", largest))
    return gather(x, places, normalize_axis("top_k", axis, x.ndim)), places


def _places(operator: str, x: Tensor, axis: int, k: Dim | None, descending: bool) -> Tensor:
    """Positions of the first k elements in order."""
    x = check_tensor(operator, "x", x)
    along = normalize_axis(operator, axis, x.ndim)
    falling = check_flag(operator, "descending", descending)
    extent = x.shape[along]
    (count,) = (extent,) if k is None else check_extents(operator, (k,))
    if isinstance(count, int) and isinstance(extent, int) and count > extent:
        raise DefinitionError(
            f"{operator}: axis {along} of {x.name} has {extent} elements, not {count}.",
            hint="take at most as many as there are.",
        )

    def rank(*i: Expr) -> Expr:
        j = te.reduce_axis(extent, name="j")
        own, other = x[i], x[(*i[:along], j, *i[along + 1 :])]
        before = te.select(j < i[along], _at_most(other, own, falling), _less(other, own, falling))
        one, none = te.const(1, INT64), te.const(0, INT64)
        return te.sum(te.select(before, one, none), axis=j)

    ranks = define(x.shape, rank, "rank")
    shape = (*x.shape[:along], count, *x.shape[along + 1 :])

    def place(*i: Expr) -> Expr:
        j = te.reduce_axis(extent, name="j")
        found = ranks[(*i[:along], j, *i[along + 1 :])] == i[along]
        return te.sum(te.select(found, j, te.const(0, INT64)), axis=j)

    return define(shape, place, operator)


def _less(a: Expr, b: Expr, falling: bool) -> Expr:
    """Whether a stands before b, whatever their positions are."""
    if falling:
        a, b = b, a
    if not a.dtype.is_float:
        return a < b
    return te.any_of(a < b, te.all_of(te.isnan(b), ~te.isnan(a)))


def _at_most(a: Expr, b: Expr, falling: bool) -> Expr:
    return ~_less(b, a, falling)
