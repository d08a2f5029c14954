"""Random programs of records: machine code gives what the interpreter says."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.codegen.loops.ir import all_nodes
from tensorad.codegen.lower import lower_program
from tensorad.ir.reference.verify import verify
from tensorad.simplify.control.passes import simplified
from tests.random.generators import campaign
from tests.random.records.compare import assert_same
from tests.random.records.generator import random_record_program, random_values


def check(seed: int) -> None:
    program = random_record_program(seed)
    values = random_values(program)
    verify(program.outputs)
    want = ta.interpret(program.outputs, values)
    shorter = simplified(program.outputs, program.inputs)
    verify(shorter)
    found = ta.build(program.outputs, program.inputs)(*values.values())
    have = found if len(want) > 1 else [found]
    results = zip(program.outputs, have, want, ta.interpret(shorter, values), strict=True)
    for t, a, b, c in results:
        assert_same(a, b, 1e-5)
        assert_same(c, b, dtype=str(t.dtype))  # what is folded into a float32 constant is rounded


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_few(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(100, 700, 100), 3))
def test_many(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


def test_the_programs_have_what_they_should() -> None:
    """Records made and looked into, calls, and calls inside of definitions."""
    kinds: dict[str, int] = {}
    for seed in range(12):
        made = random_record_program(seed)
        program = lower_program(made.outputs, made.inputs)
        inside = [n for r in program.routines for n in all_nodes(r.nodes)]
        found = {type(n).__name__ for n in program.all_nodes}
        found |= {f"{type(n).__name__} inside" for n in inside}
        for name in found:
            kinds[name] = kinds.get(name, 0) + 1
    wanted = ("Make", "Inside", "Activate", "Activate inside", "Repeat")
    assert min(kinds[name] for name in wanted) >= 2
