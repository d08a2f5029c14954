"""A third draw: the program layer, its language, operators and interop, run only once written."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

BOTH: Final = "slow or not slow"
ROWS: Final = Part("tests/batching")
CALLS: Final = Part(
    "tests/program/calling tests/program/test_functions.py tests/program/test_compiled.py tests/program/test_shapes.py"
)
LANGUAGE: Final = Part("tests/language")
ONNX: Final = Part(
    "tests/interop/onnx/test_states.py tests/interop/onnx/test_windows.py tests/interop/onnx/test_edges.py",
    "tests/interop/onnx/test_nodes.py",
    BOTH,
)
TOPI: Final = Part("tests/topi")
RECORDS: Final = Part(
    "tests/codegen/runtime/test_record_values.py tests/codegen/runtime/test_record_results.py tests/codegen/runtime/test_record_layout.py tests/codegen/runtime/test_record_values_of_types.py"
)
LIMITS: Final = Part("tests/codegen/runtime/test_memory_limit.py")
TE: Final = Part("tests/te tests/ir/arrays")
OPTIM: Final = Part("tests/program/test_optimisers.py")
IR: Final = Part(
    "tests/ir/test_passed_on.py tests/ir/test_alike.py tests/te/test_facts.py tests/ir/test_sizes.py"
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/batching/arms.py",
        ROWS,
        [
            (
                "third: a row's arm is not taken into range from below",
                'number = call("maximum", cast(read(index, (i,)), INT64), ZERO)',
                "number = cast(read(index, (i,)), INT64)",
            ),
            (
                "third: what an arm saves is taken of any arm",
                "body = select(there, arms[s.block][s.inner](axes), const(0, t.dtype))",
                "body = arms[s.block][s.inner](axes)",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/dependence.py",
        ROWS,
        [
            (
                "third: what was found of an operation ignores what is saved",
                "return op, tuple(kept), own, tuple([s for s in op_sizes(op) if s in self.sizes])",
                "return op, own, tuple([s for s in op_sizes(op) if s in self.sizes])",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/nested.py",
        ROWS,
        [
            (
                "third: pairs are split by the outer count",
                "place = add(mul(axes[0], count), axes[1])",
                "place = add(mul(axes[1], count), axes[0])",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/python.py",
        ROWS,
        [
            (
                "third: a function of Python may change what rows share",
                "a[r] if k in self.differ else a.copy()",
                "a[r] if k in self.differ else a",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/calling/arguments.py",
        CALLS,
        [
            (
                "third: a size is one for all extents of one call",
                "if known.setdefault(extent, n) != n:",
                "if known.setdefault(extent, n) < n:",
            ),
            (
                "third: a Python float is as wide as the narrowest float",
                "widest = max(floats, key=lambda d: d.bits, default=FLOAT32)",
                "widest = min(floats, key=lambda d: d.bits, default=FLOAT32)",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/calling/quick.py",
        CALLS,
        [
            (
                "third: known calls do not tell how many are by position",
                "key = (len(args), names, *found[0])",
                "key = (names, *found[0])",
                "the rest of the key is taken apart in one way only, so it tells how many values there are, and less the names these are the ones by position",
            ),
            ("third: None and a text are told alike", "key.append(at)\n", "key.append(None)\n"),
        ],
    ),
    *in_file(
        "tensorad/language/dead_code.py",
        LANGUAGE,
        [
            (
                "third: reads of a loop's next iteration are not needed",
                "before.contents.update(_read_in(term))",
                "before.contents.update({})",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/indexing.py",
        ONNX,
        [
            (
                "third: sequences are reversed one too far",
                "te.select(t < count, count - 1 - t, t)",
                "te.select(t <= count, count - 1 - t, t)",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/padding.py",
        ONNX,
        [
            (
                "third: the second half of pads is taken by axis",
                "given[k], given[k + len(axes)]",
                "given[k], given[a + len(axes)]",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/unfolding.py",
        ONNX,
        [
            (
                "third: the sign of a determinant ignores exchanges",
                "te.select(pivot[i] == 0, value, -value)",
                "te.select(pivot[i] >= 0, value, -value)",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/piecewise.py",
        TOPI,
        [
            (
                "third: bits leave at the last place already",
                "te.all_of(places >= 0, places < x.dtype.bits)",
                "te.all_of(places >= 0, places < x.dtype.bits - 1)",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/rotary.py",
        TOPI,
        [
            (
                "third: elements behind the dimension are turned",
                "te.select(d < 2 * half, turned, x[i])",
                "te.select(d <= 2 * half, turned, x[i])",
            ),
        ],
    ),
    *in_file(
        "tensorad/optim/descent.py",
        OPTIM,
        [
            (
                "third: nesterov looks ahead without decay",
                "lambda g, v: g + self.decay * v, gradients, v",
                "lambda g, v: g + v, gradients, v",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/record_values.py",
        RECORDS,
        [
            (
                "third: memory of values is kept for other sizes",
                "and known is not None and known[0] == sizes:",
                "and known is not None:",
            ),
            (
                "third: views of arrays count as fixed",
                "return not value.flags.writeable and value.base is None",
                "return not value.flags.writeable",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/memory_limit.py",
        LIMITS,
        [
            (
                "third: a call of the limit itself is refused",
                "if total > limit:",
                "if total >= limit:",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/arrays/addresses.py",
        TE,
        [
            (
                "third: the last element may lie beyond",
                "address + last + item > _END",
                "address + last > _END",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/analysis/facts.py",
        IR,
        [
            (
                "third: facts of linked sizes are not found",
                "known.update(dict.fromkeys(mentioned))\n",
                "pass\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/analysis/alike.py",
        IR,
        [
            (
                "third: directions of scans are alike",
                "kind = (op.exclusive, op.reverse, op.cell is None, op.combiner)",
                "kind = (op.exclusive, op.cell is None, op.combiner)",
            ),
        ],
    ),
]
