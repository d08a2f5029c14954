"""The program layer, drawn once the list was closed: checkpoints, levels, rows, references."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

CHECKPOINTS: Final = Part("tests/program/checkpointing", marks="slow or not slow")
LEVELS: Final = Part(
    "tests/levels/test_duals.py tests/levels/test_looking.py",
    "tests/levels tests/program/references/test_lenses.py",
)
ROWS: Final = Part(
    "tests/batching/test_vmap.py tests/batching/test_rows.py tests/batching/test_batched.py",
    "tests/batching",
)
LOOPS: Final = Part(
    "tests/program/test_loops.py", "tests/program/test_programs.py tests/program/test_shapes.py"
)
REFERENCES: Final = Part("tests/program/references", "tests/program/test_modules.py")
FUNCTIONS: Final = Part(
    "tests/program/references/test_functions_in_references.py tests/program/test_branches.py tests/program/kinds",
    "tests/program/test_functions.py tests/program/test_trees.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/program/checkpointing/segments.py",
        CHECKPOINTS,
        [
            (
                "segments that grow are one too few",
                'return cast(call("sqrt", cast(trips * 2, FLOAT64)), INT64) + 1',
                'return cast(call("sqrt", cast(trips * 2, FLOAT64)), INT64)',
            ),
            (
                "a segment of a loop that goes back goes forward",
                "return _Segment(Trips(counter, rows, reverse=times.reverse), first, rows, None)",
                "return _Segment(Trips(counter, rows), first, rows, None)",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/checkpointing/replays.py",
        CHECKPOINTS,
        [
            (
                "states of a loop that goes back are numbered from its end",
                "order = op.trips - 1 - op.counter if op.reverse else op.counter",
                "order = op.counter",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/checkpointing/functions.py",
        CHECKPOINTS,
        [
            (
                "the last segment is never a checkpoint",
                "inner = parts if last else parts[:-1]",
                "inner = parts[:-1]",
            ),
        ],
    ),
    *in_file(
        "tensorad/levels/duals.py",
        LEVELS,
        [
            (
                "what is asked for beside a loop may have a tangent itself",
                "        level.asked[t] = made\n        level.plain[made] = None\n",
                "        level.asked[t] = made\n",
                "whoever gets it gets it from unpack_dual, which says itself that what it gives has no tangent",
            ),
            (
                "a tangent that was taken apart has one at its own level",
                "at.plain.update(dict.fromkeys((*values.values(), *found.values())))",
                "at.plain.update(dict.fromkeys(values.values()))",
            ),
        ],
    ),
    *in_file(
        "tensorad/levels/lenses.py",
        LEVELS,
        [
            (
                "a write of values drops tangents if a part has none",
                "if any(t is not None for t in tangents):",
                "if all(t is not None for t in tangents):",
            ),
        ],
    ),
    *in_file(
        "tensorad/levels/carried.py",
        LEVELS,
        [
            (
                "tangents of tangents are not carried",
                "for level in levels() for b in every if b.param in level.asked]",
                "for level in levels() for b in values if b.param in level.asked]",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/blocks.py",
        ROWS,
        [
            (
                "blocks with the axis are those for other operands that differ",
                "for b in op.blocks], tuple(differ), level.rows)",
                "for b in op.blocks], level.rows)",
            ),
            (
                "blocks with the axis are taken again where sizes have others in their place",
                "again = not kept and not any(s in level.most for s in op_sizes(op))",
                "again = not kept",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/dependence.py",
        ROWS,
        [
            (
                "what differs is remembered without the sizes that do",
                "return op, tuple(kept), own, tuple([s for s in op_sizes(op) if s in self.sizes])",
                "return op, tuple(kept), own",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/formulas.py",
        ROWS,
        [
            (
                "a fold beyond what a row has is the fold of nothing",
                "_guarded(b, guard, len(bodies) > 1)",
                "_guarded(b, guard, is_fold=True)",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/rows.py",
        ROWS,
        [
            (
                "a row with a negative number of iterations takes some from others",
                '    body = call("maximum", cast(read(counts, (i,)), INT64), ZERO)\n    trips',
                "    body = cast(read(counts, (i,)), INT64)\n    trips",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/functions.py",
        ROWS,
        [
            (
                "a mapped function is that with other axes of results",
                'key = ("vmap", _written(in_axes), _written(out_axes))',
                'key = ("vmap", _written(in_axes))',
            ),
        ],
    ),
    *in_file(
        "tensorad/program/loops.py",
        LOOPS,
        [
            (
                "a loop between two sizes may run a negative number of times",
                'return n if lower is zero and _is_natural(n) else call("maximum", n, zero)',
                "return n",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/references/joins.py",
        REFERENCES,
        [
            (
                "a leaf that one arm leaves as it was stays so",
                "if path in before and all(v is before[path] for v in leaves):",
                "if path in before and any(v is before[path] for v in leaves):",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/references/contents.py",
        REFERENCES,
        [
            (
                "a reference holds the caller's array",
                "copy = np.array(value)",
                "copy = np.asarray(value).view()",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/trees.py",
        FUNCTIONS,
        [
            (
                "items of tuples that are equal are taken for the same",
                "        return (type(value), *map(_kind, value))\n",
                "        return type(value)\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/data/closures.py",
        FUNCTIONS,
        [
            (
                "functions that differ in their defaults are one",
                "*cells, len(given), *given, *_by_name(",
                "*cells, *_by_name(",
            ),
        ],
    ),
]
