"""Errors of functions and sums over dense samples, by the code that `benchmarks accuracy` runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.suites import accuracy, function_speed
from benchmarks.suites.accuracy import MOST_ULPS
from tensorad.ir.expr import FUNCTIONS
from tests.random.generators import SOAK

FEW, MANY = 1 << 13, 1 << 22 if SOAK else 1 << 20
ONE_BY_ONE = [f.name for f in FUNCTIONS.values() if isinstance(f.value, np.vectorize)]
"""Functions that Python computes, which NumPy has not."""


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", accuracy.DTYPES)
@pytest.mark.parametrize("op", accuracy.NAMES)
def test_functions_are_within_four_ulps(op: str, dtype: str) -> None:
    count = FEW // 8 if accuracy.needs_mpmath(op, dtype) else FEW
    found = accuracy.worst(op, dtype, count)
    assert found.ulps <= MOST_ULPS, found
    assert found.count >= 3 * count
    assert op in ("sqrt", "fmod") or found.ulps > 0.49, "no error at all: compared with itself?"


@pytest.mark.slow
@pytest.mark.parametrize("op", accuracy.NAMES)
def test_float32_functions_are_within_four_ulps_everywhere(op: str) -> None:
    is_slow = op in (*accuracy.BINARY, *ONE_BY_ONE)
    found = accuracy.worst(op, "float32", MANY >> 2 * is_slow)
    assert found.ulps <= MOST_ULPS, found


@pytest.mark.slow
@pytest.mark.parametrize("op", accuracy.NAMES)
def test_float64_functions_are_within_four_ulps_in_many_places(op: str) -> None:
    found = accuracy.worst(op, "float64", MANY >> 2)
    assert found.ulps <= MOST_ULPS, found


def test_errors_are_counted_in_units_of_the_last_place() -> None:
    exact = np.array([1.0, 1.0 + 2.0**-24, 2.0 + 2.0**-23, 0.0, np.inf, np.nan, 2.0**-149])
    got = np.array([1.0, 1.0, 2.0, 0.0, np.inf, np.nan, 0.0], np.float32)
    assert accuracy.errors(got, exact).tolist() == [0, 0.5, 0.5, 0, 0, 0, 1]
    wrong = np.array([np.nan, np.inf, 3.0, -0.0, -np.inf, 1.0, np.nan], np.float32)
    count = np.isinf(accuracy.errors(wrong, exact)).sum()
    assert count == 6, "3.0 for 2.0 is finite; a wrong sign of 0 is not"


@pytest.mark.parametrize("dtype", accuracy.DTYPES)
@pytest.mark.parametrize("name", accuracy.SUMS)
def test_sums_are_within_the_bound(name: str, dtype: str) -> None:
    for n in (100, 4096):
        assert 0 < accuracy.sum_error(name, dtype, n).part <= 1


def test_speed_is_measured_beside_the_vector_library() -> None:
    found = function_speed.speed("exp", "float32", 2)
    assert found["numpy"] != found["ours"]
    library = function_speed.vector_library("exp", "float32")
    assert ("libmvec" in found) == (library is not None)
    if library is not None:
        x = np.linspace(-5, 5, 64).astype(np.float32)
        out = np.empty_like(x)
        library.on(x, x, out)()
        np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)


def test_the_command_prints_errors_and_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", "exp", "--samples", "1000", "--rounds", "0"]) == 0
    text = capsys.readouterr().out
    assert "exp       float32" in text and "4 allowed" in text and "bound" not in text
    assert main(["accuracy", "nothing"]) == 2
    assert "'nothing' is none of exp, log" in capsys.readouterr().out
