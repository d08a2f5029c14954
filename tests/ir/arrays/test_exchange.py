"""Calls take arrays of other libraries by what they offer."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DTypeError, ShapeError, UserError
from tensorad.ir.arrays.exchange import Owner, as_array, as_target, is_foreign
from tests.support.refusals import Refusals, check

X: Final = ta.placeholder((2, 3), "float64", name="X")
W: Final = ta.placeholder((3,), "float64", name="W")
f: Final = ta.build(ta.compute((2, 3), lambda i, j: X[i, j] * 2.0 + W[j], name="Y"), [X, W])
n: Final = ta.size("n")
P: Final = ta.placeholder((n,), "float64", name="P")
g: Final = ta.build(ta.compute((n,), lambda i: P[i] + n, name="Q"), [P])
x: Final = np.arange(6.0).reshape(2, 3)
w: Final = np.array([1.0, -1.0, 0.5])
WANTED: Final = x * 2.0 + w


class ByDLPack:
    """Offers an array by DLPack alone."""

    def __init__(self, own: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.own, self.device = own, device

    def __dlpack__(self, **asked: Any) -> Any:
        return self.own.__dlpack__(**{**asked, "dl_device": None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Older(ByDLPack):
    """As before version 1 of DLPack: nothing tells whether it may be written to."""

    def __dlpack__(self, stream: object = None) -> Any:
        return self.own.__dlpack__()


class OneCapsule(ByDLPack):
    """Hands out the same capsule each time."""

    def __init__(self, own: np.ndarray) -> None:
        super().__init__(own)
        self.capsule = own.__dlpack__()

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule


class ByInterface:
    """Offers memory as NumPy asks for it."""

    def __init__(self, own: np.ndarray) -> None:
        self.own, self.__array_interface__ = own, own.__array_interface__


class ByStruct:
    def __init__(self, own: np.ndarray) -> None:
        self.own, self.__array_struct__ = own, own.__array_struct__


class ByArray:
    """Gives copies."""

    def __init__(self, own: np.ndarray) -> None:
        self.own = own

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.own.copy()


def by_ctypes(own: np.ndarray) -> Any:
    rows, columns = own.shape
    return ((ctypes.c_double * columns) * rows).from_buffer(own)


PRODUCERS: Final[dict[str, Callable[[np.ndarray], Any]]] = {
    "DLPack": ByDLPack,
    "DLPack before version 1": Older,
    "the interface": ByInterface,
    "the struct": ByStruct,
    "buffer": memoryview,
    "ctypes": by_ctypes,
    "copies": ByArray,
}
SHARE: Final = [p for p in PRODUCERS if p != "copies"]


@pytest.mark.parametrize("kind", PRODUCERS)
def test_each_kind_is_read(kind: str) -> None:
    np.testing.assert_array_equal(f(PRODUCERS[kind](x.copy()), w), WANTED)
    np.testing.assert_array_equal(f(x, array.array("d", w)), WANTED)


@pytest.mark.parametrize("kind", SHARE)
def test_memory_is_shared(kind: str) -> None:
    own = x.copy()
    found = as_array(PRODUCERS[kind](own), Owner("it", "it"))
    assert np.shares_memory(found, own)
    assert found.shape == own.shape and found.dtype == own.dtype


@pytest.mark.parametrize("kind", [k for k in SHARE if k != "DLPack before version 1"])
def test_results_land_in_what_is_given(kind: str) -> None:
    own = np.zeros((2, 3))
    target = PRODUCERS[kind](own)
    assert f(x, w, out=target) is target
    np.testing.assert_array_equal(own, WANTED)
    own[:] = 0.0
    (one,) = [f(x, w, out=[target])]
    assert one is target
    np.testing.assert_array_equal(own, WANTED)


def test_views_with_gaps_are_read_and_written() -> None:
    wide = np.zeros((2, 6))
    wide[:, ::2] = x
    out = np.zeros((3, 4)).T[:2]
    f(ByDLPack(wide[:, ::2]), w, out=ByDLPack(out))
    np.testing.assert_array_equal(out, WANTED)
    np.testing.assert_array_equal(f(ByDLPack(x[::-1]), w), x[::-1] * 2.0 + w)
    np.testing.assert_array_equal(f(ByDLPack(np.broadcast_to(w, (2, 3))), w), [w * 3.0] * 2)
    np.testing.assert_array_equal(f(memoryview(x.astype(">f8")), w), WANTED)


def test_narrower_dtypes_are_converted_and_sizes_told() -> None:
    np.testing.assert_array_equal(f(ByDLPack(x.astype("float32")), w), WANTED)
    np.testing.assert_array_equal(g(array.array("d", [1.0, 2.0])), [3.0, 4.0])
    np.testing.assert_array_equal(g(memoryview(bytes([1, 2, 3]))), [4.0, 5.0, 6.0])
    np.testing.assert_array_equal(g(bytearray(b"\x01\x02")), [3.0, 4.0])


def test_functions_of_trees_take_them() -> None:
    @ta.function
    def total(tree: Any, scale: Any) -> Any:
        return tree["a"].sum() * scale + tree["b"][0]

    tree = {"a": ByDLPack(x), "b": array.array("d", w)}
    assert total(tree, memoryview(np.array(2.0))) == x.sum() * 2.0 + w[0]
    assert total(tree, 2.0) == x.sum() * 2.0 + w[0]
    by_a = ta.grad(total)({"a": ByStruct(x), "b": w}, 2.0)["a"]
    np.testing.assert_array_equal(by_a, np.full((2, 3), 2.0))
    kinds = ta.function(lambda a, kind: a * 2.0 if kind == b"two" else a)
    assert kinds(1.5, b"two") == 3.0  # bytes are static, as strings are


def test_what_is_no_array_of_others() -> None:
    for value in (np.ndarray, X, X[0, 0], x, np.float64(1), "text", 1.5, None, [1.0], lambda: 0):
        assert not is_foreign(value)
    assert as_target(3.0, Owner("out[0]", "out[0]")) is None
    assert as_target(ByArray(x), Owner("out[0]", "out[0]")) is None


REFUSED: Final = Refusals()
refused = REFUSED.refused
INPUT: Final = "  in: X : float64 (2, 3)"
OUTPUT: Final = "  in: output Y : float64 (2, 3)"


@refused(
    BindError,
    "argument X is on a device of CUDA; compiled functions run on the CPU.",
    INPUT,
    "  hint: copy it to memory of the CPU first.",
)
def on_another_device() -> None:
    f(ByDLPack(x, (2, 0)), w)


@refused(
    BindError,
    "out[0] is on a device of kind 99; compiled functions run on the CPU.",
    OUTPUT,
    "  hint: copy it to memory of the CPU first.",
)
def written_to_another_device() -> None:
    f(x, w, out=ByDLPack(x, (99, 0)))


@refused(
    BindError,
    "argument X is a OneCapsule that does not give its elements: PyCapsule_GetPointer called with "
    "incorrect name.",
    INPUT,
    "  hint: an array of NumPy is always taken; a __dlpack__ makes a new capsule in each call.",
)
def a_capsule_used_twice() -> None:
    once = OneCapsule(x)
    np.testing.assert_array_equal(f(once, w), WANTED)
    f(once, w)


@refused(
    BindError,
    "argument X is a capsule, which can be read once and tells no device.",
    INPUT,
    "  hint: pass the array that it was made of.",
)
def a_bare_capsule() -> None:
    f(x.__dlpack__(), w)


@refused(
    BindError,
    "out[0] is read-only.",
    OUTPUT,
    "  hint: pass an array that owns its data.",
)
def a_read_only_target() -> None:
    f(x, w, out=memoryview(bytes(48)).cast("d", (2, 3)))


@refused(
    BindError,
    "out[0] is read-only.",
    OUTPUT,
    "  hint: pass an array that owns its data.",
)
def a_target_that_does_not_say_whether_it_may_be_written_to() -> None:
    class OnlyRead(ByDLPack):
        def __dlpack__(self, **asked: Any) -> Any:
            self.own.flags.writeable = False
            return super().__dlpack__(**asked)

    f(x, w, out=OnlyRead(np.zeros((2, 3))))


@refused(
    BindError,
    "out[0] must be a NumPy array, got ByArray.",
    OUTPUT,
    "  hint: pass np.empty((2, 3), 'float64').",
)
def a_target_that_gives_copies() -> None:
    f(x, w, out=ByArray(np.zeros((2, 3))))


@refused(
    BindError,
    "out[0] overlaps argument X in memory.",
    "  hint: pass separate arrays: inputs are still read while outputs are written.",
)
def a_target_that_is_read() -> None:
    own = x.copy()
    f(ByDLPack(own), w, out=ByInterface(own))


@refused(
    DTypeError,
    "out[0] has dtype float32, expected float64.",
    OUTPUT,
    "  hint: pass np.empty((2, 3), 'float64').",
)
def a_target_of_another_dtype() -> None:
    f(x, w, out=ByDLPack(np.zeros((2, 3), "float32")))


@refused(
    DTypeError,
    "argument X has dtype float16: there is no half-precision arithmetic.",
    INPUT,
    "  hint: convert it to float32 first.",
)
def half_precision() -> None:
    f(ByDLPack(x.astype("float16")), w)


@refused(
    DTypeError,
    "argument X has dtype bfloat16: there is no half-precision arithmetic.",
    INPUT,
    "  hint: convert it to float32 first.",
)
def brain_floats() -> None:
    class Brain:
        dtype = "their.bfloat16"

        def __dlpack__(self, **asked: Any) -> Any:
            raise BufferError("no such dtype")

    f(Brain(), w)


@refused(
    DTypeError,
    "argument X has dtype float8_e5m2, which NumPy does not have.",
    INPUT,
    "  hint: convert it first, e.g. to float32.",
)
def a_dtype_of_others() -> None:
    class Eighth:
        dtype = "float8_e5m2"

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("no such scalar")

    f(Eighth(), w)


@refused(
    DTypeError,
    "argument X has dtype complex128, which float64 cannot hold exactly.",
    INPUT,
    "  hint: convert it first if that is meant: x.astype('float64').",
)
def complex_numbers() -> None:
    f(ByDLPack(x + 1j), w)


@refused(
    ShapeError,
    "argument W has shape (2, 3), expected (3,).",
    "  in: W : float64 (3,)",
    "  hint: pass an array of this shape; nothing is broadcast.",
)
def another_shape() -> None:
    f(x, ByDLPack(x))


@refused(
    BindError,
    "argument X is a Broken that does not give its elements: not today.",
    INPUT,
    "  hint: an array of NumPy is always taken; a __dlpack__ makes a new capsule in each call.",
)
def one_that_fails() -> None:
    f(Broken(), w)


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("not today.\nPerhaps tomorrow.")


@refused(
    BindError,
    "argument W is a Broken that does not give its elements: not today.",
    "  in: W : float64 (3,)",
    "  hint: an array of NumPy is always taken; a __dlpack__ makes a new capsule in each call.",
)
def one_that_fails_in_a_list() -> None:
    f(x, [1.0, Broken(), 2.0])


@refused(
    BindError,
    "tree['w'] is a Broken that does not give its elements: not today.",
    "  in: tests.Broken",
    "  hint: an array of NumPy is always taken; a __dlpack__ makes a new capsule in each call.",
)
def one_that_fails_in_a_tree() -> None:
    ta.function(lambda tree: tree["w"])({"w": Broken()})


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Any) -> None:
    check(case)


def test_nothing_is_written_where_one_does_not_fit() -> None:
    out = np.full((2, 3), 7.0)
    for act in (
        lambda: f(ByDLPack(x, (2, 0)), w, out=ByDLPack(out)),
        lambda: f(x, Broken(), out=out),
        lambda: f(X=x, out=ByStruct(out)),
    ):
        with pytest.raises(UserError):
            act()
    assert (out == 7.0).all()
