"""The arguments of a call: dtypes, shapes and sizes checked, arrays made fit for native code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tensorad.codegen.entry.checks_ir import ARRAY_DATA, READY
from tensorad.codegen.runtime.arena import Array
from tensorad.errors import BindError, DTypeError, ShapeError, UserError, counted
from tensorad.ir.analysis.sizes import shape_values, size_value
from tensorad.ir.arrays.exchange import Owner, as_array, as_target, is_foreign, with_items
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Expr, Size, int_const
from tensorad.ir.tensor import Tensor, dim_expr, format_shape
from tensorad.ir.visit import postorder, substitute
from tensorad.simplify.index.linear import linear_form

_KINDS: Final = {"b": 0, "u": 1, "i": 1, "f": 2}


def _by_layout(arrays: Iterable[Array]) -> list[int]:
    """The data pointers, read from the array objects (10 times faster than asking them)."""
    return [word_at(id(a) + ARRAY_DATA).value for a in arrays]


def _by_interface(arrays: Iterable[Array]) -> list[int]:
    return [int(a.__array_interface__["data"][0]) for a in arrays]


@cache
def layout_matches() -> bool:
    """Whether array objects look in memory as `ARRAY_DATA` says."""
    probe = np.arange(7.0)[3:]
    return _by_layout([probe]) == _by_interface([probe])


word_at: Final = ctypes.c_ssize_t.from_address
addresses_of: Final = _by_layout if layout_matches() else _by_interface


class Parameter:
    """One argument of a compiled function: what may be passed for a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.name = tensor.name
        self.dtype: np.dtype[Any] = np.dtype(str(tensor.dtype))
        self.is_bool = tensor.dtype is BOOL
        known = all(isinstance(n, int) for n in tensor.shape)
        self.shape = shape_values(tensor.shape, {}) if known else None
        """The shape when it is made of numbers alone."""

    @property
    def _owner(self) -> Owner:
        return Owner(f"argument {self.name}", self.name, self.text)

    @property
    def text(self) -> str:
        """How errors show the parameter."""
        return f"{self.name} : {self.tensor.dtype} {format_shape(self.tensor.shape)}"

    def convert(self, value: object) -> Array:
        """An array of the right dtype and rank that native code can read; copies if it must.

        Raises:
            DTypeError: the conversion would lose information, or it is no array.
            ShapeError: the rank is wrong.
        """
        return self.fitted(self.accepted(value))

    def accepted(self, value: object) -> Array:
        """An argument as an array of the right rank that `fitted` can make ready.

        Raises:
            DTypeError, BindError, ShapeError: see `convert`.
        """
        array = self._as_array(value)
        if array.ndim != self.tensor.ndim:
            raise self._wrong_shape(array)
        return array

    def is_ready(self, array: Array) -> bool:
        """Whether native code can read an array as it is, if its flags are all 0 or 1."""
        return array.dtype == self.dtype and array.flags.num & READY == READY

    def fitted(self, array: Array) -> Array:
        """An accepted array that native code can read; copies if it must."""
        if array.dtype != self.dtype:  # by the order of its bytes, too
            array = array.astype(self.dtype)
        if array.flags.num & READY != READY:
            array = array.copy(order="C")
        if self.is_bool and array.size and array.view(np.uint8).max() > 1:
            array = array.view(np.uint8) != 0
        return array

    def _as_array(self, value: object) -> Array:
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if isinstance(value, np.ma.MaskedArray):
                raise self._not_an_array(value, "its mask would be lost: pass x.filled(value)")
            if not np.can_cast(array.dtype, self.dtype, "safe"):
                raise self._lossy(array.dtype)
            return array
        if isinstance(value, (bool, int, float, list, tuple)):
            return self._from_numbers(value)
        if is_foreign(value):
            return self._as_array(as_array(value, self._owner))
        raise self._not_an_array(value, f"pass a NumPy array, e.g. np.asarray(x, '{self.dtype}')")

    def _from_numbers(self, value: object) -> Array:
        """Python numbers are weak: they take the parameter's dtype unless they do not fit."""
        try:
            found = np.asarray(with_items(value, self._owner))
        except UserError:
            raise
        except (ValueError, OverflowError, TypeError, RuntimeError) as error:
            raise self._not_an_array(value, "nest lists to one rectangular shape") from error
        if found.size == 0:
            return found.astype(self.dtype)
        if found.dtype.kind not in _KINDS:
            raise self._lossy(found.dtype)
        if _KINDS[found.dtype.kind] > _KINDS[self.dtype.kind]:
            raise self._lossy(found.dtype)
        array = found.astype(self.dtype)
        if self.dtype.kind in "iu" and not (array == found).all():
            raise self._lossy(found.dtype)
        return array

    def _not_an_array(self, value: object, hint: str) -> UserError:
        return BindError(
            f"argument {self.name} must be an array, got {type(value).__name__}.",
            where=self.text,
            hint=f"{hint}.",
        )

    def _lossy(self, dtype: np.dtype[Any]) -> UserError:
        name = dtype.name if dtype.kind in "biufc" else str(dtype)
        return DTypeError(
            f"argument {self.name} has dtype {name}, which {self.dtype} cannot hold exactly.",
            where=self.text,
            hint=f"convert it first if that is meant: x.astype('{self.dtype}').",
        )

    def _wrong_shape(self, array: Array) -> UserError:
        return ShapeError(
            f"argument {self.name} has shape {array.shape}, expected "
            f"{format_shape(self.tensor.shape)}.",
            where=self.text,
            hint="pass an array of this shape; nothing is broadcast.",
        )

    def check_shape(self, array: Array, sizes: Mapping[Expr, int]) -> None:
        """The shape is the declared one under these sizes.

        Raises:
            ShapeError: it is not.
        """
        expected = shape_values(self.tensor.shape, sizes)
        if array.shape == expected:
            return
        fixed = [isinstance(n, int) and n != m for n, m in zip(self.tensor.shape, array.shape)]
        if self.shape is not None or any(fixed):
            raise self._wrong_shape(array)
        used = [s for s in sizes if isinstance(s, Size) and self.mentions(s)]
        values = ", ".join([f"{s.name} = {sizes[s]}" for s in used])
        raise ShapeError(
            f"argument {self.name} has shape {array.shape}, but {values} "
            f"make{'s' if len(used) == 1 else ''} it {expected}.",
            where=self.text,
            hint="arrays that share a symbolic size must agree on it.",
        )

    def mentions(self, s: Size) -> bool:
        """Whether the shape depends on a size."""
        return any(e is s for n in self.tensor.shape for e in postorder(dim_expr(n)))


