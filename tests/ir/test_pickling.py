"""Pickles: nothing is lost, and what is pickled together stays together."""

from __future__ import annotations

import copy
import pickle
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.directives import Choices
from tensorad.ir.dtypes import DTYPES, WEAK_FLOAT, WEAK_INT
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import topological_ops

X = ta.placeholder((4, 5), "float64", name="X")
P = ta.placeholder((5,), "int64", name="P")
k = ta.reduce_axis(5, name="k")
rng = np.random.default_rng(1)
x, p = rng.uniform(0.5, 2, (4, 5)), np.array([0, 3, 1, -1, 2])


def squash(v: Any) -> Any:
    return v / (1 + ta.abs(v))


@ta.scalar_function(partials=lambda y, v: 0.5 / ta.abs(y))
def signed_root(v: Any) -> Any:
    return ta.sign(v) * ta.sqrt(ta.abs(v))


cube = ta.scalar_function(
    lambda v: v * v * v, partials=lambda y, v: 3 * cube(v) / v, name="cube"
)  # its derivative uses itself
larger = ta.comm_reducer(lambda a, b: ta.select(a < b, b, a), lambda dtype: dtype.lowest, "larger")
last = ta.comm_reducer(lambda a, b: b, lambda dtype: 0, name="last")


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def programs() -> dict[str, Tensor]:
    n = ta.placeholder((4,), "float64", name="n")
    table = ta.const(np.arange(5.0))
    largest, at = ta.compute(
        (4,), lambda i: (ta.max(X[i, k], axis=k), ta.argmax(X[i, k], axis=k)), name="top"
    )

    def triangle(i: Any) -> Any:
        j = ta.reduce_axis((i, 5), name="j")
        return ta.sum(X[i, j], axis=j)

    exps = ta.compute((4, 5), lambda i, j: ta.exp(X[i, j] - largest[i]), name="exps")
    return {
        "sum": ta.compute((4,), lambda i: ta.sum(X[i, k] * table[k], axis=k), name="Y"),
        "guarded": ta.compute(
            (5,), lambda i: ta.select((P[i] >= 0) & (X[0, P[i]] > 1), X[0, P[i]], 0.0), name="G"
        ),
        "several outputs": largest * at.astype("float64"),
        "ragged": ta.compute((4,), triangle, name="R"),
        "softmax": exps / ta.compute((4, 1), lambda i, _: ta.sum(exps[i, k], axis=k)),
        "own reducer": ta.compute((4,), lambda i: larger(X[i, k], axis=k), name="L"),
        "own function": ta.compute((4,), lambda i: cube(X[i, 0]), name="C"),
        "stopped": ta.stop_gradient(X) * X,
        "scatter": ta.scatter((4,), (5,), lambda i: (ta.maximum(P[i], 0), X[0, i]), last, init=n),
        "scan": ta.scan(X, 1, "prod"),
        "logsumexp": ta.compute((4,), lambda i: ta.te.logsumexp(X[i, k], axis=k)),
    }


PROGRAMS = programs()


def inputs_of(t: Tensor) -> list[Tensor]:
    ops = topological_ops([t])
    return [ta.ir.tensor.outputs(op)[0] for op in ops if type(op).__name__ == "Placeholder"]


