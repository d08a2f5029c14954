"""The passes over whole programs: none is needed for right results, and comparing finds changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, passes, te
from tensorad.codegen.directives import Choices, Schedules
from tensorad.codegen.in_place_scatters import Lowering
from tensorad.codegen.loops.forms import changes_differ, program_of
from tensorad.codegen.loops.ir import Kernel, LoopProgram
from tensorad.codegen.lower import RESULT_PASSES, lower_program, needed_units
from tensorad.codegen.plain_loops import lower_op, plain_kernels
from tensorad.codegen.unit_passes import PLAIN_PASSES, UNIT_PASSES
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor
from tensorad.passes import NotComparedError
from tests.support.loops.small_loops import arrays_for, outputs_of
from tests.support.machines import described

X = te.placeholder((6, 8), "float64", name="X")
P = te.placeholder((6,), "int64", name="P")
H = te.placeholder((6,), "float64", name="H")


def softmax() -> list[Tensor]:
    k = te.reduce_axis(8, name="k")
    top = te.compute((6,), lambda i: te.max(X[i, k], axis=k), name="T")
    e = te.compute((6, 8), lambda i, j: te.exp(X[i, j] - top[i]), name="E")
    s = te.compute((6,), lambda i: te.sum(e[i, k], axis=k), name="S")
    return [te.compute((6, 8), lambda i, j: e[i, j] / s[i] + 1.0, name="Y"), s]


def gathered() -> list[Tensor]:
    y = te.compute((6,), lambda i: X[P[i], 2] * X[P[i], 3], name="Y")
    return [y, *ta.vjp(y, [X], H)]


def product() -> list[Tensor]:
    y = te.scan(te.compute((6, 8), lambda i, j: X[i, j] + 2.0, name="D"), 1, "prod")
    return [y, *ta.vjp(te.compute((6,), lambda i: y[i, 7], name="L"), [X], H)]


ARRAYS = {**arrays_for(X, H), P: np.array([5, 0, 3, 3, 1, 0])}
PROGRAMS: dict[str, Callable[[], list[Tensor]]] = {
    "softmax": softmax,
    "gathered": gathered,
    "product": product,
}


def values(program: LoopProgram) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    return outputs_of(program, {t: ARRAYS[t] for t in program.inputs})


def _lowering(wanted: Sequence[Tensor]) -> Lowering:
    return Lowering((X, P, H), tuple(wanted), Schedules())


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_pass_is_needed_for_right_results(name: str) -> None:
    wanted = PROGRAMS[name]()
    want = interpret(wanted, ARRAYS)
    for limit in (0, 1, 3, 6, 9, None):
        passes.count_again()
        with config.override(bisect=limit), described():
            have = values(lower_program(wanted, [X, P, H]))
        for a, b in zip(have, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_passes_are_looked_at(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug=("verify", "check")):
        lower_program(PROGRAMS[name](), [X, P, H])
    assert "not compared" not in capsys.readouterr().err
    with config.override(debug=("ir:join_epilogues", "ir:fuse_rows")):
        lower_program(softmax(), [X], choices=Choices(fuse=True))
    assert "after fuse_rows:\n# S : float64 [6], Y : float64 [6, 8]\n" in capsys.readouterr().err


def test_plain_loops_have_the_checks_before_them() -> None:
    wanted = gathered()[:1]
    units = PLAIN_PASSES[1].run(_lowering(wanted), needed_units(wanted, [X, P]))
    kernels = plain_kernels(units)
    assert [k.name for k in kernels] == ["Y.check", "Y"]
    program = LoopProgram((X, P), tuple(wanted), tuple(kernels))
    np.testing.assert_array_equal(values(program)[0], interpret(wanted, ARRAYS)[0])
    assert [p for p in UNIT_PASSES if p.required] == [PLAIN_PASSES[1]]


def test_results_that_passes_leave_alone_are_the_same() -> None:
    results = softmax()
    for p in RESULT_PASSES:
        assert p.run(_lowering(results), results) is results


def kernel_of(t: Tensor) -> Kernel:
    return lower_op(t.op, (t,))


def pair(name: str = "B") -> tuple[Tensor, Tensor]:
    a = te.compute((6, 8), lambda i, j: X[i, j] * 2.0, name="A")
    return a, te.compute((6, 8), lambda i, j: a[i, j] + 1.0, name=name)


def one(kernel: Kernel) -> Sequence[Kernel]:
    return (kernel,)


def test_new_kernels_are_compared_with_those_whose_tensors_they_store() -> None:
    a, b = pair()
    apart = [kernel_of(a), kernel_of(b)]
    assert changes_differ(apart, apart, one) == ""
    body = te.compute((6, 8), lambda i, j: X[i, j] * 2.0 + 1.0, name="B").op
    wrong = te.compute((6, 8), lambda i, j: X[i, j] * 2.0, name="B").op
    assert isinstance(body, Compute)
    assert isinstance(wrong, Compute)
    assert changes_differ(apart, [lower_op(body, (b,))], one) == ""
    assert changes_differ(apart, [lower_op(wrong, (b,))], one) == "B has other elements"
    found = changes_differ(apart, [kernel_of(te.compute((2,), lambda i: X[i, i], name="C"))], one)
    assert found == "C stores nothing of what was stored"
    assert program_of(apart, [b]).inputs == (X,)


def test_what_is_too_long_is_not_compared() -> None:
    x = te.placeholder((400, 400), "float64", name="X")
    t = te.compute((400, 400), lambda i, j: x[i, j] * 2.0, name="A")
    k = kernel_of(t)
    with pytest.raises(NotComparedError):
        changes_differ([k], [replace(k, name="other")], one)
