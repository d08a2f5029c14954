"""Demands of Relay (S004) for recursion, data types, functions as values; T: what others lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.program.kinds.variants import data_type
from tests.support.programs.higher.chosen import CHOSEN
from tests.support.programs.higher.data import DATA, List, Nil, listed
from tests.support.programs.higher.kit import TRACED, check
from tests.support.programs.higher.recursive import RECURSIVE


@pytest.mark.parametrize(
    "name", ["of_a_branch", "passed_to_functions", "returned_by_functions", "in_containers"]
)
def test_s004_04_closures(name: str) -> None:
    check(CHOSEN[name])


@pytest.mark.parametrize("name", ["power", "even_and_odd", "fibonacci", "ackermann"])
def test_s004_06_recursion(name: str) -> None:
    check(RECURSIVE[name])


def test_s004_06_recursion_over_sizes_and_deep() -> None:
    @ta.function
    def mean(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: mean(x / 2 + x.sum() / 2, n - 1), lambda: x)

    for size in (2, 3, 4):
        x, wanted = np.arange(float(size)), np.arange(float(size))
        for _ in range(3):
            wanted = wanted / 2 + wanted.sum() / 2
        assert np.allclose(mean(x, np.int64(3)), wanted)
    power = RECURSIVE["power"].make(TRACED)
    assert power(np.float64(1.0), np.int64(10_000)) == 1.0


@pytest.mark.parametrize("name", ["total", "tree_net", "two_types_in_turn", "insertion_sort"])
def test_s004_07_data_structures(name: str) -> None:
    check(DATA[name])


def test_s004_08_higher_order_functions_are_written_in_the_language() -> None:
    names = ("mapped", "folds")
    for name in names:
        check(DATA[name])
    for name in ("composed_in_a_loop", "iterate", "doubled"):
        check(CHOSEN[name])


def test_t_04_functions_are_values_in_the_program() -> None:
    made = CHOSEN["composed_in_a_loop"].make(TRACED)
    program = ta.function(made).trace(np.float64(1.0), np.int64(3))
    text = str(program)
    assert text.startswith("type f = ") and "make `lambda" in text and "recur f(" in text


def test_t_05_recursion_on_a_traced_value_is_traced_once() -> None:
    calls: list[int] = []

    @ta.function
    def total(xs: Any) -> Any:
        calls.append(1)
        return ta.match(xs, lambda: 0.0, lambda h, t: h + total(t))

    assert [float(total(listed(*range(n)))) for n in (0, 1, 7, 100)] == [0, 0, 21, 4950]
    assert len(calls) == 3, "for the type, with a number of it, with the dtype of the list"
    assert total(Nil()) == 0.0 and data_type(Nil.record_type).name == List.__name__
