"""The suites of the benchmarks measure what they say, and judge it."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.commands.race import write
from benchmarks.commands.results import compose
from benchmarks.commands.suites import as_json
from benchmarks.limits.kernels import stream
from benchmarks.limits.limits import Stream, aligned_block, measured, streams_like
from benchmarks.measure import alone
from benchmarks.peers.contestant import Contestant
from benchmarks.race import interop, tree_net
from benchmarks.report.figures import Figures, asked, at_most, table
from benchmarks.report.figures import merged as merged_figures
from benchmarks.suites import (
    call_cost,
    einsum,
    examples,
    products,
    scaling,
    streams,
    thread_speedup,
)
from benchmarks.workloads.catalogue import WORKLOADS
from benchmarks.workloads.programs import tree_net as trees
from tensorad import te
from tests.project.test_benchmarks import row


def test_limits_are_rates_of_the_machine() -> None:
    """No loop is faster than what it is made of: a stream of two arrays takes longer than one."""
    found = measured(1, footprints=[1 << 16])
    assert min(found.peak.values()) > 1e8
    assert all(rate > 1e8 for rate in found.bandwidth.values())
    seconds = 4096 / found.bandwidth[1, 1, 1 << 16]
    assert found.moving_seconds(2048, 2048) == pytest.approx(seconds)
    assert found.seconds(1e12, 2048, 2048) == pytest.approx(1e12 / found.peak["float32"])


@pytest.mark.parametrize(
    ("reads", "writes", "streaming"), [(3, 0, False), (2, 2, True), (0, 1, False)]
)
def test_streams_read_and_write_every_byte(reads: int, writes: int, streaming: bool) -> None:
    kernel = stream(reads, writes, streaming)
    blocks = [aligned_block(4 * 256).view(np.float32) for _ in range(reads + writes)]
    for n, block in enumerate(blocks):
        block[:] = np.arange(256) + 10 * n
    table = (ctypes.c_int64 * (len(blocks) + 8))(*[b.ctypes.data for b in blocks])
    kernel.call(ctypes.addressof(table), 4, 1)
    total = sum([np.arange(256) + 10 * n for n in range(reads)]) if reads else np.ones(256)
    for block in blocks[reads:]:
        assert (block == total).all()
    if not writes:
        lanes = np.frombuffer(table, np.float32)[-16:]
        assert lanes.sum() == total.sum()


def test_figures_merge_to_medians_and_are_judged() -> None:
    runs = [[Figures("a", 1, {"share": x}), Figures("b", 1, {"ms": 1.0})] for x in (0.7, 0.9, 0.8)]
    rows = merged_figures(runs)
    assert rows == [Figures("a", 1, {"share": 0.8}), Figures("b", 1, {"ms": 1.0})]
    high = asked(rows, "bandwidth", "share", 0.8)
    assert high is not None and high.holds
    low = asked(rows, "bandwidth", "share", 0.81)
    assert low is not None and not low.holds and low.text.endswith("below: a 0.80")
    most = at_most(rows, "time", "ms", 0.5)
    assert (
        most is not None and str(most) == "FAILS  time: most 1.00 (b) of 0.5 over 1; above: b 1.00"
    )
    assert asked(rows, "nothing", "unknown", 1.0) is None
    assert "0.800" in table(rows) and table(rows, as_markdown=True).startswith("|  | threads |")


@pytest.mark.slow
def test_calls_are_timed_in_this_process() -> None:
    rows = [*call_cost.measure(["numpy", "tensorad, portable"], 1, 1)]
    assert {r.name for r in rows} == {"numpy", "numpy, result allocated", "tensorad, portable"}
    assert all(0 < r.values["us"] < 1000 for r in rows)


@pytest.mark.slow
def test_functions_of_examples_agree_with_those_of_frameworks() -> None:
    for made in (examples.gradients(4, 1), examples.roots(50, 1)):
        examples.check(made)
    (row,) = examples.measure(["gradients"], 1, 1)
    assert row.values["tensorad ms"] > 0
    if "best / ours" in row.values:  # where PyTorch or JAX is there
        assert examples.judge([row])[0].text.startswith("least")


@pytest.mark.slow
def test_a_network_on_trees_agrees_with_those_of_frameworks() -> None:
    assert len(tree_net.contestants(2, 1)) >= 2
    rows = [Figures(n, 1, {"torch / ours": 12.0}) for n in ("tree_net", "other")]
    assert [v.holds for v in tree_net.judge(rows)] == [True]


@pytest.mark.slow
def test_operators_inside_of_other_systems_are_compared() -> None:
    rows = [*interop.measure(["no gradient", "inside jit", "f(numpy)"], 1, 1)]
    packages = {"torch, no gradient": "torch", "jax, inside jit": "jax", "f(numpy)": None}
    absent = interop.missing(interop.PEERS)
    assert [r.name for r in rows] == [n for n, p in packages.items() if p not in absent]
    assert all(r.values["ours / theirs"] > 0 for r in rows)
    few = rows[-1].values
    assert few["ours / theirs"] == pytest.approx(few["ours us"] / few["theirs us"])


def test_operators_inside_of_other_systems_are_checked_and_judged() -> None:
    rows = [
        Figures("a", 1, {"ours / theirs": 1.2, "asked": 1.1}),
        Figures("b", 1, {"ours / theirs": 0.9, "asked": 1.0}),
        Figures("c", 1, {"ours / theirs": 7.0}),
    ]
    assert [(v.what, v.holds) for v in interop.judge(rows)] == [
        ("a, ours / theirs", False),
        ("b, ours / theirs", True),
    ]
    one = np.ones(3, "float32")
    interop.check("a", interop.Pair(lambda: (one, one), lambda: (one, one)))
    for other in (one + 1e-3, one[:2]):
        with pytest.raises(ArithmeticError, match="a: results differ"):
            interop.check("a", interop.Pair(lambda: one, lambda other=other: other))


def test_padded_trees_have_every_node_once() -> None:
    both = trees.padded([[((3, 4), 5)], [(1, 2), 0]])
    assert [[len(p) for p in t.pairs] for t in both] == [[1, 1], [1, 1]]
    assert both[0].pairs[0].tolist() == [[0, 1]] and both[0].pairs[1].tolist() == [[3, 2]]
    assert both[1].words.tolist() == [1, 2, 0] and both[1].roots.tolist() == [3, 2]


def test_streams_know_their_bytes() -> None:
    outputs, arguments, arrays = streams._broadcast()
    assert [t.shape for t in arguments] == [a.shape for a in arrays] == [(4096,)]
    (low,) = streams_like(4.0, 65536.0, 1)[:1]
    assert len(low._blocks) == 1 and low.size_bytes == 65536  # written only
    assert [t.shape for t in outputs] == [(4096, 4096)]


@pytest.mark.slow
def test_products_are_checked_and_compared() -> None:
    (r,) = products.measure(["17 x 19"], 2, 1)
    assert r.values["numpy / ours"] >= r.values["best / ours"] > 0
    assert 0 < r.values["share of peak"]


@pytest.mark.slow
def test_sums_of_products_are_checked_and_compared() -> None:
    (r,) = einsum.measure(["chain 02"], 2, 1)
    assert r.values["ms"] > 0
    if "best / ours" in r.values:  # where PyTorch or JAX is there
        assert r.values["best / ours"] > 0
    (verdict,) = einsum.judge([replace(r, values={"best / ours": 1e-9})])
    assert not verdict.holds


@pytest.mark.slow
def test_products_are_measured_without_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"torch": "torch", "jax": "jax", "numba": "numba"}
    monkeypatch.setattr(products, "missing", lambda peers: absent)
    alone_, beside = products.measure(["conv_seed dX", "17 x 19"], 1, 1)
    assert "numpy / ours" in alone_.values and alone_.values["fresh ms"] > 0
    assert "best / ours" not in beside.values and beside.values["share of peak"] > 0
    assert "oneDNN" not in str(products.judge([alone_, beside]))


@pytest.mark.slow
def test_memory_of_a_call_is_what_its_arrays_take() -> None:
    """Two results of 640 kB, partly in pages used before, and hardly anything else."""
    found = alone.started("memory", "flatten", "tensorad")
    assert 0.6e6 < found < 3e6


@pytest.mark.slow
def test_cold_seconds_are_measured_in_a_fresh_process() -> None:
    assert 0.001 < alone.started("compile", "flatten", "tensorad") < 60


def test_the_fastest_later_call_is_no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [0.0], iter([0.5, 0.25, 0.75])

    def call() -> None:
        now[0] += next(calls)

    monkeypatch.setattr("benchmarks.measure.alone.time.perf_counter", lambda: now[0])
    made = Contestant("other", {"fb": call}, {"fb": 1.0})
    monkeypatch.setattr(alone, "make", lambda *_, **__: made)
    problem = WORKLOADS["flatten"].problem()
    assert alone.cold_seconds(problem, "other") == 0.75


def test_compiling_takes_no_less_than_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Contestant("other", {"fb": lambda: None}, {"fb": -1.0}, {"fb": 0.25})
    monkeypatch.setattr(alone, "make", lambda *_, **__: made)
    assert alone.cold_seconds(WORKLOADS["flatten"].problem(), "other") == 0.25


@pytest.mark.slow
def test_threads_are_compared_with_the_machine() -> None:
    (r,) = thread_speedup.measure(["softmax_small"], 1, 2)
    assert r.values["same bits"] == 1.0
    assert r.values["speed-up"] > 0 and r.values["compute limit"] > 0


def speed_ups(one: float, two: float, peak: list[float]) -> dict[str, float]:
    """Of kernels that move what takes 2 ms, in rounds with these peaks on two threads."""
    of = Stream(1, 1, 1 << 16, 2, streaming=False)
    samples = {
        ("ours 1", "ours"): [one] * len(peak),
        ("ours 2", "ours"): [two] * len(peak),
        ("peak 1", "peak"): [0.01] * len(peak),
        ("peak 2", "peak"): peak,
        ("stream 0", "stream"): [0.002 * of.passes] * len(peak),
    }
    return thread_speedup.speed_ups(samples, of.size_bytes, [of], 2)


def test_moving_bounds_what_threads_can_do() -> None:
    assert thread_speedup.speed_up_limit(0.010, 2.0, 0.002) == pytest.approx(2)
    assert thread_speedup.speed_up_limit(0.003, 2.0, 0.002) == pytest.approx(1.5)
    assert speed_ups(0.010, 0.010, [0.01])["share of limit"] == pytest.approx(0.5)
    assert speed_ups(0.003, 0.002, [0.01])["share of limit"] == pytest.approx(1)


def test_rounds_on_one_core_are_no_evidence() -> None:
    assert speed_ups(0.010, 0.010, [0.02, 0.02, 0.01])["share of limit"] == pytest.approx(0.5)
    assert "share of limit" not in speed_ups(0.010, 0.010, [0.02])


@pytest.mark.parametrize("name", ["sum", "prefix sums", "dense 64 x 64"])
def test_scaling_cases_compute_the_same_with_symbolic_sizes(name: str) -> None:
    make, least, _ = scaling.CASES[name]
    calls = [scaling._call(make(n), least) for n in (least, te.size("n"))]
    assert np.allclose(*[call() for call, _ in calls])
    assert calls[0][1] == calls[1][1]


@pytest.mark.slow
def test_the_page_of_results_is_written_from_files(tmp_path: Path) -> None:
    rows = [row("a", torch=9.0, numba=2.0), row("b", jax=0.5)]
    rows[1].failed["torch"] = "RuntimeError: no"
    write(tmp_path / "frameworks.json", rows)
    errors = {"functions": [{"op": "exp", "dtype": "float32", "ulps": 4.5, "ns": {}}], "sums": []}
    (tmp_path / "accuracy.json").write_text(json.dumps({**as_json([]), **errors}))
    calls = as_json([Figures("tensorad", 1, {"us": 0.1}), Figures("numpy", 1, {"us": 0.05})])
    (tmp_path / "calls.json").write_text(json.dumps(calls))
    page = tmp_path / "pages" / "RESULTS.md"
    text = compose(tmp_path, page, page.parent / "pictures")
    assert page.read_text() == text
    assert "| calls | a call, us | holds |" in text
    assert "| calls | a call below numpy's, us | **fails** |" in text
    assert "| frameworks | unusual, forward + gradients, 1 thread | **fails** |" in text
    assert "| a | 1.00 | 9.00 | - | torch | - |" in text
    assert "- failed  b, torch, fb: RuntimeError: no" in text
    assert "| accuracy | functions, units in the last place | **fails** |" in text
    assert "numpy 2." in text or "numpy 1." in text
