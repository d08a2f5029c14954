"""Random typed programs: all ways to run them agree, and so do their derivatives."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from tests.random.programs.checks import check_program
from tests.random.programs.generator import SIZES, typed_program

PROGRAMS: Final = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 40


def check(seed: int, steps: int, order: int) -> str:
    """The program of a seed; its text is shown if it fails."""
    program = typed_program(seed, steps)
    print(program)  # pytest shows it with a failure
    return check_program(program, {s: SIZES[s] for s in program.sizes}, order)


def test_programs_contain_everything() -> None:
    found: Counter[str] = Counter()
    for seed in range(200):
        found.update(typed_program(seed).features)
    forms = ("call", "cond", "switch", "for by number", "for by size", "for by tensor",
             "for by tensors", "while fuel lasts", "until small", "scan of xs",
             "scan of xs in reverse", "scan of length", "scan of length in reverse")  # fmt: skip
    wanted = [f"{form} {n} deep" for form in forms for n in (1, 2, 3)]
    wanted += ["gather", "scatter", "fold of pairs", "matmul", "formula with a counter"]
    wanted += [
        f"at {where} {m}" for where in ("counter", "integer", "window") for m in ("set", "add")
    ]
    assert not [name for name in wanted if not found[name]]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_typed_programs(seed: int) -> None:
    """A third of them with second derivatives."""
    is_small = seed % 20 == 0
    check(seed, 3 if is_small else 8, 2 if seed % 3 == 1 and not is_small else 1)
