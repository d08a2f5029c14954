"""Values of record types where a call begins and ends: into native memory, and out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tensorad.codegen.runtime.arena import Array, aligned, new_bytes
from tensorad.codegen.runtime.arguments import Parameter
from tensorad.codegen.runtime.record_layout import RecordLayout, alignment_of, layout_of
from tensorad.errors import BindError, DTypeError, LimitError, ShapeError
from tensorad.ir.analysis.sizes import bytes_text, shape_values
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, Variant, is_record
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.process import memo

Kind = tuple[RecordType, int]
"""A record type and the number of a variant."""
HANDLE: Final[np.dtype[Any]] = np.dtype(np.int64)
"""What the elements of a tensor of handles are in native memory: addresses."""


def native_dtype(dtype: DType) -> np.dtype[Any]:
    """The elements of a tensor as native code has them."""
    return HANDLE if is_record(dtype) else np.dtype(str(dtype))


class Stored(NamedTuple):
    """Records of one variant in a row."""

    first: int
    size_bytes: int
    records: Sequence[Record | None]
    root: Record | None = None
    """The first one, if it is None among the records."""

    @property
    def end(self) -> int:
        """Where the bytes of the last one end."""
        return self.first + len(self.records) * self.size_bytes

    def at(self, address: int) -> Record:
        """The record that lies there."""
        found = self.records[(address - self.first) // self.size_bytes] or self.root
        assert found is not None, "the first record is the root"
        return found


class Encoded(NamedTuple):
    """Records in native memory: the handles asked for, and where which records are."""

    handles: Array
    parts: tuple[Stored, ...]
    memory: Array


class RecordParameter(Parameter):
    """An argument that is a record, or an array of them."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.name = tensor.name
        self.dtype = HANDLE
        self.is_bool = False
        known = all(isinstance(n, int) for n in tensor.shape)
        self.shape = shape_values(tensor.shape, {}) if known else None

    def accepted(self, value: object) -> Array:
        """The records as an array of objects.

        Raises:
            DTypeError: one is no record of the tensor's type. ShapeError: the rank is wrong.
        """
        found = handle(value) if isinstance(value, Record) else value
        if not isinstance(found, np.ndarray) or found.dtype != object:
            raise self._no_record(value)
        for r in found.flat:
            if not isinstance(r, Record) or r.dtype is not self.tensor.dtype:
                raise self._no_record(r)
        if found.ndim != self.tensor.ndim:
            raise self._wrong_shape(found)
        return found

    def is_ready(self, array: Array) -> bool:
        """Whether native code can read the array as it is."""
        return False

    def fitted(self, array: Array) -> Array:
        """Itself: `encoded` says where records lie, once sizes are known."""
        return array

    def _no_record(self, value: object) -> DTypeError:
        return DTypeError(
            f"argument {self.name} must be a value of {self.tensor.dtype}, got "
            f"{value.dtype if isinstance(value, Record) else type(value).__name__}.",
            where=self.text,
            hint=f"pass a value of {self.tensor.dtype}.",
        )


def encoded(values: Array, sizes: Mapping[Expr, int], limit: int) -> Encoded:
    """Records, and all that they are made of, in native memory: each once.

    The memory of a single record whose arrays are all read-only is kept as long as the record.

    Raises:
        ShapeError, DTypeError: a value is none of its field. LimitError: it takes too much memory.
    """
    root = values.item() if values.ndim == 0 else None
    known = None if root is None else _kept.get(root)
    if root is not None and known is not None and known[0] == sizes:
        first, *others = known[1].parts
        return known[1]._replace(parts=(first._replace(root=root), *others))
    every = _reached(values.flat)
    made = _Encoding(sizes, limit).run(values, every)
    if root is not None and all(_is_fixed(r) for found in every.values() for r in found):
        first, *others = made.parts
        alone = first._replace(records=(None, *first.records[1:]))
        _kept[root] = (dict(sizes), made._replace(parts=(alone, *others)))
    return made


_kept: WeakKeyDictionary[Record, tuple[dict[Expr, int], Encoded]] = memo(WeakKeyDictionary())
"""By root, which what is kept of it does not hold."""


def _is_fixed(r: Record) -> bool:
    fields = zip(r.dtype.variants[r.tag].fields, r.values, strict=True)
    return not any(a.flags.writeable for f, a in fields if not is_record(f.dtype))


def _reached(roots: Iterable[Record]) -> dict[Kind, list[Record]]:
    """All records behind some, each once, by type and variant; the roots' come first."""
    found: dict[Kind, list[Record]] = {}
    children: dict[Kind, list[tuple[int, bool]]] = {}
    seen: set[int] = set()
    stack = list(roots)[::-1]
    while stack:
        r = stack.pop()
        if id(r) in seen:
            continue
        if type(r) is not Record:
            raise DTypeError(
                f"a field that is a record has {type(r).__name__}.",
                hint="pass values whose fields have their declared dtypes.",
            )
        seen.add(id(r))
        kind = (r.dtype, r.tag)
        if kind not in found:
            fields = r.dtype.variants[r.tag].fields
            children[kind] = [(k, not f.shape) for k, f in enumerate(fields) if is_record(f.dtype)]
            found[kind] = []
        found[kind].append(r)
        for k, single in children[kind]:
            stack.append(r.values[k].item()) if single else stack.extend(r.values[k].flat)
    return found


