"""Bad programs through every entry, each with the class and the whole text of its error.

The list is in `tests/support/bad`. What the tests of branches, loops, functions and derivatives pin
beside what they test is held against it here; mistakes in texts of programs are in
`tests/golden/bad_program_texts.txt`, calls of built functions in `tests/support/bad_calls.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tensorad as ta
from tests.program import test_branches, test_derivatives, test_functions, test_loops
from tests.support.bad import (
    carried,
    derivatives,
    equations,
    examples,
    kinds,
    language_runs,
    language_texts,
    language_types,
    lenses,
    levels,
    loops,
    modules,
    programs,
    recursion,
    references,
    values,
)
from tests.support.refusals import Case, check

LANGUAGE = (language_texts, language_types, language_runs)
PARTS = (
    programs, loops, derivatives, modules, references, carried, lenses, levels, examples, recursion,
    kinds, values, equations, *LANGUAGE,
)  # fmt: skip
EVERY = [case for part in PARTS for case in part.CASES]
ENDLESS = (
    "recursion: other_static_arguments", "recursion: python_recursion",
    "recursion: functions_without_an_end",
    "language_runs: recursion_without_an_end", "language_types: types_without_an_end",
)  # fmt: skip
"""Cases that a limit ends after thousands of calls."""
BESIDE: list[dict[str, Any]] = [
    m.REFUSED for m in (test_branches, test_loops, test_functions, test_derivatives)
]


def name_of(case: Case) -> str:
    part = case.attempt.__module__.rpartition(".")[2]
    return f"{part}: {case.attempt.__name__}"


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.slow] * (name_of(c) in ENDLESS)) for c in EVERY],
    ids=[name_of(c) for c in EVERY],
)
def test_the_whole_text(case: Case) -> None:
    check(case)


def test_what_is_slow_is_listed_by_its_name() -> None:
    assert set(ENDLESS) <= {name_of(c) for c in EVERY}


def test_every_text_says_what_to_do() -> None:
    for case in EVERY:
        lines = case.text.splitlines()
        assert lines[-1].startswith("  hint: ") and lines[-1].endswith("."), case.text
        assert lines[0].endswith(".") and not lines[0].startswith(" "), case.text


def test_each_mistake_is_listed_once() -> None:
    texts = [case.text for case in EVERY]
    assert len(texts) >= 100
    beside = [text for table in BESIDE for _, _, text in table.values()]
    every = texts + [re.sub(r"\w+\.py:(LINE|\d+)", "HERE", text) for text in beside]
    assert sorted({t for t in every if every.count(t) > 1}) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("item", ": it is a formula and has no value yet; return it, or ta.evaluate it"),
        ("flattened", ""),
        ("ravel", ": write x.reshape(-1)"),
        ("std", ": write topi.sqrt(topi.variance(x, axis))"),
    ],
)
def test_attributes_of_other_arrays(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        ta.function(lambda x: getattr(x, name)())(1.0)
    assert str(caught.value) == f"tensor x has no attribute {name}{told}"


PLACES: dict[str, Callable[[Any], Any]] = {
    "x.at[...] has no multiply: it has set, add, mul, min, max, as in x.at[i].mul(value)": (
        lambda x: x.at[...].multiply(2)
    ),
    "x.at has no set: index it, as in x.at[i].set(value)": lambda x: x.at.set(2),
}


@pytest.mark.parametrize("told", PLACES)
def test_changes_of_other_arrays(told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        ta.function(PLACES[told])(1.0)
    assert str(caught.value) == told
