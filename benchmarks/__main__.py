"""Command line of the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import calls_compared, guard
from benchmarks.commands import accuracy, all_suites, counts, machine, race, suites
from benchmarks.commands.options import positive, positives
from benchmarks.measure.processes import RunError
from benchmarks.measure.timing import ROUNDS
from benchmarks.peers.contestant import MODES
from benchmarks.peers.registry import PEERS
from benchmarks.race.frameworks import ROUNDS as RACE_ROUNDS

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when a result is wrong or a rule is broken."""
    options = parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """All subcommands."""
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = found.add_subparsers(title="what to measure", required=True, metavar="SUITE")
    for name, command, text in counts.COMMANDS:
        one = add.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        one.add_argument("names", nargs="*", help="parts of the rows' names; all when left out")
        one.add_argument("--rounds", type=positive, default=ROUNDS, help="measurements per median")
        one.add_argument("--json", type=Path, help="also write the figures to this file")
    for name, command, text in race.COMMANDS:
        one = add.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        _race_options(one)
    for name, command, text in (*machine.COMMANDS, *suites.COMMANDS):
        one = add.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        _machine_options(one)
        if name == calls_compared.SUITE:
            one.set_defaults(command=calls_compared.beside(command))
            calls_compared.options(one)
    for name, command, text in accuracy.COMMANDS:
        one = add.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        accuracy.options(one)
    for name, command, text in guard.COMMANDS:
        one = add.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        guard.options(one)
    all_suites.add_commands(add, main)
    return found


def _machine_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("names", nargs="*", help="parts of the rows' names; all when left out")
    p.add_argument("--threads", type=positives, default=[1, 2], help="1,2 by default")
    p.add_argument("--rounds", type=positive, default=RACE_ROUNDS, help="rounds per median")
    p.add_argument("--processes", type=positive, help="fresh processes; medians of them")
    p.add_argument("--json", type=Path, help="also write the figures to this file")
    p.add_argument("--found", type=Path, help=argparse.SUPPRESS)  # of a measuring process


def _race_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "names", nargs="*",
        help="groups (notebook, layers, unusual, gathered, small) or parts of workloads' names",
    )  # fmt: skip
    p.add_argument("--threads", type=positives, default=[1, 2], help="1,2 by default")
    p.add_argument("--modes", type=_some_of(MODES), default=list(MODES), help=", ".join(MODES))
    p.add_argument("--peers", type=_some_of(PEERS), default=list(PEERS), help=", ".join(PEERS))
    p.add_argument("--rounds", type=positive, default=RACE_ROUNDS, help="quiet rounds per median")
    p.add_argument("--seconds", type=float, default=0.01, help="length of one sample, about")
    p.add_argument("--shapes", type=int, metavar="SEED", help="three more shapes per workload")
    p.add_argument("--processes", type=positive, default=1, help="fresh processes; medians of them")
    p.add_argument("--json", type=Path, help="also write the figures to this file")
    p.add_argument("--wide", action="store_true", help="a column for every peer")
    p.add_argument("--no-limits", action="store_true", help="do not measure the machine first")
    p.add_argument("--plots", type=Path, metavar="FOLDER", help="also draw the figures there")
    p.add_argument("--found", type=Path, help=argparse.SUPPRESS)  # of a measuring process
    p.add_argument("--prepare", type=_numbers, help=argparse.SUPPRESS)  # of a compiling process


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        found = [part for part in text.split(",") if part and part != "none"]
        unknown = [part for part in found if part not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return found

    return parse


if __name__ == "__main__":
    raise SystemExit(main())