class _Encoding:
    """Records on their way into native memory."""

    def __init__(self, sizes: Mapping[Expr, int], limit: int) -> None:
        self.sizes = sizes
        self.limit = limit
        self.addresses: dict[int, int] = {}
        """By the number of the record's object."""

    def run(self, values: Array, every: Mapping[Kind, list[Record]]) -> Encoded:
        kinds = {kind: kind[0].variants[kind[1]] for kind in every}
        layouts = {kind: layout_of(v, self.sizes) for kind, v in kinds.items()}
        offsets: dict[Kind, int] = {}
        end = 0
        for kind, records in every.items():
            step = alignment_of(kinds[kind])
            offsets[kind] = -(-end // step) * step
            end = offsets[kind] + len(records) * layouts[kind].size_bytes
        if end > self.limit:
            raise LimitError(
                f"a value of {next(iter(every))[0]} takes {bytes_text(end)} together with all that "
                f"it is made of; the limit is {bytes_text(self.limit)}.",
                hint="use smaller values, or raise the limit with the environment variable "
                "TENSORAD_MAX_BYTES.",
            )
        memory = aligned(new_bytes(end), end)
        parts = []
        for kind, records in every.items():
            first, size = memory.ctypes.data + offsets[kind], layouts[kind].size_bytes
            places = range(first, first + len(records) * size, size)
            self.addresses.update(zip(map(id, records), places, strict=True))
            parts.append(Stored(first, size, records))
        for kind, records in every.items():
            self._store(kind[1], kinds[kind], layouts[kind], records, memory[offsets[kind] :])
        return Encoded(self._handles(values), tuple(parts), memory)

    def _handles(self, values: Array) -> Array:
        found = np.array([self.addresses[id(r)] for r in values.flat], np.int64)
        return found.reshape(values.shape)

    def _store(
        self, tag: int, variant: Variant, layout: RecordLayout, records: Sequence[Record],
        memory: Array,
    ) -> None:  # fmt: skip
        """All records of one variant, field by field."""
        count, size = len(records), layout.size_bytes

        def column(offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
            inner = np.ndarray(shape, dtype).strides
            place = memory[offset:]
            return np.ndarray((count, *shape), dtype, place.data, 0, (size, *inner))

        column(0, HANDLE, ())[...] = tag
        for k, (f, offset) in enumerate(zip(variant.fields, layout.offsets, strict=True)):
            shape = shape_values(f.shape, self.sizes)
            values = [r.values[k] for r in records]
            if is_record(f.dtype):
                found = self._children(variant, f, values, shape)
            else:
                found = _together(variant, f, values, shape)
            if found.size:
                column(offset, native_dtype(f.dtype), shape)[...] = found

    def _children(
        self, variant: Variant, f: Field, values: Sequence[Array], shape: tuple[int, ...]
    ) -> Array:
        """The handles in one field of several records."""
        _check_shapes(variant, f, values, shape)
        children = [r for v in values for r in v.flat] if shape else [v.item() for v in values]
        for dtype in {r.dtype for r in children} - {f.dtype}:
            raise _unfit(variant, f, f"a value of {dtype}")
        found = np.array([self.addresses[id(r)] for r in children], np.int64)
        return found.reshape(len(values), *shape)


def _together(variant: Variant, f: Field, values: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The values of one field of several records.

    Raises:
        ShapeError, DTypeError: a value is none of the field.
    """
    _check_shapes(variant, f, values, shape)
    found = np.array(values)
    target = native_dtype(f.dtype)
    if found.dtype.kind == "f" and f.dtype.is_float:
        return found  # what the interpreter has of any float
    if not np.can_cast(found.dtype, target, "same_kind"):
        raise _unfit(variant, f, f"{found.dtype} elements")
    made = found.astype(target)
    if made.dtype.kind in "iu" and not np.array_equal(made, found):
        raise _unfit(variant, f, f"{found.dtype} elements that do not fit")
    return made


def _check_shapes(
    variant: Variant, f: Field, values: Sequence[Array], shape: tuple[int, ...]
) -> None:
    wrong = next((v for v in values if np.shape(v) != shape), None)
    if wrong is not None:
        raise ShapeError(
            f"the field {f.name} of {variant.name} has the shape {np.shape(wrong)}, expected "
            f"{shape}.",
            where=_declared(variant, f),
            hint="pass values whose fields have their declared shapes.",
        )


def _declared(variant: Variant, f: Field) -> str:
    return f"{variant.name}.{f.name} : {f.dtype} {format_shape(f.shape)}"


def _unfit(variant: Variant, f: Field, what: str) -> DTypeError:
    return DTypeError(
        f"the field {f.name} of {variant.name} has {what}, expected {f.dtype}.",
        where=_declared(variant, f),
        hint="pass values whose fields have their declared dtypes.",
    )


def refuse_out(out: object, outputs: Sequence[Tensor]) -> None:
    """Results that are records are made by the call.

    Raises:
        BindError: they were to be stored somewhere.
    """
    records = [t for t in outputs if is_record(t.dtype)]
    if out is not None and records:
        raise BindError(
            f"out cannot take the result {records[0].name}, which is a value of "
            f"{records[0].dtype}.",
            hint="leave out= away: the result is made by the call.",
        )
