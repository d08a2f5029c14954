"""Extents, elements and bytes of tensors: as numbers, or as formulas of the symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod
from typing import Any, Final

from tensorad import config
from tensorad.errors import InternalError, LimitError, ShapeError
from tensorad.ir.expr import Axis, Call, Const, Expr, Select, Size, int_const, mul
from tensorad.ir.tensor import Shape, Tensor, format_shape
from tensorad.ir.visit import postorder

ASSUMED_EXTENT: Final = 1024
"""What a symbolic extent counts as in estimates: programs are written for large tensors."""
TYPICAL_EXTENT: Final = 16
"""The same where orders of a product are compared, before anyone knows what is large."""
ASSUMED_STEPS: Final = 16
"""Iterations of a loop whose bounds come from data: lists of neighbours are short."""
ASSUMED_WAIT: Final = 4096
"""The same where a call taken for short would keep other Python threads waiting."""
ASSUMED_FOLDED: Final = 256
"""Points that a fold of folds is taken to visit per element."""
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def size_value(root: Expr, sizes: Mapping[Expr, int]) -> int:
    """An extent in numbers, or a bound of a loop; `sizes` has the axes outside of it then."""
    if isinstance(root, Const):
        return int(root.value)
    if isinstance(root, Size):
        return sizes[root]
    memo: dict[Expr, int] = {}
    for e in postorder(root):
        match e:
            case Const():
                memo[e] = int(e.value)
            case Size() | Axis():
                memo[e] = sizes[e]
            case Call():
                memo[e] = _operation(e.op, [memo[a] for a in e.args])
            case Select():
                memo[e] = memo[e.then] if memo[e.cond] else memo[e.orelse]
            case _:
                raise InternalError(f"{root} is no extent")
    return memo[root]


def _operation(op: str, args: list[int]) -> int:
    match op, args:
        case "add", [x, y]:
            return x + y
        case "sub", [x, y]:
            return x - y
        case "mul", [x, y]:
            return x * y
        case "neg", [x]:
            return -x
        case "floordiv", [x, y]:
            return x // y if y else 0
        case "mod", [x, y]:
            return x % y if y else 0
        case "maximum", [x, y]:
            return max(x, y)
        case "minimum", [x, y]:
            return min(x, y)
        case (("lt" | "le" | "gt" | "ge" | "eq" | "ne"), [x, y]):
            comparisons = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y}
            return int(comparisons.get(op, x != y))
    raise InternalError(f"an extent uses the operation {op!r}")


def shape_values(shape: Shape, sizes: Mapping[Expr, int]) -> tuple[int, ...]:
    """A shape in numbers."""
    return tuple([n if isinstance(n, int) else size_value(n, sizes) for n in shape])


def negative_extent(t: Tensor, shape: tuple[int, ...], sizes: Mapping[Expr, Any]) -> ShapeError:
    """What is said of a tensor that would have less than no elements."""
    values = ", ".join([f"{s} = {n}" for s, n in sizes.items() if isinstance(s, Size)])
    return ShapeError(
        f"{t.name} would have the shape {shape} at {values}.",
        where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
        hint="pass larger arrays, or state the smallest size with ta.assume.",
    )


def bytes_of(t: Tensor, sizes: Mapping[Expr, int]) -> int:
    """The size of a tensor in bytes.

    Raises:
        LimitError: it is larger than TENSORAD_MAX_BYTES.
        ShapeError: an extent is negative for these sizes.
    """
    shape = shape_values(t.shape, sizes)
    if min(shape, default=0) < 0:
        raise negative_extent(t, shape, sizes)
    size_bytes = prod(shape) * t.dtype.size_bytes
    limit = config.current().max_bytes
    if size_bytes > limit:
        raise LimitError(
            f"{t.name} of shape {shape} and dtype {t.dtype} takes {size_bytes} bytes; "
            f"the limit is {limit}.",
            hint="use smaller sizes, or raise the limit with the environment variable "
            "TENSORAD_MAX_BYTES.",
        )
    return size_bytes


def bytes_text(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


def fixed_elements(shape: Shape) -> int | None:
    """How many elements a shape has; None where an extent is symbolic."""
    extents = [n for n in shape if isinstance(n, int)]
    return prod(extents) if len(extents) == len(shape) else None


def assumed_elements(shape: Shape, unknown: int = ASSUMED_EXTENT) -> int:
    """How many elements a shape has if each symbolic extent is `unknown`."""
    return prod([n if isinstance(n, int) else unknown for n in shape])


def elements_at(shape: Shape, sizes: Mapping[Expr, int]) -> int:
    """How many elements a shape has for these sizes."""
    return prod(shape_values(shape, sizes))


def elements_formula(shape: Shape, times: int = 1) -> Expr:
    """So many times the elements of a shape, as a formula of its symbolic sizes."""
    numbers = [n for n in shape if isinstance(n, int)]
    symbols = [n for n in shape if not isinstance(n, int)]
    known: Expr = int_const(prod(numbers) * times)
    return reduce(mul, symbols, known)


def fixed_bytes(t: Tensor) -> int | None:
    """The bytes of a tensor; None where an extent is symbolic."""
    elements = fixed_elements(t.shape)
    return None if elements is None else elements * t.dtype.size_bytes


def assumed_bytes(t: Tensor) -> int:
    """The bytes of a tensor if each symbolic extent is the assumed one."""
    return assumed_elements(t.shape) * t.dtype.size_bytes
