"""Demands of Relay's higher-order programs (S004) on the language, its evaluator and dead code."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.tensor import Branch, Loop, Op
from tensorad.language import Steps, check, interpret, parse, partial_eval, without_dead_code
from tensorad.language.terms import Apply, Block, Program, Read, blocks
from tensorad.program.traces import Program as Trace
from tests.support.language.checks import check_effects
from tests.support.language.programs import SAMPLES

IDENTITY: Final = "def f(d : t[*s]) { d }\n"
POST_AD: Final = SAMPLES["identity after reverse mode"].text
X: Final = np.array([0.5, -1.25, 2.0])
TYPES: Final = [(s, t) for s in ((), (3,), (2, 4)) for t in ("float32", "float64")]


def ops_of(trace: Trace) -> list[Op]:
    """All operations, those in blocks included."""
    ops = ops_between(trace.results, dict.fromkeys(trace.parameters))
    return [*ops, *inner_ops(ops)]


def steps(text: str, *args: Any, static: dict[str, Any] | None = None) -> Steps:
    return partial_eval(parse(text)["f"], static or {}).steps(*args)


def kernels(f: Any, *args: Any) -> int:
    return len(ta.function(f).lower(*args).program.kernels)


def terms_of(b: Block) -> list[object]:
    found: list[object] = []
    for one in b.bindings:
        found.append(one.term)
        for inner, _ in blocks(one.term):
            found += terms_of(inner)
    return found


def all_terms(p: Program) -> list[object]:
    return [t for f in p.functions.values() for t in terms_of(f.block)]


@pytest.mark.parametrize("name", list(SAMPLES))
def test_s004_02_what_differentiation_makes_is_an_ordinary_program(name: str) -> None:
    """No node of its own is left: operators on elements, branches and loops."""
    sample = SAMPLES[name]
    trace = ta.function(parse(sample.text)["f"]).trace(*sample.args)
    for op in ops_of(trace):
        assert type(op).__name__ in (
            "Compute", "Constant", "Placeholder", "Branch", "Loop", "Scan", "Scatter", "Saved",
        )  # fmt: skip


@pytest.mark.parametrize("name", list(SAMPLES))
def test_s004_03_no_reference_closure_or_tape_is_left(name: str) -> None:
    sample = SAMPLES[name]
    trace = ta.function(parse(sample.text)["f"]).trace(*sample.args)
    assert not trace.references and not trace.reads
    assert all(t.op is not None for t in trace.results)


MAPS: Final = """
data list = nil | cons(float64[], list)
def map(g, xs) {
  match xs {
    case nil { inject nil }
    case cons(x, rest) { inject cons(g(x), map(g, rest)) }
  }
}
def fold(g, start, xs) {
  match xs {
    case nil { start }
    case cons(x, rest) { g(x, fold(g, start, rest)) }
  }
}
def compose(g, h) { fn (v) { g(h(v)) } }
def iterate(g, n) {
  loop i in [0, n) carry (h = fn (v) { v }) { compose(g, h) }
}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("map(fn (v) { sin(v) * x }, inject cons(x, inject cons(2.0, inject nil)))", None),
        ("fold(fn (a, b) { a * b }, 1.0, inject cons(x, inject cons(x, inject nil)))", 2 * 0.7),
        ("compose(fn (v) { v * v }, fn (v) { v + 1.0 })(x)", 2 * 1.7),
        ("iterate(fn (v) { v * v }, 3)(x)", 8 * 0.7**7),
    ],
)
def test_s004_08_functions_of_functions_are_differentiated(
    body: str, expected: float | None
) -> None:
    inner = f"fold(fn (a, b) {{ a + b }}, 0.0, {body})" if "map(" in body[:4] else body
    text = f"{MAPS}def g(x) {{ {inner} }}\ndef f(x) {{ grad(g)(x) }}\ndef h(x) {{ jvp(g)(x, 1.0) }}"
    program = parse(text)
    x = np.float64(0.7)
    wanted = interpret(program, "f", x).result
    if expected is not None:
        np.testing.assert_allclose(wanted, expected)
    np.testing.assert_allclose(program["f"](x), wanted, rtol=1e-12)
    np.testing.assert_allclose(program["h"](x)[1], wanted, rtol=1e-12)
    d = 1e-6
    g = program["g"]
    np.testing.assert_allclose((g(x + d) - g(x - d)) / (2 * d), wanted, rtol=1e-6)


def test_s004_11_only_floats_have_adjoints() -> None:
    """Integers, booleans, units and functions pass through; their adjoints are ()."""
    text = """
    def g(x, k, b, u, h) { if b { h(x) * k } else { x } }
    def f(x) { grad(g)(x, 3, True, (), fn (v) { v * v }) }
    """
    program = parse(text)
    wanted = (2 * 3 * 0.5, (), (), (), ())
    assert interpret(program, "f", np.float64(0.5)).result == wanted
    assert program["f"](np.float64(0.5)) == wanted


