"""Bad programs of the language: their texts."""

from __future__ import annotations

from typing import Final

from tensorad import errors
from tensorad.language import parse
from tests.support.refusals import Refusals

CASES: Final = Refusals()
refused = CASES.refused


@refused(
    errors.ProgramTextError,
    "'}' closes nothing here.",
    "  in: line 3: }",
    "  hint: the grammar is in tensorad/language/README.md.",
)
def bracket_not_closed() -> object:
    text = """def f(x : float32[2]) {
  y = x[0
}"""
    return parse(text)


@refused(
    errors.ProgramTextError,
    "undefined name y.",
    "  in: line 2: y + x",
    "  hint: names here are x.",
)
def undefined_name() -> object:
    text = """def f(x) {
  y + x
}"""
    return parse(text)


@refused(
    errors.ProgramTextError,
    "'.' stands for nothing here.",
    "  in: line 2: x.0",
    "  hint: a field of a tuple is x[0].",
)
def field_by_dot() -> object:
    text = """def f(x) {
  x.0
}"""
    return parse(text)


@refused(
    errors.ProgramTextError,
    "y is defined twice.",
    "  in: line 3: y = x",
    "  hint: give it another name.",
)
def defined_twice() -> object:
    text = """def f(x) {
  y = x
  y = x
  y
}"""
    return parse(text)


@refused(
    errors.ProgramTextError,
    "a block ends with a value.",
    "  in: line 3: }",
    "  hint: write the name of what it results in.",
)
def no_value_at_the_end() -> object:
    text = """def f(x) {
  y = x
}"""
    return parse(text)


@refused(
    errors.ProgramTextError,
    "expected a parameter, found 'read'.",
    "  in: line 1: def f(read) {",
    "  hint: read is a word of the language: take another name.",
)
def name_is_a_word() -> object:
    text = """def f(read) {
  1.0
}"""
    return parse(text)
