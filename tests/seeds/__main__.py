"""python -m tests.seeds: each demand with its tests; 1 where one has none, or none that passed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.seeds.table import FIRST_ORDER, LEVELS, REFERENCES

HERE = Path(__file__).resolve().parent
ROWS = {**FIRST_ORDER, **LEVELS, **REFERENCES}
_NUMBER = re.compile(r"(?:test|and)_(s\d{3}|t|w)_(\d{2})_")


def rows_of(test: str) -> list[str]:
    """The rows that a test belongs to: test_s002_04_and_s002_05_..."""
    name = test.split("::")[-1].split("[")[0]
    return [f"{kind.upper()}-{number}" for kind, number in _NUMBER.findall(name)]


class Outcomes:
    """What ran, as pytest tells it."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = {row: {} for row in ROWS}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test's call, or of what went wrong before or after it."""
        name = report.nodeid.split("::")[-1]
        for row in rows_of(report.nodeid):
            if row in self.of and (report.when == "call" or report.outcome != "passed"):
                self.of[row][name] = report.outcome


def main() -> int:
    """Run the tests and print the table."""
    outcomes = Outcomes()
    code = pytest.main(["-q", "-m", "slow or not slow", str(HERE)], plugins=[outcomes])
    missing = []
    for row, asked in ROWS.items():
        tests = outcomes.of[row]
        passed = sum(o == "passed" for o in tests.values())
        good = bool(tests) and passed == len(tests)
        if not good:
            missing.append(row)
        sys.stdout.write(f"{row}  {passed:3} of {len(tests):3}  {asked}\n")
    sys.stdout.write(f"{len(ROWS) - len(missing)} of {len(ROWS)} rows are met")
    sys.stdout.write(f"; not: {', '.join(missing)}\n" if missing else "\n")
    return int(bool(missing)) or int(code)


if __name__ == "__main__":
    raise SystemExit(main())
