"""What a schedule says about itself: decisions, reasons, operations and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.cost.predict import predict
from tensorad.codegen.lower import lower_program
from tensorad.display.schedule import _threads
from tensorad.errors import BindError
from tensorad.ir.analysis import decisions
from tensorad.ir.tensor import Dim, Tensor
from tests.support.machines import described


@pytest.fixture(autouse=True)
def known_machine() -> Iterator[None]:
    """Speeds that are not measured: texts are the same on every machine."""
    with described("l3=1000000,flops=1000000000,read=1000000000"):
        yield


def product(n: int = 64) -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis(n, name="k")
    return te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"), [a, b]


def test_counts_of_a_product() -> None:
    c, inputs = product()
    (kernel,) = lower_program([c], inputs).kernels
    p = predict(kernel, {})
    assert (p.flops, p.read, p.written) == (2 * 64**3, 2 * 64 * 64 * 4, 64 * 64 * 4)


def test_counts_of_hoisted_and_triangular_loops() -> None:
    x, k = te.placeholder((40, 50), name="X"), te.reduce_axis(50, name="k")
    y = te.compute((40, 50), lambda i, j: te.exp(x[i, 0]) + x[i, j], name="Y")
    (kernel,) = lower_program([y], [x], choices=ta.Schedule(vector="j")).kernels
    assert predict(kernel, {}).flops == 40 * 15 + 40 * 50
    plain = lower_program([y], [x], schedule=False).kernels[0]
    assert predict(plain, {}).flops == 40 * 15 + 40 * 50
    t = te.compute((50,), lambda i: te.sum(x[0, k], axis=k, where=k <= i), name="T")
    (kernel,) = lower_program([t], [x], choices=ta.Schedule(vector=False, split=False)).kernels
    assert predict(kernel, {}).flops == pytest.approx(50 * 51 / 2, rel=0.05)


def test_counts_at_given_sizes() -> None:
    n = te.size("n")
    x = te.placeholder((n, n), name="X")
    lowered = ta.lower(te.compute((n, n), lambda i, j: x[j, i] * 2.0, name="Y"))
    (small,), (large,) = lowered.report(n=10).kernels, lowered.report().kernels
    assert (small.prediction.flops, small.prediction.read) == (100, 400)
    assert large.prediction.flops == pytest.approx(1024 * 1024, rel=0.02)  # the last strip is whole
    assert large.limit == "memory"
    with pytest.raises(BindError) as caught:
        lowered.report(q=3)
    assert str(caught.value) == (
        "the program has no size 'q'.\n  in: report(q=3)\n  hint: its sizes are n."
    )


def test_reasons_of_an_elementwise_kernel() -> None:
    x = te.placeholder((200, 3000), name="X")
    lowered = ta.lower(te.compute((200, 3000), lambda i, j: x[i, j] + 1.0, name="Y"))
    (kernel,) = lowered.report().kernels
    said = [(d.what, d.why) for d in kernel.decisions]
    assert ("lanes along j", "Y, X contiguous") in said
    assert kernel.cost == (
        "600 k operations, 2.4 MB read, 2.4 MB written: at least 4.8 ms on one thread, bound by "
        "memory"
    )
    assert kernel.title == "Y : float32 (200, 3000)"


def test_reasons_follow_choices() -> None:
    c, inputs = product(512)
    for name in ("j", "k"):
        (kernel,) = ta.lower(c, inputs, schedule=ta.Schedule(vector=name)).report().kernels
        lanes = next(d for d in kernel.decisions if d.what.startswith("lanes"))
        assert lanes.what.startswith(f"lanes along {name}")
        assert ("lanes are added up" in lanes.why) == (name == "k")
    serial = ta.lower(c, inputs, schedule=ta.Schedule(parallel=False)).report().kernels[0]
    shared = ta.lower(c, inputs, schedule=ta.Schedule(parallel=True)).report().kernels[0]
    assert any(d.what == "one thread" for d in serial.decisions)
    assert any(d.what.startswith("threads share") for d in shared.decisions)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (16, "too little work, or no loop to share"),
        (64, "while they are awake"),
        (8192, "the work pays for waking them"),
        (te.size("n"), "where the work at a call's sizes pays for it"),
    ],
)
def test_it_says_when_threads_share_loops(rows: Dim, why: str) -> None:
    a, b = te.placeholder((rows, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis(64, name="k")
    c = te.compute((rows, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    (kernel,) = lower_program([c], [a, b]).kernels
    assert _threads(kernel).why == why


@described()
def test_one_panel_is_not_shared() -> None:
    a, b = te.placeholder((8, 99_000), name="A"), te.placeholder((99_000, 16), name="B")
    k = te.reduce_axis(99_000, name="k")
    c = te.compute((8, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    (kernel,) = ta.lower(c).report().kernels
    said = [d.what for d in kernel.decisions]
    assert "one thread" in said and not any("threads" in what for what in said)


def test_printed_with_the_loops_on_request() -> None:
    c, inputs = product()
    plain, told = str(ta.lower(c, inputs)), str(ta.lower(c, inputs, schedule=True))
    notes = [line for line in told.split("\n") if line.startswith("#   ")]
    assert notes and notes[-1].startswith("#   524 k operations, 32.8 kB read, 16.4 kB written")
    assert "\n".join([line for line in told.split("\n") if line not in notes]) == plain


def test_text_and_html_say_the_same() -> None:
    c, inputs = product()
    total = te.compute((64,), lambda i: c[i, i] * 2.0, name="D<1>")
    report = ta.lower(total, inputs).report()
    html = report._repr_html_()
    text = unescape(re.sub("<[^>]+>", " ", html))
    assert "D&lt;1&gt;" in html and "<1>" not in html
    for k in report.kernels:
        assert k.cost in text and all(d.why in text for d in k.decisions)
        assert k.cost in str(report)
    assert repr(report) == f"<ScheduleReport: {len(report.kernels)} kernels>"


def test_nothing_is_kept_unasked() -> None:
    assert not decisions.is_listening()
    c, inputs = product()
    ta.build(c, inputs)
    with decisions.listening(decisions.Decision) as heard:
        lower_program([c], inputs)
    assert heard and not decisions.is_listening()


def test_speeds_are_measured_where_none_are_known() -> None:
    c, inputs = product()
    with described("l3=1000000"):
        first, second = (str(ta.lower(c, inputs).report()) for _ in "ab")
    assert first == second, "measured once"
    flops = re.search(r"best: ([\d.]+) ([kMG])? ?operations", first)
    assert flops is not None and flops.group(2) == "G"