def test_s004_12_grad_is_an_operator_on_function_values() -> None:
    text = "def f(x, s) {\n  g = fn (v) { sin(v * s) }\n  d = grad(g)\n  dd = grad(d)\n  dd(x)\n}\n"
    program = parse(text)
    assert "  d = grad(g)\n  dd = grad(d)\n" in str(program)
    x, s = np.float64(0.5), np.float64(3.0)
    for found in (program["f"](x, s), interpret(program, "f", x, s).result):
        np.testing.assert_allclose(found, -9 * np.sin(1.5), rtol=1e-12)


def test_s004_16_programs_that_contain_gradients() -> None:
    """A gradient penalty; descent by its rate; products with a Hessian in a loop."""
    text = """
    def cost(w) { sum(sin(w) * w) }
    def penalised(w) { cost(w) + sum(grad(cost)(w) * grad(cost)(w)) }
    def descended(rate, w) {
      cost(loop i in [0, 3) carry (v = w) { v - grad(cost)(v) * rate })
    }
    def times(w, v) {
      loop i in [0, 3) carry (u = v) { jvp(grad(cost))(w, u)[1] }
    }
    def f(w, rate) { (grad(penalised)(w), grad(fn (r) { descended(r, w) })(rate), times(w, w)) }
    """
    program = parse(text)
    args = (X, np.float64(0.1))
    wanted = interpret(program, "f", *args).result
    for a, b in zip(program["f"](*args), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    hessian = np.diag(2 * np.cos(X) - X * np.sin(X))
    np.testing.assert_allclose(wanted[2], np.linalg.matrix_power(hessian, 3) @ X)


def test_s004_17_the_paired_form_is_a_program() -> None:
    program = parse(POST_AD)
    check(program)
    assert str(parse(str(program))) == str(program)
    assert "ref(fn () { () })" in POST_AD and "x2[1] := ones_like(x2[0])" in POST_AD
    found = interpret(program, "f", X)
    np.testing.assert_array_equal(found.result[0], X)
    assert (found.effects.allocations, found.effects.writes, found.effects.reads) == (2, 1, 2)


def test_s004_18_one_definition_at_three_shapes_and_two_dtypes() -> None:
    uses = [f"x{n}" for n in range(6)]
    params = ", ".join([f"{n} : {t}[{', '.join(map(str, s))}]" for n, (s, t) in
                        zip(uses, TYPES, strict=True)])  # fmt: skip
    calls = ", ".join([f"f({n})" for n in uses])
    program = parse(f"{IDENTITY}def all({params}) {{ ({calls}) }}")
    check(program)
    arrays = [np.ones(s, t) for s, t in TYPES]
    for a, b in zip(arrays, program["all"](*arrays), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("shape", "dtype"), TYPES)
def test_s004_19_the_paired_identity_evaluates_to_itself_and_ones(shape: Any, dtype: str) -> None:
    x = np.full(shape, 2, dtype)
    value, (adjoint,) = parse(POST_AD)["f"](x)
    assert value.dtype == adjoint.dtype == dtype
    np.testing.assert_array_equal(value, x)
    np.testing.assert_array_equal(adjoint, np.ones(shape))


def test_s004_20_after_evaluation_reads_and_calls_are_gone() -> None:
    found = steps(POST_AD, X)
    before = parse(str(found.before))
    assert any(isinstance(t, Apply) for t in all_terms(before))
    assert any(isinstance(t, Read) for t in all_terms(before))
    text = str(found.evaluated)
    assert "zeros_like" in text, "what is not used is still there"
    assert "call" not in text and "read(" not in text and "ref(" not in text


AFTER: Final = """\
def f(d : {0}) -> ({0}, ({0},)):
  ones_like : {0} = {1}1.0
  return (d, (ones_like,))
"""


@pytest.mark.parametrize(("shape", "dtype"), TYPES)
def test_s004_21_after_dead_code_the_value_and_ones(shape: tuple[int, ...], dtype: str) -> None:
    """The same text from the paired form and from this project's gradient of the identity."""
    x = ta.placeholder(shape, dtype)
    of = f"{dtype}[{', '.join(map(str, shape))}]"
    axes = f"[{', '.join([f'i{n}' for n in range(len(shape))])}] " if shape else ""
    wanted = AFTER.format(of, axes)
    assert str(steps(POST_AD, x).result) == wanted
    if shape:
        return
    module = ta.gradient(ta.module(parse(IDENTITY)["f"].trace(x)), "f")
    text = str(module["f_adjoint"])
    assert text.replace("f_adjoint", "f").replace("d_adjoint", "ones_like") == wanted


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = (x, 3)\n t[1] * 2 + k", "6 + k"),
        ("g = (fn (a) { fn (v) { a + v } })(4)\n g(3) * k", "7*k"),
        ("r = ref(2)\n r := read(r) + 1\n read(r) * k", "3*k"),
        ("if 2 > 1 { k } else { k * 5 }", "k"),
        ("match inject one(5) {\n case none { k }\n case one(y) { y * k }\n }", "5*k"),
    ],
)
def test_s004_22_partially_static_values(body: str, left: str) -> None:
    """A tuple with a known field, a closure, a reference, a branch, a tag: what is left of each."""
    text = f"data maybe = none | one(int64[])\ndef f(x, k : int64[]) {{\n {body}\n}}"
    program = str(steps(text, np.float64(1), np.int64(2)).result)
    lines = [line for line in program.split("\n") if " = " in line]
    assert lines == [] if left == "k" else lines[0].endswith(f" = {left}") and len(lines) == 1


