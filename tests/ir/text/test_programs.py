"""Programs as text: print, parse, print gives the same text, and the same values."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Const, call, const
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Compute, Placeholder, Tensor, outputs, saved
from tensorad.ir.text.listing import program_of
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import Program, Tree, tree_leaves
from tests.random.generators import random_program, random_symbolic_program
from tests.support.programs import loops
from tests.support.programs.loops import cumulative, newton
from tests.support.programs.texts import TEXTS

CUMULATIVE = """\
def main(x : float32[5, 3]) -> (float32[3], float32[5, 3]):
  zero : float32[3] = [j] 0.0
  total : float32[3], after : float32[5, 3] = loop t in [0, 5) carry (s = zero) fixed (x):
    after_1 : float32[3] = [j] s[j] + x[t, j]
    yield after_1
    save after_1
  return (total, after)
"""


def read_back(p: Program) -> Program:
    """The program of its own text, which must be the same."""
    text = str(p)
    again = parse_program(text, p.constants)
    assert str(again) == text
    for f in again.functions:
        verify(tree_leaves(f.results))
    return again


def values(results: Tree, given: dict[Tensor, object], sizes: dict[str, int]) -> list[np.ndarray]:
    return ta.interpret(tree_leaves(results), given, sizes)


def check_same_values(p: Program, q: Program, sizes: dict[str, int]) -> None:
    """The last functions of both give equal bits."""
    rng = np.random.default_rng(3)
    first, second = p.functions[-1], q.functions[-1]
    given: dict[Tensor, object] = {}
    other: dict[Tensor, object] = {}
    old, new = ([t for _, tree in f.params for t in tree_leaves(tree)] for f in (first, second))
    for t, u in zip(old, new, strict=True):
        shape = [n if isinstance(n, int) else sizes[n.name] for n in t.shape]
        array = rng.uniform(0.5, 1.5, shape) if t.dtype.is_float else rng.integers(0, 3, shape)
        given[t] = other[u] = np.asarray(array, str(t.dtype))
    found = values(first.results, given, sizes), values(second.results, other, sizes)
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_printed_as_they_are_read(name: str) -> None:
    p = parse_program(TEXTS[name])
    assert str(p) == TEXTS[name]
    check_same_values(p, read_back(p), {"n": 2, "k": 3})


@pytest.mark.parametrize("name", TEXTS)
def test_programs_of_tensors_are_those_of_the_text(name: str) -> None:
    """Tuples and other names for a value are no tensors: only the text's own records have them."""
    f = parse_program(TEXTS[name])["main"]
    p = program_of(f.results, f.params)
    check_same_values(p, read_back(p), {"n": 2, "k": 3})


def test_loops_are_listed_with_what_is_saved() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x)
    p = program_of((total, saved(loop, loop.blocks[0].results[0])))
    assert str(p) == CUMULATIVE
    check_same_values(p, read_back(p), {})


