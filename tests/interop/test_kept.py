"""What a backward keeps: cuts beside all choices, programs with values in place of formulas."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

import tensorad as ta
from tensorad.interop.cuts import Cut
from tensorad.interop.kept import with_values
from tensorad.interop.operators import Operator
from tensorad.interop.same import same_program
from tensorad.interop.spread import spread
from tests.interop.operators import CASES


def _loops() -> Operator:
    loop = ta.function(lambda x: ta.for_loop(0, 10, lambda t, c: ta.tanh(ta.tanh(c * x) * x), x))
    program = loop.trace(np.ones(4))
    return Operator(program.results, program.parameters, "loop")


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_costs_least_of_all_choices(seed: int) -> None:
    random = Random(seed)
    names = "abcde"
    single = {a: random.randrange(6) for a in names}
    pairs = {(a, b): random.randrange(6) for a in names for b in names if a < b}
    forced = [p for p in pairs if random.random() < 0.2]
    cut = Cut()
    cut.always("a")
    for a, price in single.items():
        cut.charge(a, price)
    for (a, b), price in pairs.items():
        cut.charge_between(a, b, price)
    for a, b in forced:
        cut.implies(a, b)

    def price_of(chosen: set[str]) -> int:
        between = [n for (a, b), n in pairs.items() if a in chosen and b not in chosen]
        return sum([single[a] for a in chosen]) + sum(between)

    allowed = []
    for bits in product((False, True), repeat=len(names)):
        chosen = {a for a, bit in zip(names, bits, strict=True) if bit}
        if "a" in chosen and all(a not in chosen or b in chosen for a, b in forced):
            allowed.append(price_of(chosen))
    assert price_of({str(a) for a in cut.chosen()}) == min(allowed)


@pytest.mark.slow
def test_values_of_a_loop_are_kept_where_it_is_run_anyway() -> None:
    own = _loops()
    kept = own.keeping([0])
    assert [t.shape for t in kept.operator.outputs] == [(4,), (10, 4), (10, 4), (10, 4)]
    again = own.pullback([0], [0]).operator.outputs
    read = kept.operator.pullback_from([0], [0], kept.used).operator.outputs
    assert ta.work(list(read)).iterations < ta.work(list(again)).iterations - 80
    x = np.linspace(0.1, 1.0, 4)
    values = ta.evaluate(list(kept.operator.outputs), {own.inputs[0]: x})
    heads = np.ones(4)
    made = kept.operator.pullback_from([0], [0], kept.used)
    row = [x, *values, heads]
    given = dict(zip(made.operator.inputs, [row[k] for k in made.takes], strict=True))
    found = ta.evaluate(list(made.operator.outputs), given)
    whole = own.pullback([0], [0])
    given = dict(zip(whole.operator.inputs, [(x, heads)[k] for k in whole.takes], strict=True))
    np.testing.assert_allclose(found, ta.evaluate(list(whole.operator.outputs), given))


def test_loops_of_unknown_length_run_again() -> None:
    def grown(x: ta.Tensor) -> ta.Tensor:
        return ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)

    program = ta.function(grown).trace(np.ones(4))
    own = Operator(program.results, program.parameters, "grown")
    assert own.keeping([0]).operator is own


def test_values_stand_for_formulas() -> None:
    x = ta.placeholder((4,), "float64", name="X")
    y = ta.compute((4,), lambda i: ta.exp(x[i]), name="Y")
    z = ta.compute((4,), lambda i: y[i] * x[i], name="Z")
    stand = ta.placeholder((4,), "float64", name="Y")
    (made,) = with_values([z], {y: stand})
    found = ta.evaluate([made], {x: np.full(4, 2.0), stand: np.full(4, 3.0)})
    assert found.tolist() == [6.0] * 4
    assert with_values([z, y], {y: stand})[1] is stand
    assert with_values([z], {}) == [z]


def test_equal_programs_are_the_same() -> None:
    for make in (CASES["dense"], CASES["scattered"]):
        first, second = make(), make()
        pair = [(*c.outputs, *c.inputs) for c in (first, second)]
        assert same_program(*pair)
    x = ta.placeholder((4,), "float64", name="X")
    two, three = [ta.compute((4,), lambda i, n=n: x[i] * n, name="Y") for n in (2.0, 3.0)]
    assert not same_program([two, x], [three, x])
    foreign = ta.foreign(lambda a: a, ta.placeholder((4,), "float64"))
    pair = [ta.function(lambda a: foreign(a)).trace(np.ones(4)).results for _ in range(2)]
    assert not same_program(*pair), "functions of Python are never the same"


def test_addresses_one_after_the_other() -> None:
    n = 300
    xs = [ta.placeholder((2,), "float64", name=f"X{k}") for k in range(n)]
    for inputs in (xs[:1], xs):
        y = ta.compute((2,), lambda i, inputs=inputs: inputs[0][i] + inputs[-1][i], name="Y")
        entry = Operator([y], inputs, "added").entry([(2,)] * len(inputs))
        arrays = [np.full(2, float(k)) for k in range(len(inputs))]
        out = np.zeros(2)
        addresses = [a.ctypes.data for a in (*arrays, out)]
        assert spread(entry)(entry.address, *addresses) == 0
        assert out.tolist() == [len(inputs) - 1.0] * 2
