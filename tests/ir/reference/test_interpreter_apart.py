"""The interpreter judges what compilers make, so no rule that decides a value stands in both.

What it takes from elsewhere is listed here with a reason. Who runs it: `ORACLES` of the layers.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tensorad.ir.dtypes import DTYPES, DType, wrap
from tensorad.ir.leaves import convert_number
from tensorad.ir.reference.formulas import _convert, _wrapped

ROOT: Final = Path(__file__).resolve().parents[3]
_REFERENCE: Final = "tensorad/ir/reference"
FILES: Final = ("formulas", "interpret", "control", "precision")

SHARED: Final = {
    # structure: which nodes there are, in which order they come
    "children": "operands of a node",
    "postorder_along": "an order of nodes",
    "outputs": "tensors of an operation",
    "ops_between": "operations in order",
    "topological_ops": "operations in order",
    "saves_of": "tensors that loops keep for others",
    "size_var": "a size by its name",
    "is_record": "whether a dtype is one of records",
    "rewrite": "nodes made anew",
    "substitute": "nodes made anew",
    "map_op": "an operation made anew",
    "without_functions": "bodies in the place of applied functions",
    "cast": "a node for the formulas in float64",
    "const": "a node for the formulas in float64",
    "param": "a node for the formulas in float64",
    "read": "a node for the formulas in float64",
    "reduce_expr": "a node for the formulas in float64",
    "handle": "records as Python's objects",
    "bound_record": "records as Python's objects",
    # what users give, and errors
    "check_arrays": "arrays given",
    "check_sizes": "sizes given",
    "check_tensors": "tensors given",
    "negative_extent": "an error",
    "format_shape": "an error",
    "deep_calls": "room on Python's stack",
    # definitions: there is nothing to write twice
    "FUNCTIONS": "NumPy's value of a scalar function; machine code is another column of the row",
    "COMPARISONS": "names of operations",
    "BOOL": "a dtype",
    "FLOAT64": "a dtype",
    "TRUE": "the condition that is no condition",
}
"""What the interpreter imports of the project besides classes and its own files."""


def _taken(name: str) -> set[str]:
    tree = ast.parse((ROOT / _REFERENCE / f"{name}.py").read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = node.module.startswith("tensorad.")
            if inside and "reference.formulas" not in node.module:
                found |= {a.name for a in node.names}
    return {n for n in found if n.isupper() or not n[0].isupper()}


def test_the_interpreter_takes_what_is_listed() -> None:
    taken = set[str]().union(*[_taken(name) for name in FILES])
    own = {"run_control"}
    assert taken - own == set(SHARED)


INTEGERS: Final = [d for d in DTYPES if d.is_integer]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversions_are_those_of_constants(dtype: DType) -> None:
    """Written twice: by the interpreter, and where constants are folded."""
    ends = [e + d for t in INTEGERS for e in (int(t.lowest), int(t.highest)) for d in (-1, 0, 1)]
    floats = [0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan]
    for value in (*ends, *floats, *map(float, ends), True, False):
        known = convert_number(value, dtype)
        if dtype.is_integer:
            known = wrap(int(known), dtype)
        assert repr(_convert(value, dtype)) in (repr(known), repr(float(known))), value
    if dtype.is_integer:
        for value in ends:
            assert _wrapped(value, dtype) == wrap(value, dtype)
            assert _wrapped(value, dtype) == int(np.array(value % (1 << dtype.bits), np.uint64)
                                                 .astype(str(dtype)))  # fmt: skip