def test_what_is_saved_of_a_while_has_as_many_rows_as_it_ran() -> None:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    p = program_of((root, saved(loop, loop.blocks[0].params[0])))
    assert "root : float64[], x : float64[n] = loop t in [0, n) carry (x_1 = one)" in str(p)
    check_same_values(p, read_back(p), {})


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_are_read_back(seed: int) -> None:
    for make, sizes in ((random_program, {}), (random_symbolic_program, {"n": 3, "m": 2})):
        made = make(seed)
        p = program_of(tuple(made.outputs))
        q = read_back(p)
        assert str(program_of(q["main"].results, q["main"].params)) == str(p)
        given = made.arrays(sizes)
        other = {q["main"].tensors[n]: given[t] for n, t in p["main"].params}
        old = values(tuple(made.outputs), given, sizes)
        new = values(q["main"].results, other, sizes)
        for a, b in zip(old, new, strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def test_large_constants_come_with_the_text() -> None:
    table = np.arange(100.0).reshape(10, 10)
    t = ta.const(table)
    y = ta.compute((10,), lambda i: t[i, 9 - i], name="y")
    p = program_of(y)
    assert str(p).startswith(f"constant {t.name} : float64[10, 10]\n")
    for given in (p.constants, {t.name: table}):
        q = parse_program(str(p), given)
        assert np.array_equal(
            ta.interpret(q["main"].results, {}), table[range(10), range(9, -1, -1)]
        )


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 0.1])
def test_numbers_keep_their_bits(number: float) -> None:
    x = outputs(Placeholder("x", (), FLOAT64))[0]
    plain, negative = const(number, FLOAT64), const(-number, FLOAT64)
    minus = [call("mul", x[()], plain), negative]
    y = outputs(Compute("y", (), tuple(minus), ""))
    q = read_back(program_of(y))
    body = q["main"].scope.bindings[0].tensors[0].op.bodies  # type: ignore[union-attr]  # a formula
    assert isinstance(body[1], Const) and body[1] is negative


def test_names_that_clash_are_numbered() -> None:
    x = ta.placeholder((3,), name="x")
    y = x
    for _ in range(3):
        y = ta.compute((3,), lambda x, y=y: y[x] * 2.0, name="x")
    text = str(program_of(y, name="def"))
    assert text == (
        "def `def`(x : float32[3]) -> float32[3]:\n"
        "  x_1 : float32[3] = [x_1] x[x_1]*2.0\n"
        "  x_2 : float32[3] = [x] x_1[x]*2.0\n"
        "  x_3 : float32[3] = [x] x_2[x]*2.0\n"
        "  return x_3\n"
    )
    read_back(program_of(y, name="def"))


def test_calls_inside_of_calls_are_bound_one_by_one() -> None:
    text = (
        "def f(x : float32[2]) -> (float32[2], float32[2]):\n"
        "  y : float32[2] = [i] x[i] + 1.0\n"
        "  return (x, y)\n\n"
        "def g(x : float32[2]) -> float32[2]:\n"
        "  y : float32[2] = [i] x[i]*2.0\n"
        "  return y\n\n"
    )
    main = "def main(x : float32[2]) -> float32[2]:\n"
    short = "  c = f(g(x))\n  d = ((c, x), c)\n  return g(d[0][0][1])\n"
    written = (
        "  g_1 : float32[2] = call g(x)\n"
        "  c : (float32[2], float32[2]) = call f(g_1)\n"
        "  d = ((c, x), c)\n"
        "  d_0 = d[0]\n"
        "  d_0_0 = d_0[0]\n"
        "  d_0_0_1 = d_0_0[1]\n"
        "  g_2 : float32[2] = call g(d_0_0_1)\n"
        "  return g_2\n"
    )
    p = parse_program(text + main + short)
    assert str(p) == text + main + written
    (x,) = tree_leaves(p["main"].params[0][1])
    assert ta.interpret(p["main"].results, {x: [1.0, 2.0]}).tolist() == [6.0, 10.0]


def test_fields_of_tuples_are_read_in_formulas() -> None:
    text = (
        "def main(x : (float32[2], (float32[], float32[2]))) -> float32[2]:\n"
        "  y : float32[2] = [i] x[1][0]*x[0][i]\n"
        "  return y\n"
    )
    p = parse_program(text)
    assert "  x_1 = x[1]\n  x_1_0 = x_1[0]\n  x_0 = x[0]\n" in str(p)
    assert "  y : float32[2] = [i] x_1_0*x_0[i]\n" in str(p)
    read_back(p)


