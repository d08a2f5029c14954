"""Programs in float64: compiled, they are the interpreter's values."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.reference.precision import in_float64
from tensorad.ir.reference.verify import verify
from tests.random.generators import random_program


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_keep_their_values(seed: int) -> None:
    program = random_program(seed, computes=4)
    arrays = program.arrays()
    wide = in_float64(program.outputs)
    verify([wide[y] for y in program.outputs])
    for y in program.outputs:
        assert wide[y].dtype == ("float64" if y.dtype.is_float else y.dtype)
        found = ta.interpret(wide[y], {wide[t]: a for t, a in arrays.items() if t in wide})
        np.testing.assert_array_equal(found, ta.interpret(y, arrays))


def test_scans_scatters_folds_and_functions_are_widened() -> None:
    x = ta.placeholder((6,), name="X")
    k = ta.reduce_axis(6, name="k")
    cube = ta.scalar_function(lambda a: a * a * a, partials=lambda y, a: 3 * a * a, name="cube")
    fold = ta.comm_reducer(lambda a, b: a * 0.1 + cube(b), lambda d: 0.0, name="decay")
    y = ta.compute((), lambda: fold(x[k], axis=k) + ta.const(0.1), name="Y")
    running = ta.scan(x, 0, fold, name="running")
    spread = ta.scatter(2, 6, lambda p: (p % 2, running[p] * y[()]), init=0.1, name="spread")
    wide = in_float64([spread])
    verify([wide[spread]])
    array = np.linspace(-1, 1, 6)
    found = ta.evaluate(wide[spread], {wide[x]: array})
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, ta.interpret(spread, {x: array}), rtol=1e-14)


def test_given_tensors_become_inputs_with_names_of_their_own() -> None:
    a, b = ta.placeholder((3,), name="X"), ta.placeholder((3,), name="X")
    s = ta.compute((3,), lambda i: a[i] + b[i], name="X")
    y = ta.compute((3,), lambda i: s[i] * a[i], name="Y")
    wide = in_float64([y], [s, a])
    f = ta.build(wide[y], [wide[s], wide[a]])
    assert f(np.full(3, 2.0), np.full(3, 5.0)).tolist() == [10.0] * 3
