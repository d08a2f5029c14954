"""Functions, tags and depths of recursion that only data tell."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tensorad.language import Tagged, check, interpret, parse, partial_eval
from tests.support.language.higher import check_higher

SLOW = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 6
X, N = np.float64(0.7), np.int64(5)
LIST = """data list = nil | cons(float64[], list)
def total(xs) { match xs { case nil { 0.0 } case cons(h, t) { sin(h) + total(t) } } }
def build(n, x) { if n > 0 { inject cons(x, build(n - 1, x * 0.5)) } else { inject nil } }
"""
TEXTS = {
    "functions": """def f(n, x) {
  g = if x > 0.0 { s = x * 2.0
    fn (v) { v * s } } else { fn (v) { v + x } }
  (g(x), g(2.0), grad(fn (a) { g(a) * a })(x))
}""",
    "a function in a reference": """def f(n, x) {
  count = ref(0.0)
  r = ref(fn (v) { v })
  if x > 0.0 { r := fn (v) { count := read(count) + v
    v + 1.0 } } else { () }
  y = read(r)(x)
  (y, read(count))
}""",
    "composed": """def f(n, x) {
  g = loop i in [0, n) carry (h = fn (v) { v }) { fn (v) { sin(h(v)) * x } }
  (g(x), grad(g)(x))
}""",
    "recursion": """def p(x, n) { if n > 0 { x * p(x, n - 1) } else { 1.0 } }
def f(n, x) { (p(x, n), grad(fn (a) { p(a, n) })(x), jvp(fn (a) { p(a, n) })(x, x)) }""",
    "mutual recursion": """def even(n, x) { if n < 1 { x } else { sin(odd(n - 1, x)) } }
def odd(n, x) { if n < 1 { x * 2.0 } else { even(n - 1, x) * x } }
def f(n, x) { (even(n, x), grad(fn (a) { odd(n, a) })(x)) }""",
    "continuations": """def g(n, x, k) {
  if n < 1 { k(x) } else { g(n - 1, x, fn (v) { k(v * x) + v }) }
}
def f(n, x) { (g(n, x, fn (v) { v }), grad(fn (a) { g(n, a, fn (v) { v }) })(x)) }""",
    "references in recursion": """def go(k, r) {
  if k > 0 {
    q = ref(read(r) * 2.0)
    y = go(k - 1, q)
    r := read(r) + read(q)
    y
  } else { r := read(r) + 1.0
    read(r) }
}
def f(n, x) {
  r = ref(x)
  y = go(n, r)
  (y, read(r))
}""",
    "references of outside in chosen functions": """def f(n, x) {
  count = ref(0.0)
  r = ref(x)
  g = if x > 0.0 { fn (v) { count := read(count) + v
    sin(v) } } else { fn (v) { r := read(r) * v
    v } }
  go = fn (k, y) { if k > 0 { go(k - 1, g(y)) * y } else { y } }
  (go(n, x), read(count), read(r))
}""",
    "a reference that an arm makes": """def f(n, x) {
  a = ref(x)
  r = if x > 0.0 { ref(x * 2.0) } else { a }
  r := read(r) * x
  p = ref(a)
  u = if n > 3 { b = ref(sin(x))
    p := b } else { p := r }
  s = read(p)
  s := read(s) + 1.0
  (read(r), read(a), read(s))
}""",
    "a reference that data choose": """def f(n, x) {
  a = ref(x)
  b = ref(x * 2.0)
  r = if x > 0.0 { a } else { b }
  r := read(r) * x
  p = ref(a)
  u = if n > 3 { p := r } else { p := b }
  w = loop i in [0, n) carry (c = x) { q = read(p)
    q := sin(read(q))
    p := a
    c + read(r) }
  go = fn (k, s) { if k > 0 { s := read(s) + 0.5
    go(k - 1, s) } else { read(s) } }
  (go(n, r), w, read(a), read(b), read(read(p)))
}""",
    "recursion through a reference": """def f(n, x) {
  r = ref(fn (k) { x })
  r := fn (k) { if k > 0 { x * read(r)(k - 1) } else { 1.0 } }
  read(r)(n)
}""",
    "lists": LIST
    + """def map(g, xs) {
  match xs { case nil { inject nil } case cons(h, t) { inject cons(g(h), map(g, t)) } }
}
def f(n, x) {
  xs = loop i in [0, n) carry (a = inject nil) { inject cons(x * x, a) }
  twice = grad(fn (a) { total(map(fn (v) { sin(v * a) }, build(n, a))) })(x)
  (total(xs), twice, map(fn (v) { v * x }, xs))
}""",
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, Tagged):
        return [value.tag, *leaves(value.fields)]
    return [v for part in value for v in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TEXTS)
def test_interpreted_and_compiled(name: str) -> None:
    program = parse(TEXTS[name])
    check(program)
    for n, x in ((0, 0.7), (5, 0.7), (3, -0.4)):
        args = (np.int64(n), np.float64(x))
        wanted = leaves(interpret(program, "f", *args).result)
        for a, b in zip(wanted, leaves(program["f"](*args)), strict=True):
            if isinstance(a, str):
                assert a == b
            else:
                np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_list_is_one_argument_whatever_its_length() -> None:
    program = parse(LIST + "def f(xs : list) { total(xs) }")
    f = program["f"]
    values = Tagged("nil")
    for n in range(2_000):
        values = Tagged("cons", (n * 1e-3, values))
    np.testing.assert_allclose(f(values), np.sin(np.arange(2_000) * 1e-3).sum())
    assert f(Tagged("nil")) == 0.0


def test_what_is_known_is_evaluated_and_the_rest_stays_a_call() -> None:
    f = parse(TEXTS["recursion"])["f"]
    assert "recur" not in str(partial_eval(f, {"n": 3}).steps(X).result)
    assert "recur p" in str(partial_eval(f).steps(N, X).result)
    text = str(partial_eval(parse(TEXTS["functions"])["f"]).steps(N, X).result)
    assert "type cond = " in text and "make" in text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SLOW))
def test_random_programs(seed: int) -> None:
    check_higher(seed)
