"""What is no argument of an operator is refused in words, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from tests.interop.operators import CASES

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.errors import (  # noqa: E402
    BindError,
    BoundsError,
    DefinitionError,
    DTypeError,
    ShapeError,
)
from tensorad.interop.torch import op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
F64 = torch.float64


@cache
def _made(name: str) -> Any:
    case = CASES[name]()
    return op(case.outputs, case.inputs, f"test_arguments_{name}")


def _dense() -> tuple[Any, Any, Any]:
    return _made("dense"), torch.rand(3, 4, dtype=F64), torch.rand(5, 4, dtype=F64)


def _text(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as refused:
        call()
    return str(refused.value)


_CALL = "\n  in: test_arguments_dense(X, W)\n  hint: "
_OTHERWISE = ": its elements lie otherwise than those of an array." + _CALL


def _kinds() -> dict[str, tuple[Any, str]]:
    x = torch.rand(3, 4, dtype=F64)
    rows = [x[0], x[1, :2]]
    padded = f"nested{_OTHERWISE}pass X.to_padded_tensor(0.0)."
    return {
        "coordinates": (x.to_sparse(), f"sparse_coo{_OTHERWISE}pass X.to_dense()."),
        "rows": (x.to_sparse_csr(), f"sparse_csr{_OTHERWISE}pass X.to_dense()."),
        "quantised": (
            torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8),
            f"quantised{_OTHERWISE}pass X.dequantize().",
        ),
        "nested": (torch.nested.nested_tensor(rows), padded),
        "jagged": (torch.nested.nested_tensor(rows, layout=torch.jagged), padded),
        "meta": (
            x.to("meta"),
            "on the device meta; operators run on the CPU."
            f"{_CALL}pass a tensor with elements: there are none on the device meta.",
        ),
    }


_KINDS = ["coordinates", "rows", "quantised", "nested", "jagged", "meta"]


@pytest.mark.parametrize("kind", _KINDS)
def test_what_is_no_array_of_the_cpu(kind: str) -> None:
    f, _, w = _dense()
    given, words = _kinds()[kind]
    for second in (w, w.requires_grad_()):
        found = _text(BindError, partial(f, given, second))
        assert found == f"argument X of test_arguments_dense is {words}"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int64", "bool", "complex128"])
def test_other_dtypes(dtype: str) -> None:
    f, x, w = _dense()
    given = x.to(getattr(torch, dtype))
    words = (
        f"argument X of test_arguments_dense has dtype {dtype}, expected float64."
        f"{_CALL}pass X.to(torch.float64)."
    )
    assert _text(DTypeError, lambda: f(given, w)) == words
    assert _text(DTypeError, lambda: f(given, w.requires_grad_())) == words
    mode = torch._subclasses.fake_tensor.FakeTensorMode()
    fakes = [mode.from_tensor(t) for t in (given, w.detach())]
    with mode:
        assert _text(DTypeError, lambda: f(*fakes)) == words


def test_a_tensor_of_another_device_in_a_trace() -> None:
    f, _, _ = _dense()
    with torch._subclasses.fake_tensor.FakeTensorMode():
        given = [torch.rand(n, 4, dtype=F64, device="cuda") for n in (3, 5)]
        assert _text(BindError, lambda: f(*given)) == (
            "argument X of test_arguments_dense is on the device cuda:0; operators run on the CPU."
            f"{_CALL}pass X.cpu()."
        )


def test_another_number_of_arguments_or_other_things() -> None:
    f, x, w = _dense()
    count = f"{_CALL}pass one tensor for each input, in this order."
    assert _text(BindError, lambda: f(x)) == f"test_arguments_dense takes 2 tensors, got 1.{count}"
    assert _text(BindError, lambda: f(x, w, w)) == (
        f"test_arguments_dense takes 2 tensors, got 3.{count}"
    )
    for thing, kind in ((x.numpy(), "ndarray"), (None, "NoneType"), (1.0, "float")):
        assert _text(BindError, partial(f, thing, w)) == (
            f"argument X of test_arguments_dense must be a torch.Tensor, got {kind}."
            f"{_CALL}pass torch.as_tensor(X)."
        )


def test_other_shapes_in_calls_and_in_traces() -> None:
    f, x, w = _dense()
    words = "  in: X : float64 (n, 4)\n  hint: inputs that share a symbolic size must agree on it."
    assert _text(ShapeError, lambda: f(x[:, :3], w)) == (
        f"X has shape (3, 3), which is none of its shapes where n = 3.\n{words}"
    )
    assert _text(ShapeError, lambda: f(x[0], w)) == (
        "X has shape (4,), which is none of its shapes.\n  in: X : float64 (n, 4)\n"
        "  hint: pass an array of rank 2; vmap calls it for many."
    )
    both = _made("several")
    short, long = torch.rand(3, dtype=F64), torch.rand(4, dtype=F64)
    hint = "  in: W : float64 (n,)\n  hint: inputs that share a symbolic size must agree on it."
    assert _text(ShapeError, lambda: both(short, long)) == (
        f"W has shape (4,), which is none of its shapes where n = 3.\n{hint}"
    )
    trace = torch.fx.experimental.proxy_tensor.make_fx(both, tracing_mode="symbolic")
    symbols = _text(ShapeError, lambda: trace(short, long))
    assert "which is none of its shapes where n = s" in symbols and symbols.endswith(hint)
    compiled = torch.compile(both, fullgraph=True, dynamic=True, backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="none of its shapes where n = s"):
        compiled(short, long)


def test_an_index_from_data_out_of_range() -> None:
    f = _made("gathered")
    index, x = torch.tensor([0, 7, 1, 1]), torch.rand(3, 2, dtype=F64)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for call in (
        lambda: f(index, x),
        lambda: f(index, x.requires_grad_()),
        lambda: f.registered(index, x.detach()),
        lambda: compiled(index, x.detach()),
    ):
        words = _text(BoundsError, call)
        assert words.startswith(
            "X is read at index 7 of axis 0, which has extent 3.\n  in: X[I[i], 0] in Y at "
        )
        assert words.endswith(
            "\n  hint: the index comes from the data of this call: correct it, or clamp it in the "
            "formula with minimum and maximum."
        )


def test_names_of_operators() -> None:
    f = _made("dense")
    case = CASES["dense"]()
    wrong: Any = "all"
    hint = '  hint: write a name such as "min_plus".'
    for name in ("a b", "class", "", "1x"):
        assert _text(DefinitionError, partial(op, case.outputs, case.inputs, name)) == (
            f"the name of an operator must be an identifier, got {name!r}.\n{hint}"
        )
    for name in ("é", "name", "_dir", "__file__", "__origin__"):
        assert _text(DefinitionError, partial(op, case.outputs, case.inputs, name)) == (
            f"an operator of PyTorch cannot be named {name!r}.\n  in: torch.ops.tensorad\n"
            "  hint: choose another name, of ASCII letters, digits and underscores."
        )
    other = CASES["several"]()
    words = _text(DefinitionError, lambda: op(other.outputs, other.inputs, f.__name__))
    assert words == (
        "an operator named test_arguments_dense is registered already, of another program.\n"
        "  in: torch.ops.tensorad.test_arguments_dense: "
        "<Operator test_arguments_dense(X : float64 (n, 4), W : float64 (m, 4))>\n"
        "  hint: choose another name: those in PyTorch are for ever."
    )
    assert op(f.operator.outputs, f.operator.inputs, f.__name__) is f
    assert op(case.outputs, case.inputs, f.__name__) is f, "the same program again"
    with pytest.raises(DefinitionError, match="registered already"):
        op(case.outputs, case.inputs, f.__name__, save="nothing")
    assert _text(DefinitionError, partial(op, case.outputs, case.inputs, "x", save=wrong)) == (
        'save must be "auto" or "nothing", got \'all\'.\n  in: operator x\n'
        '  hint: "nothing" computes all values again that a backward reads.'
    )


@pytest.mark.parametrize("grad", [False, True])
def test_tensors_of_any_layout_are_read_right(grad: bool) -> None:
    f = _made("dense")
    w = torch.rand(5, 4, dtype=F64, requires_grad=grad)
    z = torch.complex(torch.rand(3, 4, dtype=F64), torch.rand(3, 4, dtype=F64))
    kinds = {
        "transposed": torch.rand(4, 3, dtype=F64).T,
        "expanded": torch.rand(1, 4, dtype=F64).expand(3, 4),
        "strided": torch.rand(3, 8, dtype=F64)[:, ::2],
        "negative": z.conj().imag,
        "one negative": z.conj().imag[:1].contiguous(),
        "negative in a row": torch._neg_view(torch.rand(3, 4, dtype=F64)),
        "conjugate": z.conj().real,
        "empty": torch.rand(0, 4, dtype=F64),
        "zeros without memory": torch._efficientzerotensor((3, 4), dtype=F64),
        "a size of one": torch.rand(3, 4, dtype=F64).as_strided((1, 4), (99, 1)),
    }
    for x in kinds.values():
        own, other = f(x, w), torch.sin(x + 0.0) @ w.T
        torch.testing.assert_close(own, other)
        if grad:
            pairs = [torch.autograd.grad(y, w, torch.ones_like(y)) for y in (own, other)]
            torch.testing.assert_close(*pairs)


def test_a_default_device_changes_nothing() -> None:
    f, x, w = _dense()
    expected = f(x, w)
    torch.set_default_device("meta")
    try:
        found = f(x, w)
    finally:
        torch.set_default_device(None)
    assert torch.equal(found, expected)


def test_a_gradient_that_is_no_array_of_the_dtype() -> None:
    """The gradient that arrives is checked like an argument, by whoever reads it."""
    f, x, w = _dense()
    y = f(x.requires_grad_(), w)
    own = torch.autograd.grad(y, x, torch.ones(1, dtype=F64).expand(3, 5), retain_graph=True)[0]
    other = torch.autograd.grad(y, x, torch.ones(5, 3, dtype=F64).T)[0]
    torch.testing.assert_close(own, torch.cos(x) * w.sum(0))
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize("place", [0, 1])
def test_tensors_whose_storage_was_freed(place: int) -> None:
    """Sharded modules free the storage of parameters that they do not use."""
    f, x, w = _dense()
    freed = (x, w)[place]
    freed.untyped_storage().resize_(0)
    for _ in range(2):
        text = _text(BindError, lambda: f(x, w))
        assert f"with the address 0 for {'XW'[place]}, which has elements." in text
    given = [x, w]
    given[1 - place].requires_grad_()
    assert "with the address 0" in _text(BindError, lambda: f(*given))
