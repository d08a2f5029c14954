"""What names of a graph stand for while it is imported: tensors, known arrays, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    DType,
    to_dtype,
)
from tensorad.ir.expr import Call, Const, Expr, Size
from tensorad.ir.tensor import Dim, Shape, Tensor, dim_expr, dim_of
from tensorad.ir.visit import postorder
from tensorad.topi.arguments import shown

Array = np.ndarray[Any, Any]
MAX_ELEMENTS: Final = 2**40
"""Elements of a tensor of numbers as extents; more are refused."""
MAX_AXES: Final = 32
"""Axes of arrays in every version of NumPy."""
MAX_FOLDED: Final = 2**20
"""Elements of an array that is computed while importing; larger ones are computed in calls."""
TYPES: Final = {
    BOOL: "tensor(bool)",
    UINT8: "tensor(uint8)",
    INT8: "tensor(int8)",
    INT16: "tensor(int16)",
    INT32: "tensor(int32)",
    INT64: "tensor(int64)",
    FLOAT32: "tensor(float)",
    FLOAT64: "tensor(double)",
}
"""How ONNX calls the types of tensors that there are here."""
_CODES: Final[dict[int, DType | str]] = {
    1: FLOAT32, 2: UINT8, 3: INT8, 4: "uint16", 5: INT16, 6: INT32, 7: INT64, 8: "string",
    9: BOOL, 10: "float16", 11: FLOAT64, 12: "uint32", 13: "uint64", 14: "complex64",
    15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2",
    20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0",
    25: "uint2", 26: "int2",
}  # fmt: skip

CODE_OF: Final = {d: code for code, d in _CODES.items() if isinstance(d, DType)}
"""Numbers of `TensorProto.DataType`, by dtype."""


class Known:
    """An array that is known while importing.

    Attributes:
        array: its elements; of NumPy's `object` if some are expressions of sizes, others integers.
        dtype: that of the tensor it stands for; `tensor`: that one, once it was asked for.
    """

    tensor: Tensor | None = None

    def __init__(self, array: object, dtype: DType | None = None) -> None:
        made = objects([array]).reshape(()) if isinstance(array, Expr) else np.asarray(array)
        if made.dtype == object:
            listed = [dim_of(n) if isinstance(n, Expr) else int(n) for n in made.ravel().tolist()]
            _check_whole(listed, dtype or INT64)
            if all(isinstance(n, int) for n in listed):
                made = np.array(listed, np.int64).reshape(made.shape)
            else:
                made = objects(listed).reshape(made.shape)
            dtype = dtype or INT64
        self.dtype = to_dtype(made.dtype) if dtype is None else dtype
        self.array: Array = (
            made if made.dtype == object else made.astype(str(self.dtype), copy=False)
        )

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return tuple(self.array.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether elements are expressions of sizes."""
        return bool(self.array.dtype == object)


@dataclass(eq=False)
class Parameter:
    """An initialiser of floats: an argument of calls, with a value to begin with.

    Attributes:
        name: in the graph; `array`: its value; `tensor`: the placeholder.
        is_used: whether tensors are computed from it.
        is_fixed: whether its value was needed while importing, so that it is none.
    """

    name: str
    array: Array
    tensor: Tensor
    is_used: bool = False
    is_fixed: bool = False

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        """That of its elements."""
        return self.tensor.dtype


Value = Tensor | Known | Parameter


def _check_whole(numbers: Iterable[Dim], dtype: DType) -> None:
    """A dtype of integers holds numbers that were computed without limits.

    Raises:
        OnnxError: it does not hold one.
    """
    for n in numbers:
        if isinstance(n, int) and dtype.is_integer and not dtype.lowest <= n <= dtype.highest:
            raise OnnxError(
                f"{shown(n)}, computed from extents, is no number of {dtype}.",
                hint="the extents of the model are too large, or the file is damaged.",
            )


