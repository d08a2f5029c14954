"""The benchmark tool on tiny rounds: every formulation agrees, figures and tables are right."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.measure import timing
from benchmarks.measure.parts import opened
from benchmarks.peers import ours
from benchmarks.peers.registry import contestants, missing
from benchmarks.race import frameworks
from benchmarks.race.frameworks import Plan, largest_error, reference
from benchmarks.report import plots
from benchmarks.report.figures import Figures
from benchmarks.report.plots import draw, draw_growth
from benchmarks.report.records import Row, failures, from_json, merged
from benchmarks.report.tables import aligned, by_mode, milliseconds, number
from benchmarks.report.verdicts import geometric_mean, verdicts
from benchmarks.suites import scaling
from benchmarks.workloads.catalogue import GROUPS, WORKLOADS, chosen
from benchmarks.workloads.problem import Arrays, Passes, Problem, Sizes
from tests.random.generators import SOAK

TINY: dict[str, Sizes] = {
    "dense_seed": {"n": 3, "m": 5, "k": 7},
    "dense_small": {"n": 3, "m": 5, "k": 7},
    "dense_softmax": {"n": 3, "m": 8},
    "conv_seed": {"n": 2, "c": 3, "size": 7, "o": 2, "k": 3, "pad": 0},
    "conv3x3_64": {"n": 2, "c": 2, "size": 6, "o": 3, "k": 3, "pad": 1},
    "conv1x1": {"n": 2, "c": 3, "size": 5, "o": 4, "k": 1, "pad": 0},
    "dwconv": {"n": 2, "c": 3, "size": 6, "k": 3, "pad": 1},
    "avgpool_big": {"n": 2, "c": 2, "size": 6},
    "maxpool_big": {"n": 2, "c": 2, "size": 6},
    "maxpool_small": {"n": 1, "c": 2, "size": 8},
    "softmax_small": {"n": 4, "m": 9},
    "softmax_big": {"n": 5, "m": 7},
    "flatten": {"n": 2, "c": 3, "rows": 4, "columns": 5},
    "layernorm": {"n": 4, "m": 20},
    "logsumexp": {"n": 4, "m": 20},
    "prod": {"n": 5, "m": 11},
    "bmm": {"b": 2, "n": 5, "k": 3, "m": 4},
    "attention": {"b": 1, "heads": 2, "n": 6, "d": 4},
    "mttkrp": {"n": 6, "r": 3},
    "batchnorm": {"n": 3, "c": 2, "size": 5},
    "gelu_elem": {"n": 5, "m": 6},
    "gather": {"rows": 7, "width": 4, "count": 20},
    "mlp_step": {"n": 6, "features": 9, "hidden": 5},
    "lenet_step": {"n": 2},
    "minplus": {"n": 9},
    "pairwise_l1": {"n": 8, "d": 5},
    "stencil2d": {"n": 12},
    "banded_attention": {"heads": 2, "n": 11, "d": 4, "band": 5},
    "bilateral": {"n": 9},
    "lattice_gas": {"n": 6},
    "soft_path": {"n": 4, "m": 9},
    "soft_pool": {"n": 1, "c": 2, "size": 9},
    "neighbours": {"side": 4, "count": 6},
    "neighbours_ragged": {"side": 4, "count": 6},
}


def check(name: str, peers: tuple[str, ...]) -> list[str]:
    """All three modes of the contestants against NumPy at float64; who took part."""
    p = WORKLOADS[name].problem(TINY[name])
    modes = ("fwd", "grad", "fb", "step")
    expected = reference(p)
    found = []
    for c in contestants(p, peers, modes, threads=1):
        found.append(c.name)
        assert p.step is not None or "step" not in c.calls
        assert not c.failed
        for mode in c.calls:
            error = largest_error(p, c.results(mode), expected[mode])
            assert error <= p.tolerance, f"{c.name} {mode}"
    return found


def test_every_workload_has_a_tiny_size_and_a_group() -> None:
    assert set(TINY) == set(WORKLOADS)
    assert {w.group for w in WORKLOADS.values()} == set(GROUPS)
    assert len(WORKLOADS) == 34


FAST = ("dense_small", "conv_seed", "maxpool_small", "layernorm", "gather", "prod", "soft_path")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAST)
def test_tensorad_and_numpy_agree_with_float64(name: str) -> None:
    assert check(name, ("numpy",)) == ["tensorad", "tensorad_fresh", "numpy"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TINY)[:: 1 if SOAK else 3])
def test_installed_peers_agree_with_float64(name: str) -> None:
    peers = ("torch", "torch_alt", "jax", "jax_alt", "numpy")
    took_part = check(name, peers)
    known = {"numpy", *WORKLOADS[name].problem(TINY[name]).formulas}
    assert took_part[2:] == [n for n in peers if n in known and n not in missing(peers)]


@pytest.mark.slow
@pytest.mark.skipif("numba" in missing(["numba"]), reason="numba is not installed")
def test_loops_by_hand_agree_with_float64() -> None:
    names = [n for n in TINY if WORKLOADS[n].problem(TINY[n]).numba is not None]
    assert {"prod", "minplus", "stencil2d", "soft_path", "conv_seed"} < set(names)
    for name in names:
        assert check(name, ("numba",)) == ["tensorad", "tensorad_fresh", "numba"]


def test_a_wrong_result_is_noticed() -> None:
    p = WORKLOADS["prod"].problem(TINY["prod"])
    c = ours.contestant(p, ["fwd"])
    expected = reference(p)
    found = c.results("fwd")
    expected["fwd"][0][2] *= 1.01
    assert largest_error(p, found, expected["fwd"]) > p.tolerance
    assert largest_error(p, found, [expected["fwd"][0][:3]]) == math.inf


def test_who_fails_is_told_and_the_others_are_measured() -> None:
    def raising(*_: object) -> list[np.ndarray]:
        raise ArithmeticError("no such luck\nin two lines")

    def passes(a: Arrays, h: np.ndarray) -> Passes:
        right = WORKLOADS["prod"].problem(TINY["prod"]).numpy(a, h)
        return right if h.dtype == np.float64 else Passes(right.forward, raising)

    def broken(**sizes: int) -> Problem:
        return replace(WORKLOADS["prod"].problem(sizes), numpy=passes)

    w = replace(WORKLOADS["prod"], make=broken)
    plan = Plan(["prod"], ["fwd", "grad"], ["numpy"], rounds=1, seconds=1e-4)
    one, two = frameworks.measure(w, 0, TINY["prod"], plan)
    assert set(one.ms) == {"tensorad", "tensorad_fresh", "numpy"} and one.failed == {}
    assert set(two.ms) == {"tensorad", "tensorad_fresh"} and math.isnan(two.ratio())
    assert "failed" in aligned(*milliseconds([one, two]))
    assert by_mode([two])[1][0][4] == "- (numpy failed)"
    assert failures([one, two]) == ["failed  prod, numpy, grad: ArithmeticError: no such luck"]
    assert verdicts([one, two])[0].holds
    assert not verdicts([replace(two, ms={}, failed={"tensorad": "MemoryError: all"})])[0].holds


def test_a_cut_run_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    part = opened(tmp_path / "1_0.json", ["frameworks", "code"])
    part.add([1, 2])
    again = opened(tmp_path / "1_0.json", ["frameworks", "code"])
    assert (again.rows, again.complete) == ([1, 2], False)
    again.add([3])
    assert opened(tmp_path / "1_0.json").rows == [1, 2, 3]
    assert opened(tmp_path / "1_0.json", ["frameworks", "other code"]).rows == []
    told: list[Row] = []
    plan = Plan(["maxpool_small"], ["fwd"], [], rounds=1, limits=False)
    frameworks.run(plan, told.extend, {("maxpool_small", 0)})
    assert told == []


def test_drawn_sizes_depend_on_the_seed_and_the_name_alone() -> None:
    for w in WORKLOADS.values():
        one = w.drawn(3, 2)
        assert one == w.drawn(3, 5)[:2]
        assert all(set(s) == set(w.sizes) for s in one)
    assert WORKLOADS["minplus"].drawn(1, 1) != WORKLOADS["minplus"].drawn(2, 1)


def test_names_choose_groups_and_parts() -> None:
    assert {w.group for w in chosen(["layers"])} == {"layers"}
    assert [w.name for w in chosen(["conv_s", "soft_path"])] == ["conv_seed", "soft_path"]
    assert chosen(["nothing"]) == []
    assert 4 <= len(chosen(["small"])) <= 8


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], timing.Call]:
    """Calls that take so many seconds of a clock that nothing else moves."""
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(timing, "awake", lambda: 0)

    def make(seconds: float) -> timing.Call:
        return lambda: now.__setitem__(0, now[0] + seconds)

    return make


def test_a_race_finds_who_is_faster_and_spares_who_is_far_behind(
    takes: Callable[[float], timing.Call],
) -> None:
    calls = {
        ("fwd", "short"): takes(0.001),
        ("fwd", "long"): takes(0.002),
        ("fwd", "far"): takes(0.02),
        ("grad", "far"): takes(0.02),
    }
    found = timing.race(calls, rounds=5, seconds=0.001, extra=0)
    median = {key: t.median_s for key, t in found.times.items()}
    assert median["fwd", "short"] < median["fwd", "long"] < median["fwd", "far"]
    assert found.rounds == 5
    assert found.times["fwd", "far"].rounds <= timing.ROUNDS_BEHIND
    assert found.times["grad", "far"].rounds >= found.times["fwd", "far"].rounds


def test_who_was_hopeless_before_is_not_called_again() -> None:
    made: list[str] = []

    def call(name: str) -> timing.Call:
        return lambda: made.append(name)

    calls = {("fwd", n): call(n) for n in ("ours", "best", "worst")}
    seen = {("fwd", "ours"): 0.001, ("fwd", "best"): 0.1, ("fwd", "worst"): 1.1}
    rivals = {"ours": ["ours"], "best": ["best", "worst"], "worst": ["best", "worst"]}
    found = timing.race(calls, 2, 1e-6, extra=0, seen=seen, rivals=rivals)
    assert "worst" not in made and "best" in made
    assert found.times["fwd", "worst"] == timing.Timing(1.1, 1.1, 1)


def test_a_slow_first_call_puts_nobody_out_of_the_race(
    takes: Callable[[float], timing.Call],
) -> None:
    """The first call may touch memory that nobody used before."""
    first, later = takes(0.3), takes(0.01)
    turns = itertools.chain([first], itertools.repeat(later))
    calls = {("fwd", "cold"): lambda: next(turns)(), ("fwd", "warm"): takes(0.012)}
    found = timing.race(calls, rounds=5, seconds=0.01, extra=0)
    assert found.times["fwd", "cold"].rounds == found.times["fwd", "warm"].rounds
    assert found.times["fwd", "cold"].median_s == pytest.approx(0.01)


def test_growth_is_judged_beyond_what_memory_costs() -> None:
    rows = [Figures("sum", 1, {"spread": 3.0, "beyond memory": 1.1, "symbolic / fixed": 1.0})]
    assert [v.holds for v in scaling.judge(rows)] == [False, True, True]


def test_noisy_rounds_do_not_count_where_there_are_quiet_ones() -> None:
    assert timing._rounds_used([0.0, 0.9, 0.05, 0.0], 3) == [0, 2, 3]
    assert timing._rounds_used([0.9, 0.3, 0.5, 0.4], 4) == [1, 3]


def row(name: str = "prod", mode: str = "fb", group: str = "unusual", **ms: float) -> Row:
    times = {"tensorad": 1.0, **ms}
    return Row(
        name, group, {"n": 4}, 0, 1, mode, times, dict(times), {}, [], 1e6, 1e6, 1e6, 15, 0.0
    )  # fmt: skip


def test_rows_survive_json_and_merge_to_medians() -> None:
    rows = [row(torch=t, numba=2.0) for t in (2.0, 8.0, 3.0)]
    copies = [from_json(json.loads(json.dumps(r.as_json()))) for r in rows]
    assert copies == rows
    (one,) = merged([[r] for r in rows])
    assert one.ms == {"tensorad": 1.0, "torch": 3.0, "numba": 2.0}
    assert one.ratios == {"best": [2.0, 8.0, 3.0], "numba": [2.0, 2.0, 2.0]}
    assert one.ratio() == 3.0
    assert math.isnan(one.ratio("limit"))


def test_a_peer_with_wrong_results_is_no_peer() -> None:
    r = row(torch=0.5, jax=2.0)
    r.wrong.append("torch")
    assert r.best == "jax"
    assert r.ratio() == 2.0


def test_verdicts_judge_means_and_floors() -> None:
    rows = [row("a", torch=8.0), row("b", torch=2.0), row("c", jax=0.001, numba=0.9)]
    found = {v.what: v for v in verdicts(rows)}
    unusual = found["unusual, forward + gradients, 1 thread"]
    assert not unusual.holds
    assert "mean 0.25 of 4 over 3, least 0.00 (c)" in unusual.text
    assert "below" not in unusual.text  # a call of a microsecond is judged elsewhere
    numba = found["numba loops, forward + gradients, 1 thread"]
    assert not numba.holds and "least 0.90 (c) of 0.8" in numba.text
    assert found["results"].holds
    (good,) = [v for v in verdicts([row("a", torch=5.0)]) if "unusual" in v.what]
    assert good.holds
    (low,) = [v for v in verdicts([row("a", torch=99.0), row("b", jax=1.4)]) if "unusual" in v.what]
    assert not low.holds and low.text.endswith("below: b 1.40")
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_tables_show_ratios_marks_and_gaps() -> None:
    rows = [row("a", torch=4.0, numba=0.5), row("a", "fwd", jax=0.25)]
    rows[0].wrong.append("torch")
    rows[1].ms[ours.FRESH] = 2.0
    text = aligned(*milliseconds(rows))
    assert "4.00!" in text and "0.500" in text
    head, cells = by_mode(rows)
    assert head[1:6] == ["fwd ms", "x", "x fresh", "best peer", "of limit"]
    assert cells == [["a", "1.00", "0.250", "0.125", "jax", "-", "1.00", "-", "-", "-", "-"]]
    assert [number(v) for v in (0.01234, 12345.6, math.nan, None)] == ["0.0123", "12346", "-", "-"]


def test_measured_rows_are_complete() -> None:
    plan = Plan(["prod"], ["fwd", "fb"], ["numpy"], rounds=2, shapes=None, seconds=1e-4)
    (one, two) = frameworks.measure(WORKLOADS["prod"], 1, TINY["prod"], plan)
    assert (one.mode, two.mode) == ("fwd", "fb")
    assert set(one.ms) == {"tensorad", "tensorad_fresh", "numpy"} == set(two.errors)
    assert one.wrong == [] and one.shape == 1
    n, m = TINY["prod"].values()
    assert (one.read_bytes, one.written_bytes) == (4 * n * m, 4 * n)
    assert (two.read_bytes, two.written_bytes) == (4 * (n * m + n), 4 * (n * m + n))


@pytest.mark.slow
def test_the_command_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    options = [
        "--peers",
        "numpy",
        "--modes",
        "fwd",
        "--rounds",
        "2",
        "--seconds",
        "1e-4",
        "--no-limits",
    ]
    assert (
        main(["frameworks", "maxpool_small", *options, "--threads", "1", "--json", str(path)]) == 0
    )
    found = json.loads(path.read_text())
    assert found["schema"] == 1 and "numpy" in found["versions"]
    (r,) = [from_json(r) for r in found["rows"]]
    assert (r.workload, r.threads, r.mode) == ("maxpool_small", 1, "fwd")
    assert "holds  results: all 1 agree with float64" in capsys.readouterr().out
    assert main(["frameworks", "nothing"]) == 2
    assert np.isfinite(r.ours)


@pytest.mark.slow
def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra bench")
    rows = [replace(row("a", m, torch=4.0, numba=0.5), limit_ms=0.4) for m in ("fwd", "grad", "fb")]
    found = draw([*rows, row("b", jax=70.0)], tmp_path)
    assert [p.name for p in found] == ["ratios_1.png", "roofline_1.png"]
    growth = Figures("sum", 1, {"least points": 40.0, "x1 ns": 2.0, "x10 ns": 1.0, "spread": 2.0})
    (line,) = [p for p in [draw_growth([growth], tmp_path / "growth.png")] if p is not None]
    assert all(p.stat().st_size > 10_000 for p in [*found, line])


@pytest.mark.slow
def test_names_of_points_at_one_place_are_apart() -> None:
    text = pytest.importorskip("matplotlib.text", reason="plots need the extra bench").Text
    rows = [replace(row(n, torch=4.0), limit_ms=0.4) for n in ("a", "b", "c", "d", "e")]
    figure = plots._roofline(rows)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent(t) for t in figure.axes[0].texts]
    assert len(boxes) == len(rows)
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


@pytest.mark.slow
def test_names_of_points_stay_in_the_picture_and_off_its_legend() -> None:
    text = pytest.importorskip("matplotlib.text", reason="plots need the extra bench").Text
    low = [replace(row(f"low{n}", torch=4.0), limit_ms=0.4) for n in range(24)]
    top = replace(row("top", torch=4.0), limit_ms=0.004, flops=1e8)
    right = replace(row("right", torch=4.0), limit_ms=0.4, flops=1e9, ms={"tensorad": 999.0})
    figure = plots._roofline([*low, top, right])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [text.get_window_extent(t) for t in axes.texts]
    assert len(names) > 20
    legend = axes.get_legend().get_window_extent()
    assert not any(n.overlaps(legend) for n in names)
    assert all(axes.bbox.y0 < n.y0 and n.y1 < axes.bbox.y1 for n in names)
