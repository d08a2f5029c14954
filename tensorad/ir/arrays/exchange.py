"""Arrays of other libraries as NumPy's, on the memory that they have, by what they offer.

DLPack (`__dlpack__`), what NumPy asks for (`__array_interface__`, `__array_struct__`, `__array__`)
and the buffer protocol. No library is imported: what a tensor is is read off its class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.errors import BindError, DTypeError, UserError
from tensorad.ir.arrays.addresses import Described, checked_place
from tensorad.ir.node import Node

Array = np.ndarray[Any, np.dtype[Any]]
_NUMBERS: Final = frozenset((bool, int, float))
_SHARED: Final = ("__array_interface__", "__array_struct__")
"""Attributes by which NumPy shares memory."""
_HALF: Final = ("float16", "bfloat16")
_ON_CPU: Final = (1, 3, 11, 13)
"""Kinds of devices whose memory the processor reads: itself, pinned and managed memory."""
_DEVICES: Final = {
    2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 14: "oneAPI",
    15: "WebGPU", 16: "Hexagon", 17: "MAIA",
}  # fmt: skip
_IN_PLACE: Final[dict[str, Any]] = (
    {"copy": False} if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}
)


class Owner(NamedTuple):
    """Whose an array is, for errors.

    Attributes:
        what: "argument X"; `name`: how its user writes it.
    """

    what: str
    name: str
    where: str | None = None


class _State(NamedTuple):
    """What keeps a tensor from being an array; words may use what, name, value and kind."""

    holds: Callable[[Any], bool]
    text: str
    hint: str


_OF_TORCH: Final = "make an operator of PyTorch, tensorad.interop.torch.op(outputs, inputs, name)"


def _stands_for_others(t: Any) -> bool:
    """Whether operations on a tensor of PyTorch are something else than work on its memory."""
    base: Any = next(c for c in type(t).__mro__ if _is_called(c, "torch", "Tensor"))
    own: Any = type(t)
    return own.__torch_dispatch__ is not base.__torch_dispatch__


def _has_tangent(t: Any) -> bool:
    forward = sys.modules.get("torch.autograd.forward_ad")
    return forward is not None and forward.unpack_dual(t).tangent is not None


_STATES: Final[dict[tuple[str, str], Sequence[_State]]] = {
    ("torch", "Tensor"): (
        _State(
            lambda t: t.is_nested,
            "{what} is a nested tensor, whose rows are of several lengths.",
            "pad it: torch.nested.to_padded_tensor({name}, 0.0).",
        ),
        _State(
            _stands_for_others,
            "{what} is a {kind}, which has no elements of its own.",
            _OF_TORCH + ": traces of PyTorch know it.",
        ),
        _State(
            lambda t: t.device.type == "meta",
            "{what} is on the device meta: it has a shape, but no elements.",
            "pass a tensor that has some, on the CPU.",
        ),
        _State(
            lambda t: t.device.type != "cpu",
            "{what} is on the device {value.device}; compiled functions run on the CPU.",
            "copy it: {name}.cpu().",
        ),
        _State(
            lambda t: str(t.layout) != "torch.strided",
            "{what} has the layout {value.layout}, which arrays do not have.",
            "pass {name}.to_dense().",
        ),
        _State(
            lambda t: t.is_quantized,
            "{what} is quantised: its elements are {value.dtype}.",
            "pass {name}.dequantize().",
        ),
        _State(
            lambda t: t.requires_grad,
            "{what} requires a gradient, which a call of a compiled function does not record.",
            _OF_TORCH + "; for the values alone pass {name}.detach().",
        ),
        _State(
            _has_tangent,
            "{what} has a tangent, which a call of a compiled function does not pass on.",
            _OF_TORCH + ".",
        ),
    ),
    ("jax", "Tracer"): (
        _State(
            lambda t: True,
            "{what} is traced by JAX ({kind}): it has no elements yet.",
            "make an operator of JAX, tensorad.interop.jax.op(outputs, inputs, name), or call "
            "the compiled function outside of jit, grad and vmap.",
        ),
    ),
    ("builtins", "PyCapsule"): (
        _State(
            lambda t: True,
            "{what} is a capsule, which can be read once and tells no device.",
            "pass the array that it was made of.",
        ),
    ),
}
"""By the class that a tensor is of, or that its class is derived from."""


def _is_called(c: type, package: str, name: str) -> bool:
    return c.__name__ == name and c.__module__.partition(".")[0] == package


def _states(value: object) -> Sequence[_State]:
    for (package, name), states in _STATES.items():
        if any(_is_called(c, package, name) for c in type(value).__mro__):
            return states
    return ()


def _asked(what: Callable[..., Any], *given: Any) -> tuple[Any, Exception | None]:
    """What the code of another library returns, or what it raises.

    Memory that ran out and errors of tensorad pass as they are.
    """
    try:
        return what(*given), None
    except BaseException as error:  # it may raise anything, which is put into words
        if isinstance(error, (MemoryError, UserError)) or not isinstance(error, Exception):
            raise
        return None, error


def _offers(value: object, name: str) -> bool:
    """Whether there is an attribute, or one that fails when it is looked at."""
    _, error = _asked(getattr, value, name)
    return not isinstance(error, AttributeError)


def is_foreign(value: object) -> bool:
    """Whether it is an array that NumPy has not made: it offers its elements, or is known by its
    class."""
    if isinstance(value, (type, Node, np.ndarray, np.generic)):
        return False
    offers = any(_offers(value, n) for n in ("__dlpack__", "__array__", *_SHARED))
    return offers or bool(_states(value)) or _has_buffer(value)


def _has_buffer(value: object) -> bool:
    try:
        memoryview(value)  # type: ignore[arg-type]  # whether it has one is what is asked
    except TypeError:
        return False
    except (BufferError, ValueError):  # it has one, and does not give it
        return True
    return True


def as_array(value: Any, owner: Owner) -> Array:
    """The elements of a foreign array, where they lie if the library has a way to say so.

    Raises:
        BindError: they lie on another device, or cannot be had; the tensor carries a derivative.
        DTypeError: there are no elements of such a dtype.
    """
    _check_state(value, owner)
    array: Array = _imported(_resolved(value), owner)
    name = _dtype_name(value) or array.dtype.name
    if name in _HALF or array.dtype.name in _HALF:
        raise _half(name, owner)
    return array


def with_items(values: Any, owner: Owner) -> Any:
    """Nested lists, in which foreign arrays are NumPy's.

    Raises:
        BindError, DTypeError: as for `as_array`, of the first one that cannot be read.
        RecursionError: a list contains itself.
    """
    if isinstance(values, (list, tuple)):
        if _NUMBERS.issuperset(map(type, values)):
            return values
        return [with_items(v, owner) for v in values]
    is_array = not isinstance(values, (str, bytes)) and is_foreign(values)
    return as_array(values, owner) if is_array else values


def _resolved(value: Any) -> Any:
    """A tensor of PyTorch whose elements are those in memory: none is negated or conjugated."""
    if _states(value) is not _STATES["torch", "Tensor"]:
        return value
    if value.is_conj():
        value = value.resolve_conj()
    return value.resolve_neg() if value.is_neg() else value


def _imported(value: Any, owner: Owner) -> Any:
    told: Exception | None = None
    if _offers(value, "__dlpack__"):
        _check_device(value, owner)
        found, told = _asked(lambda: checked_place(np.from_dlpack(Described(value))))
        if told is None:
            return found
    shares = any(_offers(value, n) for n in _SHARED)
    if shares or _offers(value, "__array__"):
        found, error = _asked(lambda: _checked(np.asarray(value), shares=shares))
    elif told is None:
        found, error = _asked(lambda: np.asarray(memoryview(value)))
    else:
        found, error = None, told
    if error is not None:
        raise _unreadable(value, owner, told or error)
    return found


def _checked(array: Array, *, shares: bool) -> Array:
    return checked_place(array) if shares else array


def as_target(value: Any, owner: Owner) -> Array | None:
    """The memory of an array, to be written to; None if it is none, or offers none to share.

    Raises:
        BindError, DTypeError: as for `as_array`; its memory holds something else than its
            elements.
    """
    if isinstance(value, np.ndarray):
        return value
    if not is_foreign(value):
        return None
    _check_state(value, owner)
    if _resolved(value) is not value:
        raise BindError(
            f"{owner.what} is a view whose elements are negated or conjugated when they are read.",
            where=owner.where,
            hint="pass a tensor of its own, e.g. torch.empty_like.",
        )
    packed = _offers(value, "__dlpack__")
    if not packed and not any(_offers(value, n) for n in _SHARED) and not _has_buffer(value):
        return None
    if packed:
        _check_device(value, owner)
        found, error = _asked(lambda: checked_place(np.from_dlpack(Described(value), **_IN_PLACE)))
    else:
        own = memoryview(value) if _has_buffer(value) else value
        found, error = _asked(lambda: checked_place(np.asarray(own)))
    if error is not None:
        raise _unreadable(value, owner, error) from None
    made: Array = found
    return made


def _check_state(value: Any, owner: Owner) -> None:
    for state in _states(value):
        if state.holds(value):
            words = {**owner._asdict(), "value": value, "kind": type(value).__name__}
            raise BindError(
                state.text.format(**words), where=owner.where, hint=state.hint.format(**words)
            )


def _check_device(value: Any, owner: Owner) -> None:
    kind, error = _asked(lambda: int(value.__dlpack_device__()[0]))
    if error is None and kind not in _ON_CPU:  # what cannot tell says why when it is read
        raise BindError(
            f"{owner.what} is on a device of {_DEVICES.get(kind, f'kind {kind}')}; compiled "
            "functions run on the CPU.",
            where=owner.where,
            hint="copy it to memory of the CPU first.",
        )


def _unreadable(value: object, owner: Owner, error: Exception | None) -> UserError:
    name = _dtype_name(value)
    if name in _HALF:
        return _half(name, owner)
    lines = str(error).splitlines() or [type(error).__name__]
    kind, said = type(value).__name__, lines[0].rstrip(".")
    known = _states(value)
    hint = "an array of NumPy is always taken; a __dlpack__ makes a new capsule in each call."
    if known:
        hint = _OF_TORCH + ", where other systems transform functions or traces are made."
    if name and not hasattr(np, name):
        return DTypeError(
            f"{owner.what} has dtype {name}, which NumPy does not have.",
            where=owner.where,
            hint="convert it first, e.g. to float32.",
        )
    return BindError(
        f"{owner.what} is a {kind} that does not give its elements: {said}.",
        where=owner.where,
        hint=hint,
    )


def _dtype_name(value: object) -> str:
    """ "bfloat16", as libraries write it; empty if it has no dtype."""
    name, error = _asked(lambda: str(getattr(value, "dtype", "")))
    return "" if error is not None else name.rpartition(".")[2]


def _half(name: str, owner: Owner) -> DTypeError:
    return DTypeError(
        f"{owner.what} has dtype {name}: there is no half-precision arithmetic.",
        where=owner.where,
        hint="convert it to float32 first.",
    )
