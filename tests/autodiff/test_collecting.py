"""Ways to collect adjoints: their counts, the choice, and that all of them are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.adjoints.transposed import may_pass_on
from tensorad.autodiff.collecting import ACCUMULATE, PASS_ON, Collecting
from tensorad.autodiff.counting.operations import Operations, operations
from tensorad.ir.tensor import Tensor
from tests.random.generators import campaign

N = 4


def given(name: str) -> Tensor:
    return ta.placeholder((N,), "float64", name=name)


def test_operations_are_counted() -> None:
    x, y = given("x"), given("y")
    z = ta.compute((N,), lambda i: x[i] * y[i] + x[i], name="z")
    k = ta.reduce_axis(N, name="k")
    s = ta.compute((), lambda: ta.sum(z[k] * 2.0, axis=k), name="s")
    assert operations([z]) == Operations(N, N, N, 8 * N)
    assert operations([s]) == Operations(2 * N, 2 * N, N + 1, 8 * (N + 1))
    assert operations([s], [z]) == Operations(N, N, 1, 8)
    looped = ta.for_loop(0, 5, lambda t, c: c * y + x, x)
    assert operations([looped]) == Operations(5 * N, 5 * N, 10 * N, 80 * N)
    assert operations([s]).total == 5 * N + 1
    assert str(operations([s])) == "8 additions, 8 products, 5 stores"


def test_what_may_be_passed_on() -> None:
    x = given("x")
    k = ta.reduce_axis(N, name="k")
    largest = ta.compute((), lambda: ta.max(x[k], axis=k), name="largest")
    assert may_pass_on(x * 2.0) and may_pass_on(x.sum()) and not may_pass_on(largest)
    assert not may_pass_on(x) and not may_pass_on(ta.for_loop(0, 2, lambda t, c: c * 2.0, x))


class Program:
    """Values made of random ones before, of several shapes and with gathers, and a random head."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.inputs = [given("a"), given("b")]
        self.values = list(self.inputs)
        for _ in range(int(rng.integers(3, 7))):
            self.values.append(self.formula(rng))
        read = [int(n) for n in rng.choice(len(self.values), 3)]
        ends = dict.fromkeys([self.values[-1], *[self.values[n] for n in read]])
        self.heads = {t * 1.0: given(f"h{n}") for n, t in enumerate(ends)}
        self.bound = {t: rng.uniform(0.5, 1.5, N) for t in (*self.inputs, *self.heads.values())}
        self.collecting = Collecting(self.heads, self.inputs, self.values, {})

    def formula(self, rng: np.random.Generator) -> Any:
        x, y = [self.values[int(n)] for n in rng.integers(len(self.values), size=2)]
        k = ta.reduce_axis(N, name="k")
        made = [
            lambda: x * y,
            lambda: x + y,
            lambda: x - y * 0.5,
            lambda: x / (y * y + 1.0),
            lambda: ta.sin(x),
            lambda: ta.compute((N,), lambda i: x[N - 1 - i] * y[i]),
            lambda: ta.compute((N,), lambda i: ta.sum(x[k] * y[i], axis=k)),
            lambda: ta.compute((N,), lambda i: ta.select(y[i] > 1.0, ta.sqrt(x[i] * x[i]), y[i])),
            lambda: ta.compute((N,), lambda i: ta.select(i > 1, x[i - 1], y[i])),
        ]
        return made[int(rng.integers(len(made)))]()

    def gradients(self, passed: dict[Tensor, None]) -> list[np.ndarray]:
        found = self.collecting.adjoints(passed)
        wanted = [found[x] for x in self.inputs if x in found]
        return ta.interpret(wanted, self.bound) if wanted else []


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", campaign(range(200), 40))
def test_forcing_the_other_way_is_never_cheaper(seed: int) -> None:
    p = Program(seed)
    chosen = p.collecting.chosen({})
    told = p.collecting.told(chosen, {})
    for c in told:
        for way, counts in c.counts.items():
            assert counts.total >= c.counts[c.way].total, (c.value, way)
    every = {c.value: None for c in told if PASS_ON in c.counts}
    first = p.gradients({})
    for passed in (chosen, every):
        for a, b in zip(p.gradients(passed), first, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_forced_values_stay_as_asked() -> None:
    a, b, u, v = map(given, "abuv")
    t = a * b
    heads = {t * 1.0: u, t + 1.0: v}
    c = Collecting(heads, [a, b], [a, b, t, *heads], {})
    assert c.chosen({}) == {} and c.chosen({t: PASS_ON}) == {t: None}
    s = a + b
    c = Collecting({s + 1.0: u}, [a, b], [a, b, s], {})
    assert c.chosen({}) == {s: None} and c.chosen({s: ACCUMULATE}) == {}
    (own, *_) = c.told({}, {s: ACCUMULATE})
    assert (own.value, own.way, own.forced) == (s, ACCUMULATE, True)
