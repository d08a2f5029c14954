"""Subcommands about the machine and the runtime: limits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.limits import limits
from benchmarks.measure.machine import machine, versions
from benchmarks.report.figures import Figures, table
from benchmarks.report.records import SCHEMA
from benchmarks.suites import regions

Command = Callable[[argparse.Namespace], int]


def _limits(options: argparse.Namespace) -> int:
    found = [limits.measured(threads) for threads in options.threads]
    print(limits.table(found))
    starts = [regions.measured(threads) for threads in options.threads if threads > 1]
    if starts:
        print(f"\n{table(starts)}")
    if options.json is not None:
        options.json.write_text(json.dumps(_as_json(found, starts), indent=1) + "\n")
    return 0


def _as_json(found: Sequence[limits.Limits], starts: Sequence[Figures]) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "machine": machine(), "versions": versions(),
        "rows": [f.as_json() for f in found],
        "regions": [f.as_json() for f in starts],
    }  # fmt: skip


COMMANDS: Final[tuple[tuple[str, Command, str], ...]] = (
    ("limits", _limits, "multiply-adds and bytes per second of the machine, the start of threads"),
)
