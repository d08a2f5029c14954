"""gradcheck: it accepts right derivatives and names the first element of wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import forward, reverse
from tensorad.checking import GradReport, checker, gradcheck
from tensorad.errors import DefinitionError, DTypeError, GradError
from tensorad.ir.expr import call
from tensorad.ir.tensor import Compute, Tensor, outputs
from tests.random.generators import random_program


def test_a_network_passes_at_orders_one_and_two() -> None:
    x, w = te.placeholder((3, 4), name="X"), te.placeholder((2, 4), name="W")
    k = te.reduce_axis((0, 4), name="k")
    dense = te.compute((3, 2), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="dense")
    y = te.compute((3, 2), lambda i, j: call("tanh", dense[i, j]) / (2.0 + i), name="Y")
    assert gradcheck(y, [x, w])
    assert gradcheck(y, x, order=2)
    assert gradcheck(y, [dense])


def test_logarithms_get_positive_inputs() -> None:
    x = te.placeholder((5,), name="X")
    assert gradcheck(te.compute((5,), lambda i: call("log", x[i]), name="Y"), x, order=2)


def test_scalars_empty_and_symbolic_shapes() -> None:
    s = te.placeholder((), name="S")
    assert gradcheck(te.compute((), lambda: call("sin", s[()]), name="Y"), s, order=2)
    e = te.placeholder((0,), name="E")
    assert gradcheck(te.compute((0,), lambda i: e[i] * 2.0, name="Y"), e)
    n = te.size("n")
    x = te.placeholder((n, n), name="X")
    k = te.reduce_axis((0, n), name="k")
    y = te.compute((n,), lambda i: te.sum(x[i, k] * x[k, i], axis=k), name="Y")
    assert gradcheck(y, x, order=2, sizes={"n": 3})


def test_given_arrays_are_used() -> None:
    x, idx = te.placeholder((4,), name="X"), te.placeholder((3,), dtype="int64", name="I")
    y = te.compute((3,), lambda i: x[idx[i]] ** 2, name="Y")
    assert gradcheck(y, x, arrays={idx: np.array([3, 0, 3])})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_pass(seed: int) -> None:
    program = random_program(seed, computes=4)
    arrays = program.arrays()
    for y in program.outputs:
        used = program.float_inputs
        if y.dtype.is_float:
            assert gradcheck(y, used, arrays=arrays, tol=1e-5)


def _halved(t: Tensor) -> Tensor:
    """`t` with a wrong last element."""
    (last,) = t.shape
    assert isinstance(last, int) and isinstance(t.op, Compute)
    axes = te.compute((last,), lambda i: t[i] * te.select(i < last - 1, 1.0, 0.5), name="wrong")
    return axes  # type: ignore[no-any-return]  # a tuple only for tuple bodies


def test_wrong_reverse_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((4,), name="X")
    y = te.compute((4,), lambda i: x[i] * 3.0, name="Y")
    right = reverse.vjp
    monkeypatch.setattr(checker, "vjp", lambda *a, **k: [_halved(g) for g in right(*a, **k)])
    with pytest.raises(GradError) as caught:
        gradcheck(y, x)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("reverse mode disagrees for Y by X: gradient of X[3] is ")
    assert lines[1] == "  in: tensor Y : float32 [4]"
    assert lines[-1] == (
        "  hint: at a kink or a pole this is no error: try another seed or other arrays."
    )


def test_wrong_forward_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((40,), name="X")
    y = te.compute((40,), lambda i: x[i] * 3.0, name="Y")
    right = forward.jvp
    monkeypatch.setattr(checker, "jvp", lambda *a, **k: _halved(right(*a, **k)))
    with pytest.raises(GradError, match=r"forward mode disagrees for Y by X: dY\[39\] is "):
        gradcheck(y, x)


def test_large_inputs_are_searched_for_the_wrong_element(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((40,), name="X")
    y = te.compute((40,), lambda i: call("exp", x[i]), name="Y")
    right = reverse.vjp
    monkeypatch.setattr(checker, "vjp", lambda *a, **k: [_halved(g) for g in right(*a, **k)])
    with pytest.raises(GradError, match=r"gradient of X\[39\] is "):
        gradcheck(y, x)


def test_bad_arguments() -> None:
    x: Any = te.placeholder((3,), name="X")
    i = te.placeholder((3,), dtype="int32", name="I")
    with pytest.raises(DefinitionError, match="order must be at least 1, got 0"):
        gradcheck(x, x, order=0)
    with pytest.raises(DefinitionError, match="directions must be at least 1, got 0"):
        gradcheck(x, x, directions=0)
    with pytest.raises(DefinitionError, match="batch must be at least 0, got -1"):
        gradcheck(x, x, batch=-1)
    with pytest.raises(DTypeError):
        gradcheck(x, i)
    assert len(outputs(x.op)) == 1


# The report


def test_the_report_is_a_table() -> None:
    x = te.placeholder((2, 3), name="X")
    s = te.placeholder((), name="S")
    y = te.compute((2, 3), lambda i, j: te.sin(x[i, j]) * s[()], name="Y")
    report = gradcheck(y, [x, s], report=True)
    assert isinstance(report, GradReport) and report and report.wrong is None
    lines = str(report).splitlines()
    assert lines[:3] == [
        "gradcheck of Y by X, S: ok",
        "  order 1, seed 0, float64 interpreted, central differences of step 1e-06, "
        "tolerance 1e-06",
        "  derivative  mode     values  worst error  at",
    ]
    assert [line.split()[:5] for line in lines[3:]] == [
        ["Y", "by", "X", "forward", "6"],
        ["Y", "by", "X", "reverse", "7"],
        ["Y", "by", "S", "forward", "6"],
        ["Y", "by", "S", "reverse", "2"],
    ]
    assert report.error < 1e-8 and report.kinks == 0
    assert report._repr_html_().startswith("<pre>gradcheck of Y")


def test_batches_directions_and_second_order_are_reported() -> None:
    x = te.placeholder((3,), name="X")
    y = te.compute((3,), lambda i: te.exp(x[i]) * x[2 - i], name="Y")
    report = gradcheck(y, x, order=2, batch=2, directions=3, report=True)
    assert report
    assert [(r.derivative, r.mode, r.values) for r in report.rows] == [
        ("Y by X", "forward", 9),
        ("Y by X", "reverse", 12),
        ("Y by X", "reverse, batched", 6),
        ("Y by X", "forward, batched", 6),
        ("Y by X", "reverse over forward", 3),
        ("dX by X", "forward", 9),
        ("dX by X", "reverse", 12),
        ("dX by X", "reverse, batched", 6),
        ("dX by X", "forward, batched", 6),
    ]


def test_several_outputs_are_checked_together_too() -> None:
    x = te.placeholder((4,), name="X")
    pair = te.compute((4,), lambda i: (x[i] * x[i], i, te.sin(x[i])), name="pair")
    report = gradcheck(pair, x, report=True)
    assert [r.mode for r in report.rows] == ["forward", "reverse"] * 2 + ["reverse, all outputs"]
    assert {r.derivative for r in report.rows} == {"pair.0 by X", "pair.2 by X"}


def test_integer_inputs_are_valid_indices() -> None:
    x, at = te.placeholder((6,), name="X"), te.placeholder((9,), dtype="int64", name="I")
    keep = te.placeholder((9,), dtype="bool", name="keep")
    y = te.compute((9,), lambda i: te.select(keep[i], x[at[i]] ** 3, 0.0), name="Y")
    report = gradcheck(y, x, report=True)
    assert report and max(r.error for r in report.rows) > 0
    far = te.compute((9,), lambda i: te.select(at[i] == 0, x[at[i] + 5] ** 3, x[0]), name="far")
    assert gradcheck(far, x)


# Kinks


def test_random_inputs_keep_away_from_kinks_and_given_ones_are_reported() -> None:
    x = te.placeholder((4,), name="X")
    y = te.compute((4,), lambda i: te.maximum(x[i], 0.0) * 2.0 + te.abs(x[i] - 0.5), name="Y")
    assert gradcheck(y, x, report=True).kinks == 0
    at = np.array([0.0, 0.5, 1.0, -1.0])
    report = gradcheck(y, x, arrays={x: at}, report=True)
    assert report and report.kinks == 2
    assert "2 elements lie at a kink: slopes between the one-sided ones pass" in str(report)
    near = gradcheck(y, x, arrays={x: at + 3e-7}, report=True)
    assert near and near.kinks == 2
    jump = te.compute((4,), lambda i: te.floor(x[i]) + x[i], name="Y")
    assert gradcheck(jump, x, arrays={x: at}, report=True).kinks == 3


def test_an_infinity_that_stays_has_slope_zero() -> None:
    x = te.placeholder((3,), name="X")
    y = te.scatter((6,), (3,), lambda i: (2 * i, te.exp(x[i])), combine="max")  # -inf between
    report = gradcheck(y, x, order=2, report=True)
    assert report and report.kinks == 0
    wrong = te.scalar_function(lambda a: a - np.inf, partials=lambda y, a: 1.0, name="w")
    with pytest.raises(GradError, match=r"dY\[0\] is .*, expected 0 "):
        gradcheck(te.compute((3,), lambda i: wrong(x[i]), name="Y"), x)


def test_a_wrong_slope_at_a_kink_is_still_wrong() -> None:
    x = te.placeholder((2,), name="X")
    steep = te.scalar_function(
        lambda a: te.maximum(a, 0.0), partials=lambda y, a: te.select(a > 0, 1.0, -0.5), name="r"
    )
    y = te.compute((2,), lambda i: steep(x[i]), name="Y")
    with pytest.raises(GradError, match=r"forward mode disagrees for Y by X: dY\[0\] is "):
        gradcheck(y, x, arrays={x: np.array([0.0, 1.0])})


def test_steep_but_smooth_functions_have_no_kinks() -> None:
    x = te.placeholder((3,), name="X")
    y = te.compute((3,), lambda i: te.exp(12.0 * x[i]) + 1e4 * x[i] ** 2, name="Y")
    report = gradcheck(y, x, report=True)
    assert report and report.kinks == 0


# The user's own derivatives


def test_a_wrong_rule_is_named() -> None:
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5,), name="W")
    k = te.reduce_axis(5, name="k")
    z = te.compute((6,), lambda i: te.sum(x[i, k] * w[k], axis=k), name="Z")
    y = te.compute((6,), lambda i: te.tanh(z[i]), name="Y")
    rows = te.reduce_axis(6, name="i")

    def rule(t: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor]:
        dx = te.compute((6, 5), lambda i, j: head[i] * w[j], name="dx")
        dw = te.compute((5,), lambda j: te.sum(head[rows] * x[rows, j], axis=rows), name="dw")
        return [dx, te.compute((5,), lambda j: dw[j] * te.select(j == 3, 2.0, 1.0), name="dw")]

    with pytest.raises(GradError) as caught:
        gradcheck(y, [x, w], override={z: rule})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("forward mode disagrees for Y by W: dY[")
    assert lines[1].startswith("the rule given for Z is wrong: forward mode disagrees for Z by W")
    report = gradcheck(y, x, override={z: rule}, report=True)
    assert report
    found = gradcheck(z, w, override={z: ([w], lambda *a: rule(*a)[1])}, report=True)
    assert not found and found.wrong is not None and "the rule given for Z is wrong" in found.wrong
    assert "gradcheck of Z by W: WRONG" in str(found) and "wrong: forward mode" in str(found)


def test_wrong_partials_are_named() -> None:
    x = te.placeholder((30,), name="X")
    good = te.scalar_function(lambda a, b: a * b, partials=lambda y, a, b: (b, a), name="good")
    bad = te.scalar_function(
        lambda a, b: te.sin(a) * b,
        partials=lambda y, a, b: (te.cos(a) * b, te.sin(a) + 0.001),
        name="bad",
    )
    y = te.compute((30,), lambda i: good(x[i], bad(x[i], x[29 - i])), name="Y")
    with pytest.raises(GradError, match=r"the partials given for bad are wrong: .* for bad by b: "):
        gradcheck(y, x)


def test_second_derivatives_follow_the_given_partials() -> None:
    x = te.placeholder((4,), name="X")
    swish = te.scalar_function(
        lambda a: a * te.sigmoid(a),
        partials=lambda y, a: y + te.sigmoid(a) * (1 - y),
        name="swish",
    )
    y = te.compute((4,), lambda i: swish(x[i]) * x[3 - i], name="Y")
    assert gradcheck(y, x, order=3)


def test_stopped_values_are_held() -> None:
    x = te.placeholder((4,), name="X")
    k = te.reduce_axis(4, name="k")
    z = te.compute((4,), lambda i: te.exp(x[i]) * te.stop_gradient(x[3 - i]), name="Z")
    top = te.compute((), lambda: te.max(z[k], axis=k), name="top")
    still = te.stop_gradient(top)
    y = te.compute((4,), lambda i: te.exp(z[i] - still[()]) * te.stop_gradient(z[i]), name="Y")
    assert gradcheck(y, [x, z], order=2, batch=2)
    assert gradcheck([y, top], x, compiled=True)
    leaky = te.scalar_function(lambda a: a, partials=lambda y, a: te.const(0.0), name="leaky")
    with pytest.raises(GradError, match="the partials given for leaky are wrong"):
        gradcheck(te.compute((4,), lambda i: leaky(x[i]), name="Y"), x)


# Compiled evaluation


@pytest.mark.parametrize("seed", [1, 3, 8])
def test_compiled_checks_of_random_programs_pass(seed: int) -> None:
    program = random_program(seed, computes=4)
    y = next(t for t in program.outputs if t.dtype.is_float)
    arrays = program.arrays()
    report = gradcheck(y, program.float_inputs, arrays=arrays, tol=1e-5, compiled=True, report=True)
    assert report and "float64 compiled" in str(report)


@pytest.mark.slow
def test_large_programs_are_compiled_also_with_sizes_and_rules() -> None:
    n = te.size("n")
    x, w = te.placeholder((n, n), name="X"), te.placeholder((n, n), name="W")
    at = te.placeholder((n,), dtype="int64", name="I")
    k = te.reduce_axis((0, n), name="k")
    z = te.compute((n, n), lambda i, j: te.sum(x[at[i], k] * w[j, k], axis=k), name="Z")
    y = te.compute((n, n), lambda i, j: te.tanh(te.const(0.1) * z[i, j]), name="Y")
    assert "float64 compiled" in str(gradcheck(y, [x, w], sizes={"n": 18}, report=True))
    bent = te.scalar_function(lambda a: a * a, partials=lambda y, a: 1.9 * a, name="bent")
    wrong = te.compute((n, n), lambda i, j: bent(z[i, j]), name="Y")
    report = gradcheck(wrong, z, sizes={"n": 18}, report=True)
    assert report.wrong is not None and "the partials given for bent are wrong" in report.wrong
