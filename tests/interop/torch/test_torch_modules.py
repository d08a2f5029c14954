"""An operator in a module of PyTorch, as its users move modules about."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest

import tensorad as ta
from tensorad.errors import BindError, ShapeError

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tensorad.interop.torch import op  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def _max_plus() -> Any:
    n = ta.size("n")
    inputs = [ta.placeholder(s, name=k) for k, s in (("X", (n, 4)), ("W", (4, 3)), ("B", (3,)))]
    x, w, b = inputs
    k = ta.reduce_axis(4, name="k")
    y = ta.compute((n, 3), lambda i, j: ta.max(x[i, k] + w[k, j], axis=k) + b[j], name="Y")
    return op(y, inputs, "test_module")


class Layer(torch.nn.Module):
    """max_k x[i, k] + w[k, j] + b[j]."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.linspace(-1.0, 1.5, 12).reshape(4, 3).clone())
        self.b = torch.nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))
        self.f = _max_plus()

    def forward(self, x: Any) -> Any:
        return self.f(x, self.w, B=self.b)


X: Final = torch.linspace(-2.0, 2.0, 20).reshape(5, 4).cos()


def expected(m: Any, x: Any) -> Any:
    return (x[:, :, None] + m.w).amax(1) + m.b


def _saved(value: Any, **how: Any) -> Any:
    to = io.BytesIO()
    torch.save(value, to)
    to.seek(0)
    return torch.load(to, **how)


def _of_state(m: Any) -> Any:
    made = Layer()
    made.load_state_dict(_saved({k: v * 2.0 for k, v in m.state_dict().items()}))
    return made


MOVED: Final[dict[str, Callable[[Any], Any]]] = {
    "itself": lambda m: m,
    "a deep copy": copy.deepcopy,
    "pickled": lambda m: pickle.loads(pickle.dumps(m)),
    "saved": lambda m: _saved(m, weights_only=False),
    "of a saved state": _of_state,
    "of shared memory": lambda m: m.share_memory(),
    "averaged": lambda m: torch.optim.swa_utils.AveragedModel(m).module,
    "traced by fx": torch.fx.symbolic_trace,
    "traced by jit": lambda m: torch.jit.trace(m, X),
    "a script of a trace": lambda m: torch.jit.script(torch.jit.trace(m, X)),
    "compiled": lambda m: torch.compile(m, backend="aot_eager", fullgraph=True),
    "exported": lambda m: torch.export.export(m, (X,)).module(),
}


@pytest.mark.parametrize("kind", MOVED)
def test_a_module_that_was_moved(kind: str) -> None:
    m = MOVED[kind](Layer())
    x = X.clone().requires_grad_()
    found = m(x)
    other = X.clone().requires_grad_()
    wanted = expected(m, other)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(found.sin().sum(), [x, *m.parameters()]),
        torch.autograd.grad(wanted.sin().sum(), [other, *m.parameters()]),
    )


def test_parameters_from_outside() -> None:
    m = Layer()
    own = dict(m.named_parameters())
    loss = lambda p: torch.func.functional_call(m, p, (X,)).sin().sum()  # noqa: E731
    wanted = torch.autograd.grad(expected(m, X).sin().sum(), [m.w, m.b])
    found = torch.func.grad(loss)(own)
    torch.testing.assert_close([found["w"], found["b"]], list(wanted))
    several = {k: torch.stack([v, v * 2.0]) for k, v in own.items()}
    each = torch.func.vmap(loss)(several)
    alone = [loss({k: v[n] for k, v in several.items()}) for n in range(2)]
    torch.testing.assert_close(each, torch.stack(alone))


def test_a_graph_has_the_operator() -> None:
    graph = torch.fx.symbolic_trace(Layer())
    assert "torch.ops.tensorad.test_module.default(" in graph.code
    with torch.profiler.profile() as seen:
        Layer()(X)
    assert "test_module" in [e.key for e in seen.key_averages()]


def test_inputs_by_their_names() -> None:
    m = Layer()
    f, wanted = m.f, expected(m, X)
    for found in (f(X, W=m.w, B=m.b), f(B=m.b, W=m.w, X=X), f(X, m.w, B=m.b)):
        torch.testing.assert_close(found, wanted)
    for given, named, text in (
        ((X, m.w), {"Q": m.b}, "argument Q of test_module is no name of one input."),
        ((X, m.w), {"X": X}, "argument X of test_module is given twice."),
        ((X,), {"B": m.b}, "argument W of test_module is missing."),
    ):
        with pytest.raises(BindError) as refused:
            f(*given, **named)
        assert str(refused.value) == (
            f"{text}\n  in: test_module(X, W, B)\n"
            "  hint: pass each input once, by its place or by its name."
        )
    with pytest.raises(BindError, match=r"hint: did you mean W\? pass each input once"):
        f(X, w=m.w, B=m.b)


def test_a_batch_of_batches_is_told_of_vmap() -> None:
    m = Layer()
    with pytest.raises(ShapeError) as refused:
        m(torch.zeros(2, 5, 4))
    assert str(refused.value) == (
        "X has shape (2, 5, 4), which is none of its shapes.\n  in: X : float32 (n, 4)\n"
        "  hint: pass an array of rank 2; vmap calls it for many."
    )
    assert torch.vmap(m)(torch.zeros(2, 5, 4)).shape == (2, 5, 3)


def test_an_export_to_onnx_takes_a_translation_of_the_operator() -> None:
    """ONNX has no such operator: PyTorch names it, and takes what stands for it."""
    ops = pytest.importorskip("onnxscript", reason="onnxscript is not installed").opset18
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    m = Layer().eval()

    def max_plus(x: Any, w: Any, b: Any) -> Any:
        one, two = [ops.Constant(value_ints=[n]) for n in (1, 2)]
        return ops.Add(ops.ReduceMax(ops.Add(ops.Unsqueeze(x, two), w), one, keepdims=0), b)

    with pytest.raises(torch.onnx.OnnxExporterError, match=r"tensorad\.test_module"):
        torch.onnx.export(m, (X,), dynamo=True, verbose=False)
    table = {m.f.registered: max_plus}
    made = torch.onnx.export(m, (X,), dynamo=True, verbose=False, custom_translation_table=table)
    session = runtime.InferenceSession(made.model_proto.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), m(X).detach())
