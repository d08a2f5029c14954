"""Tensors that were seen before and have changed, others beside them, and several threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


def _dense() -> Any:
    case = CASES["dense"]()
    return op(case.outputs, case.inputs, f"test_alike_{next(_numbers)}", save="nothing")


def _given(rows: int = 3, grad: bool = False) -> tuple[Any, Any]:
    made = [torch.rand(n, 4, dtype=F64, requires_grad=grad) for n in (rows, 5)]
    return made[0], made[1]


def _value(x: Any, w: Any) -> Any:
    return torch.sin(x) @ w.T


def _seen() -> tuple[Any, Any, Any]:
    """An operator that has seen these tensors."""
    f, (x, w) = _dense(), _given()
    f(x, w)
    assert ways(lambda: f(x, w)) == {"call"}
    return f, x, w


def _to(x: Any, other: Any) -> None:
    x.data = other


CHANGED: Final[dict[str, Callable[[Any], Any]]] = {
    "fewer rows": lambda x: x.resize_(2, 4),
    "more rows": lambda x: x.resize_(30, 4).fill_(0.5),
    "no rows": lambda x: x.resize_(0, 4),
    "other strides": lambda x: x.as_strided_((3, 4), (1, 3)),
    "one row for all": lambda x: x.as_strided_((3, 4), (0, 1)),
    "other data": lambda x: _to(x, torch.rand(3, 4, dtype=F64)),
    "data of another shape": lambda x: _to(x, torch.rand(6, 4, dtype=F64)),
    "other memory": lambda x: x.set_(torch.rand(3, 4, dtype=F64)),
    "memory behind others": lambda x: x.set_(torch.rand(9, 4, dtype=F64)[2:5]),
    "memory that moved": lambda x: x.untyped_storage().resize_(1 << 20),
    "a gradient is wanted": lambda x: x.requires_grad_(),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_a_tensor_that_changed_in_place(kind: str) -> None:
    f, x, w = _seen()
    CHANGED[kind](x)
    for _ in range(2):
        found, expected = f(x, w), _value(x, w)
        torch.testing.assert_close(found, expected)
        assert found.requires_grad == expected.requires_grad


OTHER: Final[dict[str, tuple[Callable[[Any], Any], type[TensoradError]]]] = {
    "coordinates": (lambda x: x.to_sparse(), BindError),
    "rows": (lambda x: x.to_sparse_csr(), BindError),
    "blocks": (lambda x: x.to_sparse_bsr((1, 2)), BindError),
    "quantised": (lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8), BindError),
    "columns": (lambda x: x.to_sparse_csc(), BindError),
    "opaque": (lambda x: x.float().to_mkldnn(), BindError),
    "nested": (lambda x: torch.nested.nested_tensor([x[0], x[1, :2]]), BindError),
    "meta": (lambda x: x.to("meta"), BindError),
    "complex": (lambda x: torch.complex(x, x).conj(), DTypeError),
    "float32": (lambda x: x.float(), DTypeError),
    "bits of the same width": (lambda x: x.view(torch.int64), DTypeError),
    "data of another dtype": (lambda x: _to(x, x.float()) or x, DTypeError),
    "another rank": (lambda x: x[None], ShapeError),
    "other columns": (lambda x: x[:, :3].contiguous(), ShapeError),
    "an array": (lambda x: x.numpy(), BindError),
    "nothing": (lambda x: None, BindError),
}


@pytest.mark.parametrize("kind", OTHER)
def test_what_is_refused_after_a_tensor_that_was_seen(kind: str) -> None:
    f, x, w = _seen()
    make, error = OTHER[kind]
    given = make(x)
    for _ in range(2):
        with pytest.raises(error):
            f(given, w)
        assert ways(lambda: f(torch.ones(3, 4, dtype=F64), w)) == {"call"}


def test_what_stands_for_a_tensor_that_was_seen() -> None:
    f, x, w = _seen()
    expected = _value(x, w)
    mode = torch._subclasses.fake_tensor.FakeTensorMode()
    fakes = [mode.from_tensor(t) for t in (x, w)]
    assert type(f(*fakes)) is type(fakes[0]) and f(*fakes).shape == (3, 5)
    rows = torch.stack([x, x * 2.0])
    for over in (lambda t: f(t, w), lambda t: f(x, w) + 0.0 * t.sum() - expected + f(t, w)):
        found = torch.func.vmap(over)(rows)
        torch.testing.assert_close(found, torch.stack([_value(t, w) for t in rows]))
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([x, w], layout=layout)
        with pytest.raises((RuntimeError, TensoradError)):
            torch.func.vmap(f, in_dims=(0, None))(nested, w)
    inner = torch.func.vmap(
        lambda t: torch.func.vmap(lambda u: f(t, w * u))(torch.ones(2, dtype=F64))
    )
    both = torch.stack([torch.stack([_value(t, w)] * 2) for t in rows])
    torch.testing.assert_close(inner(rows), both)
    slope = torch.func.vmap(torch.func.grad(lambda t: f(t, w).sum()))(rows)
    torch.testing.assert_close(slope, torch.cos(rows) * w.sum(0))
    _, along = torch.func.jvp(lambda t: f(t, w), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(along, torch.cos(x) @ w.T)
    traced = torch.fx.experimental.proxy_tensor.make_fx(f)(x, w)
    assert "tensorad.test_alike" in traced.code
    symbolic = torch.fx.symbolic_trace(lambda a: f(a, w))
    torch.testing.assert_close(symbolic(x), expected)
    with torch.inference_mode():
        kept = x.clone()
    torch.testing.assert_close(f(kept, w), expected)
    assert ways(lambda: f(x, w)) <= {"call", "like"}
    torch.testing.assert_close(f(x, w), expected)


def _plain(f: Any, x: Any, w: Any) -> list[Any]:
    return [f(x.detach(), w.detach())]


def _derived(f: Any, x: Any, w: Any) -> list[Any]:
    with torch.enable_grad():
        y = f(x, w)
        return [y, *torch.autograd.grad(y, (x, w), torch.ones_like(y))]


def _signatures() -> list[tuple[Callable[..., Any], Any, Any]]:
    """Calls that differ in shapes and in what is differentiated."""
    calls: list[tuple[Callable[..., Any], Any, Any]] = []
    for rows in (3, 7, 2):
        x, w = _given(rows, True)
        calls += [(_plain, x, w), (_derived, x, w), (_derived, x, torch.rand(5, 4, dtype=F64)
                                                      .requires_grad_())]  # fmt: skip
    return calls


@contextmanager
def _before_one(number: int, other: Callable[[], None]) -> Iterator[list[int]]:
    """Another call comes before one instruction of the text of a call; [how many there were]."""
    passed = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != "<tensorad torch operator>":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if passed[0] == number:
                other()
            passed[0] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield passed
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("own", [_plain, _derived])
@pytest.mark.parametrize("other", [_plain, _derived])
def test_another_call_between_any_two_instructions(own: Any, other: Any) -> None:
    """As another thread may: after calls like this one, and after those of the other."""
    f, here, there = _dense(), _given(3, True), _given(7, True)
    first, second = own(f, *here), other(f, *there)

    def beside() -> None:
        found = other(f, *there)
        assert all(map(torch.equal, found, second))

    for before in (lambda: own(f, *here), beside):
        number, many = 0, 1
        while number < many:
            before()
            with _before_one(number, beside) as passed:
                found = own(f, *here)
            assert all(map(torch.equal, found, first)), number
            number, many = number + 1, passed[0]
        assert many > 50


def test_threads_whose_calls_differ() -> None:
    f, calls = _dense(), _signatures()
    expected = [run(f, x, w) for run, x, w in calls]

    def work(start: int) -> int:
        wrong = 0
        for n in range(start, start + 400):
            run, x, w = calls[n * (start + 1) % len(calls)]
            found = run(f, x, w)
            wrong += not all(map(torch.equal, found, expected[n * (start + 1) % len(calls)]))
        return wrong

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == [0] * 4
    finally:
        sys.setswitchinterval(interval)


def test_without_guards_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls look at tensors one by one, whatever came before."""
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    f = _dense()
    for run, x, w in _signatures() * 2:
        found = run(f, x, w)
        y = _value(x, w)
        expected = [y, *torch.autograd.grad(y, (x, w), torch.ones_like(y))]
        torch.testing.assert_close(found, expected[: len(found)])
    x, w = _given()
    for _ in range(2):
        assert ways(lambda: f(x, w)) == {"call", "like"}


def test_many_shapes_are_seen_and_forgotten() -> None:
    f, (_, w) = _dense(), _given()
    for rows in [*range(1, 80), *range(1, 80, 7)]:
        x = torch.rand(rows, 4, dtype=F64)
        torch.testing.assert_close(f(x, w), _value(x, w))
    assert len(f.kernel.seen) <= 64 and len(f.kernel.known) <= 64
