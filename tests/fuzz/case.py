"""A case is a program as text, and a seed that decides everything else; so are kept ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorad.ir.dtypes import to_dtype
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.text.listing import program_of
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import tree_leaves
from tensorad.ir.visit import topological_ops
from tests.random.generators import Program


@dataclass(frozen=True)
class Case:
    """What a fuzzer checks.

    Attributes:
        text: a program of tensors, or a file of Python.
        seed: of values and of decisions.
        bounds: of integer inputs that are used as indices: their values lie in [0, bound).
        constants: elements of the constant tensors that the text only names.
    """

    text: str
    seed: int
    bounds: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    def program(self) -> Program:
        """The program that the text says."""
        f = parse_program(self.text, self.constants).functions[-1]
        inputs = [t for _, tree in f.params for t in tree_leaves(tree)]
        results = tree_leaves(f.results)
        known = [t for op in topological_ops(results) for t in outputs(op)]
        tensors = [t for t in known if t not in inputs and not t.is_constant]
        floats = [t.dtype for t in [*inputs, *tensors] if t.dtype.is_float]
        bounds = {t: self.bounds[t.name] for t in inputs if t.name in self.bounds}
        used = {t for t in tensors if t not in results}
        dtype = (floats or [to_dtype("int64")])[0]
        return Program(self.seed, dtype, inputs, tensors, bounds, used)


@dataclass(frozen=True)
class Fuzzer:
    """How cases of a kind are made, from choices and a seed, and what must hold for each."""

    make: Callable[[Any, int], Case]
    check: Callable[[Case], object]


def case_of(program: Program, results: Sequence[Tensor], seed: int) -> Case:
    """The case of a program that was just made."""
    made = program_of(tuple(results), [(t.name, t) for t in program.inputs], "f")
    bounds = {t.name: n for t, n in program.bounds.items()}
    return Case(str(made), seed, bounds, dict(made.constants))


def written(name: str, case: Case, error: str) -> str:
    """A file of tests/regressions."""
    bounds = " ".join([f"{t}<{n}" for t, n in case.bounds.items()])
    lines = [f"# fuzzer: {name}", f"# seed: {case.seed}", f"# bounds: {bounds}"]
    for t, a in case.constants.items():
        array = np.asarray(a.op.array if isinstance(a, Tensor) else a)
        lines.append(f"# constant {t}: {array.dtype} {array.tolist()}")
    found = error.splitlines() or [""]
    return "\n".join([*lines, f"# found: {found[0][:200]}", case.text.rstrip("\n"), ""])


def read(text: str) -> tuple[str, Case]:
    """The name of the fuzzer and the case of such a file."""
    lines = text.splitlines()
    heads = [line for line in lines if line.startswith("# ")]
    said = dict([line.removeprefix("# ").split(": ", 1) for line in heads if ": " in line])
    pairs = [p.split("<") for p in said.get("bounds", "").split()]
    bounds = {t: int(n) for t, n in pairs}
    constants: dict[str, Any] = {}
    for key, value in said.items():
        if key.startswith("constant "):
            dtype, elements = value.split(" ", 1)
            constants[key.split(" ")[1]] = np.array(_numbers(elements), dtype)
    body = "\n".join([line for line in lines if line not in heads]) + "\n"
    return said["fuzzer"], Case(body, int(said["seed"]), bounds, constants)


def _numbers(text: str) -> object:
    return eval(text, {"__builtins__": {}, "nan": np.nan, "inf": np.inf})
