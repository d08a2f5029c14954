"""Texts do not depend on the hash seed, on addresses or on what ran before."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import lower
from tensorad.ir.text.printer import format_tensor_recursively
from tests.random.generators import Program, random_program, random_symbolic_program

ROOT = Path(__file__).resolve().parents[2]


def text_of(program: Program) -> str:
    """A program, its gradients and their loops, printed."""
    y = program.outputs[-1]
    h = te.placeholder(y.shape, dtype="float64", name="H")
    gradients = vjp(y, program.float_inputs, h)
    texts = [format_tensor_recursively(t) for t in [*program.outputs, *gradients]]
    return "\n".join([*texts, str(lower(gradients, [*program.inputs, h]))])


def all_texts(count: int) -> str:
    """The texts of some random programs, constant and symbolic."""
    programs = [random_program(s, computes=4) for s in range(count)]
    symbolic = [random_symbolic_program(s, computes=3) for s in range(count // 2)]
    return "\n".join([text_of(p) for p in [*programs, *symbolic]])


def digests_under(hash_seed: str, count: int) -> list[str]:
    """A digest of each line, printed by a fresh process."""
    script = f"from tests.random.test_determinism import show; show({count})"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def show(count: int) -> None:
    """What the child process prints: a line's digest and its beginning."""
    for line in all_texts(count).splitlines():
        sys.stdout.write(f"{hashlib.sha1(line.encode()).hexdigest()[:10]} {line[:80]}\n")


@pytest.mark.slow
def test_hash_seeds_do_not_matter() -> None:
    first, *others = [digests_under(seed, 60) for seed in ("0", "1")]
    assert len(first) > 100
    for other in others:
        assert other == first


def test_what_ran_before_does_not_matter() -> None:
    assert all_texts(6) == all_texts(6)
