"""Arrays of a model: those in it, and those in files beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorad.errors import OnnxError
from tensorad.interop.onnx.structure import check_name
from tensorad.interop.onnx.values import Array, check_extents, dtype_of
from tensorad.ir.dtypes import BOOL, DType
from tensorad.topi.arguments import shown

_FIELDS: Final = {"float32": "float_data", "float64": "double_data", "int64": "int64_data"}


def array_of(proto: Any, what: str, folder: str | None) -> Array:
    """The array that a `TensorProto` holds, or names in a file.

    Args:
        what: how errors call it.
        folder: where files with its data may lie; None: nowhere.
    Raises:
        OnnxError: its type has no tensors here, its data do not fit its extents, or they lie in a
            file that was not asked for, or cannot be read.
    """
    try:
        dtype = dtype_of(proto.data_type)
    except OnnxError as error:
        raise OnnxError(
            f"{what}: {error.args[0].splitlines()[0]}", hint="convert it to float32 or int64."
        ) from error
    shape = tuple(proto.dims)
    check_extents(what, shape)
    if proto.HasField("segment"):
        raise OnnxError(f"{what} is a segment of a tensor, which is not imported.")
    count = prod(shape)
    if proto.data_location == 1:
        wanted = count * dtype.size_bytes
        return _of_bytes(_outside(proto, what, folder, wanted), dtype, shape, what)
    if proto.HasField("raw_data"):
        return _of_bytes(proto.raw_data, dtype, shape, what)
    field = getattr(proto, _FIELDS.get(str(dtype), "int32_data"))
    if len(field) != count:
        raise _miscounted(what, shape, count, len(field), "elements")
    values = np.array(field, np.float64 if dtype.is_float else np.int64)
    if (
        dtype.is_integer
        and count
        and not dtype.lowest <= values.min() <= values.max() <= dtype.highest
    ):
        raise OnnxError(f"{what} has a number that {dtype} does not hold.")
    return values.astype(str(dtype)).reshape(shape)


def _of_bytes(data: bytes, dtype: DType, shape: tuple[int, ...], what: str) -> Array:
    count = prod(shape)
    if len(data) != count * dtype.size_bytes:
        raise _miscounted(what, shape, count * dtype.size_bytes, len(data), "bytes")
    if dtype is BOOL:
        return np.asarray(np.frombuffer(data, np.uint8) != 0).reshape(shape)
    stored = np.dtype(str(dtype)).newbyteorder("<")
    return np.frombuffer(data, stored).astype(str(dtype)).reshape(shape)


def _miscounted(what: str, shape: tuple[int, ...], wanted: int, got: int, unit: str) -> OnnxError:
    return OnnxError(
        f"{what} of shape {shape} needs {wanted} {unit}, but has {got}.",
        hint="the file is damaged, or was cut off.",
    )


def _outside(proto: Any, what: str, folder: str | None, wanted: int) -> bytes:
    """The bytes of a tensor in a file beside the model, of which there have to be `wanted`."""
    told: Mapping[str, str] = {
        check_name(what, e.key): check_name(what, e.value) for e in proto.external_data
    }
    place = told.get("location", "")
    if folder is None:
        raise OnnxError(
            f"{what} lies in the file {shown(place)}, which was not asked for.",
            hint="tell the folder of such files: load(path, external_data=folder).",
        )
    start = _number(told, "offset", what) or 0
    root, parts = _inside(folder, place, what)
    path = os.path.normpath(os.path.join(root, *parts))
    try:
        with open(path, "rb", opener=lambda *_: _opened(root, parts)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OnnxError(f"{what} lies in {shown(place)}, which is no file.")
            length = _number(told, "length", what)
            length = status.st_size - start if length is None else length
            if start > status.st_size or length < 0 or start + length > status.st_size:
                raise OnnxError(
                    f"{what} is said to be bytes {start} to {start + length} of {shown(place)}, "
                    f"which has {status.st_size}.",
                    hint="the file is damaged, or another one.",
                )
            if length != wanted:
                raise _miscounted(what, tuple(proto.dims), wanted, length, "bytes")
            file.seek(start)
            return file.read(length)
    except (OSError, ValueError) as error:
        if isinstance(error, OnnxError):
            raise
        if isinstance(error, OSError):
            error.filename = path  # it was opened by the last part of it
        raise OnnxError(f"{what} cannot be read: {error}.") from error
    except MemoryError as error:
        raise OnnxError(f"there is no memory for {what}.") from error


def _opened(root: str, parts: Sequence[str]) -> int:
    """A file in a folder, by a path of which no part is a link by now.

    Each part is opened in the folder before it, so that no folder can be exchanged meanwhile;
    without waiting, should the file be a pipe.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


def _number(told: Mapping[str, str], key: str, what: str) -> int | None:
    """A number of bytes among the keys of external data; None if there is none."""
    text = told.get(key)
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OnnxError(f"{what}: {key} {shown(text)} of its file is no number of bytes.")
    return int(text)


def _inside(folder: str, place: str, what: str) -> tuple[str, list[str]]:
    """The folder, and the parts of a path in it; none of them is a link."""
    wrong = not place or os.path.isabs(place) or "\0" in place or "\\" in place
    if wrong or ".." in place.split("/"):
        raise OnnxError(
            f"{what} lies in the file {shown(place)}, which is not inside of the folder.",
            hint="external data are named by a path below the folder, without '..'.",
        )
    root = os.path.realpath(folder)
    path = os.path.normpath(os.path.join(root, place))
    if os.path.realpath(path) != path:
        raise OnnxError(
            f"{what} lies in the file {shown(place)}, which is a link, or behind one.",
            hint="put the file itself into the folder.",
        )
    return root, os.path.normpath(place).split(os.sep)
