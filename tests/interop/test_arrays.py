"""Tensors of PyTorch and arrays of JAX in calls of compiled functions."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, DTypeError, ShapeError, UserError

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp: Any = jax.numpy
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

X: Final = ta.placeholder((3,), "float64", name="X")
W: Final = ta.placeholder((3,), "float64", name="W")
f: Final = ta.build(ta.compute((3,), lambda i: X[i] * 2.0 + W[i], name="Y"), [X, W])
twice: Final = ta.function(lambda a: a * 2.0)
w: Final = np.array([1.0, -1.0, 0.5])
B: Final = ta.placeholder((3,), "bool", name="B")
WHERE: Final = "  in: X : float64 (3,)"
OP: Final = "make an operator of PyTorch, tensorad.interop.torch.op(outputs, inputs, name)"


def t64(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


READ: Final[dict[str, Callable[[], Any]]] = {
    "contiguous": lambda: t64(1, 2, 3),
    "with gaps": lambda: t64(1, 9, 2, 9, 3, 9)[::2],
    "reversed": lambda: t64(3, 2, 1).flip(0),
    "a column": lambda: torch.stack([t64(1, 2, 3), t64(4, 5, 6)], 1)[:, 0],
    "expanded": lambda: t64(2).expand(3),
    "a negative view": lambda: torch.tensor([1 - 2j, 3 - 4j, 1j]).conj().imag,
    "float32": lambda: torch.tensor([1.0, 2.0, 3.0]),
    "booleans": lambda: torch.tensor([True, False, True]),
    "bytes": lambda: torch.tensor([1, 2, 3], dtype=torch.uint8),
    "a detached parameter": lambda: torch.nn.Parameter(t64(1, 2, 3)).detach(),
    "a parameter without gradient": lambda: torch.nn.Parameter(t64(1, 2, 3), requires_grad=False),
    "of memory of NumPy": lambda: torch.from_numpy(np.array([1.0, 2.0, 3.0])),
    "of an inference": lambda: _inferred(),
}


def _inferred() -> Any:
    with torch.inference_mode():
        return t64(1, 2, 3) * 2.0


@pytest.mark.parametrize("kind", READ)
def test_tensors_of_torch_are_read(kind: str) -> None:
    t = READ[kind]()
    values = np.array(t.tolist())
    np.testing.assert_array_equal(f(t, w), values * 2.0 + w)
    np.testing.assert_array_equal(f(W=w, X=t), values * 2.0 + w)
    np.testing.assert_array_equal(twice(t), values * 2.0)


def test_tensors_of_torch_are_read_where_they_lie() -> None:
    n = 1 << 21
    z = ta.placeholder((n,), "float64", name="z")
    g = ta.build(z * 2.0, [z])
    t, out = torch.ones(n, dtype=torch.float64), torch.empty(n, dtype=torch.float64)
    g(t, out=out)
    gc.collect()
    tracemalloc.start()
    g(t, out=out)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 16
    assert bool((out == 2.0).all())


def test_results_land_in_tensors_of_torch() -> None:
    out = torch.zeros(3, dtype=torch.float64)
    assert f(t64(1, 2, 3), w, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.array([1.0, 2.0, 3.0]) * 2.0 + w)
    wide = torch.zeros(2, 3, 2, dtype=torch.float64)
    assert f(t64(1, 2, 3), w, out=[wide[1, :, 0]])[0] == 3.0
    assert wide[0].sum() == 0.0 and wide[1, :, 1].sum() == 0.0 and wide[1, 2, 0] == 6.5
    z = ta.placeholder((3,), "float64", name="z")
    g = ta.build([z * 2.0, z + 1.0], [z])
    outs = [torch.empty(3, dtype=torch.float64), np.empty(3)]
    found = g(t64(1, 2, 3), out=outs)
    assert found[0] is outs[0] and found[1] is outs[1]
    assert outs[0].tolist() == [2.0, 4.0, 6.0] and outs[1].tolist() == [2.0, 3.0, 4.0]


def test_arrays_of_jax_are_read() -> None:
    with jax.enable_x64(True):
        a = jnp.arange(3.0)
        np.testing.assert_array_equal(f(a, w), np.arange(3.0) * 2.0 + w)
        np.testing.assert_array_equal(twice({"a": a}["a"]), np.arange(3.0) * 2.0)
        np.testing.assert_array_equal(f(a[::-1], a), np.array([4.0, 3.0, 2.0]))
        both = ta.build(ta.compute((3,), lambda i: ta.select(B[i], X[i], 0.0)), [B, X])
        np.testing.assert_array_equal(both(a > 0.5, a), [0.0, 1.0, 2.0])
        np.testing.assert_array_equal(f(torch.from_dlpack(a), w), np.arange(3.0) * 2.0 + w)


REFUSED: Final[dict[str, tuple[Callable[[], Any], type[UserError], str]]] = {
    "gradient": (
        lambda: t64(1, 2, 3).requires_grad_(),
        BindError,
        "{what} requires a gradient, which a call of a compiled function does not record.|"
        f"{OP}; for the values alone pass {{name}}.detach().",
    ),
    "a parameter": (
        lambda: torch.nn.Parameter(t64(1, 2, 3)),
        BindError,
        "{what} requires a gradient, which a call of a compiled function does not record.|"
        f"{OP}; for the values alone pass {{name}}.detach().",
    ),
    "a result": (
        lambda: t64(1, 2, 3).requires_grad_() * 2.0,
        BindError,
        "{what} requires a gradient, which a call of a compiled function does not record.|"
        f"{OP}; for the values alone pass {{name}}.detach().",
    ),
    "meta": (
        lambda: torch.empty(3, dtype=torch.float64, device="meta"),
        BindError,
        "{what} is on the device meta: it has a shape, but no elements.|"
        "pass a tensor that has some, on the CPU.",
    ),
    "sparse": (
        lambda: t64(1, 0, 3).to_sparse(),
        BindError,
        "{what} has the layout torch.sparse_coo, which arrays do not have.|pass {name}.to_dense().",
    ),
    "compressed": (
        lambda: torch.eye(3).to_sparse_csr(),
        BindError,
        "{what} has the layout torch.sparse_csr, which arrays do not have.|pass {name}.to_dense().",
    ),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
        BindError,
        "{what} is quantised: its elements are torch.quint8.|pass {name}.dequantize().",
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([t64(1, 2), t64(1)]),
        BindError,
        "{what} is a nested tensor, whose rows are of several lengths.|"
        "pad it: torch.nested.to_padded_tensor({name}, 0.0).",
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor([t64(1, 2), t64(1)], layout=torch.jagged),
        BindError,
        "{what} is a nested tensor, whose rows are of several lengths.|"
        "pad it: torch.nested.to_padded_tensor({name}, 0.0).",
    ),
    "bfloat16": (
        lambda: torch.ones(3, dtype=torch.bfloat16),
        DTypeError,
        "{what} has dtype bfloat16: there is no half-precision arithmetic.|"
        "convert it to float32 first.",
    ),
    "float16": (
        lambda: torch.ones(3, dtype=torch.float16),
        DTypeError,
        "{what} has dtype float16: there is no half-precision arithmetic.|"
        "convert it to float32 first.",
    ),
    "float8": (
        lambda: torch.ones(3).to(torch.float8_e4m3fn),
        DTypeError,
        "{what} has dtype float8_e4m3fn, which NumPy does not have.|"
        "convert it first, e.g. to float32.",
    ),
    "bfloat16 of JAX": (
        lambda: jnp.ones(3, jnp.bfloat16),
        DTypeError,
        "{what} has dtype bfloat16: there is no half-precision arithmetic.|"
        "convert it to float32 first.",
    ),
}


def _refused(act: Callable[[], object], error: type[UserError], text: str) -> None:
    with pytest.raises(error) as caught:
        act()
    assert str(caught.value) == text


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals(kind: str) -> None:
    make, error, text = REFUSED[kind]
    given = make()
    out = np.full(3, 7.0)

    def worded(what: str, name: str, where: str) -> str:
        first, hint = text.format(what=what, name=name).split("|")
        return f"{first}\n{where}\n  hint: {hint}"

    _refused(lambda: f(given, w, out=out), error, worded("argument X", "X", WHERE))
    assert (out == 7.0).all()
    package = type(given).__module__.partition(".")[0]
    shown = f"  in: {package}.{type(given).__name__}"
    _refused(lambda: twice(given), error, worded("a", "a", shown))


def test_wrong_dtypes_shapes_and_counts() -> None:
    convert = "  hint: convert it first if that is meant: x.astype('float64')."
    _refused(
        lambda: f(torch.ones(3, dtype=torch.complex64).conj(), w),
        DTypeError,
        f"argument X has dtype complex64, which float64 cannot hold exactly.\n{WHERE}\n{convert}",
    )
    _refused(
        lambda: f(torch.ones(2, 2), w),
        ShapeError,
        "argument X has shape (2, 2), expected (3,).\n"
        f"{WHERE}\n  hint: pass an array of this shape; nothing is broadcast.",
    )
    _refused(
        lambda: f(torch.ones(3)),
        BindError,
        "Y takes 2 arrays, got 1.\n  in: Y(X, W)\n"
        "  hint: pass one array per input, in the order given to build.",
    )


TARGETS: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "gradient": (
        lambda: t64(1, 2, 3).requires_grad_(),
        "out[0] requires a gradient, which a call of a compiled function does not record.\n"
        f"WHERE\n  hint: {OP}; for the values alone pass out[0].detach().",
    ),
    "a negative view": (
        lambda: torch.zeros(3, dtype=torch.complex128).conj().imag,
        "out[0] is a view whose elements are negated or conjugated when they are read.\n"
        "WHERE\n  hint: pass a tensor of its own, e.g. torch.empty_like.",
    ),
    "expanded": (
        lambda: torch.zeros(1, dtype=torch.float64).expand(3),
        "out[0] overlaps itself: several of its elements share memory.\n"
        "WHERE\n  hint: pass an ordinary array, not a broadcast or overlapping view.",
    ),
    "of another dtype": (
        lambda: torch.zeros(3),
        "out[0] has dtype float32, expected float64.\n"
        "WHERE\n  hint: pass np.empty((3,), 'float64').",
    ),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_refused_targets(kind: str) -> None:
    make, text = TARGETS[kind]
    error = DTypeError if "dtype" in kind else BindError
    given = make()
    before = given.tolist()
    where = "  in: output Y : float64 (3,)"
    _refused(lambda: f(w, w, out=given), error, text.replace("WHERE", where))
    assert given.tolist() == before


def test_arrays_of_jax_are_read_only() -> None:
    with jax.enable_x64(True):
        out = jnp.zeros(3)
        _refused(
            lambda: f(w, w, out=out),
            BindError,
            "out[0] is read-only.\n  in: output Y : float64 (3,)\n"
            "  hint: pass an array that owns its data.",
        )
        assert out.tolist() == [0.0, 0.0, 0.0]


def test_a_target_that_is_read() -> None:
    t = t64(1, 2, 3)
    _refused(
        lambda: f(t, w, out=t),
        BindError,
        "out[0] overlaps argument X in memory.\n"
        "  hint: pass separate arrays: inputs are still read while outputs are written.",
    )
    assert t.tolist() == [1.0, 2.0, 3.0]


def test_what_transforms_of_torch_pass_is_refused() -> None:
    seen: list[str] = []

    def call(t: Any) -> Any:
        for act in (f, lambda t, w: twice(t)):
            with pytest.raises(BindError) as caught:
                act(t, w)
            seen.append(str(caught.value).splitlines()[0].partition(" ")[2])
            assert OP in str(caught.value)
        return t.sum()

    one = torch.ones(3)
    torch.func.grad(call)(one)
    torch.func.vmap(call)(torch.ones(2, 3))
    torch.func.jvp(call, (one,), (one,))
    with torch.autograd.forward_ad.dual_level():
        call(torch.autograd.forward_ad.make_dual(one, one))
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        call(torch.ones(3))
    assert len(seen) == 10


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "jvp"])
def test_tracers_of_jax_are_refused(transform: str) -> None:
    seen: list[str] = []

    def call(a: Any) -> Any:
        for act in (f, lambda a, w: twice(a)):
            with pytest.raises(BindError) as caught:
                act(a, w)
            seen.append(str(caught.value))
        return a.sum()

    one = jnp.ones(3)
    run = {
        "jit": lambda: jax.jit(call)(one),
        "grad": lambda: jax.grad(call)(one),
        "vmap": lambda: jax.vmap(call)(jnp.ones((2, 3))),
        "jvp": lambda: jax.jvp(call, (one,), (one,)),
    }
    run[transform]()
    for text in seen:
        assert "is traced by JAX (" in text and "tensorad.interop.jax.op(" in text
    assert len(seen) == 2


def test_no_package_is_imported_for_it() -> None:
    text = (
        "import sys, numpy as np, tensorad as ta\n"
        "x = ta.placeholder((2,), 'float64', name='x')\n"
        "ta.build(x * 2.0, [x])(memoryview(np.ones(2)))\n"
        "assert not {'torch', 'jax', 'onnx'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


@pytest.mark.parametrize("error", [KeyError("odd"), ZeroDivisionError("odd"), OSError("odd")])
def test_producers_that_raise_anything(error: Exception) -> None:
    class Odd:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **asked: Any) -> Any:
            raise error

    x = ta.placeholder((3,), name="X")
    f = ta.build([ta.compute((3,), lambda i: x[i] * 2.0)], [x])
    with pytest.raises(
        BindError, match=r"argument X is a Odd that does not give its elements: .?odd"
    ):
        f(Odd())


def test_bounds_of_clip_by_either_name() -> None:
    x = ta.placeholder((3,), name="X")
    a = np.array([-1.0, 0.5, 2.0], np.float32)
    given: list[dict[str, Any]] = [
        {"min": 0.0}, {"max": 1.0}, {"min": 0.0, "max": 1.0}, {"a_min": None, "a_max": 1.0},
    ]  # fmt: skip
    for bounds in given:
        clip: Any = np.clip
        found = ta.build([clip(x, **bounds)], [x])(a)
        low, high = bounds.get("min"), bounds.get("max", bounds.get("a_max"))
        np.testing.assert_array_equal(found, np.clip(a, low, high))
    with pytest.raises(DefinitionError, match="got both a_min and min"):
        clip(x, 0.0, 1.0, min=0.0)
