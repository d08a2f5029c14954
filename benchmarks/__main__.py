"""Command line: `python -m benchmarks layers [name ...]` and `python -m benchmarks imports`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import imports, layers
from benchmarks.timing import ROUNDS
from tensorad import config


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when a result of ours is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=["layers", "imports"])
    parser.add_argument("names", nargs="*", help="parts of layer names; all when left out")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements per median")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    if options.suite == "imports":
        print(imports.run(options.rounds))
        return 0
    rows = layers.run(options.names, options.rounds)
    print(f"numpy {np.__version__}, {config.current().num_threads} threads,", end=" ")
    print(f"medians of {options.rounds} interleaved rounds; (..x) is relative to tensorad")
    print(layers.table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([r.as_json() for r in rows], indent=1) + "\n")
    return 1 if any("tensorad" in r.wrong for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
