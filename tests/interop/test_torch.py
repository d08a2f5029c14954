"""Operators inside of PyTorch: checked by its own checks, beside the same operators of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any

import pytest

import tensorad as ta
from tests.interop.operators import CASES, Case

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.errors import (  # noqa: E402
    BindError,
    BoundsError,
    DefinitionError,
    DTypeError,
    ShapeError,
)
from tensorad.interop.torch import TorchOperator, op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
_numbers = count()


@cache
def _made(name: str) -> tuple[Any, Case]:
    case = CASES[name]()
    return op(case.outputs, case.inputs, f"test_{name}"), case


def _arguments(case: Case) -> list[Any]:
    made = [torch.from_numpy(a.copy()) for a in case.arrays]
    return [t.requires_grad_() if t.is_floating_point() else t for t in made]


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _scalar(f: Callable[..., Any], fixed: list[Any], at: int) -> Callable[[Any], Any]:
    """A number of one argument."""

    def total(x: Any) -> Any:
        given = [*fixed[:at], x, *fixed[at + 1 :]]
        return sum([torch.sin(y).sum() for y in _several(f(*given))])

    return total


@pytest.mark.parametrize("name", CASES)
def test_derivatives_by_gradcheck(name: str) -> None:
    f, case = _made(name)
    given = _arguments(case)
    assert torch.autograd.gradcheck(f, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, given, check_fwd_over_rev=True)


@pytest.mark.parametrize("name", CASES)
def test_the_registered_operator_is_one(name: str) -> None:
    f, case = _made(name)
    found = torch.library.opcheck(f.registered, _arguments(case))
    assert list(found.values()) == ["SUCCESS"] * 4


@pytest.mark.parametrize("name", CASES)
def test_it_equals_the_operator_of_pytorch(name: str) -> None:
    f, case = _made(name)
    reference = partial(case.reference, torch)
    given = [t.detach() for t in _arguments(case)]
    for own, other in zip(_several(f(*given)), _several(reference(*given)), strict=True):
        torch.testing.assert_close(own, other)
    at = next(n for n, t in enumerate(given) if t.is_floating_point())
    x = given[at]
    for derive in ("grad", "jacrev", "jacfwd", "hessian"):
        own, other = [getattr(torch.func, derive)(_scalar(g, given, at))(x) for g in (f, reference)]
        torch.testing.assert_close(own, other)
    direct = torch.func.hessian(_scalar(f.registered, given, at))(x)
    torch.testing.assert_close(direct, other)
    along = torch.ones_like(x)
    own, other = [torch.func.jvp(_scalar(g, given, at), (x,), (along,)) for g in (f, reference)]
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize("name", CASES)
def test_rows_by_vmap(name: str) -> None:
    f, case = _made(name)
    reference = partial(case.reference, torch)
    given = [t.detach() for t in _arguments(case)]
    at = next(n for n, t in enumerate(given) if t.is_floating_point())
    rows = torch.stack([given[at], given[at] * 1.1, given[at] * 0.9])
    dims = tuple([0 if n == at else None for n in range(len(given))])
    arguments = [*given[:at], rows, *given[at + 1 :]]
    own, other = [torch.func.vmap(g, dims)(*arguments) for g in (f, reference)]
    for a, b in zip(_several(own), _several(other), strict=True):
        torch.testing.assert_close(a, b)
    own, other = [
        torch.func.vmap(torch.func.grad(_scalar(g, given, at)))(rows) for g in (f, reference)
    ]
    torch.testing.assert_close(own, other)


def test_compiled_once_for_all_sizes() -> None:
    f, case = _made("dense")
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, w: torch.sin(f(torch.relu(x), w)).sum(),
        fullgraph=True, dynamic=True, backend=counter,
    )  # fmt: skip
    for n in (3, 5, 8):
        x = torch.rand(n, 4, dtype=torch.float64, requires_grad=True)
        w = torch.rand(n + 2, 4, dtype=torch.float64, requires_grad=True)
        own = torch.autograd.grad(compiled(x, w), (x, w))
        value = torch.sin(case.reference(torch, torch.relu(x), w)).sum()
        torch.testing.assert_close(own, torch.autograd.grad(value, (x, w)))
    assert counter.frame_count == 1


def test_exported_with_a_dynamic_size() -> None:
    f, _ = _made("dense")

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.rand(5, 4, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            return f(x, self.w)

    layer = Layer()
    n = torch.export.Dim("n", min=2, max=100)
    example = torch.rand(3, 4, dtype=torch.float64)
    program = torch.export.export(layer, (example,), dynamic_shapes={"x": {0: n}})
    x = torch.rand(7, 4, dtype=torch.float64)
    torch.testing.assert_close(program.module()(x), layer(x))


def test_the_way_that_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    f, case = _made("dense")
    taken: list[str] = []
    function, kernel, registered = f._function, f._kernel, f.registered

    class Function:
        @staticmethod
        def apply(*tensors: Any) -> Any:
            taken.append("function")
            return function.apply(*tensors)

    def ran(tensors: Any) -> Any:
        taken.append("kernel")
        return kernel(tensors)

    def called(*tensors: Any) -> Any:
        taken.append("registered")
        return registered(*tensors)

    ran.check_tensors = kernel.check_tensors  # type: ignore[attr-defined]
    monkeypatch.setattr(f, "_function", Function)
    monkeypatch.setattr(f, "_kernel", ran)
    monkeypatch.setattr(f, "registered", called)
    x, w = _arguments(case)

    def way(run: Callable[[], Any]) -> list[str]:
        taken.clear()
        run()
        return list(taken)

    with torch.no_grad():
        assert way(lambda: f(x, w)) == ["kernel"]
    assert way(lambda: f(x.detach(), w.detach())) == ["kernel"]
    assert way(lambda: f(x, w)) == ["function", "kernel"]
    assert way(lambda: torch.func.grad(lambda a: f(a, w.detach()).sum())(x.detach()))[0] == (
        "registered"
    )
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fakes = [torch.rand(t.shape, dtype=t.dtype) for t in (x, w)]
        assert way(lambda: f(*fakes)) == ["registered"]


def test_autocast_computes_in_the_declared_dtype() -> None:
    f, case = _made("dense")
    x, w = [t.detach() for t in _arguments(case)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f(x.bfloat16(), w).dtype is torch.float64


def test_tensors_of_any_layout_are_read_right() -> None:
    f, case = _made("dense")
    reference = partial(case.reference, torch)
    w = torch.rand(5, 4, dtype=torch.float64)
    z = torch.complex(torch.rand(3, 4, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64))
    kinds = {
        "transposed": torch.rand(4, 3, dtype=torch.float64).T,
        "expanded": torch.rand(1, 4, dtype=torch.float64).expand(3, 4),
        "strided": torch.rand(3, 8, dtype=torch.float64)[:, ::2],
        "negative": z.conj().imag,
        "one negative": z.conj().imag[:1].contiguous(),
        "empty": torch.rand(0, 4, dtype=torch.float64),
    }
    for x in kinds.values():
        torch.testing.assert_close(f(x, w), reference(x, w))


def test_an_index_from_data_out_of_range() -> None:
    f, _ = _made("gathered")
    x = torch.rand(3, 2, dtype=torch.float64)
    with pytest.raises(BoundsError, match="X is read at index 7 of axis 0, which has extent 3"):
        f(torch.tensor([0, 7, 1, 1]), x)


def _refused(kind: type[Exception], text: str, *given: Any) -> None:
    f, _ = _made("dense")
    with pytest.raises(kind) as refused:
        f(*given)
    assert str(refused.value) == text


def test_arguments_that_do_not_fit() -> None:
    x, w = torch.rand(3, 4, dtype=torch.float64), torch.rand(5, 4, dtype=torch.float64)
    _refused(
        BindError,
        "test_dense takes 2 tensors, got 1.\n  in: test_dense(X, W)\n"
        "  hint: pass one tensor for each input, in this order.",
        x,
    )
    _refused(
        BindError,
        "argument X of test_dense must be a torch.Tensor, got ndarray.\n"
        "  hint: pass torch.as_tensor(X).",
        x.numpy(), w,
    )  # fmt: skip
    _refused(
        DTypeError,
        "argument X of test_dense has dtype bfloat16, expected float64.\n"
        "  hint: pass X.to(torch.float64).",
        x.bfloat16(), w,
    )  # fmt: skip
    _refused(
        BindError,
        "argument W of test_dense is on the device meta; operators run on the CPU.\n"
        "  hint: pass W.cpu().",
        x, w.to("meta"),
    )  # fmt: skip
    _refused(
        BindError,
        "argument X of test_dense is sparse_coo: its elements lie otherwise than those of an "
        "array.\n  hint: pass X.to_dense(), or X.dequantize().",
        x.to_sparse(), w,
    )  # fmt: skip
    _refused(
        ShapeError,
        "X has shape (3, 3), which is none of its shapes where n = 3.\n"
        "  in: X : float64 (n, 4)\n  hint: inputs that share a symbolic size must agree on it.",
        x[:, :3], w,
    )  # fmt: skip


def test_names_and_inputs_of_operators() -> None:
    f, case = _made("dense")
    assert isinstance(f, TorchOperator) and f.registered is torch.ops.tensorad.test_dense.default
    with pytest.raises(DefinitionError, match="named test_dense is registered already"):
        op(case.outputs, case.inputs, "test_dense")
    with pytest.raises(DefinitionError, match="must be an identifier, got 'a b'"):
        op(case.outputs, case.inputs, "a b")
    with pytest.raises(DefinitionError, match="reads W, which is none of its inputs"):
        op(case.outputs, case.inputs[:1], f"test_other_{next(_numbers)}")
    with pytest.raises(DefinitionError, match=r"input X of operator .* is given twice"):
        op(case.outputs, [*case.inputs, case.inputs[0]], f"test_other_{next(_numbers)}")


def test_a_loop_with_its_gradient_inside_of_a_module() -> None:
    def grown(x: Any) -> Any:
        return ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)

    example = torch.tensor([1.2, 1.1], dtype=torch.float64)
    program = ta.function(grown).trace(example.numpy())
    f = op(program.results, program.parameters, f"test_loop_{next(_numbers)}")
    x = example.requires_grad_()
    assert torch.autograd.gradcheck(f, [x], check_forward_ad=True)
    y = x
    while y.sum() < 10.0:
        y = y * x
    torch.testing.assert_close(f(x), y)