def test_fields_and_calls_with_types_are_values() -> None:
    text = (
        "def exp(x : float64[3]) -> (float64[], float64[3]):\n"
        "  s : float64[] = sum over (i in [0, 3)) of x[i]\n"
        "  return (s, x)\n\n"
        "def half(x : float64[3]) -> float64[3]:\n"
        "  y : float64[3] = [i] x[i]*0.5\n"
        "  return y\n\n"
        "def main(d : ((float64[], float64[3]), float64[3])) -> float64[3]:\n"
    )
    typed = (
        "  e : (float64[], float64[3]) = d[0]\n"
        "  v : float64[3] = d[0][1]\n"
        "  k : float64[] = d[0][0]\n"
        "  a : float64[3] = v\n"
        "  first : float64[] = d[1][0]\n"
        "  g : float64[] = exp(k)\n"
        "  h : float64[3] = half(d[1])\n"
        "  y : float64[3] = [i] a[i]*first + h[i]*g + e[1][i]*e[0]\n"
        "  return y\n"
    )
    written = (
        "  e = d[0]\n"
        "  d_0 = d[0]\n"
        "  v = d_0[1]\n"
        "  d_0_1 = d[0]\n"
        "  k = d_0_1[0]\n"
        "  a = v\n"
        "  d_1 = d[1]\n"
        "  first : float64[] = d_1[0]\n"
        "  g : float64[] = exp(k)\n"
        "  d_1_1 = d[1]\n"
        "  h : float64[3] = call half(d_1_1)\n"
        "  e_1 = e[1]\n"
        "  e_0 = e[0]\n"
        "  y : float64[3] = [i] a[i]*first + h[i]*g + e_1[i]*e_0\n"
        "  return y\n"
    )
    p = read_back(parse_program(text + typed))
    assert str(p) == text + written
    k, v, w = tree_leaves(p["main"].params[0][1])
    given = {k: 0.0, v: [1.0, 2.0, 3.0], w: [2.0, 4.0, 6.0]}
    assert ta.interpret(p["main"].results, given).tolist() == [3.0, 6.0, 9.0]


def test_scans_tell_what_they_keep_where_nothing_else_does() -> None:
    text = (
        "def main(x : float32[4], p : int64[3]) -> (float32[3], float32[5], float32[2, 4]):\n"
        "  r : float32[3] = scan sum for (i in [0, 3)) over (j in [0, i + 1)) at [i, j] in [3, 3] "
        "of x[j] giving last\n"
        "  s : float32[5] = scan max for (i in [0, 5)) over (j in [0, 3)) at [j] of x[p[j]] "
        "cell [p[j]] giving last\n"
        "  t.after : float32[2, 4], t.last : float32[2] = scan sum for (i in [0, 2)) over "
        "(j in [0, 4)) at [i, j] of x[j]*float32(i) giving after, last\n"
        "  return (r, s, t.after)\n"
    )
    p = read_back(parse_program(text))
    assert str(p) == text
    x, at = [t for _, t in p["main"].params if isinstance(t, Tensor)]
    given = {x: [1.0, 2.0, 3.0, 4.0], at: [3, 0, 3]}
    r, s, t = ta.interpret(tree_leaves(p["main"].results), given)
    assert r.tolist() == [1.0, 3.0, 6.0]
    assert s.tolist() == [1.0, -np.inf, -np.inf, 4.0, -np.inf]
    assert t.tolist() == [[0.0] * 4, [1.0, 3.0, 6.0, 10.0]]


def test_folds_that_are_read_twice_are_named() -> None:
    x = ta.placeholder((4, 5), name="x")
    k = ta.reduce_axis((0, 5), name="k")

    def body(i: ta.Expr) -> ta.Expr:
        s = ta.sum(x[i, k], axis=k)
        return s / (s + 1.0)

    p = program_of(ta.compute((4,), body, name="y"))
    assert "[i] {t0 = sum over (k in [0, 5)) of x[i, k]} t0/(t0 + 1.0)" in str(p)
    read_back(p)


