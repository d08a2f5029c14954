"""The printed forms of expressions and tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.combiner import arg_combiner, max_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT32
from tensorad.ir.expr import (
    Axis,
    Expr,
    axis,
    call,
    const,
    int_const,
    local_size,
    logical_and,
    logical_not,
    logical_or,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Placeholder,
    Scatter,
    Tensor,
    Update,
    outputs,
)
from tensorad.ir.text.printer import (
    format_expr,
    format_expr_lines,
    format_tensor,
    format_tensor_recursively,
)

i, j, k = axis("i", 0, 8), axis("j", 0, 8), axis("k", 0, 10)
X = outputs(Placeholder("X", (8, 10), FLOAT32))[0]


def compute(name: str, axes: tuple[Axis, ...], *bodies: Expr) -> Tensor:
    return outputs(Compute(name, axes, bodies, ""))[0]


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (X[i, k] * X[j, k] + 1.0, "X[i, k]*X[j, k] + 1.0"),
        (X[i, k] * (X[j, k] + 1.0), "X[i, k]*(X[j, k] + 1.0)"),
        (X[i, k] - (X[j, k] - 0.25), "X[i, k] - (X[j, k] - 0.25)"),
        (-(X[i, k] ** 2), "-X[i, k]**2.0"),
        ((-X[i, k]) ** 2, "(-X[i, k])**2.0"),
        (X[i, k] * -2.0, "X[i, k]*-2.0"),
        ((i * 2 + j) // 3 % 4, "(i*2 + j)//3 % 4"),
        (i % (j // 3), "i % (j//3)"),
        (call("minimum", i, j) + call("maximum", i, int_const(2)), "min(i, j) + max(i, 2)"),
        (call("atan2", X[i, k], X[j, k]), "atan2(X[i, k], X[j, k])"),
        (call("sigmoid", X[i, k]), "sigmoid(X[i, k])"),
        (select(i < j, X[i, k], X[j, k]), "select(i < j, X[i, k], X[j, k])"),
        (logical_and(i < j, logical_or(i > 0, j > 1)), "i < j and (i > 0 or j > 1)"),
        (logical_or(logical_and(i < j, i > 0), j > 1), "i < j and i > 0 or j > 1"),
        (logical_not(logical_and(i < j, i > 0)), "not (i < j and i > 0)"),
        (logical_not(X[i, k] < 0.0), "not X[i, k] < 0.0"),
        (i.astype("float32") * X[i, k], "float32(i)*X[i, k]"),
        (const(0.1, FLOAT32), "0.1"),
        (const(float("inf"), FLOAT64), "inf"),
        (const(1.0, FLOAT64), "1.0"),
        (const(-3, INT32), "-3"),
        (size_var("n") * 2, "n*2"),
    ],
)
def test_expressions_read_as_formulas(e: Expr, text: str) -> None:
    assert format_expr(e) == text


def test_equal_axis_names_become_distinct() -> None:
    other = axis("i", 0, 8)
    assert format_expr(i + other) == "i + i_1"
    assert format_expr(other + i) == "i + i_1"


def test_reductions_inside_expressions() -> None:
    r = axis("r", call("maximum", i - 2, int_const(0)), call("minimum", i + 1, int_const(9)), 2)
    total = reduce_expr(sum_combiner(FLOAT32), (X[i, r],), (r,), r > j)
    assert format_expr(total + 1.0) == (
        "sum(X[i, r], axes (r : [max(i - 2, 0), min(i, 8)] step 2), where r > j) + 1.0"
    )
    best = reduce_expr(arg_combiner("maximum", FLOAT32), (X[i, k], k), (k,), index=1)
    assert format_expr(best) == "argmax((X[i, k], k), axes (k : [0, 9])).1"


@pytest.mark.slow
def test_deep_expressions_print() -> None:
    e: Expr = X[i, k]
    for _ in range(20_000):
        e = call("tanh", e) - 1.0
    text = format_expr(e)
    assert text.startswith("tanh(tanh(") and text.endswith(") - 1.0")


def test_shared_expressions_print_once() -> None:
    e: Expr = X[i, k]
    for _ in range(200):
        e = e * (e + 1.0)
    lines, text = format_expr_lines(e)
    assert lines[0] == "t0 = X[i, k]*(X[i, k] + 1.0)"
    assert lines[1] == "t1 = t0*(t0 + 1.0)"
    assert text == "t198*(t198 + 1.0)"
    assert format_expr(e).startswith("{t0 = X[i, k]*(X[i, k] + 1.0); t1 = ")


def test_small_shared_expressions_stay_whole() -> None:
    e = call("exp", X[i, k])
    assert format_expr_lines(e / (e + 1.0)) == ([], "exp(X[i, k])/(exp(X[i, k]) + 1.0)")


MATMUL = """\
tensor Y : float32 [8, 3000]
axes (i : [0, 7], j : [0, 2999])
Reduction
    identity [0.0]
    lhs [x]  rhs [y]
    combiner [x + y]
    axes (k : [0, 9])
    condition True
    source[0] = X[i, k]*W[j, k]

