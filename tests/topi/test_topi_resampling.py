"""Interpolation with the coordinates and rounding modes of ONNX, against its formulas in floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.building import build
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.topi.resampling import COORDINATES, MODES, ROUNDINGS, fraction
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(23)
Array = np.ndarray
ROI = (0.25, 1.125)


def place(i: int, n: int, m: int, scale: float, coordinates: str) -> float:
    """Where element i of m lies among n: the formulas of the operator's specification."""
    length = scale * n
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "align_corners":
        return 0.0 if length == 1 else i * (n - 1) / (length - 1)
    if coordinates == "tf_crop_and_resize":
        if length == 1:
            return sum(ROI) / 2 * (n - 1)
        return ROI[0] * (n - 1) + i * (ROI[1] - ROI[0]) * (n - 1) / (length - 1)
    if coordinates == "pytorch_half_pixel" and m == 1:
        return 0.0
    offset = n / 2 * (1 - m / length) if coordinates == "half_pixel_symmetric" else 0.0
    return offset + (i + 0.5) / scale - 0.5


def nearest(at: float, rounding: str) -> int:
    """The element a place is rounded to."""
    functions = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
    }
    return int(functions[rounding])


def cubic(distance: float, a: float) -> float:
    """Keys' kernel."""
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resampled(x: Array, scale: float, m: int, mode: str, **options: Any) -> Array:
    """A vector at m points, one after the other."""
    n, a = len(x), options.get("cubic_coefficient", -0.75)
    rows = []
    for i in range(m):
        at = round(place(i, n, m, scale, options["coordinates"]), 9)
        if options["coordinates"] == "tf_crop_and_resize" and not 0 <= at <= n - 1:
            rows.append(7.0)
            continue
        if mode == "nearest":
            rows.append(x[min(max(nearest(at, options["rounding"]), 0), n - 1)])
            continue
        low = int(np.floor(at))
        near = range(low, low + 2) if mode == "linear" else range(low - 1, low + 3)
        kernel = (lambda d: max(0.0, 1 - abs(d))) if mode == "linear" else lambda d: cubic(d, a)
        weights = np.array([kernel(k - at) for k in near])
        if options.get("exclude_outside"):
            weights = np.array([w * (0 <= k < n) for w, k in zip(weights, near, strict=True)])
            weights /= weights.sum()
        rows.append(sum(w * x[min(max(k, 0), n - 1)] for w, k in zip(weights, near, strict=True)))
    return np.array(rows)


def check_vector(n: int, scale: float, mode: str, **options: Any) -> None:
    x, xs = te.placeholder((n,), "float64", name="X"), rng.standard_normal(n)
    y = topi.interpolate(x, scales=scale, mode=mode, roi=ROI, extrapolation=7.0, **options)
    exact = fraction(scale)
    assert exact is not None
    m = int(exact * n)
    assert y.shape == (m,)
    expected = resampled(xs, scale, m, mode, **options)
    np.testing.assert_allclose(interpret(y, {x: xs}), expected, atol=1e-7)
    if scale == 1.4 and options["coordinates"] in ("half_pixel", "tf_crop_and_resize"):
        gradcheck(y, [x], arrays={x: xs})


SCALES = [(5, 1.4), (4, 0.6), (5, 0.2), (3, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_the_nearest_element(coordinates: str, rounding: str) -> None:
    for n, scale in SCALES:
        check_vector(n, scale, "nearest", coordinates=coordinates, rounding=rounding)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", MODES[1:])
def test_mixtures(coordinates: str, mode: str) -> None:
    for (n, scale), a in zip(SCALES, (-0.75, -0.5, -0.5, -0.75), strict=True):
        options = {"coordinates": coordinates, "cubic_coefficient": a}
        check_vector(n, scale, mode, exclude_outside=False, **options)
    check_vector(5, 1.4, mode, exclude_outside=True, coordinates=coordinates)


def test_one_axis_after_the_other() -> None:
    x, xs = te.placeholder((2, 3, 4), "float64", name="X"), rng.standard_normal((2, 3, 4))
    y = topi.interpolate(x, sizes=(5, 2), axes=(-1, 1), mode="linear")
    options = {"coordinates": "half_pixel"}
    wide = np.apply_along_axis(resampled, 2, xs, 5 / 4, 5, "linear", **options)
    both = np.apply_along_axis(resampled, 1, wide, 2 / 3, 2, "linear", **options)
    np.testing.assert_allclose(interpret(y, {x: xs}), both)


@pytest.mark.slow
def test_compiled_with_gradients() -> None:
    x, xs = te.placeholder((4, 3), "float64", name="X"), rng.standard_normal((4, 3))
    for mode in MODES[1:]:
        y = topi.interpolate(x, (6, 2), mode=mode, coordinates="align_corners")
        np.testing.assert_allclose(build(y, [x])(xs), interpret(y, {x: xs}), rtol=1e-12)
        gradcheck(y, [x], arrays={x: xs})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "coordinates"),
    [("nearest", "half_pixel"), ("linear", "asymmetric"), ("cubic", "half_pixel")],
)
def test_symbolic_extents(mode: str, coordinates: str) -> None:
    n = te.size("n")
    x = te.placeholder((n,), "float64", name="X")
    y = topi.interpolate(x, scales=1.5, mode=mode, coordinates=coordinates)
    for extent in (2, 5):
        xs = rng.standard_normal(extent)
        m = extent * 3 // 2
        options = {"coordinates": coordinates, "rounding": "round_prefer_floor"}
        expected = resampled(xs, 1.5, m, mode, **options)
        np.testing.assert_allclose(interpret(y, {x: xs}), expected, atol=1e-7)


