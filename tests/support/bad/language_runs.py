"""Bad programs of the language: what cannot be evaluated."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad import errors
from tensorad.language import Tagged, interpret, parse, partial_eval
from tests.support.refusals import Refusals

CASES: Final = Refusals()
refused = CASES.refused


@refused(
    errors.DefinitionError,
    "a number is divided by zero.",
    "  in: line 2: n = 4 // 0",
    "  hint: divide by something else.",
)
def division_by_zero() -> object:
    text = """def f(x) {
  n = 4 // 0
  x + n
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "the branches of the call of cond at HERE return different structures: they differ at "
    "function.",
    "  in: line 3: t6 = g(x)",
    "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
)
def functions_of_different_types() -> object:
    text = """def f(x) {
  g = if x > 0.0 { fn (v) { v } } else { fn (v) { (v, v) } }
  g(x)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "the branches of cond at HERE leave different structures in the reference r made at "
    "line 2: they differ at r[0].",
    "  in: line 3: u = if t0 {",
    "  hint: data choose arrays, functions and references, not what else a tree is made of: "
    "leave the same, and choose what is in it.",
)
def structure_written_by_data() -> object:
    text = """def f(x) {
  r = ref(x)
  u = if x > 0.0 { r := (x, x) } else { () }
  read(r)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "go calls itself as often as data tell, and is given r, which a function that data choose "
    "reads or writes inside of it, too.",
    "  in: line 6: t15 = go(n, x)",
    "  hint: let the function that data choose take and return what the reference holds.",
)
def reference_by_two_ways() -> object:
    text = """def f(x, n) {
  r = ref(x)
  g = if x > 0.0 { fn (v) { sin(v) } } else { fn (v) { r := read(r) * v
    v } }
  go = fn (k, y) { if k > 0 { go(k - 1, g(y)) + read(r) } else { y } }
  go(n, x)
}"""
    return parse(text)["f"](np.float64(2), np.int64(3))


@refused(
    errors.DefinitionError,
    "the body of for_loop at HERE leaves another structure in the reference r made at line 2: "
    "it differs at r.",
    "  in: line 3: u = loop i in [0, n) carry (c = x) {",
    "  hint: each time it finds arrays, functions and references in the same structure: leave it, "
    "and change what is in it.",
)
def structure_written_by_a_loop() -> object:
    text = """def f(x, n) {
  r = ref(x)
  u = loop i in [0, n) carry (c = x) { r := (x, x)
    c }
  u
}"""
    return parse(text)["f"](np.float64(2), np.int64(3))


@refused(
    errors.DefinitionError,
    "data choose values of maybe, and a field of one is t[*s].",
    "  in: line 3: m = if t0 { inject one(x) } else { inject none }",
    "  hint: what data choose is a record, whose fields have dtypes and extents, float64[3].",
)
def tags_without_fixed_types() -> object:
    text = """data maybe = none | one(t[*s])
def f(x : float64[]) {
  m = if x > 0.0 { inject one(x) } else { inject none }
  match m {
    case none { 0.0 }
    case one(y) { y }
  }
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "f results in a function.",
    "  in: f",
    "  hint: call it.",
)
def function_as_a_result() -> object:
    text = """def f(x) {
  fn () { x }
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "f results in a reference.",
    "  in: f",
    "  hint: result in what it holds.",
)
def reference_as_a_result() -> object:
    text = """def f(x) {
  ref(x)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "f calls itself, and each call makes the reference own made at line 3 anew, which a function "
    "uses that other calls get.",
    "  in: line 10: t12 = f(n)",
    "  hint: let the function use what the reference holds, value = read(own), and return what it "
    "would write; or make the reference outside of f.",
)
def function_over_a_reference_of_another_call() -> object:
    text = """def g(n) {
  f = fn (n) {
    own = ref(2.0)
    if n == 0 { fn (v) { v } } else {
      h = f(n - 1)
      fn (v) { own := read(own) * 2.0
        h(v) * read(own) }
    }
  }
  f(n)(1.0)
}"""
    return parse(text)["g"](np.int64(3))


@refused(
    errors.DefinitionError,
    "walk calls itself before it is known what it returns.",
    "  in: line 2: t6 = walk(x)",
    "  hint: let a branch of ta.cond, ta.switch or ta.match return without calling it, or say "
    "what it returns: ta.function(returns=...) takes an example, or a function of the arguments.",
)
def recursion_without_a_type() -> object:
    text = """def walk(x) { if x > 0.0 { walk(x - 1.0) } else { walk(x + 1.0) } }