def objects(dims: Sequence[Dim]) -> Array:
    """Extents as an array of NumPy's `object`, one by one: NumPy must not look into them."""
    made = np.empty(len(dims), object)
    for n, dim in enumerate(dims):
        made[n] = dim
    return made


def dtype_of(code: int) -> DType:
    """The dtype with a number of `TensorProto.DataType`.

    Raises:
        OnnxError: there is none here.
    """
    found = _CODES.get(code)
    if isinstance(found, DType):
        return found
    raise OnnxError(
        f"there are no tensors of {found or f'the unknown type {code}'} here.",
        hint="convert the model to float32 and int64.",
    )


def name_of_code(code: int) -> str:
    """How a type of elements is called."""
    return str(_CODES.get(code, code))


def as_tensor(value: Value) -> Tensor:
    """A value as a tensor of formulas."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Parameter):
        value.is_used = True
        return value.tensor
    if value.tensor is None:
        value.tensor = _of_known(value)
    return value.tensor


def _of_known(value: Known) -> Tensor:
    if value.is_symbolic:
        return _of_sizes(value)
    if value.array.size == 1:
        one = te.const(value.array.item(), value.dtype)
        made: Tensor = te.compute(value.array.shape, lambda *i: one, name="const")
        return made
    return constant(value.array, value.dtype)


def _of_sizes(value: Known) -> Tensor:
    """A tensor whose elements are expressions of sizes."""
    elements = [dim_expr(n).astype(value.dtype) for n in value.array.ravel().tolist()]

    def body(*i: Expr) -> Expr:
        position: Expr = dim_expr(0)
        for k, n in zip(i, value.array.shape, strict=True):
            position = position * n + k
        chosen = elements[-1]
        for n in range(len(elements) - 2, -1, -1):
            chosen = te.select(position <= n, elements[n], chosen)
        return chosen

    made: Tensor = te.compute(value.array.shape, body, name="sizes")
    return made


def count_of(shape: Iterable[Dim]) -> int:
    """The number of elements as far as extents are numbers; 1 for each other one."""
    total = 1
    for n in shape:
        total *= n if isinstance(n, int) else 1
    return total


def check_extents(what: str, shape: Shape) -> None:
    """Refuse a tensor with more elements than there can be, those of extents 0 aside.

    Raises:
        OnnxError: as said, or there are too many axes, or an extent is negative.
    """
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise OnnxError(f"{what} has a negative extent in {tuple(shape)}.")
    if len(shape) > MAX_AXES:
        raise OnnxError(
            f"{what} has {len(shape)} axes, more than {MAX_AXES}.",
            hint="the file is damaged: arrays of NumPy have no more.",
        )
    if count_of([n or 1 for n in shape if isinstance(n, int)]) > MAX_ELEMENTS:
        raise OnnxError(
            f"{what} of shape {tuple(shape)} has more than 2^40 elements.",
            hint="its extents are wrong, or the file is damaged.",
        )


def full(shape: Shape, value: float | int | bool, dtype: DType) -> Value:
    """One value everywhere: known if extents are numbers and it is not large."""
    check_extents("a tensor", shape)
    if all(isinstance(n, int) for n in shape) and count_of(shape) <= MAX_FOLDED:
        return Known(np.full(shape, value, str(dtype)), dtype)
    return topi.full(shape, value, dtype)


def equal(a: Dim, b: Dim) -> bool | None:
    """Whether two extents are equal, whatever the sizes are; None if it depends on these."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if same_dim(a, b):
        return True
    for number, other in ((a, b), (b, a)):
        if (
            isinstance(number, int)
            and number < 0
            and isinstance(other, Expr)
            and _never_less(other)
        ):
            return False
    return None


def _never_less(e: Expr) -> bool:
    """Whether an expression of sizes is seen to be at least 0."""
    for part in postorder(e):
        sums = isinstance(part, Call) and part.op in ("add", "mul")
        positive = isinstance(part, Const) and part.value >= 0
        if not (isinstance(part, Size) or sums or positive):
            return False
    return True
