"""In place, order of kernels, lifetimes, memory of outputs."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

IN_PLACE: Final = Part(
    "tests/codegen/control/test_in_place.py tests/codegen/control/test_carries_apart.py",
    "tests/codegen/control",
)
ORDER: Final = Part("tests/codegen/caches/test_kernel_order.py", "tests/codegen/index_checks")
MEMORY: Final = Part(
    "tests/codegen/control/test_lives_of_nodes.py tests/codegen/runtime/test_memory_inside.py",
    "tests/codegen/runtime/test_memory_of_loops.py tests/codegen/control",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/control/in_place.py",
        IN_PLACE,
        [
            (
                "a carry that is read after the update",
                "            if not all(_is_apart(update, part, own=False) for part in parts):\n                return False",
                "            pass",
            ),
            (
                "the update's own reads do not count",
                "if not all(_is_apart(update, op, own=True) for op in update.ops):",
                "if False:",
            ),
            (
                "another point's element is taken for the own one",
                "_may_meet(s, site, own and s is op and len(s.updates) == 1)",
                "_may_meet(s, site, own)",
            ),
            (
                "results that may lie in the carry",
                "if any(isinstance(o, Control) and _may_lie_in(o, carry) for o in order):",
                "if False:",
            ),
            (
                "what isl gives up is apart",
                "except (NotAffine, BudgetExceeded):\n            return True",
                "except (NotAffine, BudgetExceeded):\n            return False",
            ),
            (
                "conditions on data decide where elements are apart",
                "*[p for p in parts if is_affine(p, axes)])",
                "*parts)",
                "isl refuses what is not affine, and what is refused counts as meeting",
            ),
            (
                "points are apart if one axis is the same",
                'same.append(logical_or(*[call("ne", a, mapping[a]) for a in stored.axes]))',
                'same.append(logical_and(*[call("ne", a, mapping[a]) for a in stored.axes]))',
            ),
            (
                "a value that is read twice is added in place",
                "if not whole or uses.get(other) != 1 or not isinstance(part, Scatter):",
                "if not whole or not isinstance(part, Scatter):",
                "the sum is then made twice, once onto the carry: no value differs",
            ),
            (
                "any combiner is added in place",
                "is_sum = part.init is None and part.combiner.is_sum",
                "is_sum = part.init is None",
            ),
            (
                "a sum that has a start is added in place",
                "is_sum = part.init is None and part.combiner.is_sum",
                "is_sum = part.combiner.is_sum",
            ),
            (
                "the other elements of a sum are added at their own places",
                "if not whole or uses.get(other) != 1",
                "if uses.get(other) != 1",
            ),
            (
                "first values are made late though others read them",
                "if fixed and not sizes and (alone or not op_inputs(x.op)):",
                "if fixed and not sizes:",
            ),
            (
                "first values are made late from what has changed",
                "if fixed and not sizes and (alone or not op_inputs(x.op)):",
                "if not sizes and (alone or not op_inputs(x.op)):",
            ),
            (
                "scatters in a row though others read between",
                "if before is None or uses.get(before) != 1 or inside:",
                "if before is None or inside:",
            ),
        ],
    ),
    *in_file(
        "codegen/caches/kernel_order.py",
        ORDER,
        [
            (
                "checks need not come before what reads their index",
                "for m in [known[t] for known in (writer, guards) for t in k.reads if t in known]:",
                "for m in [writer[t] for t in k.reads if t in writer]:",
            ),
            (
                "kernels need not follow what they read",
                "for m in [known[t] for known in (writer, guards) for t in k.reads if t in known]:",
                "for m in [guards[t] for t in k.reads if t in guards]:",
            ),
            ("checks may change places", "for m in checked[-1:]:", "for m in checked[:0]:"),
        ],
    ),
    *in_file(
        "codegen/runtime/alias_outputs.py",
        MEMORY,
        [
            (
                "temporaries lie where results are stored already",
                "start = max(_written(o, room, most[o][last.get(t, 0)]), taken.get(o, 0))",
                "start = taken.get(o, 0)",
            ),
            (
                "two temporaries in one place",
                "taken[o] = start + need + ALIGNMENT",
                "taken[o] = start",
            ),
            (
                "a temporary's last use does not count",
                "last = {t: n for n, rows in enumerate(used, 1) for t in rows}",
                "last = {t: n for n, rows in enumerate(used) for t in rows}",
            ),
            (
                "what a result holds is one row less",
                "rows = ranges.of(indices[0])[1] + 1 if indices else inf",
                "rows = ranges.of(indices[0])[1] if indices else inf",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/lifetimes.py",
        MEMORY,
        [
            (
                "what is used in a loop need not live to its end",
                "            if life.first <= begin <= life.last:\n                life.last = self.position",
                "            pass",
            ),
            (
                "what is exchanged lies in one place each",
                "self.sources[n.a], self.sources[n.b] = dict(both), dict(both)",
                "self.sources[n.a], self.sources[n.b] = self.sources[n.b], self.sources[n.a]",
            ),
            ("an index of a branch is not needed", "self.use([n.index])", "pass"),
            (
                "what a condition lies in is not needed",
                "self.use([] if n.condition is None else [n.condition])",
                "pass",
            ),
            (
                "what is placed uses nothing",
                "                case Place():\n                    self.use([n.source])\n",
                "                case Place():\n",
            ),
        ],
    ),
]
