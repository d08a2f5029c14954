"""What producers of arrays say that is nonsense: an error in words, and nothing is read there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import UserError
from tensorad.ir.arrays.addresses import check_place

X: Final = ta.placeholder((3,), "float64", name="X")
f: Final = ta.build(X * 2.0, [X])
twice: Final = ta.function(lambda a: a * 2.0)
x: Final = np.arange(3.0)
HERE: Final = x.__array_interface__["data"][0]
WAYS: Final[dict[str, Callable[[Any], Any]]] = {
    "an argument": f,
    "a tree": lambda value: twice({"a": value}["a"]),
    "a target": lambda value: f(x, out=value),
    "in a list": lambda value: f([value, value, value]),
    "deep in lists": lambda value: f([1.0, [value], 2.0]),
}
ERRORS: Final = (
    AttributeError, KeyError, RuntimeError, BufferError, ValueError, TypeError, OSError, Exception,
    ZeroDivisionError, NotImplementedError, ImportError, AssertionError, StopIteration,
    RecursionError, EOFError, SystemError,
)  # fmt: skip


def with_members(**members: Any) -> Any:
    """An object of a class that has these."""
    return type("Producer", (), members)()


def raising(error: type[BaseException]) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error("not today")

    return fails


FAILING: Final[dict[str, Callable[[Callable[..., Any]], Any]]] = {
    "__dlpack__": lambda fails: with_members(__dlpack__=fails),
    "__array__": lambda fails: with_members(__array__=fails),
    "all attributes": lambda fails: with_members(__getattr__=fails),
    **{
        f"the attribute {name}": lambda fails, name=name: with_members(**{name: property(fails)})
        for name in ("__dlpack__", "__array__", "__array_interface__", "__array_struct__")
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", FAILING)
def test_producers_that_fail(where: str, way: str) -> None:
    for error in ERRORS:
        with pytest.raises(UserError):
            WAYS[way](FAILING[where](raising(error)))
    with pytest.raises(UserError if way == "a target" and where == "__array__" else MemoryError):
        WAYS[way](FAILING[where](raising(MemoryError)))


def test_a_dtype_that_fails_is_put_into_words() -> None:
    value = with_members(__array__=raising(OSError), dtype=property(raising(KeyError)))
    with pytest.raises(UserError, match="is a Producer that does not give its elements: not today"):
        f(value)


def by_interface(**changed: Any) -> Any:
    own = {**x.__array_interface__, **changed}
    return with_members(__array_interface__={k: v for k, v in own.items() if v is not Ellipsis})


class Description(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


def by_dlpack(shape: Sequence[int] | None = (3,), strides: Sequence[int] | None = None,
              name: bytes = b"dltensor", **changed: Any) -> Any:  # fmt: skip
    """A producer of DLPack whose description is written by hand."""
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = (
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ctypes.py_object,
    )
    arrays = [None if n is None else (ctypes.c_int64 * len(n))(*n) for n in (shape, strides)]
    own = {"data": HERE, "ndim": 1 if shape is None else len(shape), "code": 2, "bits": 64}
    t = Description(device=(1, 0), **{**own, "lanes": 1, **changed})
    for field, array in zip(("shape", "strides"), arrays, strict=True):
        if array is not None:
            setattr(t, field, ctypes.cast(array, ctypes.POINTER(ctypes.c_int64)))
    capsule = new(ctypes.addressof(t), name, None)
    made = with_members(__dlpack__=lambda _, **__: capsule, __dlpack_device__=lambda _: (1, 0))
    made.kept = t, arrays, name
    return made


NONSENSE: Final[dict[str, Callable[[], Any]]] = {
    "a negative extent": lambda: by_interface(shape=(-3,)),
    "a huge extent": lambda: by_interface(shape=(2**62,)),
    "extents whose product overflows": lambda: by_interface(shape=(2**31, 2**31, 2**31)),
    "a null pointer": lambda: by_interface(data=(0, False)),
    "a negative pointer": lambda: by_interface(data=(-8, False)),
    "a pointer that is none": lambda: by_interface(data=(2**70, False)),
    "data that are text": lambda: by_interface(data="abc"),
    "huge steps": lambda: by_interface(strides=(2**62,)),
    "steps below zero": lambda: by_interface(strides=(-HERE,)),
    "more steps than axes": lambda: by_interface(strides=(8, 8)),
    "objects": lambda: by_interface(typestr="|O8"),
    "no such type": lambda: by_interface(typestr="zz"),
    "a type that is a number": lambda: by_interface(typestr=5),
    "no shape": lambda: by_interface(shape=...),
    "no type": lambda: by_interface(typestr=...),
    "a shape that is text": lambda: by_interface(shape="abc"),
    "a hundred axes": lambda: by_interface(shape=(1,) * 100),
    "an interface that is a number": lambda: with_members(__array_interface__=5),
    "a struct that is text": lambda: with_members(__array_struct__="x"),
    "an array that is a list": lambda: with_members(__array__=lambda *_, **__: [1.0]),
    "a capsule that is None": lambda: with_members(__dlpack__=lambda *_, **__: None),
    "a method that is a number": lambda: with_members(__dlpack__=5),
    "DLPack: a null pointer": lambda: by_dlpack(data=0),
    "DLPack: a null pointer and an offset": lambda: by_dlpack(data=0, offset=64),
    "DLPack: no extents": lambda: by_dlpack(shape=None),
    "DLPack: a negative extent": lambda: by_dlpack((-3,)),
    "DLPack: a huge extent": lambda: by_dlpack((2**62,)),
    "DLPack: extents whose product overflows": lambda: by_dlpack((2**31, 2**31, 2**31)),
    "DLPack: huge steps": lambda: by_dlpack(strides=(2**60,)),
    "DLPack: steps that overflow": lambda: by_dlpack(strides=(2**61,)),
    "DLPack: negative axes": lambda: by_dlpack(ndim=-1),
    "DLPack: a hundred axes": lambda: by_dlpack((1,) * 100),
    "DLPack: 7 bits": lambda: by_dlpack(bits=7),
    "DLPack: no such kind": lambda: by_dlpack(code=99),
    "DLPack: lanes": lambda: by_dlpack(lanes=4),
    "DLPack: another capsule": lambda: by_dlpack(name=b"other"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense(kind: str, way: str) -> None:
    with pytest.raises(UserError):
        WAYS[way](NONSENSE[kind]())


def test_what_is_said_of_it() -> None:
    for value, text in (
        (by_dlpack(data=0), "its elements are at a null pointer"),
        (by_dlpack(shape=None), "it says that it has 1 axes, and no extents of these"),
        (by_interface(strides=(2**62,)), "its elements are at addresses that no process has"),
        (by_interface(typestr="|O8"), "its elements are references to objects of Python"),
    ):
        with pytest.raises(UserError) as refused:
            f(value)
        assert f"does not give its elements: {text}" in str(refused.value)


def test_the_last_element_lies_inside_as_a_whole() -> None:
    """Its first byte may be the last address, or the first that there is not."""
    end = 1 << 56
    for address, shape, steps, item in (
        (end - 16, (3,), (8,), 8),
        (end - 23, (3,), (8,), 8),
        (end - 8, (3,), (-8,), 9),
        (end - 1, (), (), 2),
        (end - 28, (2, 2), (16, 8), 8),
    ):
        with pytest.raises(BufferError, match="at addresses that no process has"):
            check_place(address, shape, steps, item)
        beyond = address + sum([(n - 1) * s for n, s in zip(shape, steps) if s > 0]) + item - end
        check_place(address - beyond, shape, steps, item)
    for value in (by_interface(data=(end - 16, False)), by_dlpack(data=end - 16)):
        with pytest.raises(UserError, match="at addresses that no process has"):
            f(value)


def test_what_makes_sense_is_read() -> None:
    for act in (f, twice):
        for made in (
            by_dlpack(),
            by_dlpack(strides=(1,)),
            by_interface(),
            by_interface(strides=(8,)),
        ):
            np.testing.assert_array_equal(act(made), x * 2.0)
    np.testing.assert_array_equal(f(by_dlpack(strides=(-1,), data=HERE + 16)), x[::-1] * 2.0)
    np.testing.assert_array_equal(twice(by_dlpack((0,), data=0)), [])
    np.testing.assert_array_equal(f([1.0, np.float64(2.0), with_members(
        __array__=lambda *_, **__: np.array(3.0))]), [2.0, 4.0, 6.0])  # fmt: skip
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(UserError, match="nest lists to one rectangular shape"):
        f(nested)
