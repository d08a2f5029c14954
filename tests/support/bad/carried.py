"""Bad programs: references that loops carry."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)


@CASES.refused(
    DefinitionError,
    "data choose whether two parts of the carry of for_loop at HERE are one reference that its "
    "body made: the reference made made at HERE.",
    "  in: c[0], c[1]",
    "  hint: make the references outside, as many as there are, and let the body choose among "
    "them.",
)
def one_or_two() -> None:
    def body(i: Any, c: Any) -> Any:
        r, _ = c
        return ta.cond(i > 0, lambda: ta.ref(V, "made"), lambda: r), r

    def f(x: Any, n: Any) -> Any:
        a = ta.ref(x, "a")
        return ta.for_loop(0, n, body, (a, a))[0].get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DefinitionError,
    "the reference inner made at HERE is a part of the contents of made of the body of for_loop "
    "at HERE, which made it.",
    "  in: made['r']",
    "  hint: return what it holds: inner.get().",
)
def one_that_is_made_in_another() -> None:
    def f(x: Any, n: Any) -> Any:
        def body(i: Any, r: Any) -> Any:
            return ta.ref({"r": ta.ref(x, "inner")}, "made")

        a = ta.ref({"r": ta.ref(x, "first")}, "a")
        return ta.for_loop(0, n, body, a).get()["r"].get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    ShapeError,
    "the carry of for_loop at HERE changes its shape at made.",
    "  in: before: float64 (3,), after: float64 (2,)",
    "  hint: a carry has one shape in all iterations.",
)
def another_shape() -> None:
    def f(x: Any, n: Any) -> Any:
        body = lambda i, r: ta.ref(x[:2], "made")  # noqa: E731
        return ta.for_loop(0, n, body, ta.ref(x, "a")).get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DTypeError,
    "the carry of for_loop at HERE changes its dtype at made.",
    "  in: before: int64 (), after: float64 ()",
    "  hint: convert the result with .astype('int64'), or start with float64.",
)
def another_dtype() -> None:
    def f(x: Any, n: Any) -> Any:
        body = lambda i, r: ta.ref(x[0], "made")  # noqa: E731
        return ta.for_loop(0, n, body, ta.ref(n, "a")).get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DefinitionError,
    "the body of for_loop at HERE leaves another structure in the reference made made at HERE: it "
    "differs at made.",
    "  in:          before        after",
    "      made     float64 (3,)  -",
    "      made[0]  -             float64 (3,)",
    "  hint: each time it finds arrays, functions and references in the same structure: leave it, "
    "and change what is in it.",
)
def another_structure() -> None:
    def f(x: Any, n: Any) -> Any:
        body = lambda i, r: ta.ref((x,), "made")  # noqa: E731
        return ta.for_loop(0, n, body, ta.ref(x, "a")).get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DefinitionError,
    "scan at HERE collects a reference that differs between iterations: the reference a made at "
    "HERE, or the reference b made at HERE.",
    "  in: y['r']",
    "  hint: collect what it holds: return r.get() in the place of r.",
)
def collected_in_turn() -> None:
    def f(x: Any) -> Any:
        pair = ta.ref(x, "a"), ta.ref(x, "b")
        return ta.scan(lambda c, _: ((c[1], c[0]), {"r": c[0]}), pair, x)[1]["r"].get()

    ta.function(f)(V)


@CASES.refused(
    DefinitionError,
    "scan at HERE collects a reference that differs between iterations: the reference a made at "
    "HERE, or the reference b made at HERE.",
    "  in: y",
    "  hint: collect what it holds: return r.get() in the place of r.",
)
def collected_in_turn_and_written_out() -> None:
    def f(x: Any, n: Any) -> Any:
        pair = ta.ref(x, "a"), ta.ref(x, "b")
        return ta.scan(lambda c, _: ((c[1], c[0]), c[0]), pair, length=3)[1].get()

    ta.partial_eval(f, {"n": 2})(V)


@CASES.refused(
    DefinitionError,
    "the reference made made at HERE is a part of the contents of p of the body of for_loop at "
    "HERE, which made it.",
    "  in: p[2]",
    "  hint: return what it holds: made.get().",
)
def left_in_another_one() -> None:
    def f(x: Any, n: Any) -> Any:
        a = ta.ref(x, "a")
        p = ta.ref(a, "p")
        ta.for_loop(0, n, lambda i, r: (p.set(r), ta.ref(r.get(), "made"))[1], a)
        return p.get().get()

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DefinitionError,
    "the reference made made at HERE has no value here: it belongs to the body of for_loop at "
    "HERE.",
    "  hint: return what it holds from there; or make the reference outside, and write it there.",
)
def used_by_a_function_in_the_carry() -> None:
    def f(x: Any, n: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            g, r = c
            made = ta.ref(g(r.get()) + 1.0, "made")
            return lambda y: y * made.get(), made

        g, r = ta.for_loop(0, n, body, (lambda y: y, ta.ref(x, "a")))
        return g(r.get())

    ta.function(f)(V, np.int64(2))


@CASES.refused(
    DefinitionError,
    "the condition of while_loop at HERE writes the reference made made at HERE.",
    "  hint: it is called for its result alone: write references before or after.",
)
def written_by_a_condition() -> None:
    def f(x: Any) -> Any:
        def test(r: Any) -> Any:
            r.add(1.0)
            return r.get() < 5.0

        a = ta.cond(x > 0, lambda: ta.ref(x, "made"), lambda: ta.ref(x, "made"))
        return ta.while_loop(test, lambda r: ta.ref(r.get() + 1.0, "made"), a).get()

    ta.function(f)(np.float64(1))


@CASES.refused(
    DefinitionError,
    "memory of for_loop at HERE is a number, but its body makes and carries the reference made "
    "made at HERE.",
    '  hint: carry what the reference holds; or pass checkpoint="sqrt", or how many iterations a '
    "segment has.",
)
def made_where_memory_is_a_number() -> None:
    def f(x: Any) -> Any:
        body = lambda i, r: ta.ref(r.get(), "made")  # noqa: E731
        return ta.for_loop(0, 9, body, ta.ref(x, "a"), memory=1000).get()

    ta.function(f)(V)
