"""Explanations: what they say is what was done, counted and proved."""

from __future__ import annotations

import gc
import re
import weakref

import pytest

import tensorad as ta
from tensorad import config, te, topi
from tensorad.autodiff.provenance import derivation
from tensorad.errors import GradError
from tensorad.ir.tensor import Tensor
from tensorad.stories import Gradient
from tests.display.test_display import Reader
from tests.support.programs.loops import absolute_steps, newton, scanned_cell, triangle

X = te.placeholder((4, 6), name="X")
W = te.placeholder((3, 6), name="W")


def dense() -> Tensor:
    k = te.reduce_axis(6, name="k")
    return te.compute((4, 3), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")


def gradients(y: Tensor, wrt: list[Tensor]) -> list[Tensor]:
    return ta.vjp(y, wrt, te.placeholder(y.shape, name="H"))


def test_a_product_of_matrices() -> None:
    (dw,) = gradients(dense(), [W])
    assert str(ta.explain(dw)).splitlines() == [
        "dW is the gradient of Y by W",
        "  work     72 iterations = 1.00 of the bound B = 72, 72 multiplications, forward values "
        "it needs",
        "             included",
        "  proof    1 of 1 elimination certified, by structure",
        "",
        "dW : float32 [3, 6]",
        "  result   dW[j, k] = sum(H[i, j]*X[i, k], axes (i : [0, 3]))",
        "  read     W[j, k] in Y",
        "  before   { [j', k'] -> [i, j, k] : 0 <= i < 4 and 0 <= j < 3 and 0 <= k < 6 and j' == j "
        "and k' ==",
        "             k }",
        "           of 1,296 pairs (element, forward point) 72 count",
        "  solved   j := j', k := k'",
        "  after    { [j', k'] -> [i] : 0 <= i < 4 }",
        "           visits 72 points",
        "  plan     gathered: each element adds up the points that reach it, and no others",
        "  proof    each contribution exactly once, by structure",
        "",
        "Indices of the gradient's element carry a prime where the forward formula uses their "
        "name. B, the",
        "most iterations the gradient may need, is counted on the forward program alone.",
    ]


def conv() -> list[Tensor]:
    x = te.placeholder((1, 2, 8, 8), name="X")
    w = te.placeholder((3, 2, 3, 3), name="W")
    return gradients(topi.nn.conv2d(x, w, strides=2, padding=1), [x, w])


def flatten() -> list[Tensor]:
    x = te.placeholder((2, 3, 4, 5), name="X")
    return gradients(topi.nn.flatten(x), [x])


def max_pool() -> list[Tensor]:
    x = te.placeholder((1, 2, 8, 8), name="X")
    return gradients(topi.nn.pool(x, 3, 2, 1, "max"), [x])


def softmax() -> list[Tensor]:
    x = te.placeholder((5, 7), name="X")
    return gradients(topi.nn.softmax(x), [x])


def embedding() -> list[Tensor]:
    table = te.placeholder((50, 8), name="E")
    index = te.placeholder((20,), name="I", dtype="int32")
    return gradients(te.compute((20, 8), lambda i, j: table[index[i], j], name="Y"), [table])


def product() -> list[Tensor]:
    k = te.reduce_axis(6, name="k")
    return gradients(te.compute((4,), lambda i: te.prod(X[i, k], axis=k), name="Y"), [X])


def symbolic() -> list[Tensor]:
    n, m = te.size("n"), te.size("m")
    x = te.placeholder((n, m), name="X")
    k = te.reduce_axis(m, name="k")
    y = te.compute((n,), lambda i: te.sum(x[i, k] ** 2, axis=k), name="Y")
    return gradients(y, [x])


def jacobian() -> list[Tensor]:
    z = te.compute((4, 6), lambda i, j: te.tanh(X[i, j]), name="Z")
    k = te.reduce_axis(6, name="k")
    y = te.compute((4,), lambda i: te.sum(z[i, k] * X[i, k], axis=k), name="Y")
    return [ta.jacobian(y, X, mode=m) for m in ("reverse", "forward", None)]


def hessian() -> list[Tensor]:
    x = te.placeholder((6,), name="X")
    k = te.reduce_axis(5, name="k")
    y = te.compute((), lambda: te.sum((x[k + 1] - x[k] ** 2) ** 2, axis=k), name="y")
    return [ta.hessian(y, x)]


def along() -> list[Tensor]:
    dx, dw = te.placeholder((4, 6), name="dX"), te.placeholder((3, 6), name="dW")
    y = dense()
    return ta.jvp([y, topi.nn.softmax(y)], {X: dx, W: dw})


def along_twice() -> list[Tensor]:
    x, v = te.placeholder((6,), name="X"), te.placeholder((6,), name="V")
    k = te.reduce_axis(6, name="k")
    y = te.compute((), lambda: te.sum(te.exp(x[k]) * x[5 - k], axis=k), name="y")
    return [ta.hvp(y, x, v), *ta.vjp(ta.jvp(y, {x: v}), [x])]


CASES = {
    f.__name__: f
    for f in (
        conv, flatten, max_pool, softmax, embedding, product, symbolic, jacobian, hessian,
        along, along_twice,
    )
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_text_and_html_agree_with_the_counts(name: str) -> None:
    tensors = CASES[name]()
    explanation = ta.explain(tensors)
    text, html = str(explanation), explanation._repr_html_()
    Reader(html)
    assert text == str(ta.explain(tensors)), "derived anew, it reads the same"
    for t, g in zip(tensors, explanation.gradients, strict=True):
        assert g.work == ta.work(t)
        assert f"{t.name} is the " in text
        assert str(g.tensor) == str(t)
        check_flows(g)
    assert "NOT" not in text


def check_flows(g: Gradient) -> None:
    """Every domain is certified; what is gathered visits what counts."""
    for c in g.certificates:
        assert c.verdict.is_proof, str(c)
    for story in g.stories:
        for flow in story.flows:
            if flow.decision.what == "gathered" and flow.visited is not None:
                assert flow.visited == flow.live


def test_what_is_solved() -> None:
    dx, dw = conv()
    text = " ".join(str(ta.explain(dx)).split())
    assert "read X[n, ci, 2*y + ky - 1, 2*x + kx - 1] in conv2d" in text
    assert "y := " in text
    assert "x := " in text
    after = str(ta.explain(dw)).split("after")[1].split("}")[0]
    assert "ky <" not in after, "the kernel's axes need no loop"


def test_flatten_leaves_no_loop() -> None:
    text = str(ta.explain(flatten()))
    assert "k := 20*x1 + 5*x2 + x3" in text
    assert "at most one contribution per element, so no loop is left" in text


def test_why_something_is_scattered() -> None:
    assert "scattered: the element read depends on data" in str(ta.explain(embedding()))
    text = str(ta.explain(max_pool()))
    assert "scattered: one element of many is selected" in text
    assert "max over ky, kx: through the position of its winner" in text


def test_how_folds_are_differentiated() -> None:
    assert "prod over k: through a sweep back over its steps" in str(ta.explain(product()))


def test_a_shift_that_does_not_matter_is_said_to_be_dropped() -> None:
    lines = str(ta.explain(softmax())).splitlines()
    at = lines.index("dmax : zero")
    assert any("shifting it changes nothing" in line for line in lines[at : at + 4])


def test_symbolic_sizes() -> None:
    (dx,) = symbolic()
    (g,) = ta.explain(dx).gradients
    assert g.bound is None
    assert "n" in str(g.work)
    (g,) = ta.explain(dx, sizes={"n": 5, "m": 4}).gradients
    assert g.work is not None
    assert g.bound is not None
    assert g.work.iterations <= g.bound
    assert g.work == ta.work(dx, {"n": 5, "m": 4})


def test_a_spent_budget_is_told() -> None:
    x = te.placeholder((te.size("n"),), name="X")
    i, j = te.reduce_axis(30, name="i"), te.reduce_axis(31, name="j")
    y = te.compute((), lambda: te.sum(x[(6 * i + 10 * j) % 7], axis=[i, j]), name="y")
    with config.override(isl_operations=1):
        (dx,) = ta.vjp(y, [x])
        text = str(ta.explain(dx))
    assert "(isl needs more than 1 operations)" in " ".join(text.split())


def test_second_derivatives_name_their_origin() -> None:
    assert str(ta.explain(hessian())).startswith("dX is the second derivative of y by X and X")


def test_a_derivative_along_directions() -> None:
    dy, dsoftmax = (str(ta.explain(t)).splitlines() for t in along())
    assert dy[:6] == [
        "dY is the derivative of Y along directions of X, W",
        "  work     72 iterations, 144 multiplications, forward values it needs included",
        "",
        "dY : float32 [4, 3]",
        "  result   dY[i, j] = sum(dX[i, k]*W[j, k] + dW[j, k]*X[i, k], axes (k : [0, 5]))",
        "",
    ]
    assert dsoftmax[0] == "dsoftmax is the derivative of softmax along directions of X, W"
    assert "  choice   max over k: through the position of its winner: the result" in "".join(
        dsoftmax
    )
    one, other = (str(ta.explain(t)).splitlines()[0] for t in along_twice())
    assert one == (
        "ddX is the derivative of dX, itself the gradient of y by X, along directions of X"
    )
    assert other == (
        "dX is the gradient of dy, itself the derivative of y along directions of X, by X"
    )


def test_the_mode_of_a_jacobian_is_told() -> None:
    _, forward, chosen = (str(ta.explain(t)) for t in jacobian())
    assert "a domain solved on the way" in forward
    assert "choice   reverse mode: iterations, multiplications and stores:" in chosen


def test_other_tensors_have_no_explanation() -> None:
    with pytest.raises(GradError) as raised:
        ta.explain(X)
    assert str(raised.value).splitlines() == [
        "explain tells how a gradient was made and how sums of products were ordered, but this is "
        "no gradient made here, and is evaluated as it was written.",
        "  in: Tensor(X, shape=(4, 6), dtype=float32)",
        "  hint: pass a result of vjp, jvp, JacobianRecursive, jacobian, hessian or hvp.",
    ]


def test_an_origin_is_kept_no_longer_than_its_gradient() -> None:
    (dw,) = gradients(dense(), [W])
    found = derivation(dw)
    assert found is not None
    alive = weakref.ref(found)
    del found, dw
    gc.collect()
    assert alive() is None


def _card(text: str, title: str) -> str:
    """One card, without the line of the user's file."""
    (found,) = [c for c in text.split("\n\n") if c.startswith(title)]
    return re.sub(r" at \S+:\d+", "", found)


def test_loops_say_what_they_store() -> None:
    x, w = ta.placeholder((6, 4), name="x"), ta.placeholder((4, 4), name="w")
    last, _, _ = scanned_cell(x, w)
    found = ta.explain(ta.vjp(last, [w], ta.placeholder((4,), name="h")))
    assert _card(str(found), "loop of h_last") == (
        "loop of h_last\n"
        "  runs     for 0 <= t < 6\n"
        "  stores   h : float32 [6, 4]\n"
        "           h_next : float32 [6, 4]"
    )
    assert _card(str(found), "loop of dh") == (
        "loop of dh, dw\n"
        "  runs     for 0 <= t < 6, the last one first\n"
        "  stores   its results alone"
    )
    assert "loop of h_last" in found._repr_html_()


def test_loops_say_what_is_computed_again_and_when_they_end() -> None:
    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    last, _, _ = triangle(n, x)
    text = str(ta.explain(ta.vjp(last, [x])))
    assert _card(text, "loop of s_last") == (
        "loop of s_last\n"
        "  runs     for 0 <= i < rounds\n"
        "  stores   s : float32 [rounds]\n"
        "  again    r: its shape is known inside of the block only"
    )
    assert _card(text, "loop of ds").splitlines()[1:] == [
        "  runs     for 0 <= i < rounds, the last one first",
        "  stores   its results alone",
    ]
    assert _card(text, "loop of r_last").splitlines()[-1] == "  stores   r : float32 [i + 1]"

    a = ta.placeholder((), "float64", name="a")
    text = str(ta.explain(ta.vjp(newton(a)[0], [a])))
    assert _card(text, "loop of root").splitlines()[1:] == [
        "  runs     t = 0, 1, ... until its test fails",
        "  stores   x : float64 [n]",
    ]


def test_branches_and_calls_say_what_they_run() -> None:
    x = ta.placeholder((3,), name="x")
    text = str(ta.explain(ta.vjp(absolute_steps(x, 9)[0], [x])))
    assert "runs     one of 2 blocks" in _card(text, "branch of next")
    assert "runs     the block of lessen" in _card(text, "call of less")
