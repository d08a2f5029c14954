"""Each keyword of each of NumPy's functions means to tensors what it means to arrays, or is refused
by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, UserError
from tensorad.topi.as_numpy.dispatch import OF_TENSORS

X: Final = ta.placeholder((3, 4), "float64", name="X")
N: Final = ta.placeholder((3, 4), "int64", name="N")
V: Final = ta.placeholder((4,), "float64", name="V")
S: Final = ta.placeholder((1, 3, 4), "float64", name="S")
_rng: Final = np.random.default_rng(7)
VALUES: Final[dict[ta.Tensor, Any]] = {
    X: _rng.uniform(-1.0, 1.5, (3, 4)),
    N: _rng.integers(0, 3, (3, 4)),
    V: np.array([0.7, -0.4, 1.2, 0.3]),
    S: _rng.uniform(0.4, 1.6, (1, 3, 4)),
}
MASK: Final = VALUES[X] > 0.0
FIRST: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    "dot": lambda x, n, v, s: (x, v),
    "inner": lambda x, n, v, s: (x, v),
    "outer": lambda x, n, v, s: (v, v),
    "vdot": lambda x, n, v, s: (x, x),
    "tensordot": lambda x, n, v, s: (x, x),
    "einsum": lambda x, n, v, s: ("ij,j", x, v),
    "where": lambda x, n, v, s: (MASK, x, v),
    "take": lambda x, n, v, s: (x, np.array([2, 0])),
    "take_along_axis": lambda x, n, v, s: (x, np.array([[2, 0], [1, 1], [0, 3]])),
    "full_like": lambda x, n, v, s: (x, 2.5),
    "astype": lambda x, n, v, s: (x, "float32"),
    "reshape": lambda x, n, v, s: (x, (2, 6)),
    "swapaxes": lambda x, n, v, s: (s, 0, 2),
    "moveaxis": lambda x, n, v, s: (s, 0, 2),
    "squeeze": lambda x, n, v, s: (s,),
    "expand_dims": lambda x, n, v, s: (x, 0),
    "broadcast_to": lambda x, n, v, s: (v, (3, 4)),
    "roll": lambda x, n, v, s: (x, 1),
    "repeat": lambda x, n, v, s: (x, 2),
    "tile": lambda x, n, v, s: (x, 2),
    "pad": lambda x, n, v, s: (x, 1),
    "split": lambda x, n, v, s: (x, 1),
    "meshgrid": lambda x, n, v, s: (v, v),
    "clip": lambda x, n, v, s: (x, -0.5, 0.8),
    **{
        name: lambda x, n, v, s: ([x, n],)
        for name in ("concatenate", "concat", "stack", "vstack", "hstack")
    },
}
"""Arguments without keywords; of all others X alone."""
DTYPES: Final = ("float64", "float32", "int64", "int32", bool)
GIVEN: Final[dict[str, Sequence[Any]]] = {
    "axis": (0, 1, -1, None, (0,), (0, 1), 5, 1.5),
    "axes": (None, 1, (1, 0), ([0, 1], [0, 1]), 7),
    "dtype": DTYPES,
    "out": (np.zeros((3, 4)), (np.zeros(()),)),
    "keepdims": (True, False, 1),
    "initial": (2.0, 0.0),
    "where": (MASK, True, False),
    "ddof": (0, 1),
    "mean": (np.full((1, 1), 0.5),),
    "correction": (0, 1),
    "order": ("C", "K", "A", "F", "Z"),
    "subok": (True, False),
    "shape": ((2, 2), 5, (3, 4)),
    "newshape": ((2, 6),),
    "device": (None, "cpu", "cuda"),
    "copy": (True, None),
    "casting": ("no", "equiv", "safe", "same_kind", "unsafe", "odd"),
    "optimize": (True, False, "greedy", ["einsum_path", (0, 1)]),
    "a_min": (-0.1,), "a_max": (0.1,), "min": (-0.1,), "max": (0.1,),
    "decimals": (0, 1, -1),
    "mode": ("raise", "wrap", "clip", "constant", "edge", "reflect", "symmetric", "mean", "odd"),
    "constant_values": (0.5, (1.0, 2.0), ((1.0, 2.0), (3.0, 4.0))),
    "end_values": (1.0,), "stat_length": (1,), "reflect_type": ("odd", "even"),
    "shift": (1, -2, (1, 1)),
    "repeats": (2, [1, 2, 1, 0]),
    "reps": (2, (2, 1)),
    "sparse": (True, False),
    "indexing": ("ij", "xy", "odd"),
    "signature": ("dd->d",),
}  # fmt: skip
MORE: Final = {
    "clip": ("where", "dtype", "casting", "order", "subok"),
    "einsum": ("dtype", "order", "casting"),
    "pad": ("constant_values", "end_values", "stat_length", "reflect_type"),
}
"""What `**kwargs` of a signature are."""
WIDER: Final = {("argmax", "axis"), ("argmin", "axis"), ("clip", "a_min"), ("reshape", "order")}
"""What tensors have and arrays have not: several axes, one bound, the order of the elements."""
_NO_KEYWORDS: Final = {
    "a", "b", "x", "y", "m", "v", "arr", "ary", "array", "arrays", "tup", "val", "A", "condition",
    "operands", "xi", "indices", "indices_or_sections", "pad_width", "fill_value", "source",
    "destination", "axis1", "axis2", "kwargs",
}  # fmt: skip


def keywords(name: str) -> list[str]:
    """Of NumPy's function."""
    found = [p for p in inspect.signature(getattr(np, name)).parameters if p not in _NO_KEYWORDS]
    return [*found, *MORE.get(name, ())]


