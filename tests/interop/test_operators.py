"""Operators of other systems: their derivatives and rows are operators, of what these read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DTypeError
from tensorad.interop.operators import Operator
from tests.interop.operators import CASES, dense


def test_a_derived_operator_takes_what_it_reads() -> None:
    case = dense()
    own = Operator(case.outputs, case.inputs, "dense")
    both, first = own.pullback([0, 1], [0]), own.pullback([1], [0])
    assert both.takes == (0, 1, 2) and first.takes == (0, 2)
    assert [t.name for t in first.operator.inputs] == ["X", "d_Y"]
    assert own.pullback([0, 1], [0]) is both, "made once"
    assert first.operator.name == "dense_vjp_01_1"
    assert own.pushforward([1]).takes == (0, 2)


def test_turned_round_a_pushforward_is_the_pullback() -> None:
    case = CASES["softmax"]()
    own = Operator(case.outputs, case.inputs, "softmax")
    pushed = own.pushforward([0])
    turned = pushed.operator.pullback([pushed.takes.index(1)], [0])
    direct = own.pullback([0], [0])
    assert ta.work(turned.operator.outputs) == ta.work(direct.operator.outputs)


def test_moves_of_moves_have_names_of_their_own() -> None:
    case = CASES["stencil"]()
    twice = Operator(case.outputs, case.inputs, "stencil").pushforward([0]).operator
    names = [t.name for t in twice.pushforward([0, 1]).operator.inputs]
    assert names == ["X", "d_X", "d_X_2", "d_d_X"]


def test_rows_of_rows_have_sizes_of_their_own() -> None:
    case = dense()
    rows = Operator(case.outputs, case.inputs, "dense").for_rows([0])
    twice = rows.operator.for_rows([0, 1])
    assert rows.moves == twice.moves == (True,)
    assert twice.operator.output_shapes([(7, 6, 3, 4), (7, 5, 4)]) == [(7, 6, 3, 5)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_its_function_is_the_compiled_one(name: str) -> None:
    case = CASES[name]()
    own = Operator(case.outputs, case.inputs, name)
    entry = own.entry([a.shape for a in case.arrays])
    assert entry is own.entry([a.shape for a in case.arrays])
    results = own.built(*case.arrays)
    shapes = [np.shape(a) for a in (results if isinstance(results, list) else [results])]
    assert list(entry.output_shapes) == shapes == own.output_shapes(entry.input_shapes)


def test_values_of_data_types_are_refused() -> None:
    @ta.variant
    class Maybe:
        class Nothing: ...

        class Just:
            value: "float64"  # type: ignore[name-defined]  # noqa: F821, UP037

    program = ta.function(lambda m: ta.match(m, lambda: 0.0, lambda v: v)).trace(Maybe.Just(1.0))
    with pytest.raises(DTypeError, match="is a value of a data type, which is no array"):
        Operator(program.results, program.parameters, "maybe")


def test_a_tensor_that_stands_twice_has_the_sum_of_its_cotangents() -> None:
    x = ta.placeholder((3,), dtype="float64", name="X")
    y = ta.compute((3,), lambda i: ta.exp(x[i]), name="Y")
    own = Operator([y, y], [x], "twice")
    arrays = [np.linspace(0.1, 0.9, 3), np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -1.0])]
    found = own.pullback([0], [0, 1]).operator.built(*arrays)
    np.testing.assert_allclose(found, np.exp(arrays[0]) * (arrays[1] + arrays[2]), rtol=1e-15)
    moved = own.pushforward([0]).operator.built(*arrays[:2])
    assert len(moved) == 2 and (moved[0] == moved[1]).all()
    np.testing.assert_allclose(moved[0], np.exp(arrays[0]) * arrays[1], rtol=1e-15)


def test_pullbacks_are_told_apart_by_their_cotangents() -> None:
    x = ta.placeholder((3,), "float64", name="X")
    squares = ta.compute((3,), lambda i: x[i] * x[i], name="squares")
    thirds = ta.compute((3,), lambda i: x[i] * 3.0, name="thirds")
    own = Operator([squares, thirds], [x], "both")
    values, head = np.array([1.0, 2.0, 3.0]), np.ones(3)
    for given, expected in (([0], 2 * values), ([1], [3.0] * 3), ([0, 1], 2 * values + 3.0)):
        made = own.pullback([0], given)
        takes = [(values, head, head)[k] for k in made.takes]
        np.testing.assert_array_equal(made.operator.built(*takes), expected)
