"""The subcommand `accuracy`: errors and speed of elementary functions, errors of sums."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure.machine import machine, versions
from benchmarks.report.records import SCHEMA
from benchmarks.report.tables import aligned, number
from benchmarks.report.verdicts import Verdict
from benchmarks.suites import accuracy, function_speed
from benchmarks.suites.accuracy import MOST_ULPS, SumError, Worst
from tensorad import config

SPEED_ROUNDS: Final = 150
SUMS: Final = "sums"
SPEED: Final = "functions, libmvec / ours"
LEAST_RATIO: Final = 1 / 1.1
"""libmvec / ours where ours takes ten percent longer."""

Speeds = dict[str, float]


def options(p: argparse.ArgumentParser) -> None:
    """Of the subcommand."""
    p.add_argument("names", nargs="*", help=f"functions, or {SUMS}; all when left out")
    p.add_argument("--samples", type=int, default=accuracy.SAMPLES, help="of each kind")
    p.add_argument("--rounds", type=int, default=SPEED_ROUNDS, help="0: do not measure speed")
    p.add_argument("--json", type=Path, help="also write the figures to this file")


def _accuracy(chosen: argparse.Namespace) -> int:
    unknown = [n for n in chosen.names if n not in (*accuracy.NAMES, SUMS)]
    if unknown:
        print(f"{unknown[0]!r} is none of {', '.join([*accuracy.NAMES, SUMS])}")
        return 2
    functions = [f for f in accuracy.NAMES if not chosen.names or f in chosen.names]
    rows: list[tuple[Worst, Speeds]] = []
    with config.override(num_threads=1):
        for op in functions:
            for dtype in accuracy.DTYPES:
                speeds = function_speed.speed(op, dtype, chosen.rounds) if chosen.rounds else {}
                rows.append((accuracy.worst(op, dtype, chosen.samples), speeds))
    sums: list[SumError] = []
    if not chosen.names or SUMS in chosen.names:
        cases = [(s, d, n) for s in accuracy.SUMS for d in accuracy.DTYPES for n in accuracy.TERMS]
        sums = [accuracy.sum_error(*case) for case in cases]
    found = _as_json(rows, sums)
    judged = judge(found)
    print("\n".join([report(rows, sums), "", *[str(v) for v in judged]]))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(v.holds for v in judged if v.what != SPEED) else 1


def judge(found: Mapping[str, Any]) -> list[Verdict]:
    """What functions and sums are asked, from a run's JSON."""
    functions = [(f"{r['op']} {r['dtype']}", r) for r in found["functions"]]
    ratios = {n: _ratio(r["ns"]) for n, r in functions}
    known = {n: ratio for n, ratio in ratios.items() if not math.isnan(ratio)}
    verdicts = []
    if functions:
        name, most = max(functions, key=lambda pair: pair[1]["ulps"])
        text = f"most {most['ulps']:.2f} ({name}) of {MOST_ULPS:g} over {len(functions)}"
        verdicts.append(Verdict("functions, units in the last place", _right(most), text))
    if known:
        least = min(known, key=known.__getitem__)
        text = f"least {known[least]:.2f} ({least}) of {LEAST_RATIO:.2f} over {len(known)}"
        verdicts.append(Verdict(SPEED, known[least] >= LEAST_RATIO, text))
    if found["sums"]:
        part = max([s["part"] for s in found["sums"]])
        verdicts.append(Verdict("sums, part of the bound", part <= 1, f"most {part:.3f} of 1"))
    return verdicts


def _right(row: Mapping[str, Any]) -> bool:
    return bool(row["ulps"] <= MOST_ULPS)


def report(rows: Sequence[tuple[Worst, Speeds]], sums: Sequence[SumError]) -> str:
    """The tables, and a line for each that says whether its rule holds."""
    lines: list[str] = []
    if rows:
        head = ["function", "type", "ulp", "at", "ns", "libmvec", "numpy", "libmvec/ours"]
        lines += [aligned(head, [_cells(w, s) for w, s in rows])]
        most = max([w.ulps for w, _ in rows])
        lines += ["", f"at most {most:.2f} ulp, {MOST_ULPS:g} allowed; ns per element in cache"]
        ratios = [r for r in (_ratio(s) for _, s in rows) if not math.isnan(r)]
        if ratios:
            slow = sum([r < LEAST_RATIO for r in ratios])
            mean = math.exp(sum([math.log(r) for r in ratios]) / len(ratios))
            lines += [f"libmvec/ours: mean {mean:.2f}, least {min(ratios):.2f}, {slow} below 0.91"]
    if sums:
        cells = [[s.name, s.dtype, str(s.terms), f"{s.part:.3f}"] for s in sums]
        lines += ["", aligned(["sum", "type", "terms", "part of the bound"], cells)]
        lines += ["the bound: 2 sqrt(n) u times the sum of the terms' sizes"]
    return "\n".join(lines)


def _ratio(speeds: Speeds) -> float:
    return speeds["libmvec"] / speeds["ours"] if "libmvec" in speeds else math.nan


def _cells(w: Worst, speeds: Speeds) -> list[str]:
    at = ", ".join([f"{a:.6g}" for a in w.at])
    times = [number(speeds.get(name)) for name in ("ours", "libmvec", "numpy")]
    return [w.op, w.dtype, f"{w.ulps:.2f}", at, *times, number(_ratio(speeds))]


def _as_json(rows: Sequence[tuple[Worst, Speeds]], sums: Sequence[SumError]) -> dict[str, Any]:
    functions = [{**accuracy.as_json([w])[0], "ns": speeds} for w, speeds in rows]
    return {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "functions": functions,
        "sums": accuracy.as_json(sums),
    }


COMMANDS: Final[tuple[tuple[str, Callable[[argparse.Namespace], int], str], ...]] = (
    ("accuracy", _accuracy, "errors of functions and sums, functions' speed; 1 beyond a bound"),
)