def cases() -> Iterator[tuple[str, str]]:
    for name in OF_TENSORS:
        if hasattr(np, name):
            yield from [(name, k) for k in keywords(name)]


def outcome(call: Callable[[], Any], *errors: type[Exception]) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except errors as error:
        return None, error


def check(name: str, keyword: str, value: Any) -> bool:
    """Whether a value of a keyword is honoured; if not, it is refused by its name."""
    function, first = getattr(np, name), FIRST.get(name, lambda x, n, v, s: (x,))
    at = inspect.signature(function).parameters.get(keyword)
    args, given = (first(*VALUES), first(*VALUES.values()))
    named: dict[str, Any] = {keyword: value}
    if at is not None and list(inspect.signature(function).parameters).index(keyword) < len(args):
        position = list(inspect.signature(function).parameters).index(keyword)
        args, given = args[:position], given[:position]
    if at is not None and at.kind is at.POSITIONAL_ONLY:
        args, given, named = (*args, value), (*given, value), {}
    if keyword == "mode" and name == "pad" and value == "wrap":
        named["pad_width"], args, given = 1, args[:1], given[:1]
    wanted, theirs = outcome(lambda: function(*given, **named), TypeError, ValueError, IndexError,
                             np.exceptions.AxisError, NotImplementedError)  # fmt: skip
    found, ours = outcome(lambda: function(*args, **named), UserError, TypeError, ValueError)
    if ours is not None:
        mine = isinstance(ours, UserError)
        assert mine or theirs is not None, f"{ours!r} is no error of tensorad"
        if mine and theirs is None:
            text = str(ours)
            first = text.split("\n")[0]
            assert (keyword in first or str(value) in first) and "hint: " in text, text
        return False
    if theirs is not None:
        assert (name, keyword) in WIDER, f"NumPy refuses it: {theirs}"
        return True
    for have, want in zip(listed(found), listed(wanted), strict=True):
        if not isinstance(have, ta.Tensor):
            assert have == want
            continue
        array = ta.interpret(have, VALUES)
        assert array.shape == np.shape(want), (array.shape, np.shape(want))
        loose = have.dtype.bits == 32
        np.testing.assert_allclose(array, want, rtol=1e-5 if loose else 1e-12)
        assert str(have.dtype) == np.asarray(want).dtype.name, have.dtype
    return True


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "keyword"), list(cases()))
def test_a_keyword(name: str, keyword: str) -> None:
    for value in GIVEN[keyword]:
        try:
            check(name, keyword, value)
        except AssertionError as error:
            raise AssertionError(f"np.{name}({keyword}={value!r}): {error}") from error


@pytest.mark.parametrize("keyword", ["out", "where", "dtype", "casting", "order", "subok",
                                     "signature", "axes", "axis", "keepdims"])  # fmt: skip
@pytest.mark.parametrize("function", [np.exp, np.add, np.square, np.matmul])
def test_keywords_of_elementwise_functions(function: np.ufunc, keyword: str) -> None:
    value = {"axes": [(0, 1)] * 3, "axis": 0}.get(keyword, GIVEN.get(keyword, (None,))[0])
    try:
        function(*[X] * function.nin, **{keyword: value})
    except DefinitionError as error:
        assert f"takes its operands alone, not {keyword}." in str(error) and "hint: " in str(error)
    except TypeError as error:  # NumPy's own: this function has no such keyword
        assert keyword in str(error)
    else:
        pytest.fail("it was ignored")


@pytest.mark.parametrize(
    "call",
    [
        lambda: np.sum(X, None, None, None, False, 2.0),
        lambda: np.sum(X, initial=2.0),
        lambda: np.roll(X, (1, 2, 3), axis=(0, 1)),
        lambda: np.roll(X, 1, axis="x"),
        lambda: np.pad(X, ((1, 2), (3, 4), (5, 6))),
        lambda: np.moveaxis(X, None, None),
        lambda: np.expand_dims(X, None),
        lambda: X.mean(dtype="int64"),
        lambda: np.concatenate([X, N], dtype="int64"),
    ],
)
def test_what_was_once_let_through(call: Callable[[], Any]) -> None:
    with pytest.raises(UserError, match="hint: "):
        call()


def test_an_argument_by_its_place_is_refused_by_its_name() -> None:
    with pytest.raises(DefinitionError, match=r"np\.sum of a formula takes no initial"):
        np.sum(X, None, None, None, False, 2.0)
    with pytest.raises(DefinitionError, match=r"hint: put it in afterwards: np.prod\(X\) \* init"):
        np.prod(X, initial=2.0)
    with pytest.raises(DefinitionError, match=r"np.max\(np.where\(c, X, -np.inf\)\)"):
        np.max(X, where=MASK, initial=0.0)
