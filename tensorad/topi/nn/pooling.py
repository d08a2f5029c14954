"""Pooling: windows of the spatial axes, reduced."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr
from tensorad.topi import reduction
from tensorad.topi.arguments import check_flag, check_word
from tensorad.topi.checks import check_tensor, per_axis, sides
from tensorad.topi.definition import define
from tensorad.topi.nn.windows import SPATIAL, Windows, slide


def pool(
    x: Tensor,
    kernel: object,
    stride: object,
    padding: object = 0,
    pool_type: str = "max",
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Tensor:
    """Windows of the last two axes of an NCHW tensor, reduced by "avg" or "max".

    Args:
        x: shape (n, channels, height, width).
        kernel, stride: an integer or a pair.
        padding: an integer, a pair, or (top, left, bottom, right), so little that every
            window has an element; padded ones are 0 for "avg" and no operands for "max".
            Windows over an extent of 0 are of nothing: 0 and -inf.
        count_include_pad: whether "avg" divides by the kernel's size at the borders too,
            or by the number of elements inside.
        ceil_mode: whether a last window may hang over the padded end (it must not begin
            in the padding there).
    Raises:
        DefinitionError: another pool type.
        ShapeError: the window exceeds the padded input, or lies in the padding.
    """
    pooled = _Pool("pool", x, kernel, stride, padding, pool_type, count_include_pad, ceil_mode, 2)
    return define(
        pooled.shape, lambda n, c, y, x: pooled.element(n, c, (y, x)), f"{pool_type}_pool"
    )


def pool1d(
    x: Tensor,
    kernel: object,
    stride: object,
    padding: object = 0,
    pool_type: str = "max",
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Tensor:
    """`pool` of the last axis of x (n, channels, width); padding is an integer or (left, right)."""
    pooled = _Pool("pool1d", x, kernel, stride, padding, pool_type, count_include_pad, ceil_mode, 1)
    return define(pooled.shape, lambda n, c, x: pooled.element(n, c, (x,)), f"{pool_type}_pool")


def pool3d(
    x: Tensor,
    kernel: object,
    stride: object,
    padding: object = 0,
    pool_type: str = "max",
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Tensor:
    """`pool` of the last three axes of x (n, channels, depth, height, width)."""
    pooled = _Pool("pool3d", x, kernel, stride, padding, pool_type, count_include_pad, ceil_mode, 3)
    return define(
        pooled.shape, lambda n, c, z, y, x: pooled.element(n, c, (z, y, x)), f"{pool_type}_pool"
    )


class _Pool:
    """One pooling: its shape and the formula of an element."""

    def __init__(
        self,
        operator: str,
        x: Tensor,
        kernel: object,
        stride: object,
        padding: object,
        pool_type: str,
        count_pad: bool,
        ceil_mode: bool,
        rank: int,
    ) -> None:
        x = check_tensor(operator, "x", x, rank + 2)
        _check_pool_type(operator, pool_type)
        size = per_axis(operator, "kernel", kernel, 1, rank)
        step = per_axis(operator, "stride", stride, 1, rank)
        around = sides(operator, padding, rank)
        self.x, self.size, self.around = x, size, around
        self.pool_type = pool_type
        self.count_pad = check_flag(operator, "count_include_pad", count_pad)
        extents = x.shape[2:]
        self.overhang = [0] * rank
        if check_flag(operator, "ceil_mode", ceil_mode):
            self.overhang = [
                _overhang(operator, x, n, k, s, pads)
                for n, k, s, pads in zip(extents, size, step, around, strict=True)
            ]
        wider = [(low, high + o) for (low, high), o in zip(around, self.overhang, strict=True)]
        self.windows: Windows = slide(operator, extents, size, step, [1] * rank, wider)
        _check_padding(operator, self.windows, size, around)
        self.shape = (x.shape[0], x.shape[1], *self.windows.shape)
        self.taps = self.windows.taps()

    def element(self, n: Expr, c: Expr, position: Sequence[Expr]) -> Expr:
        """The reduction of one window."""
        indices = self.windows.indices(position, self.taps)
        inside = self.windows.inside(indices)
        where = te.all_of(*inside) if inside else None
        value = self.x[(n, c, *indices)]
        if self.pool_type == "max":
            return te.max(value, axis=self.taps, where=where)
        total = te.sum(value, axis=self.taps, where=where)
        if not inside or (self.count_pad and not any(self.overhang)):
            scale = 1.0
            for k in self.size:
                scale = scale / k
            return total * scale
        return total / self._count(position).astype(self.x.dtype)

    def _count(self, position: Sequence[Expr]) -> Expr:
        """How many elements of a window count: those inside, or inside with the padding."""
        count: Expr | None = None
        for d, p in enumerate(position):
            low, high = self.around[d]
            start: Expr = p * self.windows.strides[d] - low
            end = dim_expr(self.windows.extents[d]) + (high if self.count_pad else 0)
            stop = te.minimum(start + self.size[d], end)
            first = start if self.count_pad else te.maximum(start, 0)
            here = te.maximum(stop - first, 1)
            count = here if count is None else count * here
        if count is None:
            raise DefinitionError("a pool has at least one spatial axis.")
        return count


def _check_pool_type(operator: str, pool_type: object) -> None:
    check_word(operator, "pool_type", pool_type, ("avg", "max"),
               "write another reduction with compute.")  # fmt: skip


def _check_padding(
    operator: str, w: Windows, kernel: Sequence[int], around: Sequence[tuple[int, int]]
) -> None:
    """Refuse windows that see nothing but padding: the first one, or the last.

    Raises:
        ShapeError: one does, or may where the extent is a symbol.
    """
    parts = zip(w.extents, kernel, w.strides, w.shape, around, strict=True)
    for extent, size, step, count, (low, high) in parts:
        alone = low >= size or high >= size
        if isinstance(extent, int) and isinstance(count, int):
            alone = low >= size or (count - 1) * step - low >= extent
        if alone:
            raise ShapeError(
                f"{operator}: windows of {size} would lie in a padding of {max(low, high)}.",
                hint="use less padding than the kernel has, or topi.pad with a value.",
            )


def _overhang(
    operator: str, x: Tensor, extent: Dim, kernel: int, stride: int, padding: tuple[int, int]
) -> int:
    """By how many elements the last window of ceil_mode passes the padded end."""
    if not isinstance(extent, int):
        raise ShapeError(
            f"{operator}: ceil_mode needs extents that are numbers, but {x.name} has {extent}.",
            hint="pad the input instead.",
        )
    low, high = padding
    rest = extent + low + high - kernel
    windows = -(-rest // stride) + 1
    if (windows - 1) * stride >= extent + low:
        windows -= 1
    return max(0, (windows - 1) * stride - rest)


def global_pool(x: Tensor, pool_type: str = "avg") -> Tensor:
    """All spatial axes of x (n, channels, ...) reduced to extent 1 each."""
    x = check_tensor("global_pool", "x", x)
    _check_pool_type("global_pool", pool_type)
    if x.ndim < 3:
        raise ShapeError(
            f"global_pool: {x.name} with {x.ndim} axes has no spatial axis.",
            hint="axes are (batch, channels, spatial...).",
        )
    axes = range(2, x.ndim)
    return (reduction.mean if pool_type == "avg" else reduction.max)(x, tuple(axes), True)


def adaptive_pool(x: Tensor, output_size: object, pool_type: str = "avg") -> Tensor:
    """Spatial axes cut into `output_size` windows each, as equal as possible, and reduced.

    Window i of m over n elements runs from i*n // m to ceil((i + 1)*n / m); neighbours may
    overlap (the rule of PyTorch's AdaptiveAvgPool).

    Args:
        x: shape (n, channels, spatial...), one to three spatial axes of constant extent.
        output_size: windows per spatial axis: an integer, or one for each.
    Raises:
        ShapeError: a spatial extent is symbolic or 0.
    """
    x = check_tensor("adaptive_pool", "x", x)
    _check_pool_type("adaptive_pool", pool_type)
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(
            f"adaptive_pool: {x.name} has {x.ndim} axes, not 3, 4 or 5.",
            hint="axes are (batch, channels, spatial...).",
        )
    sizes = per_axis("adaptive_pool", "output_size", output_size, 1, rank)
    extents = _constant_extents(x)
    longest = [_longest_window(n, m) for n, m in zip(extents, sizes, strict=True)]
    names = SPATIAL[-rank:]
    taps = [te.reduce_axis(k, name=f"k{a}") for a, k in zip(names, longest, strict=True)]

    def body(*index: Expr) -> Expr:
        n, c, *position = index
        starts = [p * e // m for p, e, m in zip(position, extents, sizes, strict=True)]
        stops = [
            ((p + 1) * e + m - 1) // m for p, e, m in zip(position, extents, sizes, strict=True)
        ]
        indices = [s + k for s, k in zip(starts, taps, strict=True)]
        uneven = [d for d in range(rank) if extents[d] % sizes[d]]
        inside = [indices[d] < stops[d] for d in uneven]
        where = te.all_of(*inside) if inside else None
        value = x[(n, c, *indices)]
        if pool_type == "max":
            return te.max(value, axis=taps, where=where)
        count = te.const(1, "int64")
        for s, t in zip(starts, stops, strict=True):
            count = count * (t - s)
        mean: Expr = te.sum(value, axis=taps, where=where) / count.astype(x.dtype)
        return mean

    return define((*x.shape[:2], *sizes), body, f"adaptive_{pool_type}_pool")


def _longest_window(n: int, m: int) -> int:
    """The most elements that one of m windows over n has: ceil((i + 1)*n / m) - i*n // m.

    The longest has the largest i*n % m, which is m - gcd(n, m).
    """
    return -(-(n + m - gcd(n, m)) // m)


def _constant_extents(x: Tensor) -> list[int]:
    """The spatial extents of the input of an adaptive pool."""
    extents: list[int] = []
    for d, n in enumerate(x.shape[2:]):
        if not isinstance(n, int) or n == 0:
            raise ShapeError(
                f"adaptive_pool: axis {d + 2} of {x.name} has extent {n}.",
                hint="windows are cut from constant extents of at least 1.",
            )
        extents.append(n)
    return extents
