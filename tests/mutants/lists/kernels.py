"""Loops: keys, narrow scratch, blocks of sums, lanes and tails, rows, reads without guards."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

KEYS: Final = Part(
    "tests/codegen/loops/test_one_key_for_each.py tests/codegen/loops/test_kernel_key.py",
    "tests/codegen/loops tests/codegen/runtime/test_compiling.py",
)
NARROW: Final = Part(
    "tests/codegen/caches/test_narrow_scratch.py tests/codegen/caches/test_cache_passes.py",
    "tests/topi/test_topi_windows.py tests/codegen/caches/test_row_passes.py",
)
BLOCKS: Final = Part(
    "tests/codegen/splitting/test_cut_long_sums.py tests/codegen/splitting/test_blocked_sums.py",
    "tests/codegen/splitting tests/codegen/test_orders_of_sums.py",
)
LLVM: Final = Part(
    "tests/codegen/llvm/test_llvm.py tests/codegen/llvm/test_llvm_parts.py"
    " tests/codegen/llvm/test_llvm_extrema.py tests/codegen/llvm/test_lanes_in_memory.py",
    "tests/codegen/index_checks tests/codegen/llvm tests/codegen/splitting/test_sums.py",
)
OVERLAP: Final = Part(
    "tests/codegen/caches/test_row_overlap.py",
    "tests/codegen/caches/test_write_combining.py tests/codegen/caches/test_row_passes.py",
)
ROWS: Final = Part(
    "tests/codegen/nest/test_safe_reads.py tests/codegen/fusion/test_row_block_fusion.py"
    " tests/codegen/fusion/test_fusion_passes.py",
    "tests/codegen/fusion tests/codegen/nest",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/loops/kernel_key.py",
        KEYS,
        [
            (
                "a combiner's identity is no part of the key",
                "every = (c.lhs, c.rhs, c.results, c.identity)",
                "every = (c.lhs, c.rhs, c.results)",
            ),
            (
                "a constant's dtype is no part of the key",
                "return (e.dtype, repr(e.value))",
                "return repr(e.value)",
            ),
            (
                "constants by their value, so that -0.0 is 0.0",
                "return (e.dtype, repr(e.value))",
                "return (e.dtype, e.value)",
            ),
            (
                "a buffer's dtype is no part of the key",
                "return (dtype, *self.expressions(",
                "return tuple(self.expressions(",
            ),
            (
                "a loop's lanes are no part of the key",
                "s.covering, s.width, s.lanes, prefetched",
                "s.covering, s.width, prefetched",
            ),
            (
                "a loop's kind is no part of the key",
                '("for", s.kind, s.covering,',
                '("for", s.covering,',
            ),
            ("streaming is no part of the key", "*used, s.streaming))", "*used))"),
            (
                "which buffers do not overlap is no part of the key",
                "key = numbering.key(len(kernel.scratch), beside, unaliased_with)",
                "key = numbering.key(len(kernel.scratch), beside)",
            ),
            (
                "how many buffers are scratch is no part of the key",
                "key = numbering.key(len(kernel.scratch), beside, unaliased_with)",
                "key = numbering.key(beside, unaliased_with)",
            ),
            (
                "what an extent is checked against is no part of the key",
                'self.parts.append(("check", *self.expressions((s.index, s.extent))))',
                'self.parts.append(("check", *self.expressions((s.index,))))',
            ),
            (
                "the other side of a branch is no part of the key",
                "self.block(s.then)\n                self.block(s.orelse)",
                "self.block(s.then)",
            ),
            (
                "sizes of loops are not told apart",
                'return ("local", len(self.locals))',
                'return ("local",)',
            ),
            ("sizes are not told apart", 'return ("size", e.name)', 'return ("size",)'),
        ],
    ),
    *in_file(
        "codegen/caches/narrow_scratch.py",
        NARROW,
        [
            (
                "narrow scratch holds one number too many",
                "d.lowest <= low and high <= d.highest]\n    return",
                "d.lowest <= low and high <= d.highest + 1]\n    return",
            ),
            (
                "narrow scratch holds one negative number too many",
                "fits = [d for d in NARROW if d.lowest <= low",
                "fits = [d for d in NARROW if d.lowest - 1 <= low",
            ),
            (
                "of a select the first side alone counts",
                "stack.extend((e.then, e.orelse))",
                "stack.append(e.then)",
            ),
            (
                "a scalar holds what it is set to last",
                "self.set.setdefault(p, []).append(v)",
                "self.set[p] = [v]",
            ),
            (
                "a buffer holds what is stored last",
                "self.stored.setdefault(t, []).append(v)",
                "self.stored[t] = [v]",
            ),
            (
                "what a fold starts from does not count",
                "self._set((*c.lhs, *c.rhs), (*s.targets, *s.values))",
                "self._set(c.rhs, s.values)\n            self._set(c.lhs, s.values)",
                "what a scalar starts from is found where it is assigned, which a fold does not hide",
            ),
            (
                "a constant beyond the narrow range is compared in it",
                "if source in NARROW and source.lowest <= other.value <= source.highest:",
                "if source in NARROW:",
            ),
            (
                "swapped sides of a narrow comparison",
                "return call(e.op, wide.value, same) if wide is x else call(e.op, same, wide.value)",
                "return call(e.op, wide.value, same)",
            ),
        ],
    ),
    *in_file(
        "codegen/splitting/blocked_sums.py",
        BLOCKS,
        [
            (
                "the condition of a fold is ignored when it is cut",
                "condition = substitute(fold.condition, place)",
                "condition = TRUE",
            ),
            (
                "the guard around a fold is ignored when it is cut",
                "if guard is not TRUE or any(isinstance(e, Reduce) for e in roots):",
                "if any(isinstance(e, Reduce) for e in roots):",
            ),
            (
                "the last block is as long as the others",
                "if extent % size:",
                "if extent % size and False:",
            ),
            (
                "one block is lost",
                "count = -(-(long.extent or 0) // size)",
                "count = (long.extent or 0) // size",
            ),
            (
                "folds over other ranges are cut alike",
                "return folds if alike else []",
                "return folds",
            ),
            (
                "another axis's bounds may use the cut one",
                "long = [n for n in long if not any(_bounds_another(f, n) for f in folds)]",
                "pass",
            ),
            (
                "an axis that does not start at 0 is cut as if",
                "return a.extent if a.lower is ZERO and a.step is ONE and a.extent else None",
                "return a.extent if a.step is ONE and a.extent else None",
            ),
            (
                "partials are taken at one element",
                "own = [a for a in axes if a in used]",
                "own = [a for a in axes if a in used][:1]",
            ),
        ],
    ),
    *in_file(
        "codegen/fusion/row_groups.py",
        ROWS,
        [
            (
                "a reader may leave its row",
                "return a.upper is b.upper and self.index(a) is b",
                "return a.upper is b.upper",
            ),
            (
                "rows may be of other lengths",
                "return a.upper is b.upper and self.index(a) is b",
                "return self.index(a) is b",
            ),
            (
                "reads back do not count",
                "if kept and all(e.matches(b, a) for e in self.back):",
                "if kept:",
            ),
        ],
    ),
    *in_file(
        "codegen/nest/access.py",
        ROWS,
        [
            (
                "an index may be its extent",
                "return ranges.of_linear(form)[1] < int(extent.value)",
                "return ranges.of_linear(form)[1] <= int(extent.value)",
            ),
            (
                "an index may be below 0",
                "    if ranges.of_linear(form)[0] < 0:\n        return False\n",
                "",
            ),
            (
                "a symbolic extent leaves room for one more",
                "return ranges.of_linear(spare)[0] >= 1",
                "return ranges.of_linear(spare)[0] >= 0",
            ),
            ("an axis ends at its upper bound", "            spare.constant -= c\n", ""),
            (
                "guarded reads are safe without their guards",
                "if guarded_unsafe(nest.values, axes, guarded=False):",
                "if False:",
            ),
            (
                "a fold's condition in lanes masks nothing",
                "return lanes in used or any(isinstance(e, Param) for e in used)",
                "return False",
            ),
            (
                "strides without the last extent",
                "result[d] = max(1, n) * inner if",
                "result[d] = max(1, n) if",
            ),
        ],
    ),
    *in_file(
        "codegen/llvm/statements.py",
        LLVM,
        [
            (
                "lanes behind the end are folded",
                "        if lanes.mask is not None:\n            new = [self._masked(",
                "        if False:\n            new = [self._masked(",
            ),
            (
                "lanes are combined without the value from before",
                "if not self._is_identity(p):",
                "if False:",
            ),
            (
                "an odd register is lost",
                "parts = [[m[c] for m in merged] + names[pairs:half] for",
                "parts = [[m[c] for m in merged] for",
            ),
            ("half of the lanes is lost", "for at in (0, half)", "for at in (0, 0)"),
            ("NaN in lanes is lost", "if seen is not None:", "if False:"),
            (
                "a check of lanes forgets the mask",
                "if lanes is not None and lanes.mask is not None:",
                "if False:",
            ),
            (
                "an index at the extent passes",
                'bad = w.compare("uge", index.name, limit)',
                'bad = w.compare("ugt", index.name, limit)',
            ),
            (
                "an index below 0 passes",
                'bad = w.compare("uge", index.name, limit)',
                'bad = w.compare("sge", index.name, limit)',
            ),
            (
                "reads are remembered across a store",
                "        for t in self.use.stored[s]:\n            self.values.stored(t)",
                "        pass",
            ),
            (
                "reads are remembered across stores in a row",
                "                addresses.store(t, run[group[0]].indices, results[group[0]])\n        self.values.stored(t)",
                "                addresses.store(t, run[group[0]].indices, results[group[0]])",
            ),
            (
                "a masked register keeps the new value",
                "for x, y in zip(new.names, old.names, strict=True)]",
                "for y, x in zip(new.names, old.names, strict=True)]",
            ),
        ],
    ),
    *in_file(
        "codegen/caches/pipeline_stores.py",
        OVERLAP,
        [
            (
                "scalars that change before a row is stored",
                "if any(x in changed for x in params_of(p.store)):",
                "if False:",
            ),
            (
                "what the next row makes first is read by the one before",
                "        if e.tensor in early:\n            return False\n",
                "",
            ),
            (
                "another lane's element of the next row",
                "        if e.tensor in made and not _same_element(p, e.indices, made[e.tensor]):\n            return False\n",
                "",
            ),
            (
                "an element of a row for itself",
                "if not same or p.loop.axis in free_leaves(*indices):",
                "if not same:",
            ),
            (
                "a row that is stored twice",
                "if any(c.streaming or p.out in c.tensors for c in stores):",
                "if any(c.streaming for c in stores):",
            ),
            (
                "an index in a row that is checked late",
                "    if any(isinstance(c, Check) for c in statements(rest)):\n        return None\n",
                "",
                "a row that waits is stored later than it is checked; a call that fails gives no rows",
            ),
        ],
    ),
]