class SizeBinding:
    """Finds the symbolic sizes from array shapes and keywords."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        tensors: Sequence[Tensor],
        others: Sequence[Size] = (),
    ) -> None:
        """`tensors`: all whose shapes must be known; `others`: sizes that formulas use."""
        self._parameters = parameters
        found = {s: None for t in tensors for s in sizes_of(t)} | dict.fromkeys(others)
        self.sizes: tuple[Size, ...] = tuple(sorted(found, key=lambda s: s.name))
        self._by_name = {s.name: s for s in self.sizes}

    def bind(self, arrays: Sequence[Array], given: Mapping[str, object]) -> dict[Expr, int]:
        """The number of every size.

        Raises:
            BindError: a keyword is unknown, or a size is not known.
            ShapeError: shapes disagree.
        """
        sizes: dict[Expr, int] = {}
        for name, value in given.items():
            sizes[self._known(name)] = size_number(name, value)
        for p, a in zip(self._parameters, arrays, strict=True):
            for extent, n in zip(p.tensor.shape, a.shape, strict=True):
                if isinstance(extent, Size):
                    sizes.setdefault(extent, n)
        self._solve(arrays, sizes)
        missing = [s for s in self.sizes if s not in sizes]
        if missing:
            name = missing[0].name
            raise BindError(
                f"size {name} is not determined by the shapes of the arguments.",
                hint=f"pass it as a keyword: f(..., {name}=8).",
            )
        for p, a in zip(self._parameters, arrays, strict=True):
            p.check_shape(a, sizes)
        return sizes

    def _known(self, name: str) -> Size:
        found = self._by_name.get(name)
        if found is not None:
            return found
        known = ", ".join(self._by_name) or "none"
        raise BindError(
            f"unknown keyword argument {name!r}.",
            hint=f"keywords are `out` and the symbolic sizes of the function ({known}).",
        )

    def _solve(self, arrays: Sequence[Array], sizes: dict[Expr, int]) -> None:
        """Extents that are linear in one unknown size give that size, until no more do.

        Raises:
            ShapeError: an extent is the array's for no such size.
        """
        before = -1
        while before < len(sizes) and any(s not in sizes for s in self.sizes):
            before = len(sizes)
            for p, a in zip(self._parameters, arrays, strict=True):
                for extent, n in zip(p.tensor.shape, a.shape, strict=True):
                    form = None if isinstance(extent, int) else _linear_in_one(extent, sizes)
                    if form is not None:
                        s, factor, known = form
                        sizes[s], rest = divmod(n - known, factor)
                        if rest or sizes[s] < 0:
                            raise _unsolvable(p, a, s)


def size_number(name: str, value: object) -> int:
    """The number given for a symbolic size.

    Raises:
        BindError: it is no integer from 0 on.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise BindError(
            f"size {name} must be an integer, got {type(value).__name__}.",
            hint=f"pass it as {name}=8.",
        )
    if value < 0:
        raise BindError(
            f"size {name} must be at least 0, got {value}.", hint="0 gives empty arrays."
        )
    return int(value)


