"""What flows through programs: leaves of trees as tensors, numbers that stay weak, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import astype, compute_axes, formula
from tensorad.ir.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    WEAK_FLOAT,
    WEAK_INT,
    DType,
    result_type,
    to_dtype,
)
from tensorad.ir.expr import Expr, read, select
from tensorad.ir.order import AXIS, occurs
from tensorad.ir.records import Definition, Recursion, is_record
from tensorad.ir.tensor import Constant, Placeholder, Shape, Tensor, outputs
from tensorad.ir.visit import op_inputs
from tensorad.program.data.function_types import ANY_FUNCTION, FunctionsType, is_function
from tensorad.program.data.instances import Instance, injected, several
from tensorad.te import compute, const

Number = Tensor | tuple[Definition, int]
"""What stands for a Python number: a parameter, or a result of calls of a definition."""
_weak: Final[ContextVar[dict[Number, None]]] = ContextVar("weak", default={})  # noqa: B039  # never changed
"""What stands for Python numbers, so far of the dtype that these have alone."""


def is_number(value: object) -> bool:
    """Whether it is a Python integer or float, which takes the dtype of what it meets."""
    return type(value) in (int, float)


def dtype_of(value: object) -> DType:
    """The dtype of a leaf; that of Python numbers, and of what is made of them alone, is weak."""
    if is_number(value):
        return WEAK_INT if type(value) is int else WEAK_FLOAT
    if isinstance(value, Tensor):
        if _is_weak(value):
            return WEAK_FLOAT if value.dtype.is_float else WEAK_INT
        return value.dtype
    if isinstance(value, Expr):
        return value.dtype
    if isinstance(value, Instance):
        return value.record_type
    if is_function(value):
        return ANY_FUNCTION
    if (record_type := several(value)) is not None:
        return record_type
    return BOOL if isinstance(value, bool) else to_dtype(np.asarray(value).dtype)


def alone(dtype: DType) -> DType:
    """The dtype itself, for a weak one int64 or float32."""
    if dtype.is_weak:
        return FLOAT32 if dtype.is_float else INT64
    return dtype


def promoted(dtypes: Iterable[DType]) -> DType | None:
    """What leaves of these dtypes become where they meet; None if two that are not weak differ."""
    found: DType | None = None
    for d in dtypes:
        if found is None or found is d:
            found = d
        elif is_record(found) or is_record(d) or (not found.is_weak and not d.is_weak):
            return None
        else:
            joined = result_type(found, d)
            strong = d if found.is_weak else found
            if not strong.is_weak and joined is not strong:
                return None
            found = joined
    return found


def _is_weak(t: Tensor) -> bool:
    """Whether a tensor follows from parameters that stand for numbers, and from nothing else.

    Conversions, and constants of a dtype that numbers do not have alone, are something else.
    """
    numbers = _weak.get()
    if not numbers or t.dtype is BOOL:
        return False
    seen: dict[Tensor, None] = {t: None}
    stack = [t]
    found = False
    while stack:
        at = stack.pop()
        if at in numbers or _called(at) in numbers:
            found = True
        elif isinstance(at.op, (Placeholder, Constant)):
            return False
        else:
            inputs = op_inputs(at.op)
            if _is_chosen(at, inputs):
                return False
            more = [i for i in inputs if i not in seen]
            seen.update(dict.fromkeys(more))
            stack += more
    return found


def _called(t: Tensor) -> Number:
    """The result of a definition that a tensor is."""
    return (t.op.definition, t.index) if isinstance(t.op, Recursion) else t


def _is_chosen(t: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether a tensor's dtype comes from none of its inputs, nor from numbers."""
    known = {BOOL, INT64, FLOAT32, *[i.dtype for i in inputs]}
    if INT64 in [i.dtype for i in inputs]:
        known.add(FLOAT64)  # a quotient
    return t.dtype not in known


@contextmanager
def weak(numbers: Iterable[Number]) -> Iterator[None]:
    """Within: these stand for Python numbers."""
    token = _weak.set({**_weak.get(), **dict.fromkeys(numbers)})
    try:
        yield
    finally:
        _weak.reset(token)


def as_tensor(value: object, name: str, dtype: DType | None = None) -> Tensor:
    """A leaf as a tensor; numbers and formulas have no axes.

    Args:
        name: what errors and texts call it.
        dtype: what it is converted to; otherwise its own.
    Raises:
        DTypeError: there are no tensors of its dtype.
        DefinitionError: a formula of an index.
    """
    if isinstance(dtype, FunctionsType) and is_function(value):
        return dtype.tensor_of(value)
    own = alone(dtype_of(value)) if dtype is None else dtype
    if isinstance(value, Tensor):
        return value if value.dtype is own else astype(value, own)
    if isinstance(value, Instance):
        return injected(value, lambda v, f: as_tensor(v, f.name, f.dtype))
    if isinstance(value, Expr):
        if occurs(AXIS, value):
            raise DefinitionError(
                f"{name} is a formula of an index, which ends with the formula it belongs to.",
                where=str(value),
                hint="make a tensor of it with compute.",
            )
        return outputs_of(value, name, own)
    if isinstance(value, (bool, int, float, np.generic)):
        return outputs_of(const(value, own), name, own)
    if several(value) is not None:
        return _of_values(np.asarray(value), name)
    return constant(np.asarray(value), own, name)


def _of_values(values: np.ndarray[Any, Any], name: str) -> Tensor:
    """The tensor of an array of values of a data type: the handles of these, chosen by place."""
    flat = [read(as_tensor(v, name), ()) for v in values.flat]
    axes = compute_axes(values.shape)
    place: Expr = const(0, INT64)
    for a, n in zip(axes, values.shape, strict=True):
        place = place * n + a
    return formula(name, axes, _chosen(place, 0, flat))


def _chosen(place: Expr, first: int, values: Sequence[Expr]) -> Expr:
    """The value at a place, which is among these, by halves."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    below = _chosen(place, first, values[:half])
    return select(place < first + half, below, _chosen(place, first + half, values[half:]))


def outputs_of(value: Expr, name: str, dtype: DType) -> Tensor:
    """A 0-d tensor of a formula without indices."""
    made: Tensor = compute((), lambda: value.astype(dtype), name=name)
    return made


def parameter(name: str, shape: Shape, dtype: DType, owner: str) -> Tensor:
    """A parameter of a block; `owner`: whose, as errors say it."""
    return outputs(Placeholder(name, shape, dtype, owner))[0]


def check_dtype(value: object, path: str) -> None:
    """A leaf has a dtype that tensors have.

    Raises:
        DTypeError: it has not; `path` says which.
    """
    try:
        dtype_of(value)
    except DTypeError:
        raise DTypeError(
            f"{path} has dtype {np.asarray(value).dtype}, which tensors cannot have.",
            hint="convert it to bool, an integer, float32 or float64; a string or a function is "
            "passed as it is.",
        ) from None


def parameters(
    paths: Sequence[str], shapes: Sequence[Shape], dtypes: Sequence[DType], owner: str
) -> list[Tensor]:
    """Parameters for the leaves of a tree."""
    zipped = zip(paths, shapes, dtypes, strict=True)
    return [parameter(p, s, d, owner) for p, s, d in zipped]
