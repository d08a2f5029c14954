"""What operations cost: every one has a row, and estimates read that row alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tensorad as ta
from tensorad.codegen.cost.operation_costs import (
    COSTS,
    cost_of,
    cycles,
    operations,
    takes_long,
)
from tensorad.ir.elementary.cost import FUNCTION, INSTRUCTION
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Call, Expr, call
from tensorad.ir.tensor import Compute

ROOT = Path(__file__).resolve().parents[3]


def body_of(t: ta.Tensor) -> Expr:
    assert isinstance(t.op, Compute)
    return t.op.bodies[0]


def test_every_operation_has_a_cost() -> None:
    assert set(COSTS) == set(OPERATIONS)
    assert all(c.weight >= 1 and c.cycles >= 1 for c in COSTS.values())


@pytest.mark.parametrize("op", [*FUNCTIONS, "pow"])
def test_functions_cost_more_than_an_addition(op: str) -> None:
    X = ta.placeholder((8,), name="X")
    element = body_of(ta.compute((8,), lambda i: X[i]))
    e = call(op, *[element] * (FUNCTIONS[op].arity if op in FUNCTIONS else 2))
    assert isinstance(e, Call)
    assert takes_long(e)
    assert cost_of(e).cycles == FUNCTION.cycles > INSTRUCTION.cycles
    if op not in ("sqrt", "rsqrt"):  # one instruction
        assert operations([e]) == FUNCTION.weight


def test_what_is_used_twice_counts_once() -> None:
    X = ta.placeholder((8,), name="X")
    body = body_of(ta.compute((8,), lambda i: ta.exp(X[i]) * ta.exp(X[i]) + X[i] / 3))
    assert operations([body]) == FUNCTION.weight + 3
    assert cycles([body]) == 2 * FUNCTION.cycles + 2  # a division is as long as a function


def test_indices_cost_nothing() -> None:
    X = ta.placeholder((8,), name="X")
    assert operations([body_of(ta.compute((8,), lambda i: X[(i * 3 + 1) % 8]))]) == 0


def test_no_other_table_names_functions() -> None:
    """A list of two functions or more in estimates would be a second table of costs."""
    functions = {*FUNCTIONS} - {"sqrt", "rsqrt"}
    found = []
    for folder in ("cost", "schedule", "contraction", "caches", "fusion", "scan", "splitting"):
        for file in (ROOT / "codegen" / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
                names = [e.value for e in parts if isinstance(e, ast.Constant)]
                if sum(n in functions for n in names if isinstance(n, str)) > 1:
                    found.append(f"{file.name}:{node.lineno}")
    assert not found