def _linear_in_one(extent: Expr, sizes: Mapping[Expr, int]) -> tuple[Size, int, int] | None:
    """(s, factor, known) of an extent factor * s + known with s its only unknown size."""
    unknown = [e for e in postorder(extent) if isinstance(e, Size) and e not in sizes]
    if len(unknown) != 1:
        return None
    (s,) = unknown
    form = linear_form(substitute(extent, {e: int_const(n) for e, n in sizes.items()}))
    factor = form.terms.pop(s, 0)
    if not factor or any(s is e for leaf in form.terms for e in postorder(leaf)):
        return None
    return s, factor, form.constant + sum(c * size_value(e, {}) for e, c in form.terms.items())


def _unsolvable(p: Parameter, array: Array, s: Size) -> UserError:
    return ShapeError(
        f"argument {p.name} has shape {array.shape}, which no {s.name} >= 0 gives.",
        where=p.text,
        hint="pass an array of that form.",
    )


def sizes_of(t: Tensor) -> list[Size]:
    """The symbolic sizes in a tensor's shape."""
    found = [e for n in t.shape for e in postorder(dim_expr(n)) if isinstance(e, Size)]
    return list(dict.fromkeys(found))


def listed(out: object) -> list[Any]:
    """What is given with `out=`, one by one."""
    return list(out) if isinstance(out, (list, tuple)) else [out]


def given_outputs(
    function: str,
    tensors: Sequence[Tensor],
    out: object,
    shapes: Sequence[tuple[int, ...]],
    inputs: Sequence[tuple[str, Array]],
) -> list[Array]:
    """Arrays given with `out=` that may receive the outputs.

    Args:
        function: whose, for errors.
        inputs: arrays that are read, with what errors call them.
    Raises:
        BindError, DTypeError, ShapeError: they are too few or too many, one does not fit, or shares
            memory with another one or with an input.
    """
    given = listed(out)
    if len(given) != len(tensors):
        got = f"{len(given)}" if isinstance(out, (list, tuple)) else type(out).__name__
        raise BindError(
            f"out needs {counted(len(tensors), 'array')}, got {got}.",
            where=function,
            hint="pass a list with one array per output.",
        )
    triples = enumerate(zip(tensors, given, shapes, strict=True))
    arrays = [check_output(t, n, a, s) for n, (t, a, s) in triples]
    check_overlap([(f"out[{n}]", a) for n, a in enumerate(arrays)], inputs)
    return arrays


def check_output(t: Tensor, number: int, array: object, shape: tuple[int, ...]) -> Array:
    """An array given with `out=` that may receive output `number`.

    Raises:
        BindError: it cannot be written to.
        DTypeError: its dtype is another one.
        ShapeError: its shape is another one.
    """
    where = f"output {t.name} : {t.dtype} {format_shape(t.shape)}"
    name = f"out[{number}]"
    given, array = array, as_target(array, Owner(name, name, where))
    if array is None:
        raise BindError(
            f"out[{number}] must be a NumPy array, got {type(given).__name__}.",
            where=where,
            hint=f"pass np.empty({shape}, '{t.dtype}').",
        )
    if array.dtype != np.dtype(str(t.dtype)):
        turned = "" if array.dtype.isnative else " in another byte order"
        raise DTypeError(
            f"out[{number}] has dtype {array.dtype.name}{turned}, expected {t.dtype}.",
            where=where,
            hint=f"pass np.empty({shape}, '{t.dtype}').",
        )
    if array.shape != shape:
        raise ShapeError(
            f"out[{number}] has shape {array.shape}, expected {shape}.",
            where=where,
            hint=f"pass np.empty({shape}, '{t.dtype}').",
        )
    if not array.flags.writeable:
        raise BindError(
            f"out[{number}] is read-only.", where=where, hint="pass an array that owns its data."
        )
    if _overlaps_itself(array):
        raise BindError(
            f"out[{number}] overlaps itself: several of its elements share memory.",
            where=where,
            hint="pass an ordinary array, not a broadcast or overlapping view.",
        )
    return array


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may lie at one place, judged by extents and strides."""
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    reach = array.itemsize
    for stride, n in sorted(axes):
        if stride < reach:
            return array.size > 0
        reach += stride * (n - 1)
    return False


def are_disjoint(begins: Sequence[int], ends: Sequence[int], first: int) -> bool:
    """Whether the byte ranges from number `first` on lie apart from all before them."""
    for n in range(first, len(begins)):
        begin, end = begins[n], ends[n]
        for k in range(n):
            if begins[k] < end and begin < ends[k]:
                return False
    return True


def check_overlap(
    outputs: Sequence[tuple[str, Array]], inputs: Sequence[tuple[str, Array]]
) -> None:
    """No output shares memory with an input or another output.

    Raises:
        BindError: two of them do.
    """
    for number, (name, array) in enumerate(outputs):
        for other_name, other in (*inputs, *outputs[:number]):
            if shares_memory(array, other):
                raise BindError(
                    f"{name} overlaps {other_name} in memory.",
                    hint="pass separate arrays: inputs are still read while outputs are written.",
                )


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have a byte in common; undecided within small effort counts as yes."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # any effort
    except np.exceptions.TooHardError:
        return True