VALUES = {"X": x, "P": p, "n": np.arange(4.0)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients_compute_the_same(name: str) -> None:
    y = PROGRAMS[name]
    gradients = ta.vjp(y, [X], 1.0)
    wanted = [y, *gradients]
    inputs = inputs_of(y)
    loaded, own = again((wanted, inputs))
    assert [t.name for t in own] == [t.name for t in inputs]
    assert not set(map(id, own)) & set(map(id, inputs))
    assert ta.PrintTensorRecursively(loaded) == ta.PrintTensorRecursively(wanted)
    values = [VALUES[t.name] for t in inputs]
    expected = ta.build(wanted, inputs)(*values)
    for found, e in zip(ta.build(loaded, own)(*values), expected, strict=True):
        np.testing.assert_array_equal(found, e)
    (derived,) = ta.vjp(loaded[0], [t for t in own if t.name == "X"], 1.0)
    found = ta.evaluate(derived, dict(zip(own, values, strict=True)))
    np.testing.assert_array_equal(found, expected[1])
    assert ta.work(loaded) == ta.work(wanted)


def test_what_is_pickled_together_stays_together() -> None:
    y = PROGRAMS["sum"]
    first, second, tensor, axis = again((y, y * 2.0, X, k))
    assert isinstance(first.op, Compute) and isinstance(second.op, Compute)
    assert tensor[0, 0].tensor is tensor and first is not y
    read = second.op.bodies[0].args[0]  # type: ignore[attr-defined]  # a product
    assert read.tensor is first
    z = ta.compute((4,), lambda i: ta.sum(tensor[i, axis], axis=axis))
    np.testing.assert_array_equal(ta.evaluate(z, {tensor: x}), x.sum(axis=1))
    one, other = again([X[0, k] + 1.0, X[0, k]])
    assert one.args[0] is other


def test_expressions_are_interned_anew() -> None:
    n = ta.size("n")
    assert again(n * 2 + 1) is n * 2 + 1
    assert again(ta.const(1.5)) is ta.const(1.5)
    loaded = again(ta.sqrt(2.0))
    assert loaded is ta.sqrt(2.0) and loaded.dtype is WEAK_FLOAT
    for dtype in (*DTYPES, WEAK_FLOAT, WEAK_INT):
        assert again(dtype) is dtype and copy.deepcopy(dtype) is dtype
    body = PROGRAMS["own reducer"].op.bodies[0]  # type: ignore[union-attr]  # a compute
    assert str(again(body)) == str(body)


def test_copies_of_nodes_are_the_nodes() -> None:
    for value in (X, k, X[0, k] + 1.0, X.dtype):
        assert copy.copy(value) is value and copy.deepcopy([value])[0] is value


def test_loaded_constants_cannot_be_changed() -> None:
    table = again(ta.const(np.arange(3)))
    with pytest.raises(ValueError, match="read-only"):
        table.op.array[0] = 1


def test_a_loaded_axis_knows_its_uses() -> None:
    axis, y, tensor = again((k, PROGRAMS["sum"], X))
    with pytest.raises(ta.errors.DefinitionError, match="reduce axis k is used outside its red"):
        ta.compute((4,), lambda i: tensor[i, axis])
    z = ta.compute((4,), lambda i: ta.sum(tensor[i, axis], axis=axis) + y[i])
    expected = x.sum(axis=1) + (x * np.arange(5)).sum(axis=1)
    np.testing.assert_allclose(ta.evaluate(z, {tensor: x}), expected)
    assert z.op.bodies[0].args[0].axes[0] is not axis  # y binds it


@pytest.mark.slow
def test_deep_formulas_and_long_programs() -> None:
    e = X[0, 0]
    for _ in range(20_000):
        e = ta.sin(e)
    one, other = again((e, ta.sin(e)))
    assert other.args[0] is one
    t = ta.placeholder((3,), name="T")
    for _ in range(1000):
        t = t * 2.0
    assert len(topological_ops([again(t)])) == 1001


def test_compiled_functions_are_built_anew() -> None:
    y = PROGRAMS["sum"]
    f = ta.build([y, *ta.vjp(y, X, 1.0)], [X], "both", schedule={"Y": Choices(vector="i")})
    loaded, tensor = again((f, X))
    assert loaded.name == "both" and loaded.inputs[0] is tensor
    for found, e in zip(loaded(x), f(x), strict=True):
        np.testing.assert_array_equal(found, e)
    assert str(ta.lower(loaded.outputs, [tensor])) == str(ta.lower(f.outputs, [X]))
    n = ta.size("n")
    v = ta.placeholder((n,), name="V")
    g = again(ta.build(ta.compute((n,), lambda i: v[i] * 2), [v], assume_in_bounds=True))
    np.testing.assert_array_equal(g(np.ones(3, "float32")), [2, 2, 2])
    assert copy.copy(g) is g and copy.deepcopy(g) is g


def test_reducers_and_functions_at_the_top_of_a_module() -> None:
    fold = again(ta.comm_reducer(np.maximum, max, "fold"))
    assert fold.name == "fold" and fold.fcombine is np.maximum
    function = ta.scalar_function(squash, partials=squash, name="squash")
    assert again(function).formula is squash
    assert again(signed_root) is signed_root
    assert again(ta.sum) is ta.sum and again(ta.exp) is ta.exp


@pytest.mark.parametrize("value", [larger, cube], ids=["reducer", "function"])
def test_lambdas_are_refused_when_they_are_pickled(value: object) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(value)


def called(f: ta.CompiledFunction, tensor: Tensor) -> tuple[bool, list[object]]:
    return f.inputs[0] is tensor, f(np.arange(20.0).reshape(4, 5)).tolist()


@pytest.mark.slow
def test_another_process_calls_it() -> None:
    f = ta.build(PROGRAMS["own function"], [X])
    with get_context("spawn").Pool(1) as pool:
        together, result = pool.apply(called, (f, X))
    assert together and result == called(f, X)[1]
