"""Bad programs, fifth part: functions that call themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, LimitError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.float64(2.0)
N = np.int64(3)
Chain: Any = ta.variant("Chain", End={}, Link={"rest": "Chain", "f": ta.Fn})


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


def half(y: Any) -> Any:
    return y / 2


# functions that call themselves


@CASES.refused(
    DefinitionError,
    "f calls itself before it is known what it returns.",
    "  in: f(x)",
    "  hint: let a branch of ta.cond, ta.switch or ta.match return without calling it, or"
    " say what it returns: ta.function(returns=...) takes an example, or a function of "
    "the arguments.",
)
def without_a_type() -> None:
    @ta.function
    def f(x: Any) -> Any:
        return f(x / 2) + 1

    f(V)


@CASES.refused(
    DefinitionError,
    "g calls itself before it is known what it returns.",
    "  in: g(x)",
    "  hint: let a branch of ta.cond, ta.switch or ta.match return without calling it, or"
    " say what it returns: ta.function(returns=...) takes an example, or a function of "
    "the arguments.",
)
def all_branches_recur() -> None:
    @ta.function
    def g(x: Any) -> Any:
        return ta.cond(x > 0, lambda: g(x - 1), lambda: g(x + 1))

    g(V)


@CASES.refused(
    LimitError,
    "f calls itself 40 times, each time with arguments of another kind.",
    "  in:    a call                    the call inside",
    "      x  float64 (1099511627776,)  float64 (2199023255552,)",
    "  hint: extents that differ are sizes of one function if ta.cond asks for them, and no "
    "Python if, but here: an expression has no truth value while the formula is being written.",
)
def other_shapes() -> None:
    @ta.function
    def f(x: Any) -> Any:
        twice = ta.topi.concatenate([x] * 2 if x.shape[0] > 0 else [x])
        return ta.cond(x.sum() > 9, lambda: x.sum(), lambda: f(twice))

    f(np.ones(2))


@CASES.refused(
    LimitError,
    "f calls itself 500 times, each time with arguments of another kind.",
    "  in:        a call      the call inside",
    "      x      float64 ()  float64 ()",
    "      depth  499         500",
    "  hint: a call of the same kind stays a call: let shapes, dtypes and static "
    "arguments be the same in each (functions are, given as ta.fn(f)); a count that is "
    "static ends the calls by a Python if.",
)
def other_static_arguments() -> None:
    @ta.function(static_argnames="depth")
    def f(x: Any, depth: int) -> Any:
        return ta.cond(x > 0, lambda: f(x, depth + 1), lambda: x)

    f(V, 0)


@CASES.refused(
    LimitError,
    "f calls itself 9 times, each time with arguments of another kind.",
    "  in:    a call          the call inside",
    "      g  function twice  function twice",
    "      x  float64 ()      float64 ()",
    "  hint: a call of the same kind stays a call: let shapes, dtypes and static "
    "arguments be the same in each (functions are, given as ta.fn(f)); a count that is "
    "static ends the calls by a Python if.",
)
def other_functions() -> None:
    @ta.function
    def f(g: Any, x: Any) -> Any:
        def twice(y: Any) -> Any:
            return g(g(y))

        return ta.cond(x > 9, lambda: x, lambda: f(twice, g(x)))

    f(half, V)


@CASES.refused(
    LimitError,
    "f calls itself, and functions that its calls are given, or give, are of more kinds each time "
    "that it is written down, 66 so far.",
    "  in: a",
    "  hint: let a function, or a value with functions in it, have the one of the call around in "
    "it as it is given, not as parts of parts of it; and let numbers that differ be tensors.",
)
def functions_without_an_end() -> None:
    @ta.function
    def f(a: Any, x: Any, n: Any) -> Any:
        def link(rest: Any, g: Any) -> Any:
            return Chain.Link(Chain.Link(rest, g), lambda t: g(t) + x)

        def more() -> Any:
            after = ta.match(a, lambda: Chain.Link(Chain.End(), half), link)
            return f(ta.fn(after), x, n - 1)

        return ta.cond(n > 0, more, lambda: ta.match(a, lambda: x, lambda rest, g: g(x)))

    ta.function(lambda x, n: f(ta.fn(Chain.End()), x, n))(V, N)


@CASES.refused(
    DefinitionError,
    "f returns another structure than was declared, first at f.",
    "  in:            declared    returned",
    "      f          dict        tuple",
    "      f['a']     float32 ()  -",
    "      f[0]['a']  -           float64 ()",
    "      f[1]       -           number 1",
    "  hint: return a tree of one structure in each call.",
)
def other_structure() -> None:
    @ta.function(returns={"a": 0.0})
    def f(x: Any) -> Any:
        return ta.cond(x > 9, lambda: {"a": x}, lambda: {"a": f(x + 1)["a"]}), 1

    f(V)


@CASES.refused(
    DefinitionError,
    "f returns another structure than its calls of itself, first at f.",
    "  in:       its calls   returned",
    "      f     float64 ()  -",
    "      f[0]  -           float64 ()",
    "      f[1]  -           float64 ()",
    "  hint: return a tree of one structure in each call.",
)
def structure_of_calls() -> None:
    @ta.function
    def f(x: Any) -> Any:
        made = ta.cond(x > 9, lambda: x, lambda: ta.cond(x > 5, lambda: f(x + 1), lambda: x))
        return made if not kept.append(1) and len(kept) < 2 else (made, made)

    kept: list[int] = []
    f(V)


@CASES.refused(
    DTypeError,
    "f returns another dtype than was declared at f.",
    "  in:    declared    returned",
    "      f  float32 ()  float64 ()",
    "  hint: a function that calls itself returns one type: convert with .astype(dtype).",
)
def other_dtype() -> None:
    @ta.function(returns=np.float32(0))
    def f(x: Any) -> Any:
        return ta.cond(x > 9, lambda: x, lambda: f(x + 1).astype("float64"))

    f(V)


@CASES.refused(
    ShapeError,
    "f returns another shape than was declared at f.",
    "  in:    declared      returned",
    "      f  float64 (3,)  float64 ()",
    "  hint: a function that calls itself returns one type: broadcast or reshape.",
)
def other_shape_than_declared() -> None:
    @ta.function(returns=np.zeros(3))
    def f(x: Any) -> Any:
        return ta.cond(x > 9, lambda: x, lambda: f(x + 1).sum())

    f(V)


@CASES.refused(
    GradError,
    "f calls a derivative of f itself, whose derivative needs derivatives of ever higher orders: "
    "as many as calls are nested, which only data tell.",
    "  in: f_saving, called by f",
    "  hint: differentiate outside of the recursion; or let the number of calls be a static "
    "argument (static_argnames) that a Python if ends, so that each order is a function of its "
    "own.",
)
def derivative_of_itself() -> None:
    @ta.function
    def f(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: ta.grad(lambda y: f(y, n - 1))(x) * x, lambda: x * x)

    f(V, N)


@CASES.refused(
    ShapeError,
    "the branches of cond at HERE return different shapes at cond.",
    "  in: true_fn: float64 (x_0,), false_fn: float64 (x_0 - 1,)",
    "  hint: broadcast or reshape one of them.",
)
def other_extents_in_the_result() -> None:
    @ta.function
    def f(x: Any) -> Any:
        return ta.cond(x.shape[0] < 2, lambda: x, lambda: f(x[1:]))

    f(np.ones(4))


@CASES.refused(
    ShapeError,
    "the branches of cond at HERE return different shapes at cond.",
    "  in: true_fn: float64 (3,), false_fn: float32 (trips,)",
    "  hint: broadcast or reshape one of them.",
)
def rows_of_a_loop() -> None:
    @ta.function(returns=lambda n: np.zeros(3))
    def f(n: Any) -> Any:
        rows = ta.scan(lambda c, _: (c + 1, c), 0.0, length=n)[1]
        return ta.cond(n > 0, lambda: f(n - 1), lambda: rows)

    f(N)


@CASES.refused(
    DefinitionError,
    "f calls functions without end while it is written down.",
    "  in: f at HERE",
    "  hint: a Python function that calls itself under a branch of ta.cond is written "
    "down again in each call: decorate it with @ta.function, so that its calls stay "
    "calls.",
)
def python_recursion() -> None:
    def f(x: Any) -> Any:
        return ta.cond(x > 0, lambda: f(x - 1), lambda: x)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the reference own made at HERE is a part of the result of f, which made it.",
    "  in: f",
    "  hint: return what it holds: own.get().",
)
def reference_of_a_call() -> None:
    r = ta.ref(V, "r")

    @ta.function(returns=lambda n: r)
    def f(n: Any) -> Any:
        own = ta.ref(V, "own")
        ta.cond(n > 0, lambda: (f(n - 1), None)[1], lambda: None)
        return own

    ta.function(lambda n: f(n).get())(N)


@CASES.refused(
    DefinitionError,
    "f calls itself, and each call makes the reference own made at HERE anew, which a "
    "function uses that other calls get.",
    "  in: lambda at HERE, a function that calls of f are given, or give",
    "  hint: let the function use what the reference holds, value = own.get(), and return "
    "what it would write; or make the reference outside of f.",
)
def reference_of_another_call() -> None:
    @ta.function
    def f(n: Any, g: Any) -> Any:
        own = ta.ref(V, "own")
        return ta.cond(n > 0, lambda: f(n - 1, ta.fn(lambda: own.get())), lambda: g())

    ta.function(lambda n: f(n, ta.fn(lambda: V)))(N)


@CASES.refused(
    DefinitionError,
    "f calls itself, and gives each call the reference own made at HERE, which the call around "
    "makes anew.",
    "  in: f(r, n)",
    "  hint: let the calls use one reference, made outside of f; or give them what own holds, and "
    "let them return what it is to hold.",
)
def reference_for_each_call() -> None:
    @ta.function
    def f(r: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: f(ta.ref(r.get(), "own"), n - 1), lambda: r.get())

    ta.function(lambda n: f(ta.ref(V, "r"), n))(N)


@CASES.refused(
    DefinitionError,
    "added calls itself before it is known what it returns.",
    "  in: added(x)",
    "  hint: let a branch of ta.cond, ta.switch or ta.match return without calling it, or"
    " say what it returns: ta.function(returns=...) takes an example, or a function of "
    "the arguments.",
)
def reference_without_a_type() -> None:
    @ta.function
    def added(r: Any, x: Any) -> Any:
        r.add(1.0)
        return added(r, x + r.get())

    ta.function(lambda x: added(ta.ref(V, "r"), x))(V)


@CASES.refused(
    DefinitionError,
    "f reads or writes the reference r made at HERE, outside of it.",
    "  in: a call of f that is no part of another function",
    "  hint: what a function computes follows from its arguments: pass what the reference "
    "holds, return what it is to hold, and set it after the call.",
)
def reference_from_outside() -> None:
    @ta.function
    def f(r: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: (r.add(1.0), f(r, n - 1))[1], lambda: r.get())

    f(ta.ref(V, "r"), N)
