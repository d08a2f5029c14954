"""Displayed tensors and loops: well-formed HTML that says what the formula says."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tensorad import te, topi
from tensorad.building import lower
from tensorad.display.html import tensors_html
from tensorad.display.loops import loops_html
from tensorad.ir.expr import Axis, Expr, axis, call, const, int_const, select
from tensorad.ir.tensor import Tensor
from tensorad.workloads import WORKLOADS
from tests.random.generators import random_program

X = te.placeholder((4, 6), name="X")
W = te.placeholder((3, 6), name="W")


class Reader(HTMLParser):
    """Collects the text and the classes; complains about tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.classes: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.classes.extend(value or "" for name, value in attrs if name == "class")
        if tag == "div":
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.pieces.append(data)


def shown(html: str) -> list[str]:
    """The lines a reader sees."""
    return [line for line in "".join(Reader(html).pieces).split("\n") if line]


def dense() -> Tensor:
    k = te.reduce_axis(6, name="k")
    return te.compute((4, 3), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")


def test_a_reduction_reads_as_a_sum() -> None:
    assert shown(dense()._repr_html_()) == [
        "Y : float32 [4, 3] ",
        "Y[i, j] = Σ0 ≤ k < 6 X[i, k]·W[j, k]",
        "for 0 ≤ i < 4, 0 ≤ j < 3",
        "X : float32 [4, 6] input",
        "W : float32 [3, 6] input",
    ]


def test_each_axis_has_one_colour() -> None:
    html = dense()._repr_html_()
    names: dict[str, set[str]] = {}
    for colour, name in re.findall(r'<span class="ax (a\d)">(\w+)</span>', html):
        names.setdefault(name, set()).add(colour)
    assert names == {"i": {"a0"}, "j": {"a1"}, "k": {"a2"}}


def test_conditions_steps_and_choices() -> None:
    def body(i: Axis) -> Expr:
        k = axis("k", call("maximum", int_const(0), i - 2), i + 1, 2)
        total = te.sum(X[i, k] ** 2, axis=k, where=X[i, k] > 0)
        return total * 2.0 + select((i < 3) & (X[i, i] <= 1.0), -X[i, 0], const(0.5, X.dtype))

    lines = shown(te.compute((4,), body, name="T")._repr_html_())
    assert lines[1] == (
        "T[i] = (Σmax(0, i − 2) ≤ k < i + 1 step 2; X[i, k] > 0.0 X[i, k]2.0)·2.0 "
        "+ select(i < 3 ∧ X[i, i] ≤ 1.0, −X[i, 0], 0.5)"
    )


def test_tuples_show_the_fold_once_and_how_it_combines() -> None:
    reducer = te.comm_reducer(
        lambda x, y: (x[0] * y[0], x[0] * y[1] + x[1]),
        lambda a, b: (const(1.0, a), const(0.0, b)),
        name="horner",
    )
    k = te.reduce_axis(6, name="k")
    p, _ = te.compute((4,), lambda i: reducer((X[i, k], X[i, k] + 1.0), axis=k), name="P")
    assert shown(p._repr_html_())[:4] == [
        "P.0 : float32 [4], P.1 : float32 [4] ",
        "(P.0[i], P.1[i]) = horner0 ≤ k < 6 (X[i, k], X[i, k] + 1.0)",
        "for 0 ≤ i < 4",
        "horner: (x0, x1) ⊕ (y0, y1) = (x0·y0, x0·y1 + x1), from (1.0, 0.0)",
    ]


def test_scatter_scan_and_constant() -> None:
    p = te.const([2, 0, 1, 1])
    s = te.scatter((7,), (4,), lambda i: (p[i], X[i, 0]), name="S")
    assert shown(s._repr_html_())[:6] == [
        "S : float32 [7] scatter",
        "S = 0.0",
        "S[const[i]] += X[i, 0]",
        "for 0 ≤ i < 4",
        "const : int64 [4] constant",
        "2, 0, 1, 1",
    ]
    plus = te.comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="plus")
    lines = shown(te.scan(X, 1, plus, reverse=True, name="C")._repr_html_())
    first = "C[i, j] = prefix plus of X[i, j] along reverse 0 ≤ j < 6"
    assert lines[1:3] == [first, "for 0 ≤ i < 4"]


def test_names_are_escaped() -> None:
    t = te.placeholder((2,), name="<script>&")
    html = te.compute((2,), lambda i: t[i] + 1.0, name="a<b")._repr_html_()
    assert "<script>" not in html
    assert "a<b : float32 [2] " in shown(html)


@pytest.mark.slow
def test_long_chains_are_cut_with_a_note() -> None:
    t = X
    for _ in range(300):
        t = topi.exp(t)
    assert shown(t._repr_html_())[-1] == "… and 101 more operations"
    e: Expr = X[0, 0]
    for _ in range(20_000):
        e = e + 1.5
    deep = te.compute((1,), lambda i: e, name="deep")
    lines = shown(deep._repr_html_())
    assert lines[1].endswith("characters: print the tensor")


def test_shared_parts_are_lines_and_the_formula_comes_last() -> None:
    def body(i: Axis) -> Expr:
        e: Expr = X[i, 0]
        for _ in range(500):
            e = te.tanh(e) * e
        return e

    lines = shown(te.compute((4,), body, name="D")._repr_html_())
    assert lines[1] == "t0 = tanh(X[i, 0])·X[i, 0]"
    assert lines[31].startswith("… ")
    assert lines[-3].startswith("D[i] = tanh(t")
    assert len(lines) < 70


def test_loops_colour_their_indices() -> None:
    made = lower([dense()], [X, W])
    html = made._repr_html_()
    text = "\n".join(shown(html))
    assert text == "\n".join(line for line in str(made).split("\n") if line)
    assert "key" in Reader(html).classes
    assert any(c.startswith("ax a") for c in Reader(html).classes)


def test_long_loops_are_cut_with_a_note() -> None:
    text = "# A : float32 []\n" + "A[] = 1.0\n" * 3000
    assert shown(loops_html(text))[-1] == "… and 1002 more lines: print the loops"


def test_both_themes_have_colours() -> None:
    html = X._repr_html_()
    assert "prefers-color-scheme: dark" in html
    assert 'data-jp-theme-light="false"' in html
    assert len(re.findall(r"--ta-bg: #", html)) == 3


@pytest.mark.parametrize("make", WORKLOADS)
def test_gradients_of_the_workloads_are_well_formed(make) -> None:  # type: ignore[no-untyped-def]
    _, gradients = make().differentiate()
    html = tensors_html(gradients)
    assert len(shown(html)) >= 3
    assert html == tensors_html(gradients)


@pytest.mark.slow
def test_random_programs_are_well_formed() -> None:
    for seed in range(60):
        p = random_program(seed)
        assert shown(tensors_html(p.outputs))
        assert shown(lower(p.outputs, p.inputs, schedule=False)._repr_html_())
