"""The benchmarks' workloads: the same bits on any number of threads and on every processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tensorad as ta
from benchmarks.peers.ours import Program as Formula
from benchmarks.workloads.catalogue import SMALL, WORKLOADS
from tensorad.building import build
from tests.codegen.llvm.test_targets import Program, arm, avx2, check_arm, check_avx2
from tests.project.test_benchmarks import TINY

COUNTS = (1, 2, 3, 8)
REPEATS = 25
SAMPLE = ("conv_seed", "layernorm", "gather", "mttkrp", "soft_path")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = ta.get_num_threads()
    yield
    ta.set_num_threads(before)


def program(name: str, tiny: bool) -> Program:
    """A workload with its gradients."""
    formula = Formula(WORKLOADS[name].problem(TINY[name] if tiny else None))
    given = zip(formula.arguments("fb"), formula.arrays("fb"), strict=True)
    return formula.outputs("fb"), dict(given)


def programs(names: Iterable[str], tiny: bool = True) -> Iterator[tuple[str, Program]]:
    for name in names:
        yield name, program(name, tiny)


def check_threads(name: str, tiny: bool, repeats: int) -> None:
    """Small loops are shared, too: by hand."""
    outputs, arrays = program(name, tiny)
    schedule = ta.Schedule(parallel=True) if tiny else None
    f = build(outputs, list(arrays), schedule=schedule)
    want: list[bytes] = []
    for _ in range(repeats):
        for count in COUNTS:
            ta.set_num_threads(count)
            have = f(*arrays.values())
            found = [np.asarray(a).tobytes() for a in (have if isinstance(have, list) else [have])]
            want = want or found
            assert found == want, f"{name} on {count} threads"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAMPLE)
def test_threads(name: str) -> None:
    check_threads(name, True, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TINY if n not in SAMPLE])
def test_threads_of_the_others(name: str) -> None:
    check_threads(name, True, REPEATS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_threads_at_the_headline_size(name: str) -> None:
    check_threads(name, False, REPEATS)


@avx2
@pytest.mark.slow
def test_avx2() -> None:
    check_avx2(programs(TINY))
    check_avx2(programs(SMALL, tiny=False))


@arm
@pytest.mark.slow
def test_aarch64(tmp_path: Path) -> None:
    check_arm(programs(TINY), tmp_path, "generic")
