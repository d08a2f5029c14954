"""Subcommands that race the workloads: frameworks, unusual."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import processes
from benchmarks.measure.machine import machine, versions
from benchmarks.measure.parts import opened, parts_of
from benchmarks.peers.registry import missing
from benchmarks.race.frameworks import Plan, run
from benchmarks.race.preparing import PEER, compile_share, prepare
from benchmarks.report.plots import draw
from benchmarks.report.records import SCHEMA, Row, failures, from_json, merged
from benchmarks.report.tables import aligned, by_mode, milliseconds
from benchmarks.report.verdicts import verdicts
from benchmarks.workloads.catalogue import chosen


def _frameworks(options: argparse.Namespace) -> int:
    if not chosen(options.names):
        print(f"no workload's name contains {' or '.join(options.names)}")
        return 2
    if options.prepare is not None:
        return compile_share(_plan(options), options)
    if options.found is not None:
        return _measured(options)
    for name, package in missing(options.peers).items():
        print(f"{name} does not take part: {package} is not installed")
    keep = None if options.json is None else parts_of(options.json)
    rows = _raced(options, keep)
    write(options.json, rows)
    print(report(rows, options.wide))
    if options.plots is not None:
        draw(rows, options.plots)
    if keep is not None:
        shutil.rmtree(keep)
    return 1 if failures(rows) or not verdicts(rows)[0].holds else 0


def _raced(options: argparse.Namespace, keep: Path | None = None) -> list[Row]:
    """Measured in fresh processes, for every number of threads."""
    rows: list[Row] = []
    for threads in options.threads:
        if PEER in options.peers:
            prepare(_arguments(options), threads)
        found = processes.measure(_arguments(options), threads, options.processes, keep)
        rows += merged([[from_json(r) for r in part] for part in found])
    return rows


def _unusual(options: argparse.Namespace) -> int:
    options.names = options.names or ["unusual"]
    return _frameworks(options)


def _arguments(options: argparse.Namespace) -> list[str]:
    """The command of a measuring process."""
    shapes = [] if options.shapes is None else ["--shapes", str(options.shapes)]
    return [
        "frameworks", *options.names, *shapes,
        *(["--no-limits"] if options.no_limits else []),
        "--modes", ",".join(options.modes),
        "--peers", ",".join(options.peers) or "none",
        "--rounds", str(options.rounds),
        "--seconds", str(options.seconds),
    ]  # fmt: skip


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        options.names, options.modes, options.peers, options.rounds, options.shapes,
        options.seconds, not options.no_limits,
    )  # fmt: skip


def _measured(options: argparse.Namespace) -> int:
    """In a measuring process: rows to the file as they are found, without those in it."""
    part = opened(options.found)
    done = {(r["workload"], r["shape"]) for r in part.rows}
    run(_plan(options), lambda rows: part.add([r.as_json() for r in rows]), done)
    return 0


def write(path: Path | None, rows: Sequence[Row]) -> None:
    """A run as JSON, with its machine and versions."""
    if path is None:
        return
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "rows": [r.as_json() for r in rows],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def report(rows: Sequence[Row], wide: bool = False) -> str:
    """Tables by number of threads, then the verdicts."""
    lines = []
    for threads in sorted({r.threads for r in rows}):
        part = [r for r in rows if r.threads == threads]
        lines += ["", f"{threads} thread{'s' * (threads > 1)}; x: best framework / tensorad, with"]
        lines.append("results in arrays allocated once; x fresh: allocated in every call, as there")
        lines.append(aligned(*(milliseconds if wide else by_mode)(part)))
    noisy = sum([r.foreign > 0.1 for r in rows])
    if noisy:
        lines += ["", f"{noisy} of {len(rows)} rows were measured while others used the machine"]
    lines += ["", *[str(v) for v in verdicts(rows)], *failures(rows)]
    return "\n".join(lines)


COMMANDS: Final[tuple[tuple[str, Callable[[argparse.Namespace], int], str], ...]] = (
    ("frameworks", _frameworks, "workloads beside PyTorch, JAX, NumPy and loops by hand"),
    ("unusual", _unusual, "the same for the operators no library has a kernel for"),
)
