"""Tests name whole machines, and `.ci/run` repeats the schedule tests under enough of them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tensorad import config
from tensorad.codegen.target.machine import Machine, current
from tests.support.machines import MACHINES, PYTHON, SCHEDULES, TESTS, described, path_of

ABOUT_DESCRIPTIONS = {"machines.py", "test_machine.py", "test_tuning.py"}


def test_no_test_describes_a_part_of_a_machine() -> None:
    """But for those about descriptions; an empty one is the machine as it is."""
    for path in {p for p in TESTS.rglob("*.py") if p.name not in ABOUT_DESCRIPTIONS}:
        found = re.findall(r'override\((?:[^()]*, )?machine=(?!"")', path.read_text())
        assert not found or path == Path(__file__), (
            f"{path.name}: use tests.support.machines.described"
        )


@pytest.mark.parametrize("text", MACHINES)
def test_a_description_leaves_nothing_to_the_machine(text: str) -> None:
    parts = dict(part.split("=") for part in text.split(","))
    assert parts.keys() == {f.name for f in fields(Machine)} - {"cpu"}


def test_the_machines_differ_in_what_decides() -> None:
    found = []
    for text in MACHINES:
        with config.override(machine=text):
            found.append(current())
    assert len(found) == 8
    assert {m.cores for m in found} == {1, 2, 64}
    assert {m.l2 for m in found} == {256 << 10, 1 << 20, 2 << 20}
    assert {m.vector_bytes for m in found} == {16, 32, 64}
    assert {m.l3 for m in found} == {4 << 20, 32 << 20, 480 << 20}


def test_a_description_says_all_but_the_processor() -> None:
    with described("l2=4096,cores=3"):
        m = current()
        assert (m.l2, m.cores, m.l3, m.vector_bytes) == (4096, 3, 32 << 20, 64)
        assert config.get_num_threads() == 3
    with described("l2=4096,cores=3", num_threads=1):
        assert config.get_num_threads() == 1


def test_a_processor_brings_its_registers() -> None:
    with described("cpu=haswell"):
        assert (current().vector_bytes, current().registers) == (32, 16)


def test_the_lists_name_files() -> None:
    for name in (*SCHEDULES, *PYTHON):
        assert Path(path_of(name)).name == f"test_{name}.py"
