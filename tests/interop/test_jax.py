"""Operators inside of JAX: what they are made of, what is compiled, what does not fit."""

from __future__ import annotations

import gc
import re
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, DTypeError, LimitError, ShapeError
from tensorad.interop import xla
from tests.interop.inside_jax import MARKS, jax, made
from tests.interop.operators import CASES, dense

import jax.numpy as jnp  # isort: skip
from jax.experimental import serialize_executable  # isort: skip
from tensorad.interop import jax as own_jax  # isort: skip
from tensorad.interop.jax import op  # isort: skip

pytestmark = MARKS


def test_linear_functions_of_rows_are_transposed() -> None:
    f, case = made("dense")
    x, w = map(jnp.asarray, case.arrays)
    linear = jax.linearize(lambda w: f(x, w), w)[1]
    rows = jnp.stack([w, w * 2.0])
    (found,) = jax.linear_transpose(jax.vmap(linear), rows)(jnp.ones((2, 3, 5)))
    np.testing.assert_allclose(found[1], jnp.ones((5, 3)) @ jnp.sin(x))


def test_a_trace_has_operators_alone_and_derivatives_that_are_asked_for() -> None:
    f, case = made("dense")
    text = str(jax.make_jaxpr(jax.grad(lambda w: f(case.arrays[0], w).sum()))(case.arrays[1]))
    names = re.findall(r"<Operator (\w+)\(", text)
    assert names == ["test_dense", "test_dense_jvp_01_vjp_01_1"]
    assert "pure_callback" not in text


def test_an_index_from_data_out_of_range() -> None:
    f, case = made("gathered")
    wrong = jnp.array([0, 7, 1, 1])
    text = "BoundsError: X is read at index 7 of axis 0, which has extent 3"
    for g in (f, jax.jit(f), jax.grad(lambda i, x: f(i, x).sum(), 1)):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=text):
            jax.block_until_ready(g(wrong, jnp.asarray(case.arrays[1])))


def test_integers_and_empty_arrays() -> None:
    f, case = made("dense")
    assert f(jnp.zeros((0, 4)), case.arrays[1]).shape == (0, 5)
    n = ta.size("n")
    x = ta.placeholder((n,), dtype="float32", name="X")
    larger = ta.compute((n,), lambda i: x[i] > 0.5, name="L")
    doubled = ta.compute((n,), lambda i: x[i] * 2.0, name="D")
    g = op([larger, doubled], [x], "test_larger")
    given = jnp.array([0.2, 0.9], "float32")
    found, tangents = jax.jvp(g, (given,), (jnp.ones_like(given),))
    assert found[0].tolist() == [False, True] and tangents[0].dtype == jax.dtypes.float0
    assert tangents[1].tolist() == [2.0, 2.0]
    h, gathered = made("gathered")
    _, pulled = jax.vjp(h, jnp.asarray(gathered.arrays[0]), jnp.ones((3, 2)))
    integer, _ = pulled(jnp.ones((4, 2)))
    assert integer.dtype == jax.dtypes.float0


def test_compiled_code_keeps_what_it_calls() -> None:
    case = dense()
    f = op(case.outputs, case.inputs, "test_kept")
    compiled = jax.jit(f).lower(*case.arrays).compile()
    expected = np.asarray(case.reference(jnp, *map(jnp.asarray, case.arrays)))
    with pytest.raises(BindError, match="compiled code that calls test_kept belongs to this proc"):
        serialize_executable.serialize(compiled)
    del f, case
    jax.clear_caches()
    gc.collect()
    given = CASES["dense"]().arrays
    np.testing.assert_allclose(compiled(*given), expected)


def test_numbers_of_other_processes_are_refused() -> None:
    f, case = made("dense")
    f(*case.arrays)
    kind = jax.ShapeDtypeStruct((3, 5), jnp.float64)
    for number in (5, 2**62):
        with pytest.raises(Exception, match="compiled by another process, or its operator is gone"):
            jax.ffi.ffi_call("tensorad", kind)(*case.arrays, entry=np.int64(number))


