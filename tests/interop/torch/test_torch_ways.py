"""Calls whose tensors are like those before, and all that must not be taken for such a call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, Final

import pytest

from tests.interop.operators import CASES

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.errors import BindError, DTypeError, ShapeError, TensoradError  # noqa: E402
from tensorad.interop.torch import op  # noqa: E402
from tests.interop.torch.ways import ways  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
F64: Final = torch.float64
_numbers = count()
_fw = torch.autograd.forward_ad


def _dense() -> Any:
    case = CASES["dense"]()
    return op(case.outputs, case.inputs, f"test_ways_{next(_numbers)}", save="nothing")


def _given(grad: bool = True, rows: int = 3) -> tuple[Any, Any]:
    torch.manual_seed(0)
    made = [torch.rand(n, 4, dtype=F64, requires_grad=grad) for n in (rows, 5)]
    return made[0], made[1]


def _value(x: Any, w: Any) -> Any:
    return torch.sin(x) @ w.T


def _gradients(x: Any, w: Any, g: Any) -> list[Any]:
    return [torch.cos(x) * (g @ w), g.T @ torch.sin(x)]


def _used() -> tuple[Any, Any, Any, Any]:
    """(operator, its tensors, a gradient): forward and backward saw such tensors before."""
    f, (x, w), g = _dense(), _given(), torch.rand(3, 5, dtype=F64)
    for _ in range(2):
        torch.autograd.grad(f(x, w), (x, w), g)
    assert ways(lambda: torch.autograd.grad(f(x, w), (x, w), g)) == {"call", "forward"}
    return f, x, w, g


class _Sees(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, f: Any, _: Any, given: Any = (), named: Any = None) -> Any:
        self.seen.append(str(f))
        return f(*given, **(named or {}))


class _Function(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, f: Any, _: Any, given: Any = (), named: Any = None) -> Any:
        return f(*given, **(named or {}))


class _Own(torch.Tensor):  # type: ignore[misc]
    """A subclass."""


def test_tensors_like_those_before() -> None:
    f = _dense()
    x, w = _given(False)
    more = _given(False, 7)
    for given, way in (
        ((x, w), {"call", "like"}),
        ((x, w), {"call"}),
        ((x.clone(), w * 2.0), {"call"}),
        (more, {"call", "like"}),
        (more, {"call"}),
        ((x, w), {"call", "like"}),
        ((w, w), {"call", "like"}),
        ((w, w), {"call", "like"}),  # one tensor twice is never told at once
        ((torch.nn.Parameter(x, requires_grad=False), w), {"call", "like"}),
        ((x, w), {"call", "like"}),
        ((x.T.contiguous().T, w), {"call"}),  # copied, then told at once
        ((x.as_subclass(_Own), w), {"call", "in_general"}),
        ((torch._neg_view(x), w), {"call", "in_general"}),
        ((torch._efficientzerotensor((3, 4), dtype=F64), w), {"call", "in_general"}),
    ):
        found: list[Any] = []
        assert ways(lambda given=given, to=found: to.append(f(*given))) == way  # type: ignore[misc]
        torch.testing.assert_close(found[0], _value(*[t.as_subclass(torch.Tensor) for t in given]))
    f(x, w)
    torch.testing.assert_close(f.registered(*more), _value(*more))
    for wrong, error in ((x.float(), DTypeError), (x.to("meta"), BindError), (x[0], ShapeError)):
        with pytest.raises(error):
            f(wrong, w)
    for many in ((x,), (x, w, w)):
        with pytest.raises(BindError):
            f(*many)


def test_states_that_the_tensors_do_not_tell() -> None:
    """The tensors are those of the call before; only what is around the call is not."""
    f = _dense()
    x, w = _given(False)
    f(x, w)
    expected = _value(x, w)
    general: Final = {"call", "in_general"}

    def inside(transform: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: transform(lambda t: f(x, w).sum() * t.sum())(torch.ones(2))

    assert ways(inside(torch.func.grad)) >= general
    assert ways(inside(torch.func.vmap)) >= general
    assert ways(inside(torch.func.functionalize)) >= general
    assert ways(lambda: torch.jit.trace(lambda t: f(x, w) * t, torch.ones(()))) >= general
    assert ways(lambda: f(x, w)) == {"call"}
    with _Sees() as mode:
        assert ways(lambda: f(x, w)) >= general
    assert any("tensorad.test_ways" in name for name in mode.seen)
    with _Function():
        assert ways(lambda: f(x, w)) >= general
    with _fw.dual_level():
        assert ways(lambda: f(x, w)) >= general
        along = _fw.unpack_dual(f(_fw.make_dual(x, torch.ones_like(x)), w)).tangent
    torch.testing.assert_close(along, torch.cos(x) @ w.T)
    for around in (torch.inference_mode, lambda: torch.autocast("cpu", dtype=torch.bfloat16)):
        with around():
            assert ways(lambda: f(x, w)) == {"call", "like"}
            assert torch.equal(f(x, w), f(x.clone(), w))
    torch.testing.assert_close(f(x, w), expected)
    compiled = torch.compile(lambda: f(x, w), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(), expected)


def test_gradients_that_are_wanted_now_and_then() -> None:
    f = _dense()
    x, w = _given()
    plain = w.detach()
    for _ in range(2):
        assert f(x, w).requires_grad and f(x, plain).requires_grad
        with torch.no_grad():
            assert not f(x, w).requires_grad
        assert not f(x.detach(), plain).requires_grad
        assert torch.autograd.grad(f(x, plain).sum(), x)[0].shape == x.shape
        assert torch.autograd.grad(f(x, w).sum(), w)[0].shape == w.shape


REPLACED: Final[dict[str, tuple[Callable[[Any], Any], set[str]]]] = {
    "a copy": (lambda t: t.detach().clone(), {"call"}),
    "one that requires a gradient": (lambda t: t.detach().clone().requires_grad_(), {"call"}),
    "other elements": (lambda t: t.detach() * 2.0, {"call"}),
    "transposed": (lambda t: t.detach().T.contiguous().T, {"call", "like"}),
    "expanded": (lambda t: t.detach()[:1].expand(3, 4), {"call", "like"}),
    "a parameter": (lambda t: torch.nn.Parameter(t.detach()), {"call"}),
    "a subclass, which autograd unwraps": (lambda t: t.detach().as_subclass(_Own), {"call"}),
    "negative": (lambda t: torch._neg_view(t.detach()), {"call", "in_general"}),
    "zeros": (lambda t: torch._efficientzerotensor((3, 4), dtype=F64), {"call", "in_general"}),
}
WRONG: Final[dict[str, tuple[Callable[[Any], Any], type[TensoradError]]]] = {
    "dtype": (lambda t: t.detach().float(), DTypeError),
    "device": (lambda t: t.detach().to("meta"), BindError),
    "layout": (lambda t: t.detach().to_sparse(), BindError),
    "rows": (lambda t: t.detach().to_sparse_csr(), BindError),
    "shape": (lambda t: t.detach()[:2], ShapeError),
    "rank": (lambda t: t.detach()[0], ShapeError),
}


def _hooks(change: Callable[[Any], Any]) -> Any:
    """Of the tensor X alone."""

    def unpack(t: Any) -> Any:
        return change(t) if tuple(t.shape) == (3, 4) else t

    return torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack)


@pytest.mark.parametrize("kind", REPLACED)
def test_saved_tensors_that_hooks_replace(kind: str) -> None:
    f, x, w, g = _used()
    change, way = REPLACED[kind]
    with _hooks(change):
        y = f(x, w)
    found: list[Any] = []
    assert ways(lambda: found.extend(torch.autograd.grad(y, (x, w), g))) == way
    given = change(x).as_subclass(torch.Tensor).detach().clone()
    torch.testing.assert_close(
        [t.as_subclass(torch.Tensor) for t in found], _gradients(given, w, g)
    )


@pytest.mark.parametrize("kind", WRONG)
def test_saved_tensors_that_fit_no_more(kind: str) -> None:
    f, x, w, g = _used()
    change, error = WRONG[kind]
    with _hooks(change):
        y = f(x, w)
    with pytest.raises(error):
        torch.autograd.grad(y, (x, w), g)


def test_saved_tensors_whose_data_changed() -> None:
    f, x, w, g = _used()
    y, z, u = f(x, w), f(x, w), f(x, w)
    w.data = w.data.T.contiguous().T
    torch.testing.assert_close(list(torch.autograd.grad(y, (x, w), g)), _gradients(x, w, g))
    w.data = torch.rand(6, 4, dtype=F64)
    with pytest.raises(ShapeError):
        torch.autograd.grad(z, x, g)
    w.data = torch.rand(5, 4)
    with pytest.raises(DTypeError):
        torch.autograd.grad(u, x, g)


def test_heads_of_all_kinds() -> None:
    f, x, w, _ = _used()
    row = torch.rand(3, 1, dtype=F64)
    heads = {
        "expanded": (row.expand(3, 5), {"call"}),
        "transposed": (torch.rand(5, 3, dtype=F64).T, {"call"}),
        "negative": (torch._neg_view(torch.rand(3, 5, dtype=F64)), {"call", "in_general"}),
        "a subclass": (torch.rand(3, 5, dtype=F64).as_subclass(_Own), {"call", "in_general"}),
    }
    for g, way in heads.values():
        y, found = f(x, w), []
        run = lambda y=y, g=g, to=found: to.extend(torch.autograd.grad(y, (x, w), g))  # noqa: E731
        assert ways(run) == way
        expected = _gradients(x, w, g.as_subclass(torch.Tensor))
        torch.testing.assert_close([t.as_subclass(torch.Tensor) for t in found], expected)
    y, several = f(x, w), torch.rand(2, 3, 5, dtype=F64)
    found = []
    assert ways(
        lambda: found.extend(torch.autograd.grad(y, (x, w), several, is_grads_batched=True))
    ) >= {"call", "in_general"}
    for n in range(2):
        torch.testing.assert_close([t[n] for t in found], _gradients(x, w, several[n]))


def test_a_backward_with_derivatives() -> None:
    f, x, w, g = _used()
    for _ in range(2):
        y, found = f(x, w), []
        run = lambda y=y, to=found: to.extend(  # noqa: E731
            torch.autograd.grad(y, (x, w), g, create_graph=True)
        )
        assert ways(run) >= {"call", "forward"}
        expected = _gradients(x, w, g)
        torch.testing.assert_close(found, expected)
        own, other = [torch.autograd.grad(sum([t.sin().sum() for t in d]), (x, w))
                      for d in (found, expected)]  # fmt: skip
        torch.testing.assert_close(own, other)


AROUND: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "a mode of dispatch": _Sees,
    "forward mode": _fw.dual_level,
}


@pytest.mark.parametrize("kind", AROUND)
def test_a_state_around_the_backward(kind: str) -> None:
    f, x, w, g = _used()
    y, found = f(x, w), []
    with AROUND[kind]():
        way = ways(lambda: found.extend(torch.autograd.grad(y, (x, w), g)))
    assert way >= {"call", "in_general"}
    torch.testing.assert_close(found, _gradients(x, w, g))


def test_compiled_autograd() -> None:
    f, x, w, g = _used()
    y = f(x, w)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        found = torch.autograd.grad(y, (x, w), g)
    torch.testing.assert_close(list(found), _gradients(x, w, g))
    assert ways(lambda: torch.autograd.grad(f(x, w), (x, w), g)) == {"call", "forward"}
