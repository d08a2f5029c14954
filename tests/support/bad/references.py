"""Bad programs: references."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
X = np.ones((2, 3))
kept: list[Any] = []


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is a result of <lambda>.",
    "  in: <lambda>",
    "  hint: a reference is no value: return what it holds, r.get().",
)
def a_result() -> None:
    run(lambda x: ta.ref(x, "r"), V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is a result of <lambda>.",
    "  in: <lambda>['r'][0]",
    "  hint: a reference is no value: return what it holds, r.get().",
)
def a_result_in_a_tree() -> None:
    run(lambda x: {"w": x, "r": (ta.ref(x, "r"),)}, V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is a result of <lambda>.",
    "  in: <lambda>[1]",
    "  hint: a reference is no value: return what it holds, r.get().",
)
def outer_result() -> None:
    r = ta.ref(V, "r")
    run(lambda x: (x, r), V)


@CASES.refused(
    ShapeError,
    "the branches of cond at HERE leave different shapes in the reference r made at HERE.",
    "  in: true_fn: float64 (3,), false_fn: float64 (2,)",
    "  hint: references of which data choose one hold arrays of one shape.",
)
def made_in_an_arm_with_another_shape() -> None:
    run(lambda x: ta.cond(x[0] > 0, lambda: ta.ref(x, "r"), lambda: ta.ref(x[:2], "s")).get(), V)


@CASES.refused(
    DefinitionError,
    "the reference inner made at HERE is a part of the result of true_fn of cond at HERE, which "
    "made it.",
    "  in: cond",
    "  hint: return what it holds: inner.get().",
)
def made_in_a_loop_of_an_arm() -> None:
    def arm(x: Any) -> Any:
        found: list[Any] = []
        ta.for_loop(0, 3, lambda i, c: (found.append(ta.ref(c, "inner")), c)[1], x)
        return found[-1]

    run(lambda x: ta.cond(x[0] > 0, lambda: arm(x), lambda: ta.ref(x, "r")).get(), V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is a part of the result of the body of for_loop at HERE, "
    "which made it.",
    "  in: c",
    "  hint: return what it holds: r.get().",
)
def next_carry() -> None:
    run(lambda x: ta.for_loop(0, 3, lambda i, c: ta.ref(c, "r"), x), V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is a part of the result of the body of scan at HERE, which "
    "made it.",
    "  in: y",
    "  hint: return what it holds: r.get().",
)
def collected() -> None:
    run(lambda x: ta.scan(lambda c, xi: (c, ta.ref(xi, "r")), 0.0, x)[1], V)


@CASES.refused(
    DefinitionError,
    "the reference inner made at HERE has no value here: it belongs to the body of for_loop at "
    "HERE.",
    "  hint: return what it holds from there; or make the reference outside, and write it there.",
)
def out_of_body() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            kept.append(ta.ref(x[i], "inner"))
            return c

        ta.for_loop(0, 3, body, 0)
        return kept[-1].get()

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE has no value here: it belongs to true_fn of cond at HERE.",
    "  hint: return what it holds from there; or make the reference outside, and write it there.",
)
def from_arm() -> None:
    def f(x: Any) -> Any:
        ta.cond(x[0] > 0, lambda: kept.append(ta.ref(x, "r")), lambda: None)
        kept[-1].set(x)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE has no value here: it belongs to <lambda>.",
    "  hint: return what it holds from there; or make the reference outside, and write it there.",
)
def from_call() -> None:
    run(lambda x: (kept.append(ta.ref(x, "r")), x)[1], V)
    kept[-1].get()


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is written with another structure at r['b'].",
    "  in:         held          written",
    "      r['b']  number 0.0    -",
    "      r['w']  float64 (3,)  float64 (3,)",
    "  hint: a reference holds trees of one structure: make another one for what is another tree.",
)
def structure() -> None:
    def f(x: Any) -> Any:
        r = ta.ref({"w": x, "b": 0.0}, "r")
        r.set({"w": x})
        return x

    run(f, V)


@CASES.refused(
    ShapeError,
    "the reference r made at HERE is written with another shape at r.",
    "  in: held: float64 (3,), written: float64 (2,)",
    "  hint: a reference holds one shape: make it with an array of this one.",
)
def shape() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        r.set(x[:2])
        return x

    run(f, V)


@CASES.refused(
    DTypeError,
    "the reference r made at HERE is written with another dtype at r.",
    "  in: held: float64 (3,), written: float32 (3,)",
    "  hint: convert the value with .astype('float64'), or make the reference with float32.",
)
def dtype() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        r.set(x.astype("float32"))
        return x

    run(f, V)


@CASES.refused(
    DTypeError,
    "the reference r made at HERE is written with another dtype at r.",
    "  in: held: bool (3,), written: float64 (3,)",
    "  hint: convert the value with .astype('bool'), or make the reference with float64.",
)
def number_dtype() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x > 0, "r")
        r.set(x)
        return x

    run(f, V)


@CASES.refused(
    DTypeError,
    "the reference n made at HERE is written with another dtype at n.",
    "  in: held: int64 (), written: number 0.5",
    "  hint: convert the value with .astype('int64'), or make the reference with float32.",
)
def int_float() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(np.int64(0), "n")
        r.set(0.5)
        return x

    run(f, V)


@CASES.refused(
    DTypeError,
    "the branches of cond at HERE leave different dtypes in the reference r made at HERE.",
    "  in: true_fn: float64 (), false_fn: float32 ()",
    "  hint: convert what one writes with .astype(dtype), or make the reference with an array.",
)
def arms_dtype() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(0.0, "r")
        ta.cond(x[0] > 0, lambda: r.set(x[0]), lambda: r.set(x[0].astype("float32")))
        return x

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the condition of while_loop at HERE writes the reference n made at HERE.",
    "  hint: it is called for its result alone: write references before or after.",
)
def test_writes() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(0, "n")
        return ta.while_loop(lambda c: (r.add(1), c.sum() < 9)[1], lambda c: c + 1, x)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "r is a formula of an index, which ends with the formula it belongs to.",
    "  in: x[i]",
    "  hint: make a tensor of it with compute.",
)
def formula_writes() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(0.0, "r")
        return ta.compute((3,), lambda i: (r.set(x[i]), x[i])[1])

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the rule of double writes the reference n made at HERE.",
    "  hint: it is called for its result alone: write references before or after.",
)
def rule_writes() -> None:
    r = []
    op = ta.function(lambda x: x * 2.0)
    op.name = "double"
    ta.register_gradient(op)(lambda call, g: (r[0].add(1), [g * 2.0])[1])

    def f(x: Any) -> Any:
        r.append(ta.ref(0, "n"))
        return ta.grad(lambda y: op(y).sum())(x)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "<lambda> reads or writes the reference scale made at HERE, outside of it.",
    "  in: a call of <lambda> that is no part of another function",
    "  hint: what a function computes follows from its arguments: pass what the reference "
    "holds, return what it is to hold, and set it after the call.",
)
def rule_function_reads() -> None:
    r = []
    op = ta.function(lambda x: x * r[0].get())
    ta.register_gradient(op)(lambda call, g: [g * 2.0])

    def f(x: Any) -> Any:
        r.append(ta.ref(2.0, "scale"))
        return op(x)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "step reads or writes the reference r made at HERE, outside of it.",
    "  in: a call of step that is no part of another function",
    "  hint: what a function computes follows from its arguments: pass what the reference "
    "holds, return what it is to hold, and set it after the call.",
)
def from_outside() -> None:
    r = ta.ref(V, "r")

    def step(x: Any) -> Any:
        r.add(x)
        return x

    run(step, V)


@CASES.refused(
    DefinitionError,
    "grad_loss reads or writes the reference r made at HERE, outside of it.",
    "  in: a call of grad_loss that is no part of another function",
    "  hint: what a function computes follows from its arguments: pass what the reference "
    "holds, return what it is to hold, and set it after the call.",
)
def grad_from_outside() -> None:
    r = ta.ref(0.5, "r")

    def loss(x: Any) -> Any:
        return (x * r.get()).sum()

    ta.grad(loss)(V)


@CASES.refused(
    DefinitionError,
    "r is of class set, which is neither an array nor a tree of arrays.",
    "  hint: pass arrays, numbers, tensors, and dicts, lists, tuples or dataclasses of them; "
    "tell how another class is taken apart with ta.register_tree.",
)
def set_as_no_tree() -> None:
    r = ta.ref(V, "r")
    r.set({1, 2})


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE has no truth value: it is a place, not what it holds.",
    "  hint: r.get() is what it holds.",
)
def truth() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x > 0, "r")
        return x if r else -x

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is not indexed: it is a place, not what it holds.",
    "  hint: r.at[i] is a view of a part, r.get() is what it holds.",
)
def index() -> None:
    run(lambda x: ta.ref(x, "r")[0], V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is not indexed: it is a place, not what it holds.",
    "  hint: r.at[i].set(value) writes a part, r.get() is what it holds.",
)
def assignment() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        r[0] = 1.0
        return r.get()

    run(f, V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE cannot be iterated over: it is a place, not what it holds.",
    "  hint: r.get() is what it holds.",
)
def iteration() -> None:
    run(lambda x: list(ta.ref(x, "r")), V)
