"""`python -m tests.mutants [NAME...] [--jobs J] [--all]`: do the tests notice mistakes?"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.mutants.lists import KINDS
from tests.mutants.mistake import Mistake
from tests.mutants.runner import Outcome, WrongSetup, outcomes


def chosen(names: Sequence[str]) -> list[Mistake]:
    """The mistakes of these names, or of these kinds; all without a name.

    Raises:
        WrongSetup: there is none of a name.
    """
    if not names:
        return [m for mistakes in KINDS.values() for m in mistakes]
    by_name = {m.name: m for mistakes in KINDS.values() for m in mistakes}
    found: list[Mistake] = []
    for name in names:
        if name not in KINDS and name not in by_name:
            raise WrongSetup(f"no mistake or kind {name}; the kinds are {', '.join(KINDS)}")
        found.extend(KINDS[name] if name in KINDS else [by_name[name]])
    return list(dict.fromkeys(found))


def table(found: Sequence[Outcome], seconds: float) -> str:
    """By kind: how many were planted, and what became of them."""
    by_name = {o.mistake.name: o for o in found}
    head = ("kind", "planted", "ring 1", "ring 2", "all", "equivalent", "survived")
    lines = ["{:16}{:>10}{:>8}{:>8}{:>6}{:>12}{:>10}".format(*head)]
    total: Counter[str] = Counter()
    rows: list[tuple[str, Counter[str]]] = []
    for kind, mistakes in KINDS.items():
        mine = [by_name[m.name] for m in mistakes if m.name in by_name]
        counts = Counter(str(o.ring) if o.noticed else o.verdict for o in mine)
        counts["planted"] = len(mine)
        total += counts
        if mine:
            rows.append((kind, counts))
    for name, counts in [*rows, ("total", total)]:
        shown = [counts[k] for k in ("planted", "1", "2", "3", "equivalent", "survived")]
        lines.append("{:16}{:>10}{:>8}{:>8}{:>6}{:>12}{:>10}".format(name, *shown))
    lines.append(f"{seconds:,.0f} s")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """1 if a mistake survived with no reason, or was noticed though it is said to be equivalent."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of mistakes or kinds; all if none"
    )
    parser.add_argument("--jobs", type=int, default=1, help="copies that run side by side")
    parser.add_argument("--all", action="store_true", help="then the whole fast suite")
    options = parser.parse_args(arguments)
    before = time.monotonic()
    try:
        found = outcomes(chosen(options.names), options.jobs, options.all)
    except WrongSetup as e:
        print(e, file=sys.stderr)
        return 2
    print(table(found, time.monotonic() - before))
    wrong = [o for o in found if o.verdict == "survived" or (o.noticed and o.mistake.equivalent)]
    for o in wrong:
        said = "noticed, yet said to be equivalent" if o.noticed else "survived"
        print(f"{said}: {o.mistake.name} ({o.mistake.file})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
