"""Checkpoints of functions: what is stored, what is computed again, and that bits stay."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.text.parser import parse_program
from tensorad.ir.visit import topological_ops

RNG = np.random.default_rng(0)
N, LAYERS = 5, 3
X = RNG.normal(size=N)
W = RNG.normal(size=(LAYERS, N, N)) / 3
POLICIES: Any = ["all", "nothing", ["hidden"], lambda t: t.name == "tanh", lambda t: True]


def layer(x: Any, w: Any) -> Any:
    hidden = ta.keep(ta.tanh(w @ x), "hidden")
    return ta.sin(w @ hidden) + x


def network(policy: Any) -> Any:
    block = ta.checkpoint(layer, policy=policy)

    def loss(x: Any, w: Any) -> Any:
        for n in range(LAYERS):
            x = block(x, w[n])
        return (x * x).sum()

    return loss


def leaves(tree: Any) -> list[np.ndarray]:
    parts = tree if isinstance(tree, (list, tuple)) else [tree]
    return [a for t in parts for a in (leaves(t) if t is not tree else [np.asarray(t)])]


def same_bits(a: Any, b: Any) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(leaves(a), leaves(b), strict=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policy", POLICIES[1:], ids=["nothing", "names", "function", "every"])
def test_values_and_gradients_have_the_bits_of_the_function(policy: Any) -> None:
    one, two = [ta.function(ta.value_and_grad(network(p), (0, 1))) for p in ("all", policy)]
    assert same_bits(one(X, W), two(X, W))


@pytest.mark.slow
def test_forward_mode_and_second_order() -> None:
    plain, again = network("all"), network(["hidden"])
    one, two = [
        ta.function(lambda x, w, f=f: ta.jvp(f, (x, w), (w[0, 0], w * 0.5)))(X, W)
        for f in (plain, again)
    ]
    assert same_bits(one, two)
    one, two = [ta.function(ta.hessian(f))(X, W) for f in (plain, again)]
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_what_is_computed_again_is_what_the_policy_does_not_keep() -> None:
    matmul = N * N
    gradient = [ta.grad(network(p), (0, 1)) for p in POLICIES]
    stored, nothing, hidden, function, every = [ta.work(g, X, W).multiplications for g in gradient]
    few = 4 * LAYERS * N
    assert 0 <= nothing - stored - 2 * LAYERS * matmul < few, "both products run again"
    assert hidden == function and 0 <= hidden - stored - LAYERS * matmul < few, "the second one"
    assert 0 <= every - stored < few


def test_forward_mode_and_values_cost_what_they_do_without() -> None:
    plain, again = network("all"), network("nothing")
    one, two = [ta.work(f, X, W) for f in (plain, again)]
    assert one.multiplications == two.multiplications
    one, two = [
        ta.work(lambda x, f=f: ta.jvp(lambda x: f(x, W), (x,), (x,)), X) for f in (plain, again)
    ]
    assert abs(one.multiplications - two.multiplications) <= 4


def test_memory_does_not_grow_with_what_is_inside() -> None:
    def deep(policy: Any) -> Any:
        def inside(x: Any) -> Any:
            for _ in range(5):
                x = ta.sin(x[::-1] * x)
            return x

        block = ta.checkpoint(inside, policy=policy)
        return ta.function(ta.grad(lambda x: block(block(block(x))).sum()))

    x = np.ones(1 << 14)
    peak = {p: deep(p).memory(x).temporaries for p in ("all", "nothing")}
    assert peak["nothing"] < 0.7 * peak["all"]


def test_recomputation_is_a_call_of_its_own() -> None:
    def f(x: Any) -> Any:
        return (ta.checkpoint(lambda x: ta.exp(ta.sin(x)) * x)(x) * x).sum()

    program = ta.function(ta.value_and_grad(f)).trace(X)
    text = str(program)
    assert "= checkpoint f(x)" in text and "= recompute df(" in text
    read = parse_program(text)
    assert str(read) == text
    calls = [op for op in topological_ops(program.results) if isinstance(op, Checkpoint)]
    assert [op.again for op in calls] == [False, True]
    kept = ta.checkpoint(lambda x: ta.sin(ta.keep(ta.exp(x), "e")), policy=["e"])
    text = str(ta.function(ta.grad(lambda x: kept(x).sum())).trace(X))
    assert "= checkpoint f(x) keep 1" in text and str(parse_program(text)) == text


def test_equal_operations_outside_are_not_shared_with_what_runs_again() -> None:
    """The forward values are there, and are computed again all the same."""

    def f(x: Any) -> Any:
        return (ta.checkpoint(lambda x: ta.sin(W[0] @ ta.tanh(W[1] @ x)))(x) * x).sum()

    def g(x: Any) -> Any:
        return (ta.sin(W[0] @ ta.tanh(W[1] @ x)) * x).sum()

    again, plain = [ta.work(ta.value_and_grad(h), X).multiplications for h in (f, g)]
    assert again - plain >= 2 * N * N
    alone = ta.work(ta.grad(lambda x: ta.checkpoint(lambda x: ta.sin(W[0] @ x))(x).sum()), X)
    stored = ta.work(ta.grad(lambda x: ta.sin(W[0] @ x).sum()), X)
    assert alone == stored, "where no forward value is needed there is nothing to run twice"


def test_trees_keywords_and_what_is_read_from_outside() -> None:
    scale = ta.placeholder((), "float64", name="scale")

    @ta.checkpoint(policy="nothing")
    def f(state: dict[str, Any], *, power: Any) -> Any:
        return {"a": ta.sin(state["a"]) * scale, "n": state["n"] + 1, "k": power}

    a = ta.placeholder((N,), "float64", name="a")
    made = f({"a": a, "n": 2}, power=3)
    da, ds = ta.vjp(ta.sin(made["a"]).sum(), [a, scale])
    verify([da, ds])
    found = ta.evaluate([da, ds], {a: X, scale: np.float64(0.5)})
    inner = np.cos(np.sin(X) * 0.5)
    np.testing.assert_allclose(found[0], inner * np.cos(X) * 0.5, rtol=1e-12)
    np.testing.assert_allclose(found[1], (inner * np.sin(X)).sum(), rtol=1e-12)
    counts = ta.evaluate([made["n"], made["k"]], {a: X, scale: np.float64(0.5)})
    assert [int(c) for c in counts] == [3, 3]
    assert ta.checkpoint(lambda: ())() == ()


def test_what_is_kept_may_be_inside_of_a_loop_or_branch() -> None:
    def f(x: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            return ta.sin(ta.keep(W[0] @ h, "inner"))

        h = ta.keep(ta.for_loop(0, 5, step, x), "state")
        return ta.cond(h[0] > 0, lambda h: ta.keep(W[1] @ h, "arm") * h, lambda h: h * h, h)

    def loss(policy: Any) -> Any:
        return ta.value_and_grad(lambda x: ta.checkpoint(f, policy=policy)(x).sum())

    work = {p: ta.work(loss(p), X).multiplications for p in ("all", "nothing")}
    kept = ta.work(loss(["inner", "arm", "state"]), X).multiplications
    assert work["all"] <= kept < work["nothing"]
    values = [ta.function(loss(p))(X) for p in ("all", "nothing", ["inner", "arm", "state"])]
    assert same_bits(values[0], values[1]) and same_bits(values[0], values[2])


def test_checkpoints_in_loops_and_in_each_other() -> None:
    block = ta.checkpoint(lambda h: ta.checkpoint(lambda h: ta.sin(W[0] @ h))(ta.tanh(W[1] @ h)))

    def loss(f: Any) -> Any:
        return lambda x: ta.for_loop(0, 6, lambda i, h: f(h) * 1.1, x).sum()

    plain = loss(lambda h: ta.sin(W[0] @ ta.tanh(W[1] @ h)))
    assert same_bits(ta.function(ta.grad(plain))(X), ta.function(ta.grad(loss(block)))(X))
    np.testing.assert_allclose(
        ta.interpret(ta.grad(loss(block)), X), ta.function(ta.grad(plain))(X), rtol=1e-12
    )


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_a_sequence_in_segments(segments: int) -> None:
    fs = [lambda x, n=n: ta.sin(W[n % LAYERS] @ x) for n in range(5)]
    found = ta.checkpoint_sequential(fs, segments)
    whole = ta.checkpoint_sequential(fs, 1)
    one, two = [ta.function(ta.grad(lambda x, f=f: (f(x) * x).sum())) for f in (found, whole)]
    assert same_bits(one(X), two(X))
    text = str(one.trace(X))
    assert text.count("= checkpoint ") == segments - 1 == text.count("= recompute ")
    last = ta.function(ta.grad(lambda x: (ta.checkpoint_sequential(fs, 2, last=True)(x) * x).sum()))
    assert str(last.trace(X)).count("= checkpoint ") == 2


def test_explain_names_what_is_stored_and_what_is_computed_again() -> None:
    block = ta.checkpoint(layer, policy=["hidden"])
    text = str(ta.explain(ta.grad(lambda x, w: (block(x, w[0]) * x).sum()), X, W))
    assert f"stores   tanh : float64 [{N}]" in text
    assert "it is not kept" in text


def test_pickles_keep_checkpoints() -> None:
    x = ta.placeholder((N,), "float64", name="x")
    y = ta.checkpoint(lambda x: ta.sin(ta.keep(ta.exp(x), "e")), policy=["e"])(x)
    again: Tensor = pickle.loads(pickle.dumps(y))
    assert isinstance(again.op, Checkpoint) and again.op.keeps == 1
    assert len(outputs(again.op)) == 2
