"""Derivatives and zeros left out, drawn once the list was closed."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

LOCAL: Final = Part(
    "tests/autodiff/local",
    "tests/autodiff/test_scans.py tests/autodiff/test_rules.py tests/autodiff/test_combiners.py tests/autodiff/test_ragged_folds.py tests/autodiff/test_hostile_formulas.py",
)
ADJOINTS: Final = Part(
    "tests/autodiff/adjoints tests/autodiff/test_gathers.py",
    "tests/autodiff/test_derivatives.py tests/autodiff/test_scans.py tests/autodiff/test_hostile_formulas.py tests/autodiff/test_combiners.py",
)
FORWARD: Final = Part(
    "tests/autodiff/control/test_forward_scatters.py tests/autodiff/local/test_edges_of_rules.py",
    "tests/autodiff/adjoints tests/autodiff/test_hostile_formulas.py tests/autodiff/test_derivatives.py",
)
DOMAINS: Final = Part(
    "tests/simplify/domain", "tests/simplify/test_eliminate.py tests/simplify/test_tables.py"
)
ZEROS: Final = Part(
    "tests/simplify/zeros tests/simplify/test_short_circuit.py",
    "tests/simplify/test_eliminate.py tests/autodiff/local/test_edges_of_rules.py",
)
CONTROL: Final = Part("tests/simplify/control", "tests/codegen/control/test_lower_control.py")

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/autodiff/local/linear.py",
        LOCAL,
        [
            (
                "alternatives of which one asks for more are resolved",
                "if len(a) == len(b) and logical_not(p) in b",
                "if logical_not(p) in b",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/local/scans.py",
        LOCAL,
        [
            (
                "a start that does not move meets an infinite partial",
                "(_since(begun if starts[b] is None else None, by_state[c][b]), tangents[b])",
                "(by_state[c][b], tangents[b])",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/local/folds.py",
        LOCAL,
        [
            (
                "a fold's scan is that of as many other components",
                "    key = (first_component(e), components)\n",
                "    key = (first_component(e), len(components))\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/adjoints/transposed.py",
        ADJOINTS,
        [
            (
                "an infinite adjoint of a sweep is not switched off",
                "    if may_be_infinite(term.coefficient):\n        guard = logical_and(guard, switch(()))\n",
                "",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/adjoints/switched.py",
        ADJOINTS,
        [
            (
                "reads of a part count as reads of all",
                "a.lower is ZERO and a.step is ONE and a.upper is dim_expr(n)):",
                "a.lower is ZERO and a.step is ONE):",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/adjoints/adjoint.py",
        ADJOINTS,
        [
            (
                "a copy of a part of a scan is the scan",
                "(i is a or a.extent == 1) and same_dim(n, dim_of(a.upper))",
                "(i is a or a.extent == 1)",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/forward.py",
        FORWARD,
        [
            (
                "an infinite tangent passes a select that lets nothing through",
                "infinite = t.switch is not TRUE and may_be_infinite(tangent)",
                "infinite = t.switch is not TRUE and may_be_infinite(t.coefficient)",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/solution.py",
        DOMAINS,
        [
            (
                "a plan is that of other axes outside",
                "numbering.key(config.current().isl_operations, len(outer), len(inner), roots)",
                "numbering.key(config.current().isl_operations, len(axes), roots)",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/listed_points.py",
        DOMAINS,
        [
            (
                "elements of tables before the first are those from the end",
                "inside = all(0 <= i < n for i, n in zip(",
                "inside = all(i < n for i, n in zip(",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/point_tables.py",
        DOMAINS,
        [
            (
                "a table is one of another shape",
                "key = (name, array.shape, blake2b(array.tobytes()).digest())",
                "key = (name, (array.size,), blake2b(array.tobytes()).digest())",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/convex_loops.py",
        DOMAINS,
        [
            (
                "loops that miss points are taken",
                '        if not part.is_subset(claimed):\n            raise Unsolved("the rebuilt domain misses points")\n',
                "",
                "loops are made of bounds that hold for the set itself, so they miss none of its points; what is asked is whether this file is right",
            ),
        ],
    ),
    *in_file(
        "simplify/zeros/lift.py",
        ZEROS,
        [
            (
                "of conditions on data the last one is asked first",
                "    index, data = split_condition(condition)\n    for part in reversed(data):\n",
                "    index, data = split_condition(condition)\n    for part in data:\n",
            ),
        ],
    ),
    *in_file(
        "simplify/zeros/passes.py",
        ZEROS,
        [
            (
                "a fold's points come in another order",
                "    if not all(_is_shift(piece.values[a], new, piece.axes[n:]) for n, (a, new) in enumerate(moved)):\n        return None\n",
                "",
            ),
        ],
    ),
    *in_file(
        "simplify/control/equal_operations.py",
        CONTROL,
        [
            (
                "a loop that goes back is one that goes forward",
                "self.parts.append((op.carries, op.scanned, op.reverse, trips, op.count is None))",
                "self.parts.append((op.carries, op.scanned, trips, op.count is None))",
            ),
            (
                "constants of other shapes are the same",
                "return (Constant, t.dtype, array.shape, array.tobytes())",
                "return (Constant, t.dtype, array.tobytes())",
            ),
        ],
    ),
    *in_file(
        "simplify/control/fixed_carries.py",
        CONTROL,
        [
            (
                "a carry stays if it becomes one that does not",
                "left = {k: j for k, j in found.items() if j >= last or j in found}",
                "left = dict(found)",
            ),
        ],
    ),
]
