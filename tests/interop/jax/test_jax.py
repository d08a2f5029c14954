"""Operators inside of JAX: what they are made of, what is compiled, what does not fit."""

from __future__ import annotations

import copy
import gc
import pickle
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, LimitError
from tensorad.interop import xla
from tests.interop.jax.inside_jax import MARKS, jax, made
from tests.interop.operators import CASES, dense

import jax.numpy as jnp  # isort: skip
from jax.experimental import serialize_executable  # isort: skip
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


def scaled(by: float) -> Any:
    x = ta.placeholder((2,), "float64", name="X")
    return op(ta.compute((2,), lambda i: x[i] * by, name="Y"), [x], "test_scaled")


def test_a_name_is_of_one_program_while_somebody_has_it() -> None:
    """What JAX's caches keep of operators that are gone takes no name, and stays what it was."""
    one = jnp.ones(2)
    f = scaled(2.0)
    assert f(one).tolist() == [2.0, 2.0]
    with pytest.raises(DefinitionError, match="an operator named test_scaled is there already"):
        scaled(3.0)
    jitted = jax.jit(partial(lambda f, x: f(x) + 1.0, f))
    compiled = jitted.lower(one).compile()
    pulled = jax.vjp(f, one)[1]
    operator = f.operator
    del f
    gc.collect()
    with pytest.raises(DefinitionError, match="an operator named test_scaled is there already"):
        scaled(3.0)  # a function has it
    del jitted
    gc.collect()
    assert scaled(2.0).operator is operator  # the same program finds what is compiled
    g = scaled(3.0)
    assert g(one).tolist() == [3.0, 3.0]
    assert jax.grad(lambda x: g(x).sum())(one).tolist() == [3.0, 3.0]
    assert compiled(one).tolist() == [3.0, 3.0] and pulled(one)[0].tolist() == [2.0, 2.0]
    del operator, compiled, pulled
    jax.clear_caches()
    gc.collect()
    assert scaled(3.0) is g


def test_operators_are_copied_and_pickled() -> None:
    f = scaled(5.0)
    assert copy.copy(f) is f and copy.deepcopy([f])[0] is f and pickle.loads(pickle.dumps(f)) is f


def test_numbers_of_other_processes_are_refused() -> None:
    f, case = made("dense")
    f(*case.arrays)
    kind = jax.ShapeDtypeStruct((3, 5), jnp.float64)
    for number in (5, 2**62):
        with pytest.raises(Exception, match="compiled by another process, or its operator is gone"):
            jax.ffi.ffi_call("tensorad", kind)(*case.arrays, entry=np.int64(number))


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
        "BoundsError: no call of test_dense has returned the code 3."
    )
    assert found.words(number + 1, 3) == "an operator failed with the code 3, and is gone meanwhile"


def test_outputs_that_are_no_floats() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), name="X")
    f = op(ta.compute((n,), lambda i: x[i] > 0.5), [x], "test_no_floats")
    given = jnp.asarray([0.2, 0.7, 0.9, 0.1], "float32")
    found = jax.grad(lambda x: jnp.where(f(x), x * x, x).sum())(given)
    assert np.allclose(found, np.where(given > 0.5, 2.0 * given, 1.0))