def test_s004_23_more_than_constant_folding() -> None:
    """No constant stands in the program, and nothing of it but two operators is left."""
    text = """def f(x, y) {
      apply = fn (g, p) { g(p[0], p[1]) }
      r = ref((x, y))
      swap = fn () { p = read(r)
        r := (p[1], p[0]) }
      a = swap()
      b = swap()
      apply(fn (u, v) { u - v }, read(r))
    }"""
    found = steps(text, X, X)
    assert [type(op).__name__ for op in ops_of(ta.function(parse(text)["f"]).trace(X, X))].count(
        "Compute"
    ) == 1
    assert "x[i] - y[i]" in str(found.result)


REFERENCES: Final = {
    "write, then read": ("r := y\n read(r)", "y", 0),
    "write under a branch": ("if c { r := y } else { () }\n read(r)", None, 1),
    "alias": ("q = r\n q := y\n read(r)", "y", 0),
    "unknown function is known after all": ("g = fn (p) { p := y }\n a = g(r)\n read(r)", "y", 0),
    "read before the write": ("a = read(r)\n r := y\n a", "x", 0),
    "loop": ("loop i in [0, n) carry (s = y) { r := s\n s + x }\n read(r)", None, 1),
    "escape into a reference": ("q = ref(r)\n read(q) := y\n read(r)", "y", 0),
}


@pytest.mark.parametrize("name", list(REFERENCES))
def test_s004_25_the_store_is_flow_sensitive(name: str) -> None:
    """What a reference holds is known at each place; branches and loops give it results."""
    body, left, blocks_left = REFERENCES[name]
    text = (
        f"def f(x : float64[], y : float64[], c : bool[], n : int64[]) {{\n r = ref(x)\n {body}\n}}"
    )
    program = parse(text)
    args = (np.float64(0.5), np.float64(0.25), np.bool_(True), np.int64(3))
    trace = ta.function(program["f"]).trace(*args)
    assert sum(isinstance(op, (Branch, Loop)) for op in ops_of(trace)) == blocks_left
    if left is not None:
        assert trace.results == (dict(zip("xycn", trace.parameters, strict=True))[left],)
    np.testing.assert_allclose(program["f"](*args), interpret(program, "f", *args).result)


def test_s004_26_one_kernel_of_closures_and_references() -> None:
    text = """def f(x) {
      r = ref(x)
      step = fn (s) { r := sin(read(r)) * s + x }
      a = step(0.5)
      b = step(0.25)
      read(r)
    }"""
    twin = lambda x: ta.sin(ta.sin(x) * 0.5 + x) * 0.25 + x  # noqa: E731
    assert kernels(parse(text)["f"], X) == kernels(twin, X) == 1


