"""Subcommands about the machine and the runtime: limits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Final

from benchmarks import limits

Command = Callable[[argparse.Namespace], int]


def _limits(options: argparse.Namespace) -> int:
    found = [limits.measured(threads) for threads in options.threads]
    print(limits.table(found))
    if options.json is not None:
        options.json.write_text(json.dumps([f.as_json() for f in found], indent=1) + "\n")
    return 0


COMMANDS: Final[tuple[tuple[str, Command, str], ...]] = (
    ("limits", _limits, "multiply-adds and bytes per second that the machine reaches"),
)