tensor X : float32 [8, 10]
    placeholder(X)

tensor W : float32 [3000, 10]
    placeholder(W)"""


def test_recursive_text_of_a_reduction() -> None:
    w = outputs(Placeholder("W", (3000, 10), FLOAT32))[0]
    a, b, r = axis("i", 0, 8), axis("j", 0, 3000), axis("k", 0, 10)
    y = compute("Y", (a, b), reduce_expr(sum_combiner(FLOAT32), (X[a, r] * w[b, r],), (r,)))
    assert format_tensor_recursively(y) == MATMUL
    assert format_tensor_recursively([y, y]) == MATMUL
    assert str(y) == MATMUL.split("\n\n")[0]


def test_equal_tensor_names_are_numbered_consumer_first() -> None:
    n = size_var("n")
    a, b, r = axis("i", 0, n), axis("i", 0, n), axis("i", 0, n)
    first = compute("Y", (a,), a.astype("float32"))
    second = compute(
        "Y", (b,), reduce_expr(max_combiner(FLOAT32), (first[r] + first[b],), (r,), r <= b)
    )
    assert format_tensor_recursively(second) == "\n".join(
        [
            "tensor Y : float32 [n]",
            "axes (i : [0, n - 1])",
            "Reduction",
            "    identity [-inf]",
            "    lhs [x]  rhs [y]",
            "    combiner [max(x, y)]",
            "    axes (i_1 : [0, n - 1])",
            "    condition i_1 <= i",
            "    source[0] = Y_1[i_1] + Y_1[i]",
            "",
            "tensor Y_1 : float32 [n]",
            "axes (i : [0, n - 1])",
            "    float32(i)",
        ]
    )


def test_tuple_reductions_print_once() -> None:
    a, r = axis("i", 0, 8), axis("k", 0, 10)
    fold = [
        reduce_expr(arg_combiner("maximum", FLOAT32), (X[a, r], r), (r,), index=n) for n in (0, 1)
    ]
    best, where = outputs(Compute("best", (a,), tuple(fold), ""))
    text = format_tensor_recursively([best, where])
    assert text.startswith("tensor best.0 : float32 [8], best.1 : int64 [8]\naxes (i : [0, 7])\n")
    assert "    lhs [x0, x1]  rhs [y0, y1]\n" in text
    assert text.count("source[0] = X[i, k]") == 1
    assert "    source[1] = k\n" in text and "component" not in text
    only = compute("only", (a,), fold[1])
    assert format_tensor(only).endswith("    source[1] = k\n    component 1")


def test_other_operations_are_readable() -> None:
    a, b = axis("i", 0, 8), axis("j", 0, 10)
    s = Scatter(
        "S", (7,), FLOAT32, (a, b), (Update(((a + b) % 7,), X[a, b], a < b),), sum_combiner(FLOAT32)
    )
    assert (
        "    init identity\n    update[0] S[(i + j) % 7] += X[i, j] where i < j"
        in format_tensor(outputs(s)[0])
    )
    c = prefix_scan("C", (X,), 1, sum_combiner(FLOAT32), True, False)
    assert format_tensor(outputs(c)[0]).endswith(
        "    along axes (j : [0, 9])\n    exclusive True  reverse False  at [i, j]\n"
        "    source[0] = X[i, j]"
    )
    t = outputs(Constant("T", np.array([0.5, 2.0], np.float32), FLOAT32))[0]
    assert format_tensor(t) == "tensor T : float32 [2]\n    constant(0.5, 2.0)"


@pytest.mark.slow
def test_long_chains_of_tensors_print() -> None:
    t = X
    for _ in range(20_000):
        a, b = axis("i", 0, 8), axis("j", 0, 10)
        t = compute("t", (a, b), t[a, b] + 1.0)
    assert format_tensor_recursively(t).count("\n\n") == 20_000


def test_sizes_of_loops_go_by_their_labels() -> None:
    t, same, rounds = local_size("t"), local_size("t"), local_size("rounds")
    assert str(t) == str(same) == "t"
    assert str(t + same * 2) == "t + t_1*2"
    x = outputs(Placeholder("x", (rounds, local_size("rounds")), FLOAT32))[0]
    i = axis("t", 0, rounds)
    (y,) = outputs(Compute("y", (i,), (x[i, t],)))
    assert str(x).splitlines()[0] == "tensor x : float32 [rounds, rounds_1]"
    assert str(y).splitlines()[1:] == ["axes (t_1 : [0, rounds - 1])", "    x[t_1, t]"]
    assert str(size_var("t") + t) == "t + t_1"


def test_sizes_of_loops_keep_their_names_through_a_program() -> None:
    first, second = local_size("n"), local_size("n")
    (x,) = outputs(Placeholder("x", (first,), FLOAT32))
    (y,) = outputs(Placeholder("y", (second,), FLOAT32))
    a, b = axis("i", 0, first), axis("j", 0, second)
    (z,) = outputs(Compute("z", (a, b), (x[a] * y[b],)))
    text = format_tensor_recursively(z)
    assert "x : float32 [n]" in text and "y : float32 [n_1]" in text