def test_what_stays_as_it_is() -> None:
    x = te.placeholder((3, 4), name="X")
    assert topi.interpolate(x, (3, 4)) is x
    assert topi.interpolate(x, scales=1, mode="cubic") is x
    assert topi.interpolate(x, scales=2, axes=()) is x
    assert topi.interpolate(te.placeholder((3,), "int32", name="N"), scales=2.0).shape == (6,)


def test_numbers_are_simple_fractions() -> None:
    for number in (Fraction(1, 3), Fraction(3, 5), Fraction(123, 1000), Fraction(7, 1)):
        assert fraction(float(number)) == fraction(np.float32(float(number))) == number
    assert fraction(2) == 2
    for other in (None, True, float("nan"), float("inf"), "2"):
        assert fraction(other) is None


CASES = Refusals()
X = te.placeholder((2, 6), name="X")
N = te.placeholder((2, 6), "int64", name="N")
S = te.placeholder((te.size("n"), 6), name="S")


@CASES.refused(
    DefinitionError,
    "interpolate: mode must be 'nearest', 'linear' or 'cubic', got 'area'.",
    "  hint: write another interpolation with compute.",
)
def another_mode() -> None:
    topi.interpolate(X, scales=2, mode="area")


@CASES.refused(
    DefinitionError,
    "interpolate: coordinates must be 'half_pixel', 'half_pixel_symmetric', "
    "'pytorch_half_pixel', 'align_corners', 'asymmetric' or 'tf_crop_and_resize', got 'corners'.",
    "  hint: half_pixel takes centres.",
)
def other_coordinates() -> None:
    topi.interpolate(X, scales=2, coordinates="corners")


@CASES.refused(
    DefinitionError,
    "interpolate: rounding must be 'round_prefer_floor', 'round_prefer_ceil', 'floor' or 'ceil', "
    "got 'up'.",
    "  hint: which element is the nearest one.",
)
def another_rounding() -> None:
    topi.interpolate(X, scales=2, rounding="up")


@CASES.refused(
    DefinitionError,
    "interpolate: neither sizes nor scales are given.",
    "  hint: e.g. scales=2, axes=(2, 3).",
)
def no_sizes() -> None:
    topi.interpolate(X)


@CASES.refused(
    DefinitionError,
    "interpolate: sizes must be one positive integer for each of 2 axes, got (3, 0).",
    "  hint: e.g. sizes=2 for all of them, or name fewer axes.",
)
def a_size_of_nothing() -> None:
    topi.interpolate(X, (3, 0))


@CASES.refused(
    DefinitionError,
    "interpolate: scales must be one positive number for each of 1 axes, got (2.0, 2.0).",
    "  hint: e.g. scales=2.0 for all of them, or name fewer axes.",
)
def scales_of_more_axes() -> None:
    topi.interpolate(X, scales=(2.0, 2.0), axes=1)


@CASES.refused(
    DefinitionError,
    "interpolate: roi must be the starts of 2 axes, then their ends, got None.",
    "  hint: e.g. roi=(0.0, 0.0, 1.0, 1.0) for all of the input.",
)
def a_crop_of_nothing() -> None:
    topi.interpolate(X, scales=2, coordinates="tf_crop_and_resize")


@CASES.refused(
    DTypeError,
    "interpolate: N has dtype int64, which holds no mixtures of elements.",
    "  hint: convert it: N.astype('float32'), or use mode='nearest'.",
)
def mixtures_of_integers() -> None:
    topi.interpolate(N, scales=2, mode="linear")


@CASES.refused(
    ShapeError,
    "interpolate: axis 0 of S (n, 6) has the extent n.",
    "  hint: axes have a constant extent of at least 1; with scales and the coordinates "
    "half_pixel or asymmetric it may be symbolic.",
)
def corners_of_a_symbolic_axis() -> None:
    topi.interpolate(S, scales=2, coordinates="align_corners")


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(("n", "count"), [(12, 4), (7, 3)])
def test_shorter_axes_are_mixed_of_all_elements(n: int, count: int) -> None:
    x = te.placeholder((n,), "float64", name="X")
    xs = np.random.default_rng(3).standard_normal(n)
    places = (np.arange(count)[:, None] + 0.5) * n / count - 0.5
    around = np.arange(-3, n + 3)
    weights = np.maximum(1 - np.abs(around - places) * count / n, 0)
    weights /= weights.sum(1, keepdims=True)
    expected = weights @ xs[np.clip(around, 0, n - 1)]
    made = topi.interpolate(x, count, mode="linear", antialias=True)
    np.testing.assert_allclose(interpret(made, {x: xs}), expected, rtol=1e-12)
    gradcheck(made, [x], arrays={x: xs})


def test_mixtures_of_too_many_elements() -> None:
    x = te.placeholder((1000,), name="X")
    with pytest.raises(ShapeError, match="an element of axis 0 of X would be mixed of 2000"):
        topi.interpolate(x, 1, mode="linear", antialias=True)