@pytest.mark.slow
def test_long_programs_are_read_back() -> None:
    x = y = ta.placeholder((4,), "float64", name="x")
    for _ in range(5_000):
        y = ta.compute((4,), lambda i, y=y: y[i] * 0.5 + x[i], name="y")
    assert len(read_back(program_of(y))["main"].scope.bindings) == 5_000


@pytest.mark.slow
def test_deep_programs_are_read_back() -> None:
    lines = ["def f0(x : float32[]) -> float32[]:\n  y : float32[] = x + 1.0\n  return y\n"]
    for n in range(1, 400):
        head = f"def f{n}(x : float32[]) -> float32[]:\n"
        lines.append(f"{head}  y : float32[] = call f{n - 1}(x)\n  return y\n")
    p = read_back(parse_program("\n".join(lines)))
    assert str(program_of(p["f399"].results, p["f399"].params, "f399")) == str(p)
    nested = "f0(" * 400 + "x" + ")" * 400
    deep = f"{lines[0]}\ndef main(x : float32[]):\n  y = {nested}\n  return y\n"
    assert len(read_back(parse_program(deep))["main"].scope.bindings) == 400
    formula = "tanh(" * 5000 + "x" + ")" * 5000
    read_back(parse_program(f"def main(x : float32[]):\n  y : float32[] = {formula}\n  return y\n"))


def test_loops_in_loops_are_read_back_to_any_depth() -> None:
    depth = 60
    lines = ["def main(x : float32[]) -> float32[]:"]
    for n in range(depth):
        first = f"c{n - 1}" if n else "x"
        lines.append(
            f"{'  ' * (n + 1)}y{n} : float32[] = loop t{n} in [0, 1) carry (c{n} = {first}):"
        )
    for n in range(depth, 0, -1):
        lines.append(f"{'  ' * (n + 1)}yield {f'y{n}' if n < depth else f'c{n - 1}'}")
    text = "\n".join([*lines, "  return y0", ""])
    p = parse_program(text)
    assert str(p) == text == str(program_of(p["main"].results))
    verify(tree_leaves(p["main"].results))


def test_tensors_of_loops_are_shown_as_programs() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x)
    loop_lines = (
        "  total : float32[3] = loop t in [0, 5) carry (s = zero) fixed (x):\n"
        "    after : float32[3] = [j] s[j] + x[t, j]\n"
        "    yield after\n"
        "  return total"
    )
    head = "def total(zero : float32[3], x : float32[5, 3]) -> float32[3]:\n"
    assert str(total) == head + loop_lines
    first = "def total(x : float32[5, 3]) -> float32[3]:\n  zero : float32[3] = [j] 0.0\n"
    assert ta.PrintTensorRecursively(total) == first + loop_lines
    html = total._repr_html_()
    assert '<span class="key">loop</span> t <span class="key">in</span> [0, 5)' in html
    assert "<b>zero</b> : float32[3] = [j] 0.0" in html
    assert program_of(total)._repr_html_().count("<pre>") == 1
    assert saved(loop, loop.blocks[0].results[0])._repr_latex_() == r"$\mathrm{after}$"


@pytest.mark.parametrize("name", ["cell", "triangle", "swapped", "absolute", "gradient"])
def test_programs_with_loops_are_read_back(name: str) -> None:
    x, w = ta.placeholder((5, 3), name="x"), ta.placeholder((3, 3), name="w")
    n, v = ta.placeholder((), "int64", name="n"), ta.placeholder((3,), name="v")
    last, rows, _ = loops.scanned_cell(x, w)
    made: dict[str, Tree] = {
        "cell": (last, rows),
        "triangle": loops.triangle(n, ta.placeholder((), name="u"))[:2],
        "swapped": loops.swapped(x, ta.placeholder((5, 3), name="y"), 4)[0],
        "absolute": loops.absolute_steps(v, 5)[:2],
        "gradient": (last, *ta.grad(ta.topi.sum(last), [x, w])),
    }
    p = program_of(made[name])
    check_same_values(p, read_back(p), {})
