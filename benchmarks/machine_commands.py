"""Subcommands about the machine and the runtime: limits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks import limits
from benchmarks.machine import machine, versions
from benchmarks.records import SCHEMA

Command = Callable[[argparse.Namespace], int]


def _limits(options: argparse.Namespace) -> int:
    found = [limits.measured(threads) for threads in options.threads]
    print(limits.table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(_as_json(found), indent=1) + "\n")
    return 0


def _as_json(found: Sequence[limits.Limits]) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "machine": machine(), "versions": versions(),
        "rows": [f.as_json() for f in found],
    }  # fmt: skip


COMMANDS: Final[tuple[tuple[str, Command, str], ...]] = (
    ("limits", _limits, "multiply-adds and bytes per second that the machine reaches"),
)
