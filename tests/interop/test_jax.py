"""Operators inside of JAX: checked by its own checks, beside the same operators of JAX."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.interop.operators import CASES, Case, dense

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
import jax.numpy as jnp  # noqa: E402
from jax.experimental import serialize_executable  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from tensorad.errors import (  # noqa: E402
    BindError,
    DefinitionError,
    DTypeError,
    LimitError,
    ShapeError,
)
from tensorad.interop import jax as own_jax  # noqa: E402
from tensorad.interop import xla  # noqa: E402
from tensorad.interop.jax import op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def _made(name: str) -> tuple[Any, Case]:
    case = CASES[name]()
    return op(case.outputs, case.inputs, f"test_{name}"), case


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _of_floats(f: Callable[..., Any], case: Case) -> tuple[Callable[..., Any], list[Any]]:
    """The function of the float arguments alone, and these."""
    floats = [n for n, a in enumerate(case.arrays) if a.dtype.kind == "f"]

    def called(*given: Any) -> Any:
        every = [jnp.asarray(a) for a in case.arrays]
        for n, a in zip(floats, given, strict=True):
            every[n] = a
        return f(*every)

    return called, [jnp.asarray(case.arrays[n]) for n in floats]


@pytest.mark.parametrize("name", CASES)
def test_derivatives_by_check_grads(name: str) -> None:
    f, given = _of_floats(*_made(name))
    check_grads(f, given, order=2, modes=["fwd", "rev"])


def _total(f: Callable[..., Any], *rest: Any) -> Callable[[Any], Any]:
    """A number of the first argument."""
    return lambda x: sum([jnp.sin(y).sum() for y in _several(f(x, *rest))])


def _rows_of(x: Any) -> Any:
    return jnp.stack([x, x * 1.1, x * 0.9])


def _plain(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """What must come out of `_ways`, by one transformation of the function of JAX."""
    total = _total(f, *rest)
    values, grads = jax.vmap(lambda r: (f(r, *rest), jax.grad(total)(r)))(_rows_of(x))
    return {
        "value": jax.tree.map(lambda y: y[0], values),
        "grad": grads[0],
        "vmap": values,
        "grad of rows": grads,
        "scan": grads,
        "checkpoint": grads[0],
    }


def _ways(f: Callable[..., Any], every: bool, x: Any, *rest: Any) -> Any:
    """Of a function of arrays what transformations of JAX make of it: those of `_plain`, or all."""
    total, rows, along = _total(f, *rest), _rows_of(x), jnp.cos(x)

    def over_rows(rows: Any) -> Any:
        return jax.lax.scan(lambda c, row: (c + total(row), None), 0.0, rows)[0]

    found = {
        "value": f(x, *rest),
        "grad": jax.grad(total)(x),
        "vmap": jax.vmap(lambda r: f(r, *rest))(rows),
        "grad of rows": jax.vmap(jax.grad(total))(rows),
        "scan": jax.grad(over_rows)(rows),
        "checkpoint": jax.grad(jax.checkpoint(total))(x),
    }
    if every:
        value, linear = jax.linearize(total, x)
        inner = jax.vmap(lambda r: f(r, *rest), in_axes=-1, out_axes=-1)
        found |= {
            "jvp": jax.jvp(total, (x,), (along,)),
            "linearize": (value, linear(along)),
            "hessian": jax.hessian(total)(x),
            "inner axis": inner(jnp.moveaxis(rows, 0, -1)),
            "rows of grad": jax.grad(lambda r: jax.vmap(total)(r).sum())(rows),
        }
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_equals_the_operator_of_jax(name: str) -> None:
    f, case = _made(name)
    own, given = _of_floats(f, case)
    other, _ = _of_floats(partial(case.reference, jnp), case)
    every = name in ("gathered", "several")
    plain = partial(_ways, other, True) if every else partial(_plain, other)
    found, expected = [jax.jit(g)(*given) for g in (partial(_ways, own, every), plain)]
    assert found.keys() == expected.keys()
    for way in expected:
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11, err_msg=way),
            found[way], expected[way],
        )  # fmt: skip


def test_third_derivatives() -> None:
    f, case = _made("stencil")
    x = jnp.asarray(case.arrays[0])

    def total(g: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: jnp.sin(g(x)).sum()

    def third(g: Callable[..., Any]) -> Any:
        return jax.jit(jax.jacfwd(jax.jacrev(jax.grad(total(g)))))(x)

    np.testing.assert_allclose(third(f), third(partial(case.reference, jnp)), atol=1e-11)


def test_linear_functions_of_rows_are_transposed() -> None:
    f, case = _made("dense")
    x, w = map(jnp.asarray, case.arrays)
    linear = jax.linearize(lambda w: f(x, w), w)[1]
    rows = jnp.stack([w, w * 2.0])
    (found,) = jax.linear_transpose(jax.vmap(linear), rows)(jnp.ones((2, 3, 5)))
    np.testing.assert_allclose(found[1], jnp.ones((5, 3)) @ jnp.sin(x))


def test_a_trace_has_operators_alone_and_derivatives_that_are_asked_for() -> None:
    f, case = _made("dense")
    text = str(jax.make_jaxpr(jax.grad(lambda w: f(case.arrays[0], w).sum()))(case.arrays[1]))
    names = re.findall(r"<Operator (\w+)\(", text)
    assert names == ["test_dense", "test_dense_jvp_01_vjp_01_1"]
    assert "pure_callback" not in text


def test_an_index_from_data_out_of_range() -> None:
    f, case = _made("gathered")
    wrong = jnp.array([0, 7, 1, 1])
    text = "BoundsError: X is read at index 7 of axis 0, which has extent 3"
    for g in (f, jax.jit(f), jax.grad(lambda i, x: f(i, x).sum(), 1)):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=text):
            jax.block_until_ready(g(wrong, jnp.asarray(case.arrays[1])))


def test_a_loop_with_its_gradient_inside_of_jit() -> None:
    def grown(x: Any) -> Any:
        return ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)

    example = np.array([1.2, 1.1])
    program = ta.function(grown).trace(example)
    f = op(program.results, program.parameters, "test_loop")
    check_grads(jax.jit(f), [example], order=2, modes=["fwd", "rev"])
    y = example
    while y.sum() < 10.0:
        y = y * example
    np.testing.assert_allclose(f(example), y)
    rows = np.stack([example, example * 1.1])
    np.testing.assert_allclose(jax.vmap(f)(rows), [f(r) for r in rows])


def test_integers_and_empty_arrays() -> None:
    f, case = _made("dense")
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
    h, gathered = _made("gathered")
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
    f, case = _made("dense")
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
    f, _ = _made("dense")
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
    entries = [_made("dense")[0].operator.entry([(n, 4), (5, 4)]) for n in (3, 2)]
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
    f, case = _made("dense")
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


TWO_DEVICES = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from tensorad.interop.jax import op
from tests.interop.operators import CASES

assert len(jax.devices()) == 2
mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
case = CASES["dense"]()
f = op(case.outputs, case.inputs, "dense")
x = jnp.asarray(np.random.default_rng(0).uniform(size=(6, 4)))
w = jnp.asarray(case.arrays[1])

def share(x, w):
    return jax.lax.psum(jnp.sin(f(x, w)).sum(), "rows")

def shared(x, w):
    return jax.shard_map(share, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P())(x, w)

def whole(x, w):
    return jnp.sin(case.reference(jnp, x, w)).sum()

expected = jax.value_and_grad(whole, (0, 1))(x, w)
split = jax.device_put(x, NamedSharding(mesh, P("rows")))
ways = {
    "shard_map": jax.jit(jax.value_and_grad(shared, (0, 1)))(x, w),
    "sharded": jax.jit(jax.value_and_grad(lambda x, w: jnp.sin(f(x, w)).sum(), (0, 1)))(split, w),
}
explicit = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
with jax.set_mesh(explicit):
    split = jax.device_put(x, NamedSharding(explicit, P("rows")))
    total = lambda x, w: jnp.sin(f(x, w)).sum()
    ways["explicit"] = jax.jit(jax.value_and_grad(total, (0, 1)))(split, w)
for way, found in ways.items():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, err_msg=way), found, expected)

case = CASES["gathered"]()
g = op(case.outputs, case.inputs, "gathered")
rows = jax.shard_map(g, mesh=mesh, in_specs=(P(), P("rows")), out_specs=P("rows"))
try:
    jax.block_until_ready(jax.jit(rows)(jnp.asarray([0, 2, 7, 1]), jnp.ones((6, 2))))
except Exception as error:
    assert "BoundsError: X is read at index 7 of axis 0, which has extent 3" in str(error), error
    print("refused")
"""


def test_two_devices() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES],
        capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p), **flags},
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "refused\n"), run.stderr[-3000:]
