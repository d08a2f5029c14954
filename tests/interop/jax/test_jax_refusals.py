"""What operators inside of JAX refuse, in words of tensorad: each text as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, DTypeError, ShapeError
from tensorad.interop import xla
from tests.interop.jax.inside_jax import MARKS, jax, made
from tests.interop.operators import CASES

import jax.numpy as jnp  # isort: skip
from tensorad.interop import jax as own_jax  # isort: skip
from tensorad.interop.jax import op  # isort: skip

pytestmark = MARKS
OUT_OF_RANGE: Final = (
    "BoundsError: X is read at index 7 of axis 0, which has extent 3.\n"
    "  in: X[I[i], 0] in Y at operators.py:{line}\n"
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum."
)


def _text(kind: type[Exception], run: Callable[[], Any]) -> str:
    with pytest.raises(kind) as refused:
        run()
    return str(refused.value)


def _refused(kind: type[Exception], text: str, *given: Any) -> None:
    f, _ = made("dense")
    for g in (f, jax.jit(f)):
        if g is f or all(isinstance(a, jax.Array | np.ndarray) for a in given):
            assert _text(kind, lambda g=g: g(*given)) == text


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
        DTypeError,
        "argument W of test_dense has dtype int64, expected float64.\n"
        "  hint: pass W.astype('float64').",
        x, w.astype("int64"),
    )  # fmt: skip
    _refused(
        ShapeError,
        "X has shape (3, 3), which is none of its shapes where n = 3.\n"
        "  in: X : float64 (n, 4)\n  hint: inputs that share a symbolic size must agree on it.",
        x[:, :3], w,
    )  # fmt: skip
    _refused(
        ShapeError,
        "X has shape (3, 4, 1), which is none of its shapes.\n"
        "  in: X : float64 (n, 4)\n  hint: pass an array of rank 2; vmap calls it for many.",
        x[..., None], w,
    )  # fmt: skip


def test_sizes_that_disagree_under_a_trace() -> None:
    f, _ = made("several")
    kinds = [jax.ShapeDtypeStruct((n,), jnp.float64) for n in (3, 4)]
    rows = [jnp.ones((2, n)) for n in (3, 4)]
    of_one, of_rows = ("(4,)", "(n,)", "n = 3"), ("(2, 4)", "(rows, n)", "rows = 2, n = 3")
    for run, (shape, own, sizes) in (
        (lambda: jax.eval_shape(f, *kinds), of_one),
        (lambda: jax.vmap(f)(*rows), of_rows),
    ):
        assert _text(ShapeError, run) == (
            f"W has shape {shape}, which is none of its shapes where {sizes}.\n"
            f"  in: W : float64 {own}\n"
            "  hint: inputs that share a symbolic size must agree on it."
        )


def test_64_bits_that_jax_does_not_have() -> None:
    text = '  hint: call jax.config.update("jax_enable_x64", True) first, or declare 32 bits.'
    x = ta.placeholder((2,), dtype="float32", name="X")
    counted = ta.compute((2,), lambda i: ta.floor(x[i]).astype("int64"), name="C")
    f = op(counted, [x], "test_counted")
    with jax.enable_x64(False):
        _refused(
            DTypeError,
            "X of test_dense has dtype float64, which JAX does not have now.\n"
            f"  in: X : float64 (n, 4)\n{text}",
            np.ones((3, 4)), np.ones((5, 4)),
        )  # fmt: skip
        one = np.ones(2, "float32")
        for g, given in ((f, one), (jax.jit(f), one), (jax.vmap(f), one[None])):
            assert _text(DTypeError, lambda g=g, given=given: g(given)) == (
                "C of test_counted has dtype int64, which JAX does not have now.\n"
                f"  in: C : int64 (2,)\n{text}"
            )
    assert f(np.array([0.5, 3.5], "float32")).tolist() == [0, 3]


def test_names_of_operators() -> None:
    case, other = CASES["dense"](), CASES["stencil"]()
    for name in ("a b", "", "2d", 3):
        assert _text(DefinitionError, lambda name=name: op(case.outputs, case.inputs, name)) == (
            f"the name of an operator must be an identifier, got {name!r}.\n"
            '  hint: write a name such as "min_plus".'
        )
    f = op(case.outputs, case.inputs, "test_named")
    assert repr(f) == "<jax operator test_named>"
    assert op(case.outputs, case.inputs, "test_named") is f
    again = CASES["dense"]()
    assert op(again.outputs, again.inputs, "test_named") is f
    assert _text(DefinitionError, lambda: op(other.outputs, other.inputs, "test_named")) == (
        "an operator named test_named is there already, of another program.\n"
        "  in: <Operator test_named(X : float64 (n, 4), W : float64 (m, 4))>\n"
        "  hint: keep what op returned, or choose another name."
    )
    with pytest.raises(DefinitionError, match="named test_named is there already"):
        op(case.outputs, case.inputs[::-1], "test_named")


def test_inputs_by_their_names() -> None:
    f, case = made("dense")
    x, w = map(jnp.asarray, case.arrays)
    wanted = f(x, w)
    for found in (f(W=w, X=x), f(x, W=w), jax.jit(partial(f, W=w))(x)):
        assert found.tolist() == wanted.tolist()
    for named, text in (
        ({"w": w}, "argument w of test_dense is no name of one input."),
        ({"X": x}, "argument X of test_dense is given twice."),
        ({}, "test_dense takes 2 arrays, got 1."),
    ):
        assert _text(BindError, lambda named=named: f(x, **named)).startswith(text)
    assert _text(BindError, lambda: f(W=w)).startswith("argument X of test_dense is missing.")


def test_inputs_of_operators() -> None:
    case = CASES["dense"]()
    with pytest.raises(DefinitionError, match="reads W, which is none of its inputs"):
        op(case.outputs, case.inputs[:1], "test_other")
    with pytest.raises(DefinitionError, match=r"input X of operator test_other is given twice"):
        op(case.outputs, [*case.inputs, case.inputs[0]], "test_other")


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_other_platforms(platform: str) -> None:
    f, case = made("dense")

    def text(which: str) -> str:
        return (
            f"test_dense is compiled for the {which}; operators run on the CPU.\n"
            '  hint: run it under jax.default_device(jax.devices("cpu")[0]).'
        )

    traced = jax.jit(f).trace(*case.arrays)
    for several in ((platform,), ("cpu", platform)):
        lowered = _text(BindError, lambda several=several: traced.lower(lowering_platforms=several))
        assert lowered == text(f"platform{'s' * (len(several) > 1)} {', '.join(several)}")
    export = jax.export.export(jax.jit(f), platforms=(platform,))
    assert _text(BindError, lambda: export(*case.arrays)) == text(f"platform {platform}")


def test_code_that_leaves_its_process() -> None:
    f, case = made("dense")
    export = jax.export.export(jax.jit(f))
    assert _text(BindError, lambda: export(*case.arrays)) == (
        "test_dense cannot be exported: it is compiled for the process that it runs in.\n"
        "  hint: save what the function is made of, and compile it where it runs."
    )
    n, m = jax.export.symbolic_shape("n, m")
    kinds = [jax.ShapeDtypeStruct((k, 4), jnp.float64) for k in (n, m)]
    assert _text(ShapeError, lambda: jax.jit(f).lower(*kinds)) == (
        "test_dense is compiled for shapes of numbers, got (n, 4), (m, 4).\n"
        "  hint: lower a function for each shape, without symbolic dimensions."
    )


def _out_of_range() -> str:
    """What XLA says after the class of its error."""
    code = CASES["gathered"].__code__
    line = next(n for _, _, n in code.co_lines() if n and n > code.co_firstlineno + 1)
    return OUT_OF_RANGE.format(line=line)


def test_an_index_from_data_out_of_range() -> None:
    f, case = made("gathered")
    wrong, x = jnp.array([0, 7, 1, 1]), jnp.asarray(case.arrays[1])

    def run(g: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: jax.block_until_ready(g(wrong, x))

    ways: list[Callable[..., Any]] = [
        f,
        jax.jit(f),
        lambda i, x: jax.lax.map(lambda x: f(i, x), x[None]),
    ]
    for g in ways:
        assert _text(jax.errors.JaxRuntimeError, run(g)) == f"OUT_OF_RANGE: {_out_of_range()}"
    slope = jax.grad(lambda i, x: f(i, x).sum(), 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="X is read at index 7 of axis 0"):
        run(slope)()


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
        rows = jax.vmap(f, (None, 0))(index, jnp.stack([x, x + 1.0]))
    assert [str(w.message) for w in said] == [
        "tensorad knows version 0.3 of XLA's interface to foreign functions, and finds 7.1: "
        "operators are called through Python (jax.pure_callback), which takes longer."
    ]
    expected = jax.value_and_grad(lambda x: case.reference(jnp, index, x).sum())(x)
    jax.tree.map(np.testing.assert_allclose, found, expected)
    np.testing.assert_allclose(rows[1], case.reference(jnp, index, x + 1.0))
    with pytest.raises(jax.errors.JaxRuntimeError) as refused:
        jax.block_until_ready(f(index + 5, x))
    assert "BoundsError: X is read at index 7 of axis 0, which has extent 3." in str(refused.value)


def test_a_version_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "version_of", lambda include: None)
    with pytest.warns(UserWarning, match="interface to foreign functions, and finds none: oper"):
        assert not own_jax._is_registered.__wrapped__()
