"""Bad programs of the language: what cannot be evaluated."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad import errors
from tensorad.language import parse, partial_eval
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
    "data choose between the functions of lines 2 and 2.",
    "  in: line 2: g = if t0 { fn (v) { v } } else { fn (v) { v + 1.0 } }",
    "  hint: call them inside of the blocks, and result in tensors.",
)
def functions_chosen_by_data() -> object:
    text = """def f(x) {
  g = if x > 0.0 { fn (v) { v } } else { fn (v) { v + 1.0 } }
  g(x)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "the branches of cond at HERE leave different structures in the reference r made at "
    "line 2: they differ at r.",
    "  in: line 3: u = if t2 {",
    "  hint: data choose arrays and functions, not what else a tree is made of, such as "
    "references: leave the same, and choose what is in it.",
)
def function_written_by_data() -> object:
    text = """def f(x) {
  r = ref(fn (v) { v })
  u = if x > 0.0 { r := fn (v) { v + 1.0 } } else { () }
  read(r)(x)
}"""
    return parse(text)["f"](np.float64(2))


@refused(
    errors.DefinitionError,
    "data choose between a value tagged one and one tagged none.",
    "  in: line 3: m = if t0 { inject one(x) } else { inject none }",
    "  hint: match them inside of the blocks, and result in tensors.",
)
def tags_chosen_by_data() -> object:
    text = """data maybe = none | one(float64[])
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
    "the reference t1 made at line 2 is a part of the result of true_fn of cond at "
    "HERE, which made it.",
    "  in: line 2: r = if t0 { ref(x) } else { ref(x) }",
    "  hint: return what it holds: t1.get().",
)
def reference_leaves_a_branch() -> object:
    text = """def f(x) {
  r = if x > 0.0 { ref(x) } else { ref(x) }
  read(r)
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
    errors.LimitError,
    "f calls itself under branches whose conditions only data tell.",
    "  in: line 2: t2 = f(t1)",
    "  hint: the depth of a recursion is known when the program is written down: "
    "make its argument static, or repeat with a loop.",
)
def recursion_on_data() -> object:
    text = """def f(x) {
  if x > 0.0 { f(x - 1.0) } else { x }
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
    "fib is unfolded more than 100 times.",
    "  in: line 1: t2 = fib(t1)",
    "  hint: pass a larger budget=, or repeat with a loop.",
)
def budget() -> object:
    text = """def fib(n) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
def f(x) {
  x * fib(12)
}"""
    return partial_eval(parse(text)["f"], budget=100)(np.float64(2))