def test_other_versions_of_the_interface_go_through_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert xla.version_of(jax.ffi.include_dir()) == xla.VERSION
    assert xla.version_of("nowhere") is None
    again = lru_cache(own_jax._is_registered.__wrapped__)
    monkeypatch.setattr(own_jax, "_is_registered", again)
    monkeypatch.setattr(xla, "version_of", lambda include: (7, 1))
    case = CASES["gathered"]()
    f = op(case.outputs, case.inputs, "test_python")
    index, x = map(jnp.asarray, case.arrays)
    with pytest.warns(UserWarning) as said:
        found = jax.jit(jax.value_and_grad(lambda x: f(index, x).sum()))(x)
    assert [str(w.message) for w in said] == [
        "tensorad knows version 0.3 of XLA's interface to foreign functions, and finds 7.1: "
        "operators are called through Python (jax.pure_callback), which takes longer."
    ]
    expected = jax.value_and_grad(lambda x: case.reference(jnp, index, x).sum())(x)
    jax.tree.map(np.testing.assert_allclose, found, expected)
    with pytest.raises(Exception, match="X is read at index 7 of axis 0, which has extent 3"):
        jax.block_until_ready(f(index + 5, x))


def _refused(kind: type[Exception], text: str, *given: Any) -> None:
    f, _ = made("dense")
    for g in (f, jax.jit(f)):
        if g is f or all(isinstance(a, jax.Array | np.ndarray) for a in given):
            with pytest.raises(kind) as refused:
                g(*given)
            assert str(refused.value) == text


def test_arguments_that_do_not_fit() -> None:
    x, w = map(jnp.asarray, CASES["dense"]().arrays)
    _refused(
        BindError,
        "test_dense takes 2 arrays, got 1.\n  in: test_dense(X, W)\n"
        "  hint: pass one array for each input, in this order.",
        x,
    )
    _refused(
        BindError,
        "argument X of test_dense must be an array, got list.\n"
        "  hint: pass jax.numpy.asarray(X, dtype='float64').",
        [[1.0] * 4], w,
    )  # fmt: skip
    _refused(
        DTypeError,
        "argument X of test_dense has dtype bfloat16, expected float64.\n"
        "  hint: pass X.astype('float64').",
        x.astype("bfloat16"), w,
    )  # fmt: skip
    _refused(
        ShapeError,
        "X has shape (3, 3), which is none of its shapes where n = 3.\n"
        "  in: X : float64 (n, 4)\n  hint: inputs that share a symbolic size must agree on it.",
        x[:, :3], w,
    )  # fmt: skip
    with jax.enable_x64(False):
        _refused(
            DTypeError,
            "X of test_dense has dtype float64, which JAX does not have now.\n"
            "  in: X : float64 (n, 4)\n"
            '  hint: call jax.config.update("jax_enable_x64", True) first, or declare 32 bits.',
            np.ones((3, 4)), np.ones((5, 4)),
        )  # fmt: skip


def test_names_and_inputs_of_operators() -> None:
    case = CASES["dense"]()
    with pytest.raises(DefinitionError, match="must be an identifier, got 'a b'"):
        op(case.outputs, case.inputs, "a b")
    with pytest.raises(DefinitionError, match="reads W, which is none of its inputs"):
        op(case.outputs, case.inputs[:1], "test_other")
    assert repr(op(case.outputs, case.inputs, "again")) == "<jax operator again>"


def test_numbers_and_words_of_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "MOST", 1)
    found = xla.Targets()
    entries = [made("dense")[0].operator.entry([(n, 4), (5, 4)]) for n in (3, 2)]
    number = found.number(entries[0])
    assert found.number(entries[0]) == number
    with pytest.raises(LimitError, match="this process has made 1 operators of XLA") as refused:
        found.number(entries[1])
    assert "in: test_dense for inputs [(2, 4), (5, 4)]" in str(refused.value)
    assert found.words(number, 3).startswith(
        "BoundsError: test_dense has no record of a failed call with the code 3."
    )
    assert found.words(number + 1, 3) == "an operator failed with the code 3, and is gone meanwhile"


def test_what_is_not_compiled() -> None:
    f, case = made("dense")
    with pytest.raises(BindError) as refused:
        jax.jit(f).trace(*case.arrays).lower(lowering_platforms=("cuda",))
    assert str(refused.value) == (
        "test_dense is compiled for the platform cuda; operators run on the CPU.\n"
        '  hint: run it under jax.default_device(jax.devices("cpu")[0]).'
    )
    n, m = jax.export.symbolic_shape("n, m")
    kinds = [jax.ShapeDtypeStruct((k, 4), jnp.float64) for k in (n, m)]
    with pytest.raises(ShapeError) as shapes:
        jax.export.export(jax.jit(f))(*kinds)
    assert str(shapes.value) == (
        "test_dense is compiled for shapes of numbers, got (n, 4), (m, 4).\n"
        "  hint: export a function for each shape, without symbolic dimensions."
    )
