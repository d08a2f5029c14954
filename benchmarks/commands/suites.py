"""Subcommands that measure figures: products, streams, calls and others."""

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
from benchmarks.race import interop, tree_net
from benchmarks.report.figures import Figures, Suite, merged, remarks, table
from benchmarks.report.records import SCHEMA
from benchmarks.suites import (
    call_cost,
    chains,
    compiling,
    einsum,
    examples,
    memory,
    products,
    programs,
    scaling,
    streams,
    thread_speedup,
)
from tensorad import config

SUITES: Final[tuple[Suite, ...]] = (
    products.SUITE, einsum.SUITE, streams.SUITE, call_cost.SUITE,
    compiling.SUITE, chains.SUITE, thread_speedup.SUITE, scaling.SUITE,
    memory.SUITE, programs.SUITE, examples.SUITE, tree_net.SUITE,
    interop.SUITE,
)  # fmt: skip


def _command(suite: Suite) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        if options.found is not None:
            return _measured(suite, options)
        for name, package in missing(suite.peers).items():
            print(f"{name} does not take part: {package} is not installed")
        keep = None if options.json is None else parts_of(options.json)
        rows = figures(suite, options, keep)
        if not rows:
            print(f"no row's name contains {' or '.join(options.names)}")
            return 2
        print(table(rows))
        found = suite.judge(rows)
        print("\n".join(["", *[str(v) for v in found], *remarks(rows)]))
        if options.json is not None:
            options.json.write_text(json.dumps(as_json(rows), indent=1) + "\n")
        if keep is not None:
            shutil.rmtree(keep)
        return 1 if any(r.failed for r in rows) else 0

    return run


def _measured(suite: Suite, options: argparse.Namespace) -> int:
    """In a measuring process: rows to the file as they are found, without those in it."""
    part = opened(options.found)
    done = {r["name"] for r in part.rows}
    threads = config.current().num_threads
    for row in suite.measure(options.names, options.rounds, threads, done):
        part.add([row.as_json()])
    return 0


def figures(suite: Suite, options: argparse.Namespace, keep: Path | None = None) -> list[Figures]:
    """Measured in fresh processes, for every number of threads."""
    rows: list[Figures] = []
    arguments = [suite.name, *options.names, "--rounds", str(options.rounds)]
    for threads in suite.threads or options.threads:
        found = processes.measure(arguments, threads, options.processes or suite.processes, keep)
        rows += merged([[Figures(**r) for r in part] for part in found])
    return rows


def as_json(rows: Sequence[Figures]) -> dict[str, Any]:
    """With the machine and the versions."""
    return {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "rows": [r.as_json() for r in rows],
    }


COMMANDS: Final = tuple([(s.name, _command(s), s.text) for s in SUITES])
