"""Programs of the language that are first-order in effect: texts, arguments, hand-written twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import tensorad as ta
from tensorad import topi

X: Final = np.array([0.5, -1.25, 2.0])
S: Final = np.float64(0.75)
W: Final = np.array([[0.5, -0.25, 1.0], [0.75, 0.125, -0.5], [0.25, 1.5, -1.0]])


class Sample(NamedTuple):
    """A function f of a text, arguments, and what it does without functions and references."""

    text: str
    args: tuple[Any, ...]
    twin: Callable[..., Any] | None = None


def _many(*steps: str) -> str:
    return "\n".join(steps)


def _square(x: Any) -> Any:
    return x * x


def _twice(x: Any) -> Any:
    return x + x


def _product_with_adjoints(a: Any, b: Any) -> Any:
    one = topi.full_like(a, 1)
    return a * b, (topi.full_like(a, 0) + one * b, topi.full_like(b, 0) + one * a)


SAMPLES: Final[dict[str, Sample]] = {
    "identity after reverse mode": Sample(
        """def f(d : t[*s]) {
          x = ref(fn () { () })
          x1 = (d, ref(zeros_like(d)))
          x2 = (fn (d1 : (t[*s], ref(t[*s]))) { d1 })(x1)
          x2[1] := ones_like(x2[0])
          x3 = read(x)()
          (x2[0], (read(x1[1]),))
        }""",
        (X,),
        lambda d: (d, (topi.full_like(d, 1),)),
    ),
    "product after reverse mode": Sample(
        """def f(a : t[*s], b : t[*s]) {
          back = ref(fn () { () })
          p = (a, ref(zeros_like(a)))
          q = (b, ref(zeros_like(b)))
          y = (p[0] * q[0], ref(zeros_like(a)))
          before = read(back)
          back := fn () {
            h = read(y[1])
            p[1] := read(p[1]) + h * q[0]
            q[1] := read(q[1]) + h * p[0]
            before()
          }
          y[1] := ones_like(y[0])
          done = read(back)()
          (y[0], (read(p[1]), read(q[1])))
        }""",
        (X, X + 1),
        _product_with_adjoints,
    ),
    "closure": Sample(
        "def f(x, s) {\n g = fn (v) { v * s }\n g(g(x))\n}", (X, S), lambda x, s: x * s * s
    ),
    "closure in a tuple": Sample(
        "def f(x, s) {\n t = (fn (v) { v * s }, fn (v) { v + s })\n t[0](t[1](x))\n}",
        (X, S),
        lambda x, s: (x + s) * s,
    ),
    "function that is returned": Sample(
        "def add(a) { fn (v) { v + a } }\ndef f(x, s) { add(s)(x) }", (X, S), lambda x, s: x + s
    ),
    "compose": Sample(
        "def compose(g, h) { fn (v) { g(h(v)) } }\n"
        "def f(x) { compose(fn (v) { sin(v) }, fn (v) { v * 2.0 })(x) }",
        (X,),
        lambda x: ta.sin(x * 2.0),
    ),
    "iterate": Sample(
        _many(
            "def iterate(g, n) {",
            "  loop i in [0, n) carry (h = fn (v) { v }) {",
            "    old = h",
            "    fn (v) { g(old(v)) }",
            "  }",
            "}",
            "def f(x) { iterate(fn (v) { v * v }, 3)(x) }",
        ),
        (X,),
        lambda x: _square(_square(_square(x))),
    ),
    "reference": Sample(
        "def f(x) {\n r = ref(x)\n r := read(r) * 2.0\n read(r) + read(r)\n}",
        (X,),
        lambda x: _twice(x * 2.0),
    ),
    "alias": Sample(
        "def f(x) {\n r = ref(x)\n q = r\n q := read(r) * x\n read(r)\n}", (X,), lambda x: x * x
    ),
    "reference of a reference": Sample(
        "def f(x) {\n r = ref(x)\n q = ref(r)\n read(q) := read(read(q)) + 1.0\n read(r)\n}",
        (X,),
        lambda x: x + 1.0,
    ),
    "reference of a function": Sample(
        "def f(x, s) {\n r = ref(fn (v) { v })\n r := fn (v) { v * s }\n read(r)(x)\n}",
        (X, S),
        lambda x, s: x * s,
    ),
    "function of a reference": Sample(
        "def inc(r, x) { r := read(r) + x }\n"
        "def f(x) {\n r = ref(x * 2.0)\n u = inc(r, x)\n w = inc(r, x)\n read(r)\n}",
        (X,),
        lambda x: x * 2.0 + x + x,
    ),
    "write in a closure": Sample(
        "def f(x) {\n r = ref(x)\n g = fn () { r := read(r) * 3.0 }\n"
        " a = g()\n b = g()\n read(r)\n}",
        (X,),
        lambda x: x * 3.0 * 3.0,
    ),
    "write under a branch": Sample(
        "def f(x : float64[], s : float64[]) {\n r = ref(x)\n"
        " if s > 0.0 { r := x * x } else { r := sin(x) }\n read(r)\n}",
        (S, S),
        lambda x, s: ta.cond(s > 0.0, lambda: x * x, lambda: ta.sin(x)),
    ),
    "write in a loop": Sample(
        "def f(x : float64[], n : int64[]) {\n r = ref(x)\n"
        " loop i in [0, n) carry (s = x) {\n  r := read(r) + s\n  s * 0.5\n }\n read(r)\n}",
        (S, np.int64(5)),
        lambda x, n: ta.for_loop(0, n, lambda i, c: (c[0] * 0.5, c[1] + c[0]), (x, x))[1],
    ),
    "branch by a known condition": Sample(
        "def f(x) {\n c = True\n if c { x * 2.0 } else { sin(x) }\n}", (X,), lambda x: x * 2.0
    ),
    "match of a known tag": Sample(
        "data maybe = none | one(float64[3])\n"
        "def f(x : float64[3]) {\n m = inject one(x)\n"
        " match m { case none { x }\n case one(y) { y * y } }\n}",
        (X,),
        lambda x: x * x,
    ),
    "list": Sample(
        _many(
            "data list = nil | cons(float64[3], list)",
            "def map(g, xs) {",
            "  match xs {",
            "    case nil { inject nil }",
            "    case cons(x, rest) { inject cons(g(x), map(g, rest)) }",
            "  }",
            "}",
            "def fold(g, start, xs) {",
            "  match xs {",
            "    case nil { start }",
            "    case cons(x, rest) { g(x, fold(g, start, rest)) }",
            "  }",
            "}",
            "def f(x : float64[3]) {",
            "  xs = inject cons(x, inject cons(x * 2.0, inject nil))",
            "  fold(fn (a, b) { a * b }, x, map(fn (v) { sin(v) }, xs))",
            "}",
        ),
        (X,),
        lambda x: ta.sin(x) * (ta.sin(x * 2.0) * x),
    ),
    "recursion on a known count": Sample(
        "def power(x, n) { if n == 0 { x } else { x * power(x, n - 1) } }\n"
        "def f(x) { power(x, 3) }",
        (X,),
        lambda x: x * (x * (x * x)),
    ),
    "mutual recursion": Sample(
        "def even(x, n) { if n == 0 { x } else { odd(x * 2.0, n - 1) } }\n"
        "def odd(x, n) { if n == 0 { sin(x) } else { even(x + 1.0, n - 1) } }\n"
        "def f(x) { even(x, 3) }",
        (X,),
        lambda x: ta.sin((x * 2.0 + 1.0) * 2.0),
    ),
    "known loop": Sample(
        "def f(x) { loop i in [0, 4) carry (s = x) { sin(s) } }",
        (X,),
        lambda x: ta.sin(ta.sin(ta.sin(ta.sin(x)))),
    ),
    "loop until a known condition": Sample(
        "def f(x) {\n (loop carry (s = x, k = 1) while { k < 8 } do { (s * 2.0, k * 2) })[0]\n}",
        (X,),
        lambda x: x * 2.0 * 2.0 * 2.0,
    ),
    "formula": Sample(
        "def f(x : t[n], s : t[]) {\n y : t[n] = [i] x[i]*s + x[n - 1 - i]\n y * y\n}",
        (X, S),
        lambda x, s: _square(ta.compute((3,), lambda i: x[i] * s() + x[2 - i], name="y")),
    ),
    "gradient": Sample(
        "def f(x) { grad(fn (v) { sum(v * v * v) })(x) }", (X,), lambda x: 3.0 * x * x
    ),
    "gradient of a closure": Sample(
        "def f(x, s) {\n g = fn (v) { sum(v * s) }\n (grad(g)(x), g(x))\n}",
        (X, S),
        lambda x, s: (ta.grad(lambda v: topi.sum(v * s))(x), topi.sum(x * s)),
    ),
    "gradient through a reference": Sample(
        "def f(x) {\n grad(fn (v) {\n  r = ref(v)\n  r := read(r) * v\n  sum(read(r))\n })(x)\n}",
        (X,),
        lambda x: x + x,
    ),
    "dense layer": Sample(
        "def layer(w) { fn (x) { tanh(matmul(w, x)) } }\ndef f(w, x) { layer(w)(layer(w)(x)) }",
        (W, X),
        lambda w, x: ta.tanh(topi.matmul(w, ta.tanh(topi.matmul(w, x)))),
    ),
}
