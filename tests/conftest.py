"""Shared fixtures: hypothesis profiles and golden texts.

The whole suite runs with certificates demanded: an elimination without a true one fails its test.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("TENSORAD_DEBUG", "certify")  # read when tensorad is imported

from tensorad.ir.expr import Expr
from tensorad.simplify.certify import certificate  # after the flag
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.readback import compare
from tensorad.simplify.readback.reading import Reading

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/golden/*.txt anew instead of comparing with them",
    )
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail if a test is skipped, as one is whose package is not installed",
    )


_proofs: Counter[str] = Counter()
_readings: Counter[str] = Counter()


def pytest_configure() -> None:
    """Count what the demanded certificates were proved by."""
    demand = certificate.demand

    def counted(e: Elimination) -> certificate.Certificate:
        made = demand(e)
        _proofs[made.verdict.proof] += 1
        return made

    certificate.demand = counted
    told = compare.told

    def read(reading: Reading, naive: Expr, final: Expr) -> certificate.Verdict:
        _readings[reading.verdict.proof] += 1
        return told(reading, naive, final)

    compare.told = read


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with the mark `sampled(n)` all cases but every n-th are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and item.get_closest_marker("slow") is None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is collected is garbage, so none is looked for meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay: the garbage collector need not look at them after every test.

    What is written outside of the library's own passes is collected in portions as large as there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["proofs"] = dict(_proofs)
        session.config.workeroutput["readings"] = dict(_readings)
        return
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = session.config.getoption("--no-skips") and reporter.stats.get("skipped")
    if skipped and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)  # known to pytest-xdist only
def pytest_testnodedown(node: Any) -> None:
    _proofs.update(getattr(node, "workeroutput", {}).get("proofs", {}))
    _readings.update(getattr(node, "workeroutput", {}).get("readings", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, proofs in (("true certificates of eliminations", _proofs), ("read back", _readings)):
        if proofs:
            ways = ", ".join(f"{n:,} by {proof}" for proof, n in proofs.most_common())
            terminalreporter.write_line(f"{what}: {ways}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): text must equal tests/golden/<name>.txt."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if update:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text + "\n")
            return
        assert path.exists(), f"no {path}: run pytest --update-golden and read the new file"
        assert text + "\n" == path.read_text()

    return check
