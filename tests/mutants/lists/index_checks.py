"""Checks of indices from data: guards, covered facts, order."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

CHECKS: Final = Part(
    "tests/codegen/index_checks", "tests/te/test_errors_bounds.py tests/te/test_items.py"
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/index_checks/insert.py",
        CHECKS,
        [
            (
                "a check forgets the guard around it",
                "    if condition is not TRUE:\n        block = (*before, If(condition, block))\n    elif block",
                "    if block",
            ),
            (
                "a test of several forgets the guard around it",
                "    if condition is not TRUE:\n        block = (*before, If(condition, block))\n    return _nest(axes, block, fold",
                "    return _nest(axes, block, fold",
            ),
            (
                "an index below 0 is inside",
                "right = logical_and(ZERO <= index, index < joint.limit)",
                "right = index < joint.limit",
            ),
            ("an index at the limit is inside", "index < joint.limit)", "index <= joint.limit)"),
            (
                "of counting indices the last is not looked at",
                "both = tuple([replace(check, looked_at=e) for e in ends])",
                "both = tuple([replace(check, looked_at=e) for e in ends[:1]])",
            ),
            (
                "of counting indices the first is not looked at",
                "both = tuple([replace(check, looked_at=e) for e in ends])",
                "both = tuple([replace(check, looked_at=e) for e in ends[1:]])",
            ),
            (
                "an empty loop is checked at its ends",
                "return both if filled is TRUE else (If(filled, both),)",
                "return both",
            ),
            (
                "ragged rows need not be in order",
                "logical_and(ordered, outer.lower < outer.upper),",
                "outer.lower < outer.upper,",
            ),
            (
                "rows that do not follow each other are one",
                "if following is not row.upper or outer.step",
                "if outer.step",
            ),
            (
                "what makes a check possible is not checked before",
                "return [*self.needed[g], g]",
                "return [g]",
                "what a fact needs was returned when it was settled, for this unit or one before it",
            ),
            (
                "a check in the place of another may read what is not there",
                "if stronger and g not in self.under_way and self.is_ready(g, n):",
                "if stronger and g not in self.under_way:",
                "a fact that covers another one reads nothing that the other does not",
            ),
            (
                "the first failing row of a join is not sought",
                "*_test(joint, inside),\n        If(logical_not(inside), tuple(each), rare=True),",
                "*_test(joint, inside),",
            ),
        ],
    ),
    *in_file(
        "codegen/index_checks/facts.py",
        CHECKS,
        [
            (
                "a fact with more guards covers one with fewer",
                "mine.shape == its.shape and mine.guards.keys() <= its.guards.keys()",
                "mine.shape == its.shape",
            ),
            (
                "a fact covers one of a smaller extent",
                "if fewer and _at_most(self.extent, other.extent, 0):",
                "if fewer:",
            ),
            (
                "elements under guards cover all",
                "not guards and rest[0] == rest[1]",
                "rest[0] == rest[1]",
            ),
            (
                "the least that is added does not count",
                "self.value != other.value or self.rest[0] > other.rest[0]:",
                "self.value != other.value:",
            ),
            (
                "the largest that is added does not count",
                "self.rest[1] - other.rest[1]):",
                "float('inf')):",
            ),
            (
                "other elements of the same tensor are covered",
                "return all(map(_covers_range, self.box, other.box, self.shape))",
                "return True",
            ),
            (
                "a range need not begin where the other does",
                "    return (\n        low\n        and end is not None",
                "    return (\n        end is not None",
            ),
            (
                "a reduction's condition is no guard",
                "todo.append((e.sources, inner, _both(guard, e.condition)))",
                "todo.append((e.sources, inner, guard))",
            ),
            (
                "a reduction's condition is not checked itself",
                "                todo.append(((e.condition,), inner, guard))\n",
                "",
            ),
            (
                "an empty loop around counts as entered",
                "entered = logical_and(filled, entered)",
                "pass",
            ),
            (
                "an update's condition is no guard",
                "yield (u.value, read(out, u.indices)), op.axes, u.condition",
                "yield (u.value, read(out, u.indices)), op.axes, TRUE",
            ),
            (
                "of either guard the stronger",
                "if all(e in dict.fromkeys(more) for e in fewer):",
                "if all(e in dict.fromkeys(fewer) for e in more):",
            ),
        ],
    ),
]