def test_s004_27_a_known_count_and_a_known_rate_leave_one_kernel() -> None:
    def descend(x: Any, n: Any, rate: Any, momentum: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            x, v = carry
            v = ta.cond(momentum > 0, lambda: momentum * v + ta.sin(x), lambda: ta.sin(x))
            return x - rate * v, v

        return ta.for_loop(0, n, step, (x, np.zeros(3)))[0]

    static = {"n": 4, "rate": 0.5, "momentum": 0.0}
    found = partial_eval(descend, static)
    assert kernels(found, X) == 1
    before, after = found.steps(X).before, str(found.steps(X).result)
    assert "loop i in [0, 4)" in str(before) and "branch" in str(before)
    assert "loop" not in after and "branch" not in after and "0.0" not in after
    wanted = ta.function(lambda x: descend(x, 4, 0.5, 0.0))(X)
    assert found(X).tobytes() == wanted.tobytes()
    np.testing.assert_allclose(
        ta.grad(lambda x: found(x).sum())(X),
        ta.grad(lambda x: descend(x, 4, 0.5, 0.0).sum())(X),
        rtol=1e-12,
    )


DEAD: Final = """def f(x, r : ref(float64[])) {
  unused = x * x
  local = ref(x)
  local := unused
  r := x
  kept = ref(x)
  kept := x * 2.0
  y = read(kept)
  kept := x * 3.0
  y
}
"""


def test_s004_28_evaluation_and_dead_code_alone_and_both() -> None:
    """Dead code alone keeps references that count; evaluation alone keeps what nobody uses."""
    alone = str(without_dead_code(parse(DEAD)))
    assert "unused" not in alone and "local" not in alone and "x * 3.0" not in alone
    assert "r := x" in alone and "kept := t" in alone and "read(kept)" in alone
    call = DEAD + "def g(x) {\n r = ref(x * 5.0)\n y = f(x, r)\n (y, read(r))\n}"
    found = partial_eval(parse(call)["g"]).steps(np.float64(2))
    assert str(found.evaluated).count(" = ") > str(found.result).count(" = ") == 1
    assert parse(call)["g"](np.float64(2)) == (4.0, 2.0)


UPSTREAM: Final = """def f(x) {
  grad(fn (v) {
    r = ref(v)
    u = if sum(v) > 0.0 { r := v * v } else { () }
    w = (fn () { r := read(r) * v })()
    sum(read(r))
  })(x)
}
"""


def test_s004_29_writes_that_gradients_rest_on_stay() -> None:
    """There is no switch: the gradient is right, and nothing of references is left."""
    program = parse(UPSTREAM)
    short = without_dead_code(program)
    for p in (program, short):
        np.testing.assert_allclose(p["f"](X), 3 * X * X, rtol=1e-12)
        np.testing.assert_allclose(interpret(p, "f", X).result, 3 * X * X, rtol=1e-12)
    assert interpret(short, "f", X).effects == interpret(program, "f", X).effects
    assert "ref" not in str(steps(UPSTREAM, X).result)


def test_w_09_dead_code_keeps_the_writes_of_the_paired_form() -> None:
    text = SAMPLES["product after reverse mode"].text
    short = without_dead_code(parse(text))
    assert str(short).count(":=") == 4
    for a, b in zip(interpret(short, "f", X, X + 1).result[1], (X + 1, X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["closure in a tuple", "write in a closure", "list"])
def test_t_08_partial_evaluation_over_closures_and_references(name: str) -> None:
    sample = SAMPLES[name]
    text = str(steps(sample.text, *sample.args).result)
    assert "def f(" in text and text.count("def ") == 1 and "call" not in text


def test_s004_30_polymorphic_functions_of_tuples_with_constants() -> None:
    """Every part of a result has its adjoint, parameters may be tuples, constants have none."""
    text = """
    def g(p : (t[*s], t[])) { (p[0] * p[1] * 2.0, p[1]) }
    def f(p) { grad(fn (q) { r = g(q)
      sum(r[0]) + r[1] })(p) }
    """
    program = parse(text)
    for dtype in ("float32", "float64"):
        p = (X.astype(dtype), np.asarray(3, dtype))
        found = program["f"](p)
        np.testing.assert_allclose(found[0], np.full(3, 6))
        np.testing.assert_allclose(found[1], 2 * X.sum() + 1)


@pytest.mark.parametrize("layers", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_s004_30_a_net_of_many_layers(layers: int) -> None:
    """No pass is deeper than its stack."""
    lines = ["  h0 = x", *[f"  h{n + 1} = layer(w)(h{n})" for n in range(layers)]]
    lines.append(f"  sum(h{layers})")
    text = "def layer(w) { fn (v) { tanh(v * w) } }\ndef g(w, x) {\n" + "\n".join(lines) + "\n}\n"
    program = parse(text + "def f(w, x) { grad(fn (v) { g(v, x) })(w) }")
    assert str(parse(str(program))) == str(program)
    assert len(without_dead_code(program).functions["g"].block.bindings) > 2 * layers
    trace = program["f"].trace(np.float64(1.1), X)
    assert len(ops_of(trace)) < layers * 8


def test_s004_30_recursion_has_a_budget_and_a_name() -> None:
    text = (
        "def fib(n) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }\ndef f(x, n) { x * fib(n) }"
    )
    f = parse(text)["f"]
    assert partial_eval(f, {"n": 10})(np.float64(2)) == 110
    beyond = partial_eval(f, {"n": 10}, budget=50)
    assert beyond(np.float64(2)) == 110
    assert "recur fib" in str(beyond.steps(np.float64(2)).result)


@pytest.mark.parametrize("seed", range(3))
def test_s004_24_effects_are_neither_lost_nor_repeated(seed: int) -> None:
    check_effects(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_s004_24_effects_of_500_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check_effects(seed)
