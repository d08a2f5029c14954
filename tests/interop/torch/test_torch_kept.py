"""What a call keeps for its backward: by counts of work, by bytes, at any order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import tensorad as ta
from tensorad import topi
from tests.interop.operators import CASES

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.interop.torch import op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
_numbers = count()
F64 = torch.float64


def _network(save: str) -> Any:
    x = ta.placeholder((32, 64), "float64", name="X")
    w = ta.placeholder((16, 64), "float64", name="W")
    v = ta.placeholder((8, 16), "float64", name="V")
    hidden = topi.tanh(topi.nn.dense(x, w))
    y = topi.nn.softmax(topi.nn.dense(hidden, v))
    return op([y], [x, w, v], f"test_kept_{next(_numbers)}", save=save)


def _reference(x: Any, w: Any, v: Any) -> Any:
    return torch.softmax(torch.tanh(x @ w.T) @ v.T, -1)


def _arguments() -> list[Any]:
    torch.manual_seed(0)
    shapes = [(32, 64), (16, 64), (8, 16)]
    return [(torch.rand(s, dtype=F64) - 0.5).requires_grad_() for s in shapes]


def _saved(call: Callable[[], Any], given: list[Any]) -> tuple[int, int]:
    """Bytes of tensors that autograd saves: of arguments, of others."""
    found = [0, 0]

    def pack(t: Any) -> Any:
        is_given = any(t.data_ptr() == a.data_ptr() for a in given)
        found[0 if is_given else 1] += t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        call()
    return found[0], found[1]


def _backward_work(f: Any) -> int:
    """Iterations of the one backward that a call with gradients for all inputs needs."""
    wanted = f.operator.differentiable_inputs
    own = f.keeping(wanted)
    made = own.operator.pullback_from(wanted, [0], own.used(wanted))
    return int(ta.work(list(made.operator.outputs)).iterations)


def test_kept_values_are_not_computed_again() -> None:
    auto, nothing = _network("auto"), _network("nothing")
    given = _arguments()
    forward = int(ta.work(list(auto.operator.outputs)).iterations)
    products = 32 * 64 * 16 + 32 * 16 * 8
    assert _backward_work(nothing) - _backward_work(auto) >= products
    larger = auto.keeping(auto.operator.differentiable_inputs).operator
    assert ta.work(list(larger.outputs)).iterations == forward, "kept are values that were there"
    inputs = sum([t.numel() * 8 for t in given])
    assert _saved(lambda: nothing(*given), given) == (inputs, 0)
    kept = [larger.outputs[n] for n in auto.keeping((0, 1, 2)).used((0, 1, 2))]
    assert [t.name for t in kept] == ["tanh", "exps", "sum"]
    sizes = 8 * (32 * 16 + 32 * 8 + 32)
    assert _saved(lambda: auto(*given), given) == (inputs, sizes)


def test_what_costs_less_than_memory_is_computed_again() -> None:
    x = ta.placeholder((32, 64), "float64", name="X")
    f = op([topi.nn.softmax(x)], [x], f"test_kept_{next(_numbers)}")
    larger, used = f.operator.keeping((0,))
    assert [larger.outputs[n].name for n in used] == ["max", "sum"], "no exponentials"


def test_an_output_is_kept_in_place_of_computing_it_again() -> None:
    x, w = [ta.placeholder(s, "float64", name=n) for s, n in (((32, 64), "X"), ((16, 64), "W"))]
    k = ta.reduce_axis(64, "k")
    total = ta.compute((32, 16), lambda i, j: ta.sum(x[i, k] * w[j, k], k), name="total")
    square = ta.compute((32, 16), lambda i, j: total[i, j] * total[i, j], name="square")
    f = op([square, total], [x, w], f"test_kept_{next(_numbers)}")
    own = f.keeping((0, 1))
    assert own is f and f.used((0, 1)) == (1,)
    given = _arguments()[:2]
    assert _saved(lambda: f(*given), given)[1] == 32 * 16 * 8


def test_what_no_backward_reads_is_not_kept() -> None:
    f = _network("auto")
    x, w, v = _arguments()
    only = [x.detach(), w.detach(), v]
    assert _saved(lambda: f(*only), only)[1] > 0
    product = op(*_product(), f"test_kept_{next(_numbers)}")
    a, b = torch.rand(4, dtype=F64, requires_grad=True), torch.rand(4, dtype=F64)
    assert _saved(lambda: product(a, b), [b]) == (32, 0), "the factor of what is asked for"


def _product() -> tuple[list[Any], list[Any]]:
    a, b = [ta.placeholder((4,), "float64", name=n) for n in "AB"]
    return [ta.compute((4,), lambda i: a[i] * b[i], name="Y")], [a, b]


@pytest.mark.parametrize("save", ["auto", "nothing"])
def test_any_order_in_both_modes_and_when_compiled(save: str) -> None:
    f = _network(save)
    given = _arguments()
    small = [(t[:, :8] if t.shape[1] == 64 else t).detach() for t in given]
    assert len(small) == 3

    def value(g: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *t: (g(*t) ** 2).sum()

    def twice(g: Callable[..., Any]) -> Any:
        first = torch.autograd.grad(value(g)(*given), given, create_graph=True)
        total = sum([(torch.sin(d) ** 2).sum() for d in first])
        second = torch.autograd.grad(total, given, create_graph=True)
        third = torch.autograd.grad(sum([(d**2).sum() for d in second]), given)
        return first, second, third

    for own, other in zip(twice(f), twice(_reference), strict=True):
        torch.testing.assert_close(own, other)
    plain = [t.detach() for t in given]
    along = tuple([torch.ones_like(t) for t in plain])

    def product(g: Callable[..., Any]) -> Any:
        grads = torch.func.grad(value(g), argnums=(0, 1, 2))
        return torch.func.jvp(grads, tuple(plain), along)

    torch.testing.assert_close(product(f), product(_reference))
    compiled = torch.compile(value(f), fullgraph=True, backend="aot_eager")
    own = torch.autograd.grad(compiled(*given), given)
    torch.testing.assert_close(own, torch.autograd.grad(value(_reference)(*given), given))


def test_rows_of_gradients() -> None:
    f = _network("auto")
    _, w, v = [t.detach() for t in _arguments()]
    rows = torch.rand(3, 32, 64, dtype=F64)

    def per_row(g: Callable[..., Any]) -> Any:
        one = torch.func.grad(lambda x, w: (g(x, w, v) ** 2).sum(), argnums=(0, 1))
        return torch.func.vmap(one, (0, None))(rows, w)

    torch.testing.assert_close(per_row(f), per_row(_reference))


def test_some_gradients_of_several_results() -> None:
    case = CASES["several"]()
    f = op(case.outputs, case.inputs, f"test_kept_{next(_numbers)}")
    x, w = [torch.rand(4, dtype=F64, requires_grad=True) for _ in range(2)]
    product, larger = f(x, w)
    torch.testing.assert_close(torch.autograd.grad(product.sum(), x, retain_graph=True)[0], w)
    torch.testing.assert_close(torch.autograd.grad(larger.sum(), x)[0], torch.exp(x))
    assert torch.autograd.grad(f(x, w)[1].sum(), w)[0].tolist() == [1.0] * 4
    both = torch.autograd.grad(sum(f(x, w)).sum(), x)[0]
    torch.testing.assert_close(both, w + torch.exp(x))
    assert f(x.detach(), w)[0].requires_grad


def test_tensors_changed_since_are_refused() -> None:
    f = _network("auto")
    given = _arguments()
    y = f(*given)
    with torch.no_grad():
        given[1].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
