"""Demands of Relax's Gradient (S000) on text: programs are printed, parsed, printed and run."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.listing import program_of
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import Program, ProgramFunction, forest_leaves, tree_leaves
from tests.random.programs.checks import check_near
from tests.random.programs.generator import SIZES, TypedProgram, typed_program
from tests.seeds.support.goldens import GOLDENS
from tests.seeds.support.normal_form import check_normal_form
from tests.support.programs.texts import TEXTS

PROGRAMS: Final = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 40
TOLERANCE: Final = {"float32": 1e-6, "float64": 1e-9}
"""Of adjoints in two forms: numbers of formulas, and what they are multiplied to, are rounded."""
Array = np.ndarray[Any, np.dtype[Any]]


def leaves_of(f: ProgramFunction) -> tuple[Tensor, ...]:
    """The placeholders of a function."""
    return forest_leaves([tree for _, tree in f.params])


def values(f: ProgramFunction, arrays: list[Array], sizes: dict[str, int]) -> list[Array]:
    """What a function returns, by the interpreter."""
    given = dict(zip(leaves_of(f), arrays, strict=True))
    return [np.asarray(a) for a in ta.interpret(tree_leaves(f.results), given, sizes)]


def read_back(p: Program) -> Program:
    """The program of its own text, which must be the same, and in normal form."""
    text = str(p)
    again = parse_program(text, p.constants)
    assert str(again) == text
    check_normal_form(again)
    return again


def check_read_back(
    p: Program, name: str, arrays: list[Array], sizes: dict[str, int]
) -> list[Array]:
    """Text and values stay the same, bit for bit; the values."""
    found = values(p[name], arrays, sizes)
    for a, b in zip(found, values(read_back(p)[name], arrays, sizes), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return found


def arguments(f: ProgramFunction, sizes: dict[str, int]) -> list[Array]:
    """Arrays for the placeholders of a function."""
    rng = np.random.default_rng(5)
    made = []
    for t in leaves_of(f):
        shape = [n if isinstance(n, int) else sizes[str(n)] for n in t.shape]
        array = rng.uniform(0.5, 1.5, shape) if t.dtype.is_float else rng.integers(0, 3, shape)
        made.append(np.asarray(array, str(t.dtype)))
    return made


@pytest.mark.parametrize("name", [*GOLDENS, *TEXTS])
def test_s000_41_texts_written_by_hand_are_read_back(name: str) -> None:
    sizes = {"n": 2, "k": 3}
    golden = GOLDENS.get(name)
    text = TEXTS[name] if golden is None else f"{golden.before}\n{golden.adjoint}"
    p = parse_program(text)
    assert str(p) == text
    for f in p.functions:
        check_read_back(p, f.name, arguments(f, sizes), sizes)


@pytest.mark.parametrize("name", GOLDENS)
def test_s000_41_adjoints_written_by_hand_are_those_of_their_functions(name: str) -> None:
    """The text of the adjoint alone computes what `ta.gradient` does, compiled, too."""
    golden, sizes = GOLDENS[name], {"n": 3}
    written = parse_program(golden.adjoint)["main_adjoint"]
    made = ta.gradient(ta.module(golden.before), "main", **golden.options).program["main_adjoint"]
    arrays = arguments(written, sizes)
    wanted = values(made, arrays, sizes)
    results = tree_leaves(written.results)
    compiled = ta.build(results, list(leaves_of(written)))(*arrays)
    for found in (values(written, arrays, sizes), compiled):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def adjoint_of(program: TypedProgram) -> tuple[ta.Module, list[Tensor], list[Tensor]]:
    """The module of a program with its adjoint along a head; results and inputs."""
    results, inputs = program.traced()
    m = ta.module(program_of(tuple(results), [(t.name, t) for t in inputs]))
    return ta.gradient(m, "main", cotangent="head"), results, inputs


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_s000_41_random_programs_are_read_back(seed: int) -> None:
    """With their adjoints, which are those of `vjp`."""
    program = typed_program(seed, 6)
    print(program)  # pytest shows it with a failure
    sizes = {s: SIZES[s] for s in program.sizes}
    given = program.arrays(sizes)
    m, results, inputs = adjoint_of(program)
    wanted = check_read_back(m.program, "main", given, sizes)
    rng = np.random.default_rng([program.seed, 4])
    floats = [t for t in results if t.dtype.is_float]
    heads = [
        np.asarray(rng.standard_normal(a.shape), str(a.dtype))
        for a, t in zip(wanted, results, strict=True) if t.dtype.is_float
    ]  # fmt: skip
    found = check_read_back(m.program, "main_adjoint", [*given, *heads], sizes)
    for a, b in zip(found, wanted, strict=False):
        np.testing.assert_array_equal(a, b)
    wrt = [t for t in inputs if t.dtype.is_float]
    total: dict[Tensor, Array] = {}  # some return a tensor twice
    for t, head in zip(floats, heads, strict=True):
        total[t] = total[t] + head if t in total else head
    variables = [ta.placeholder(t.shape, str(t.dtype), name="h") for t in total]
    arrays = dict(zip([*inputs, *variables], [*given, *total.values()], strict=True))
    expected = ta.interpret(ta.vjp(list(total), wrt, variables), arrays, sizes)
    for a, b, t in zip(found[len(wanted) :], expected, wrt, strict=True):
        check_near(a, b, TOLERANCE[str(t.dtype)], f"adjoint of {t.name}")
