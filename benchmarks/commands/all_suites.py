"""Subcommands `all`, which runs the suites, and `results`, which writes their page."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.commands import results
from benchmarks.commands.options import positive
from benchmarks.commands.suites import SUITES

FOLDER: Final = Path("benchmark_results")
REPEATED: Final = (results.RACES, "products", "einsum", "streams", "calls", "interop")
"""Suites of ratios, whose figures are medians over processes."""
ORDER: Final = (results.RACES, *[s.name for s in SUITES], "limits", "accuracy")

Main = Callable[[list[str]], int]


def add_commands(add: argparse._SubParsersAction[argparse.ArgumentParser], main: Main) -> None:
    """Both, with their options; `main` runs the other subcommands."""
    everything = add.add_parser(
        "all", help="every suite, then the page of results; run it again to go on where it was cut"
    )
    everything.add_argument("suites", nargs="*", help=f"some of {', '.join(ORDER)}")
    everything.add_argument("--folder", type=Path, default=FOLDER, help="for the JSON files")
    everything.add_argument("--page", type=Path, default=results.PAGE, help="what to write")
    everything.add_argument("--processes", type=positive, default=5, help="of ratios; medians")
    everything.add_argument("--threads", default="1,2", help="1,2 by default")
    everything.add_argument("--rounds", type=positive, default=15, help="rounds per median")
    everything.add_argument("--peers", help="of the races; all when left out")
    everything.add_argument("--shapes", type=int, metavar="SEED", help="three more shapes each")
    everything.set_defaults(command=lambda options: _all(options, main))
    page = add.add_parser("results", help="write RESULTS.md from the JSON files of runs")
    page.add_argument("--folder", type=Path, default=FOLDER, help="with the JSON files")
    page.add_argument("--page", type=Path, default=results.PAGE, help="what to write")
    page.set_defaults(command=_results)


def _all(options: argparse.Namespace, main: Main) -> int:
    """Each suite whose file is not there writes it; the exit code is 1 if one of them failed."""
    options.folder.mkdir(parents=True, exist_ok=True)
    worst = 0
    for suite in [n for n in ORDER if not options.suites or n in options.suites]:
        path = options.folder / f"{suite}.json"
        if path.exists():
            print(f"{suite}: {path} is there; remove it to measure anew")
            continue
        arguments = [suite, "--json", str(path)]
        if suite != "accuracy":
            arguments += ["--threads", options.threads, "--rounds", str(options.rounds)]
        if suite in REPEATED:
            arguments += ["--processes", str(options.processes)]
        if suite == results.RACES:
            if options.shapes is not None:
                arguments += ["--shapes", str(options.shapes)]
            if options.peers is not None:
                arguments += ["--peers", options.peers]
        print(f"\n== {' '.join(arguments)}", flush=True)
        worst = max(worst, main(arguments))
    return max(worst, _results(options))


def _results(options: argparse.Namespace) -> int:
    results.compose(options.folder, options.page, options.page.parent / "pictures")
    print(f"written: {options.page}")
    return 0
