"""Data types, records and definitions in texts: printed, read, printed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import ProgramTextError
from tensorad.ir.reference.verify import verify
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import forest_leaves
from tests.support.programs.higher.chosen import CHOSEN
from tests.support.programs.higher.data import DATA, listed
from tests.support.programs.higher.kit import TRACED, Cases
from tests.support.programs.higher.recursive import RECURSIVE

TOTAL = """\
type List = Nil | Cons(head : float64[], tail : List)

define total_1(l : List, w : float64[]) -> float64[]:
  l.tag : int64[] = tag l
  match : float64[] = branch l.tag (l, w):
  case 0:
    match_1 : float64[] = 0.0
    yield match_1
  case 1:
    head : float64[], tail : List = fields Cons of l
    mul : float64[] = head*w
    total : float64[] = recur total_1(tail, w)
    add : float64[] = mul + total
    yield add
  return match

def total(l : List, w : float64[]) -> float64[]:
  total : float64[] = recur total_1(l, w)
  return total
"""


def traced(cases: Cases, name: str) -> tuple[Any, tuple[Any, ...]]:
    made: Any = cases[name].make(TRACED)
    f = made if hasattr(made, "trace") else ta.function(made)
    return f.trace(*cases[name].arguments[0]), cases[name].arguments[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("cases", "name"),
    [(c, name) for c in (RECURSIVE, DATA, CHOSEN) for name in c],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_text_is_read_back(cases: Cases, name: str) -> None:
    program, arguments = traced(cases, name)
    text = str(program)
    again = parse_program(text)
    assert str(again) == text
    f = again.functions[-1]
    params, results = forest_leaves([t for _, t in f.params]), forest_leaves([f.results])
    verify(results)
    if all(t.dtype.kind != "record" for t in (*params, *results)):
        given = dict(zip(params, arguments, strict=True))
        wanted = dict(zip(program.parameters, arguments, strict=True))
        for t, other in zip(results, program.results, strict=True):
            assert np.array_equal(ta.interpret(t, given), ta.interpret(other, wanted))


def test_the_text_of_a_function_of_lists() -> None:
    @ta.function
    def total(l: Any, w: Any) -> Any:  # noqa: E741  # as in the text
        return ta.match(l, lambda: 0.0, lambda h, t: h * w + total(t, w))

    program = total.trace(listed(1.0), np.float64(2.0))
    assert str(program) == TOTAL
    html = program._repr_html_()
    assert "<b>List</b>" in html and "recur</span>" in html


BAD = {
    "head*w": ("tail*w", "types disagree at '*': List is wanted, this is float64."),
    "recur total_1(tail, w)": ("recur total_2(tail, w)", "undefined definition total_2."),
    "total_1(tail, w)": ("total_1(tail)", "2 values are taken, got 1."),
    "fields Cons of l": ("fields Snoc of l", "Snoc is no alternative of List."),
    "tag l": ("tag w", "w is of no data type."),
    "head : float64[], tail : List = ": ("head : float64[] = ", "1 name for 2 results."),
    "tail : List)": ("tail : Lisp)", "Lisp is no dtype."),
}


@pytest.mark.parametrize("right", BAD)
def test_mistakes_are_refused(right: str) -> None:
    wrong, message = BAD[right]
    assert right in TOTAL
    with pytest.raises(ProgramTextError) as caught:
        parse_program(TOTAL.replace(right, wrong, 1))
    assert str(caught.value).startswith(message)
