"""Bad programs of the language: names and types."""

from __future__ import annotations

from typing import Final

from tensorad import errors
from tensorad.language import check, parse
from tests.support.refusals import Refusals

CASES: Final = Refusals()
refused = CASES.refused


@refused(
    errors.DefinitionError,
    "float32[3] is called, but is no function.",
    "  in: line 3: t0 = y(3)",
    "  hint: fn (x) { ... } makes a function.",
)
def number_is_called() -> object:
    text = """def f(x : float32[3]) {
  y = x + 1.0
  y(3)
}"""
    check(parse(text))
    return None


@refused(
    errors.ShapeError,
    "add: shapes (3,) and (4,) do not broadcast.",
    "  in: line 2: z = x + y",
    "  hint: trailing axes must be equal or 1; reshape or transpose first.",
)
def shapes_of_operands() -> object:
    text = """def f(x : float32[3], y : float32[4]) {
  z = x + y
  z
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "the contents of r differ: float32[3] and float32[].",
    "  in: line 3: r := t0",
    "  hint: results of one type, whatever is chosen.",
)
def another_type_is_written() -> object:
    text = """def f(x : float32[3]) {
  r = ref(x)
  r := sum(x)
  r
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "the type of f follows from itself.",
    "  in: line 2: t0 = f(x)",
    "  hint: declare it, f(...) -> float32[].",
)
def recursion_without_a_type() -> object:
    text = """def f(x : float32[]) {
  f(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "parameter y of g is float32[2], but gets float32[].",
    "  in: line 3: t0 = g(x)",
    "  hint: dtypes and shapes have to agree; float64(x) converts.",
)
def argument_of_another_type() -> object:
    text = """def f(x : float32[]) {
  g = fn (y : float32[2]) { y }
  g(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "the blocks of if differ: a tuple of 2 and float32[].",
    "  in: line 2: y = if t0 { (x, x) } else { x }",
    "  hint: results of one type, whatever is chosen.",
)
def blocks_of_other_types() -> object:
    text = """def f(x : float32[]) {
  y = if x > 0.0 { (x, x) } else { x }
  y
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "match has no case cons.",
    "  in: line 3: t0 = match x {",
    "  hint: it has nil.",
)
def missing_case() -> object:
    text = """data list = nil | cons(float32[], list)
def f(x : list) {
  match x {
    case nil { 0.0 }
  }
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "the cases of match differ: float32[] and float32[2].",
    "  in: line 3: t0 = match x {",
    "  hint: results of one type, whatever is chosen.",
)
def other_case_result() -> object:
    text = """data list = nil | cons(float32[2], list)
def f(x : list) {
  match x {
    case nil { 0.0 }
    case cons(h, t) { h }
  }
}"""
    check(parse(text))
    return None


@refused(
    errors.BindError,
    "cons has 2 fields, the case names 1.",
    "  in: line 3: t0 = match x {",
    "  hint: name all of them.",
)
def fields_of_a_case() -> object:
    text = """data list = nil | cons(float32[2], list)
def f(x : list) {
  match x {
    case nil { 0.0 }
    case cons(h) { 1.0 }
  }
}"""
    check(parse(text))
    return None


@refused(
    errors.ShapeError,
    "grad takes a function whose result is one float without axes, got float32[2].",
    "  in: line 2: t3 = t2(x)",
    "  hint: sum it, sum(y).",
)
def gradient_of_a_vector() -> object:
    text = """def f(x : float32[2]) {
  grad(fn (y) { y })(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.BoundsError,
    "x[i] reads index 2 of axis 0, whose extent is 2.",
    "  in: line 2: y : float32[3] = [i] x[i]",
    "  hint: at i = 2; guard the read with select(...) or change the axis.",
)
def read_out_of_range() -> object:
    text = """def f(x : float32[2]) {
  y : float32[3] = [i] x[i]
  y
}"""
    check(parse(text))
    return None


@refused(
    errors.ProgramTextError,
    "x has 2 axes, but is read at 1 indices.",
    "  in: line 2: y : float32[2] = [i] x[i]",
    "  hint: write x[i, j].",
)
def formula_of_another_rank() -> object:
    text = """def f(x : float32[2, 2]) {
  y : float32[2] = [i] x[i]
  y
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "sum does not take these arguments: got an unexpected keyword argument 'foo'.",
    "  in: line 2: t0 = sum(x, foo=2)",
    "  hint: see topi.sum.",
)
def unknown_option() -> object:
    text = """def f(x : float32[2]) {
  sum(x, foo=2)
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "carries before and after the body differ: float64[] and float32[].",
    "  in: line 2: t1 = loop i in [0, 5) carry (s = x) { float32(s) }",
    "  hint: results of one type, whatever is chosen.",
)
def carry_changes_its_dtype() -> object:
    text = """def f(x : float64[]) {
  loop i in [0, 5) carry (s = x) { float32(s) }
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "the loop has 2 carries, its body results in float64[].",
    "  in: line 2: t0 = loop i in [0, 5) carry (s = x, t = x) { s }",
    "  hint: result in a tuple of the next carries.",
)
def carries_and_results() -> object:
    text = """def f(x : float64[]) {
  loop i in [0, 5) carry (s = x, t = x) { s }
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "loop goes to an integer without axes, not float64.",
    "  in: line 2: t0 = loop i in [0, x) carry (s = x) { s }",
    "  hint: write [0, n).",
)
def count_is_a_float() -> object:
    text = """def f(x : float64[]) {
  loop i in [0, x) carry (s = x) { s }
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "while takes a bool[], got float64[].",
    "  in: line 2: t0 = loop carry (s = x) while { s } do { s }",
    "  hint: compare, s < 10.0.",
)
def test_is_no_condition() -> object:
    text = """def f(x : float64[]) {
  loop carry (s = x) while { s } do { s }
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "if takes a bool[], got float64[].",
    "  in: line 2: t0 = if x { x } else { x }",
    "  hint: compare, x > 0.0.",
)
def condition_is_a_float() -> object:
    text = """def f(x : float64[]) {
  if x { x } else { x }
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "float64[] is read, but is no reference.",
    "  in: line 2: t0 = read(x)",
    "  hint: ref(x) makes a reference.",
)
def number_is_read() -> object:
    text = """def f(x : float64[]) {
  read(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "float64[] is written, but is no reference.",
    "  in: line 2: x := 1.0",
    "  hint: ref(x) makes a reference.",
)
def number_is_written() -> object:
    text = """def f(x : float64[]) {
  x := 1.0
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "no sum has the tag a.",
    "  in: line 2: t0 = inject a(x)",
    "  hint: write data s = a | b.",
)
def unknown_tag() -> object:
    text = """def f(x : float64[]) {
  inject a(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.BindError,
    "a has 1 field, got 2.",
    "  in: line 3: t0 = inject a(x, x)",
    "  hint: give a value for each field.",
)
def fields_of_a_tag() -> object:
    text = """data one = a(float64[])
def f(x : float64[]) {
  inject a(x, x)
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "match takes a tagged value, got float64[].",
    "  in: line 3: t0 = match x {",
    "  hint: inject tag(x) makes one.",
)
def match_of_a_number() -> object:
    text = """data one = a(float64[])
def f(x : float64[]) {
  match x { case a(y) { y } }
}"""
    check(parse(text))
    return None


@refused(
    errors.BindError,
    "g takes 2 arguments, got 1.",
    "  in: line 3: t0 = g(x)",
    "  hint: its parameters are a, b.",
)
def missing_argument() -> object:
    text = """def f(x : float64[]) {
  g = fn (a, b) { a }
  g(x)
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "a field is taken of float64[3].",
    "  in: line 2: t0 = x[0]",
    "  hint: tuples have fields; elements of tensors are read in formulas.",
)
def field_of_a_tensor() -> object:
    text = """def f(x : float64[3]) {
  x[0]
}"""
    check(parse(text))
    return None


@refused(
    errors.DefinitionError,
    "there is no field 2 in a tuple of 2.",
    "  in: line 3: t0 = t[2]",
    "  hint: fields are counted from 0.",
)
def field_that_is_not_there() -> object:
    text = """def f(x : float64[3]) {
  t = (x, x)
  t[2]
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "+ takes tensors and numbers, got a tuple of 2.",
    "  in: line 3: t0 = t + x",
    "  hint: take a field, or what a reference holds.",
)
def tensor_of_a_tuple() -> object:
    text = """def f(x : float64[3]) {
  t = (x, x)
  t + x
}"""
    check(parse(text))
    return None


@refused(
    errors.DTypeError,
    "the result of f is float64[], but gets float64[3].",
    "  hint: dtypes and shapes have to agree; float64(x) converts.",
)
def result_of_another_type() -> object:
    text = """def f(x : float64[3]) -> float64[] {
  x
}"""
    check(parse(text))
    return None


@refused(
    errors.LimitError,
    "g is called with ever other types.",
    "  in: line 1: t1 = g(t0)",
    "  hint: a recursion needs arguments of the same types.",
)
def types_without_an_end() -> object:
    text = """def g(x) { g((x, x)) }
def f(x : float64[]) {
  g(x)
}"""
    check(parse(text))
    return None
