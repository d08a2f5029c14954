"""From formulas to machine code, drawn once the list was closed."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

NEST: Final = Part("tests/codegen/nest")
SPLITTING: Final = Part(
    "tests/codegen/splitting/test_constant_tables.py tests/codegen/splitting/test_schedule_tables.py",
    "tests/codegen/splitting",
)
PASSES: Final = Part(
    "tests/codegen/caches/test_row_passes.py tests/codegen/caches/test_cache_passes.py",
    "tests/codegen/caches",
)
SCATTERS: Final = Part(
    "tests/codegen/scan/test_scatter_loops.py", "tests/codegen/scan tests/topi/test_topi_scatter.py"
)
CONTROL: Final = Part(
    "tests/codegen/control/test_in_place.py tests/codegen/control/test_totals.py tests/codegen/control/test_last_iteration.py",
    "tests/codegen/control",
)
MEMORY: Final = Part(
    "tests/codegen/loops/test_scratch.py tests/codegen/runtime/test_memory_inside.py",
    "tests/codegen/runtime/test_memory_of_loops.py tests/codegen/runtime/test_build.py",
)
RECORDS: Final = Part(
    "tests/codegen/runtime/test_record_layout.py tests/codegen/runtime/test_record_values.py",
    "tests/codegen/runtime/test_record_results.py tests/codegen/runtime/test_record_values_of_types.py",
)
LLVM: Final = Part(
    "tests/codegen/llvm/test_llvm.py tests/codegen/llvm/test_llvm_parts.py", "tests/codegen/llvm"
)
GUARDS: Final = Part(
    "tests/codegen/nest/test_safe_reads.py tests/codegen/llvm/test_llvm_parts.py",
    "tests/codegen/llvm/test_llvm.py tests/codegen/index_checks",
)
FUSION: Final = Part(
    "tests/codegen/fusion/test_fusion.py tests/codegen/fusion/test_items.py", "tests/codegen/fusion"
)
CONTRACTION: Final = Part(
    "tests/codegen/contraction/test_contraction_exact.py tests/codegen/contraction/test_contraction_gaps.py",
    "tests/codegen/contraction",
)
INDICES: Final = Part(
    "tests/codegen/nest/test_affine.py tests/codegen/loops/test_rewrite.py",
    "tests/codegen/nest tests/codegen/loops tests/codegen/splitting/test_cut_points.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/nest/argreduce.py",
        NEST,
        [
            (
                "a selection with a condition starts from its first place",
                "if any(f.condition is not TRUE or f.combiner is not c for f in folds):",
                "if any(f.combiner is not c for f in folds):",
            ),
        ],
    ),
    *in_file(
        "codegen/splitting/constant_tables.py",
        SPLITTING,
        [
            (
                "values that are written out begin at 0",
                "first = int(a.lower.value) if isinstance(a.lower, Const) else 0",
                "first = 0",
            ),
        ],
    ),
    *in_file(
        "codegen/caches/pass_legality.py",
        PASSES,
        [
            (
                "a loop may store what the one before it still reads",
                "if any(t in after for t in earlier) or any(p in leaves for p in set_before):",
                "if any(p in leaves for p in set_before):",
            ),
        ],
    ),
    *in_file(
        "codegen/in_place_scatters.py",
        SCATTERS,
        [
            (
                "a scatter that reads its start goes on in it",
                "return uses[start] == 1 and start not in kept and not read",
                "return uses[start] == 1 and start not in kept",
            ),
        ],
    ),
    *in_file(
        "codegen/scan/scatter.py",
        SCATTERS,
        [
            (
                "lanes do what the condition of some of them says",
                "    if a in free_leaves(*[u.condition for u in op.updates]):\n        return False\n",
                "",
            ),
        ],
    ),
    *in_file(
        "codegen/control/in_place.py",
        CONTROL,
        [
            (
                "of several updates each may read what another has stored at its point",
                "_may_meet(s, site, own and s is op and len(s.updates) == 1)",
                "_may_meet(s, site, own and s is op)",
            ),
        ],
    ),
    *in_file(
        "codegen/control/totals.py",
        CONTROL,
        [
            (
                "an addend that another one reads elsewhere is added by itself",
                "t.shape == op.shape and where[t] == uses[t] == 1",
                "t.shape == op.shape and uses[t] == 1",
            ),
        ],
    ),
    *in_file(
        "codegen/control/last_iteration.py",
        CONTROL,
        [
            (
                "the last iteration checks no indices of what it need not compute",
                "self.always = self.always or not n.writes",
                "self.always = self.always or isinstance(n, CallPython)",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/arena.py",
        MEMORY,
        [
            (
                "a temporary may lie where what it is made of is read",
                "while taken and taken[0][0] < life.first:",
                "while taken and taken[0][0] <= life.first:",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/record_layout.py",
        RECORDS,
        [
            (
                "records of symbolic fields lie as at the first sizes",
                "    if all(isinstance(n, int) for n in extents):\n        dtype.derived",
                "    if extents or made:\n        dtype.derived",
            ),
        ],
    ),
    *in_file(
        "codegen/llvm/ops.py",
        LLVM,
        [
            (
                "the least integer by -1 traps",
                'unsafe = w.of(BOOL).binary("or", by_zero, by_minus_one)',
                "unsafe = by_zero",
            ),
        ],
    ),
    *in_file(
        "codegen/llvm/strided.py",
        Part("tests/codegen/llvm/test_llvm_parts.py", "tests/codegen/control/test_in_place.py"),
        [
            (
                "vectors of a tensor that is stored to are loaded once",
                "    if t not in values.written_level:\n        values.keep(key",
                "    if t.dtype.bits:\n        values.keep(key",
            ),
        ],
    ),
    *in_file(
        "codegen/llvm/guarded_reads.py",
        GUARDS,
        [
            (
                "indices are not held against symbolic extents",
                "if not isinstance(extent, int) or high >= extent:",
                "if isinstance(extent, int) and high >= extent:",
            ),
        ],
    ),
    *in_file(
        "codegen/fusion/latest_start.py",
        FUSION,
        [
            (
                "nodes that are as late as each other do not lead to one another",
                "if x not in seen and self._late[x] >= self._late[end]:",
                "if x not in seen and self._late[x] > self._late[end]:",
            ),
        ],
    ),
    *in_file(
        "codegen/contraction/nonfinite_padding.py",
        CONTRACTION,
        [
            (
                "only the left operand's padding meets infinities",
                "for part, other in ((c.left, c.right), (c.right, c.left)):",
                "for part, other in ((c.left, c.right),):",
            ),
        ],
    ),
    *in_file(
        "codegen/loops/index_ranges.py",
        INDICES,
        [
            (
                "the other operand of an extremum never wraps",
                "if wraps(linear_form(a), ranges) or wraps(linear_form(b), ranges):\n        return None\n    low, high = ranges.of_linear(d)\n    if low >= 0:\n        return a if",
                "if wraps(linear_form(a), ranges):\n        return None\n    low, high = ranges.of_linear(d)\n    if low >= 0:\n        return a if",
            ),
        ],
    ),
]
