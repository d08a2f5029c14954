"""Subcommands that measure figures: products, streams, calls and others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks import (
    call_suite,
    compile_suite,
    memory_suite,
    processes,
    product_suite,
    scaling_suite,
    stream_suite,
    thread_suite,
)
from benchmarks.figures import Figures, Suite, merged, table
from benchmarks.machine import machine, versions
from benchmarks.records import SCHEMA
from tensorad import config

SUITES: Final[tuple[Suite, ...]] = (
    product_suite.SUITE, stream_suite.SUITE, call_suite.SUITE, compile_suite.SUITE,
    thread_suite.SUITE, scaling_suite.SUITE, memory_suite.SUITE,
)  # fmt: skip


def _command(suite: Suite) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        if options.found is not None:
            rows = suite.measure(options.names, options.rounds, config.current().num_threads)
            options.found.write_text(json.dumps([r.as_json() for r in rows]))
            return 0
        rows = figures(suite, options)
        if not rows:
            print(f"no row's name contains {' or '.join(options.names)}")
            return 2
        print(table(rows))
        found = suite.judge(rows)
        print("\n".join(["", *[str(v) for v in found]]))
        if options.json is not None:
            options.json.write_text(json.dumps(as_json(rows), indent=1) + "\n")
        return 0

    return run


def figures(suite: Suite, options: argparse.Namespace) -> list[Figures]:
    """Measured in fresh processes, for every number of threads."""
    rows: list[Figures] = []
    arguments = [suite.name, *options.names, "--rounds", str(options.rounds)]
    for threads in suite.threads or options.threads:
        found = processes.measure(arguments, threads, options.processes)
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
