"""NumPy's functions of whole arrays give of tensors what they give of arrays, or say what does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, ShapeError, UserError
from tensorad.topi.as_numpy import folds, moves
from tensorad.topi.as_numpy.dispatch import OF_TENSORS
from tensorad.topi.as_numpy.elements import ELEMENTS, OF_EXPRESSIONS

X: Final = ta.placeholder((3, 4), "float64", name="X")
Y: Final = ta.placeholder((4, 3), "float64", name="Y")
V: Final = ta.placeholder((4,), "float64", name="V")
S: Final = ta.placeholder((1, 3, 1), "float64", name="S")
B: Final = ta.placeholder((3, 4), "bool", name="B")
N: Final = ta.placeholder((2, 2), "int64", name="N")
_rng: Final = np.random.default_rng(5)
VALUES: Final[dict[ta.Tensor, Any]] = {
    X: _rng.permutation(np.linspace(-1.1, 1.7, 12)).reshape(3, 4),
    Y: _rng.uniform(0.4, 1.6, (4, 3)),
    V: np.array([0.7, -0.4, 1.2, 0.3]),
    S: _rng.uniform(0.4, 1.6, (1, 3, 1)),
    B: _rng.uniform(size=(3, 4)) < 0.5,
    N: np.array([[0, 2], [1, 1]]),
}
A: Final = np.arange(12.0).reshape(3, 4) / 7.0
Call = Callable[..., Any]
CALLS: Final[dict[str, list[Call]]] = {
    "sum": [
        lambda x, y, v, s, b, n: np.sum(x),
        lambda x, y, v, s, b, n: np.sum(x, axis=0),
        lambda x, y, v, s, b, n: np.sum(x, (0, 1), None, None, True),
        lambda x, y, v, s, b, n: np.sum(b, -1, keepdims=True),
        lambda x, y, v, s, b, n: np.sum(b, dtype="float64"),
    ],
    "prod": [lambda x, y, v, s, b, n: np.prod(y, 1), lambda x, y, v, s, b, n: np.prod(n)],
    "mean": [
        lambda x, y, v, s, b, n: np.mean(x, axis=1, keepdims=True),
        lambda x, y, v, s, b, n: np.mean(n),
        lambda x, y, v, s, b, n: np.mean(b, dtype="float64"),
    ],
    "max": [lambda x, y, v, s, b, n: np.max(x, axis=0), lambda x, y, v, s, b, n: np.max(n)],
    "min": [lambda x, y, v, s, b, n: np.min(x, axis=-1, keepdims=True)],
    "amax": [lambda x, y, v, s, b, n: np.amax(y)],
    "amin": [lambda x, y, v, s, b, n: np.amin(y, 0)],
    "argmax": [lambda x, y, v, s, b, n: np.argmax(x), lambda x, y, v, s, b, n: np.argmax(x, 0)],
    "argmin": [lambda x, y, v, s, b, n: np.argmin(x, axis=1, keepdims=True)],
    "any": [lambda x, y, v, s, b, n: np.any(b, 0), lambda x, y, v, s, b, n: np.any(n)],
    "all": [lambda x, y, v, s, b, n: np.all(b), lambda x, y, v, s, b, n: np.all(x, axis=1)],
    "var": [lambda x, y, v, s, b, n: np.var(x, axis=0)],
    "std": [lambda x, y, v, s, b, n: np.std(x), lambda x, y, v, s, b, n: np.std(y, 1)],
    "cumsum": [
        lambda x, y, v, s, b, n: np.cumsum(x),
        lambda x, y, v, s, b, n: np.cumsum(x, axis=0),
        lambda x, y, v, s, b, n: np.cumsum(b, 1),
        lambda x, y, v, s, b, n: np.cumsum(n, -1, "float64"),
    ],
    "cumprod": [lambda x, y, v, s, b, n: np.cumprod(y, axis=1)],
    "dot": [
        lambda x, y, v, s, b, n: np.dot(x, y),
        lambda x, y, v, s, b, n: np.dot(x, v),
        lambda x, y, v, s, b, n: np.dot(v, v),
        lambda x, y, v, s, b, n: np.dot(v[0] * v, 2.5),
        lambda x, y, v, s, b, n: np.dot(A, y),
        lambda x, y, v, s, b, n: np.dot(x.reshape(3, 2, 2), y.reshape(3, 2, 2)),
    ],
    "inner": [
        lambda x, y, v, s, b, n: np.inner(x, A),
        lambda x, y, v, s, b, n: np.inner(v, x),
        lambda x, y, v, s, b, n: np.inner(3.0, v),
    ],
    "outer": [lambda x, y, v, s, b, n: np.outer(v, x)],
    "vdot": [lambda x, y, v, s, b, n: np.vdot(x, A)],
    "tensordot": [
        lambda x, y, v, s, b, n: np.tensordot(x, y, 1),
        lambda x, y, v, s, b, n: np.tensordot(x, y, ([0, 1], [1, 0])),
        lambda x, y, v, s, b, n: np.tensordot(x, y, (1, 0)),
        lambda x, y, v, s, b, n: np.tensordot(A, x),
    ],
    "einsum": [
        lambda x, y, v, s, b, n: np.einsum("ij,jk->ik", x, y),
        lambda x, y, v, s, b, n: np.einsum("ij, j", A, v, optimize=True),
        lambda x, y, v, s, b, n: np.einsum("ij->ji", x),
    ],
    "where": [
        lambda x, y, v, s, b, n: np.where(b, x, 0.0),
        lambda x, y, v, s, b, n: np.where(x > 0.1, x, v),
        lambda x, y, v, s, b, n: np.where(A > 1.0, x, [1.0, 2.0, 3.0, 4.0]),
        lambda x, y, v, s, b, n: np.where(n, np.ones((2, 2)), 2.5),
        lambda x, y, v, s, b, n: np.where(b, A, v),
    ],
    "clip": [
        lambda x, y, v, s, b, n: np.clip(x, -0.5, 0.8),
        lambda x, y, v, s, b, n: np.clip(x, None, v),
        lambda x, y, v, s, b, n: np.clip(x, A - 1.05, None),
        lambda x, y, v, s, b, n: np.clip(A, v - 1.0, 1.1),
        lambda x, y, v, s, b, n: np.clip(n, 0, 1),
    ],
    "round": [lambda x, y, v, s, b, n: np.round(x)],
    "around": [lambda x, y, v, s, b, n: np.around(x, 0)],
    "fix": [lambda x, y, v, s, b, n: np.fix(x)],
    "take": [
        lambda x, y, v, s, b, n: np.take(x, n),
        lambda x, y, v, s, b, n: np.take(x, [2, 0, -1], axis=1),
        lambda x, y, v, s, b, n: np.take(x, n, axis=0),
        lambda x, y, v, s, b, n: np.take(x, -2, 1),
    ],
    "take_along_axis": [
        lambda x, y, v, s, b, n: np.take_along_axis(x, np.array([[1, -1], [0, 2], [3, 3]]), 1),
        lambda x, y, v, s, b, n: np.take_along_axis(v, np.array([3, 0]), None),
        lambda x, y, v, s, b, n: np.take_along_axis(x, np.array([[1, 0]]), 1),
        lambda x, y, v, s, b, n: np.take_along_axis(s, np.array([[[0, 2], [1, -1]]]), 1),
    ],
    "reshape": [
        lambda x, y, v, s, b, n: np.reshape(x, (2, -1)),
        lambda x, y, v, s, b, n: np.reshape(v, 4, order="C"),
    ],
    "ravel": [lambda x, y, v, s, b, n: np.ravel(x), lambda x, y, v, s, b, n: np.ravel(v)],
    "transpose": [
        lambda x, y, v, s, b, n: np.transpose(x),
        lambda x, y, v, s, b, n: np.transpose(s, (2, 0, 1)),
    ],
    "swapaxes": [lambda x, y, v, s, b, n: np.swapaxes(s, 0, -2)],
    "moveaxis": [
        lambda x, y, v, s, b, n: np.moveaxis(s, 1, 0),
        lambda x, y, v, s, b, n: np.moveaxis(np.expand_dims(x, 0), (1, 2), (-1, 0)),
    ],
    "squeeze": [lambda x, y, v, s, b, n: np.squeeze(s), lambda x, y, v, s, b, n: np.squeeze(s, 0)],
    "expand_dims": [
        lambda x, y, v, s, b, n: np.expand_dims(x, 1),
        lambda x, y, v, s, b, n: np.expand_dims(x, (0, -1)),
    ],
    "broadcast_to": [lambda x, y, v, s, b, n: np.broadcast_to(v, (2, 3, 4))],
    "flip": [lambda x, y, v, s, b, n: np.flip(x), lambda x, y, v, s, b, n: np.flip(x, axis=1)],
    "flipud": [lambda x, y, v, s, b, n: np.flipud(x)],
    "fliplr": [lambda x, y, v, s, b, n: np.fliplr(x)],
    "roll": [
        lambda x, y, v, s, b, n: np.roll(x, 5),
        lambda x, y, v, s, b, n: np.roll(x, -1, axis=1),
        lambda x, y, v, s, b, n: np.roll(x, (1, 2), axis=(0, 1)),
        lambda x, y, v, s, b, n: np.roll(x, 1, axis=(0, 1)),
    ],
    "repeat": [
        lambda x, y, v, s, b, n: np.repeat(x, 2),
        lambda x, y, v, s, b, n: np.repeat(x, 3, axis=0),
    ],
    "tile": [lambda x, y, v, s, b, n: np.tile(x, 2), lambda x, y, v, s, b, n: np.tile(v, (2, 2))],
    "pad": [
        lambda x, y, v, s, b, n: np.pad(x, 1),
        lambda x, y, v, s, b, n: np.pad(x, ((1, 0), (0, 2)), constant_values=0.5),
        lambda x, y, v, s, b, n: np.pad(v, (1, 2), mode="reflect"),
        lambda x, y, v, s, b, n: np.pad(v, (1, 2), "edge"),
    ],
    "concatenate": [
        lambda x, y, v, s, b, n: np.concatenate([x, A, x]),
        lambda x, y, v, s, b, n: np.concatenate((x, np.transpose(y)), axis=-1),
        lambda x, y, v, s, b, n: np.concatenate([x, v], axis=None),
        lambda x, y, v, s, b, n: np.concatenate([n, n], dtype="float64"),
    ],
    "stack": [
        lambda x, y, v, s, b, n: np.stack([x, A]),
        lambda x, y, v, s, b, n: np.stack([v, v * 2.0], axis=-1),
        lambda x, y, v, s, b, n: np.stack([np.max(x), np.min(y), 0.5]),
    ],
    "vstack": [lambda x, y, v, s, b, n: np.vstack([x, v, np.ones((1, 4))])],
    "hstack": [
        lambda x, y, v, s, b, n: np.hstack([v, [1.0, 2.0]]),
        lambda x, y, v, s, b, n: np.hstack([x, A]),
    ],
    "split": [
        lambda x, y, v, s, b, n: np.split(x, 2, axis=1),
        lambda x, y, v, s, b, n: np.split(v, [1, 3]),
    ],
    "meshgrid": [
        lambda x, y, v, s, b, n: np.meshgrid(v, np.arange(2.0)),
        lambda x, y, v, s, b, n: np.meshgrid(v, v, indexing="ij"),
    ],
    "zeros_like": [lambda x, y, v, s, b, n: np.zeros_like(x)],
    "ones_like": [
        lambda x, y, v, s, b, n: np.ones_like(n),
        lambda x, y, v, s, b, n: np.ones_like(b),
        lambda x, y, v, s, b, n: np.ones_like(x, "int64", shape=(2, 1)),
    ],
    "full_like": [lambda x, y, v, s, b, n: np.full_like(x, 2.5)],
    "shape": [lambda x, y, v, s, b, n: np.shape(x)],
    "ndim": [lambda x, y, v, s, b, n: np.ndim(s)],
    "size": [lambda x, y, v, s, b, n: np.size(x), lambda x, y, v, s, b, n: np.size(x, 1)],
    "copy": [lambda x, y, v, s, b, n: np.copy(x)],
    "real": [lambda x, y, v, s, b, n: np.real(x)],
    # in NumPy 2
    "astype": [lambda x, y, v, s, b, n: np.astype(n, "float64")],
    "concat": [lambda x, y, v, s, b, n: np.concat([x, x])],
    "permute_dims": [lambda x, y, v, s, b, n: np.permute_dims(x, (1, 0))],
    "matrix_transpose": [lambda x, y, v, s, b, n: np.matrix_transpose(np.stack([x, x]))],
}
NEW: Final = ("astype", "concat", "permute_dims", "matrix_transpose")
CASES: Final = {
    f"{name}-{k}": f
    for name, calls in CALLS.items()
    if hasattr(np, name)
    for k, f in enumerate(calls)
}


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def test_every_function_of_the_table_is_called() -> None:
    assert {*CALLS} == {*OF_TENSORS} == {*folds.FOLDS, *ELEMENTS, *moves.MOVES}
    assert all(hasattr(np, n) for n in OF_TENSORS if n not in NEW)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_arrays(case: str) -> None:
    f = CASES[case]
    found, wanted = _listed(f(*VALUES)), _listed(f(*VALUES.values()))
    assert len(found) == len(wanted)
    if not isinstance(found[0], ta.Tensor):
        assert found == wanted
        return
    for value, array in zip(ta.interpret(found, VALUES), wanted, strict=True):
        np.testing.assert_allclose(value, array, rtol=1e-12, atol=1e-15)
    for t, array in zip(found, wanted, strict=True):
        assert (t.shape, str(t.dtype)) == (np.shape(array), np.asarray(array).dtype.name)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_in_programs_compiled_and_differentiated(case: str) -> None:
    f = CASES[case]
    wanted = _listed(f(*VALUES.values()))
    program = ta.function(lambda *args: f(*args))
    found = _listed(program(*VALUES.values()))
    for value, array in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, array, rtol=1e-12, atol=1e-15)
    floats = [t for t in _listed(f(*VALUES)) if isinstance(t, ta.Tensor) and t.dtype.is_float]
    read = [t for t in ta.placeholders(floats) if t.dtype.is_float]
    if read:
        assert ta.gradcheck(floats, read, arrays={t: VALUES[t] for t in ta.placeholders(floats)})


def test_elements_of_a_formula() -> None:
    def body(i: Any, j: Any) -> Any:
        e = X[i, j]
        assert (np.shape(e), np.ndim(e), np.size(e)) == ((), 0, 1)
        bounded = np.clip(e, 0.3, 0.8) + np.clip(e, None, V[j]) + np.round(e) + np.fix(e)
        return np.where(e > 0.0, bounded, np.copy(np.real(e)) * V[j])

    found = ta.evaluate(ta.compute((3, 4), body, name="z"), {X: VALUES[X], V: VALUES[V]})
    x, v = VALUES[X], VALUES[V]
    bounded = np.clip(x, 0.3, 0.8) + np.clip(x, None, v) + np.round(x) + np.fix(x)
    np.testing.assert_allclose(found, np.where(x > 0.0, bounded, x * v), rtol=1e-12)
    assert {*OF_EXPRESSIONS} <= {*OF_TENSORS}


def test_arrays_beside_tensors() -> None:
    for made, wanted in (
        (A * X, A * VALUES[X]),
        (A - X, A - VALUES[X]),
        (np.ones(3) @ X, np.ones(3) @ VALUES[X]),
        (np.float64(2) / Y, 2 / VALUES[Y]),
        (np.maximum(A, X), np.maximum(A, VALUES[X])),
    ):
        np.testing.assert_allclose(ta.interpret(made, VALUES), wanted, rtol=1e-12)
    with pytest.raises(ShapeError):
        np.ones(3) * X


def test_extents_of_symbolic_tensors() -> None:
    n = ta.size("n")
    z = ta.placeholder((n, 2), "float64", name="z")
    total = np.concatenate([np.sum(z, 0), np.reshape(np.mean(z, axis=0), 2)])
    rows = np.stack([np.reshape(z, (-1,)), np.ravel(z)])
    z_ = np.arange(6.0).reshape(3, 2)
    found = ta.evaluate([total, rows], {z: z_})
    np.testing.assert_allclose(found[0], [6.0, 9.0, 2.0, 3.0])
    np.testing.assert_allclose(found[1], np.stack([z_.ravel(), z_.ravel()]))


def test_constants_are_arrays_to_functions_that_tensors_do_not_have() -> None:
    table = ta.const(np.array([3.0, 1.0, 2.0]))
    assert np.sort(table).tolist() == [1.0, 2.0, 3.0]
    assert np.allclose([table, table], [[3.0, 1.0, 2.0]])


def test_other_arrays_answer_for_themselves() -> None:
    class Theirs:
        def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> str:
            return "theirs"

    assert np.concatenate([X, Theirs()]) == "theirs"


@pytest.mark.parametrize("made", [np.array, np.asarray, np.asanyarray, np.ascontiguousarray, float])
def test_no_array_is_made_of_a_tensor(made: Any) -> None:
    for value in (X, [X, X], X * 2.0) if made is not float else (X,):
        with pytest.raises(UserError):
            made(value)


def test_everything_else_is_refused_by_name() -> None:
    """Each function that NumPy asks about, but for those of the table."""
    seen = 0
    for module, prefix in ((np, ""), (np.linalg, "linalg."), (np.fft, "fft.")):
        for name in dir(module):
            f = getattr(module, name)
            if f"{prefix}{name}" in OF_TENSORS or not hasattr(f, "__wrapped__"):
                continue
            try:
                f(X)
            except DefinitionError as error:
                seen += "is no function of tensors" in str(error)
            except (TypeError, ValueError):  # it takes more arguments
                continue
    assert seen > 50


def test_moved_axes_stand_at_the_places_that_are_named() -> None:
    x = ta.placeholder((2, 3, 4), name="X")
    for places in ((2, 0), (0, 2), (1, 0), (-1, -2)):
        moved = np.moveaxis(x, (0, 1), places)
        assert moved.shape == np.moveaxis(np.zeros((2, 3, 4)), (0, 1), places).shape
