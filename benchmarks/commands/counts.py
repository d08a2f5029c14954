"""Subcommands with tables of their own: layers, work, combiners, sparse, imports."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.suites import combiners, imports, layers, sparse, work_table
from tensorad import config


def _write(path: Path | None, found: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n")


def _none_chosen(options: argparse.Namespace, what: str) -> int:
    print(f"no {what}'s name contains {' or '.join(options.names)}")
    return 2


def _layers(options: argparse.Namespace) -> int:
    rows = layers.run(options.names, options.rounds)
    print(f"numpy {np.__version__}, {config.current().num_threads} threads,", end=" ")
    print(f"medians of {options.rounds} interleaved rounds; (..x) is relative to tensorad")
    print(layers.table(rows))
    _write(options.json, [r.as_json() for r in rows])
    return 1 if any("tensorad" in r.wrong for r in rows) else 0


def _work(options: argparse.Namespace) -> int:
    rows = work_table.run(options.names)
    if not rows:
        return _none_chosen(options, "row")
    print(work_table.table(rows))
    _write(options.json, [asdict(r) for r in rows])
    return 1 if any(r.faults for r in rows) else 0


def _combiners(options: argparse.Namespace) -> int:
    rows = combiners.run(options.names)
    if not rows:
        return _none_chosen(options, "combiner")
    print(combiners.table(rows))
    return 0 if all(r.good for r in rows) else 1


def _sparse(options: argparse.Namespace) -> int:
    rows = sparse.run(options.names, options.rounds)
    print(sparse.table(rows))
    late = False
    if not options.names:
        seconds, nnz = sparse.chain_seconds()
        late = seconds > sparse.MOST_SECONDS
        print(f"Hessian of a chain of 100000: {nnz:,} entries, formula to matrix {seconds:.2f} s")
    return 1 if late or any(r.wrong for r in rows) else 0


def _imports(options: argparse.Namespace) -> int:
    print(imports.run(options.rounds))
    return 0


COMMANDS: Final[tuple[tuple[str, Callable[[argparse.Namespace], int], str], ...]] = (
    ("layers", _layers, "the notebook's layers beside other libraries, forward and backward"),
    ("work", _work, "counts of gradients beside their bounds; 1 if a row breaks a rule"),
    ("combiners", _combiners, "passes that derivatives of folds make; 1 if a row breaks a rule"),
    ("sparse", _sparse, "sparse Jacobians: entries and fill times; 1 if one misses its target"),
    ("imports", _imports, "seconds of import tensorad beside import numpy"),
)
