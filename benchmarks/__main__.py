"""Command line: `python -m benchmarks layers|work|combiners|sparse|imports [part of a name ...]`.

layers: the notebook's layers beside other libraries; the exit code is 1 if a result of ours is
wrong. work: counts of gradients beside their bounds; 1 if a row breaks a rule. combiners: passes
that derivatives of folds make; 1 if a row breaks a rule. sparse: entries and fill times of sparse
Jacobians; 1 if one misses its target. imports: seconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks import combiners, imports, layers, sparse, work_table
from benchmarks.timing import ROUNDS
from tensorad import config


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when a result is wrong or a row breaks a rule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=["layers", "work", "combiners", "sparse", "imports"])
    parser.add_argument("names", nargs="*", help="parts of the rows' names; all when left out")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements per median")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    if options.suite == "imports":
        print(imports.run(options.rounds))
        return 0
    if options.suite == "work":
        return _work(options.names, options.json)
    if options.suite == "combiners":
        return _combiners(options.names)
    if options.suite == "sparse":
        return _sparse(options.names, options.rounds)
    rows = layers.run(options.names, options.rounds)
    print(f"numpy {np.__version__}, {config.current().num_threads} threads,", end=" ")
    print(f"medians of {options.rounds} interleaved rounds; (..x) is relative to tensorad")
    print(layers.table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([r.as_json() for r in rows], indent=1) + "\n")
    return 1 if any("tensorad" in r.wrong for r in rows) else 0


def _work(names: Sequence[str], json_path: Path | None) -> int:
    rows = work_table.run(names)
    if not rows:
        print(f"no row's name contains {' or '.join(names)}")
        return 2
    print(work_table.table(rows))
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 1 if any(r.faults for r in rows) else 0


def _combiners(names: Sequence[str]) -> int:
    rows = combiners.run(names)
    if not rows:
        print(f"no combiner's name contains {' or '.join(names)}")
        return 2
    print(combiners.table(rows))
    return 0 if all(r.good for r in rows) else 1


def _sparse(names: Sequence[str], rounds: int) -> int:
    rows = sparse.run(names, rounds)
    print(sparse.table(rows))
    late = False
    if not names:
        seconds, nnz = sparse.chain_seconds()
        late = seconds > sparse.MOST_SECONDS
        print(f"Hessian of a chain of 100000: {nnz:,} entries, formula to matrix {seconds:.2f} s")
    return 1 if late or any(r.wrong for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