def f(x) { walk(x) }"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DTypeError,
    "the tangent tangents[0] of jvp of total is of float64, but what it belongs to is of the data "
    "type list.",
    "  in: line 3: t4 = t3(xs, x)",
    "  hint: pass a value of list: of the same alternatives, with numbers for directions.",
)
def number_as_a_direction_of_a_list() -> object:
    text = """data list = nil | cons(float64[], list)
def total(xs) { match xs { case nil { 0.0 } case cons(x, rest) { x + total(rest) } } }
def f(xs, x) { jvp(total)(xs, x) }"""
    return parse(text)["f"](Tagged("nil"), np.float64(2))


@refused(
    errors.GradError,
    "jvp takes a tangent for each float of the arguments, 2, got 1.",
    "  in: line 1: t7 = t5(t6, x)",
    "  hint: a tangent is a value like its argument, with a float for each float.",
)
def tangents_of_half_the_arguments() -> object:
    text = """def f(x) { jvp(fn (p) { p[0] * p[1] })((x, x), x) }"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DTypeError,
    "+ takes tensors and numbers, got a function that data choose.",
    "  in: line 3: t6 = g + x",
    "  hint: call a function, or match a value of a sum.",
)
def chosen_function_as_a_number() -> object:
    text = """def f(x) {
  g = if x > 0.0 { fn (v) { v } } else { fn (v) { -v } }
  g + x
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.LimitError,
    "f is called inside of more than 1,000 calls.",
    "  in: line 2: t1 = f(t0)",
    "  hint: a recursion ends where its argument says so; repeat with a loop.",
)
def recursion_without_an_end() -> object:
    text = """def f(x) {
  f(x + 1.0)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.LimitError,
    "g is unfolded as often as it may be, and cannot stay a call: its arguments are of another "
    "type each time.",
    "  in: line 1: t3 = g(t1, t2)",
    "  hint: pass a larger budget=, or repeat with a loop.",
)
def budget() -> object:
    text = """def g(t, n) { if n < 1 { 0.0 } else { g((t, t), n - 1) } }
def f(x) {
  x * g(x, 12)
}"""
    return partial_eval(parse(text)["f"], budget=10)(np.float64(2))


@refused(
    errors.ShapeError,
    "the reference read(w) holds float64[3], but is given float32[].",
    "  in: line 5: w := b",
    "  hint: a reference holds values of one type.",
)
def reference_to_another_type() -> object:
    text = """def f(x) {
  a = ref(x)
  b = ref(2.0)
  w = ref(a)
  w := b
  read(read(w))
}"""
    return parse(text)["f"](np.ones(3))


@refused(
    errors.BindError,
    "an argument of a program's function is the function sin.",
    "  hint: pass arrays, numbers, tuples and tagged values: write functions in the program, and "
    "choose them there by a number.",
)
def function_as_argument() -> object:
    return parse("def f(g, x) { g(x) }")["f"]((np.sin,), np.ones(3))


@refused(
    errors.BindError,
    "an argument of a program's function is the function cos.",
    "  hint: pass arrays, numbers, tuples and tagged values: write functions in the program, and "
    "choose them there by a number.",
)
def function_as_argument_of_the_interpreter() -> object:
    return interpret(parse("def f(g, x) { g(x) }"), "f", np.cos, np.ones(3))


@refused(
    errors.DefinitionError,
    "interpreted results in a function.",
    "  in: interpreted[1]",
    "  hint: call it.",
)
def function_as_result_of_the_interpreter() -> object:
    text = "def interpreted(x) { (x, fn (v) { v * x }) }"
    return interpret(parse(text), "interpreted", np.ones(3))


@refused(
    errors.DefinitionError,
    "the program has no function f.",
    "  hint: it has no functions: its text is empty.",
)
def function_of_an_empty_text() -> object:
    return parse("")["f"]
