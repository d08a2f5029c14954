"""A third draw, second half: operators of ONNX, arrays, references and layouts."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.lists.third_programs import BOTH, LANGUAGE, ONNX, OPTIM, RECORDS, ROWS, TE, TOPI
from tests.mutants.mistake import Mistake, Part, in_file

REFERENCES: Final = Part("tests/program/references")
RULES: Final = Part("tests/program/rules tests/program/test_derivatives.py")
LOOPS: Final = Part(
    "tests/program/checkpointing tests/program/test_loops.py tests/program/test_derivatives.py",
    marks=BOTH,
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/interop/onnx/operators/shapes.py",
        ONNX,
        [
            (
                "third: parts of a split are as large as can be, none smaller",
                "parts = [max(0, min(each, extent - each * n)) for n in range(count)]",
                "parts = [min(each, extent - each * n) for n in range(count)]",
            ),
            (
                "third: a step divides without its remainder",
                "self.count = dim_of((way + (by - 1)) // by if by > 1 else way)",
                "self.count = dim_of(way // by if by > 1 else way)",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/reductions.py",
        ONNX,
        [
            (
                "third: the last of equal elements is off by one",
                "(dim_expr(x.shape[axis]) - 1)",
                "dim_expr(x.shape[axis])",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/making.py",
        ONNX,
        [
            (
                "third: the diagonal moves the other way",
                "te.select(j == i + k, one, zero)",
                "te.select(j + k == i, one, zero)",
            ),
            (
                "third: a symbolic range drops its last element",
                "(way + (abs(by) - 1)) // abs(by)",
                "way // abs(by)",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/normalization.py",
        ONNX,
        [
            (
                "third: running variances weigh the wrong way",
                "variance * keep + own_variance * (1.0 - keep)",
                "variance * (1.0 - keep) + own_variance * keep",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/attention.py",
        ONNX,
        [
            (
                "third: heads read the memory of another group",
                "memory[b, h // group, d, m]",
                "memory[b, h % own.heads, d, m]",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/as_numpy/elements.py",
        TOPI,
        [
            (
                "third: clip takes the upper bound first",
                "if a_min is not None:\n        a = te.maximum(as_array(a_min), a)",
                "if a_min is not None and a_max is None:\n        a = te.maximum(as_array(a_min), a)",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/recurrent.py",
        TOPI,
        [
            (
                "third: batches of state and input may differ",
                "x.shape[0], hidden.shape[0])",
                "x.shape[0], x.shape[0])",
            ),
        ],
    ),
    *in_file(
        "tensorad/optim/adam.py",
        OPTIM,
        [
            (
                "third: the first step corrects its mean not at all",
                "rate = self.rate / (1.0 - one**steps)",
                "rate = self.rate / (1.0 - one ** (steps + 1))",
            ),
        ],
    ),
    *in_file(
        "tensorad/te/accumulate.py",
        TE,
        [
            (
                "third: floats start integers",
                "if start.dtype.is_float and not target.dtype.is_float and not whole:",
                "if start.dtype.is_float and target.dtype is INT64 and not whole:",
            ),
        ],
    ),
    *in_file(
        "tensorad/te/places.py",
        TE,
        [
            (
                "third: selected places are changed all over",
                "return select(all_of(*inside), changed, old) if inside else changed",
                "return select(all_of(*inside[:1]), changed, old) if inside else changed",
            ),
        ],
    ),
    *in_file(
        "tensorad/te/conditions.py",
        TE,
        [
            (
                "third: a loop that two folds share has the guard of the last",
                "found[e.axes] = either(found[e.axes], here) if e.axes in found else here",
                "found[e.axes] = here",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/references/views.py",
        REFERENCES,
        [
            (
                "third: a part of a tree starts at its own number of leaves",
                "start += sum(map(n_leaves, at.children[:n]))",
                "start += n",
            ),
            (
                "third: fields of a tuple do not count from its end",
                "found = [key % count] if -count <= key < count else []",
                "found = [key % count] if -count < key < count else []",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/rules/custom.py",
        RULES,
        [
            (
                "third: a save without a vjp is taken",
                "if vjp is None and (jvp is None or save is not None):",
                "if vjp is None and jvp is None:",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/call_rules.py",
        RULES,
        [
            (
                "third: adjoints of a rule's tree come in reverse",
                "structure.children, strict=True))[::-1]",
                "structure.children, strict=True))",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/control/replayed.py",
        LOOPS,
        [
            (
                "third: the state that was reached stays stored",
                "int_const(-1), read(numbers, axes))",
                "read(numbers, axes), read(numbers, axes))",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/control/listed.py",
        LOOPS,
        [
            (
                "third: rows that come twice are listed",
                "op.init is not carry or not op.distinct",
                "op.init is not carry",
            ),
        ],
    ),
    *in_file(
        "tensorad/language/residual/chosen.py",
        LANGUAGE,
        [
            (
                "third: functions are told apart without what they capture",
                "top, *map(_part, children))",
                "top)",
            ),
        ],
    ),
    *in_file(
        "tensorad/language/check.py",
        LANGUAGE,
        [
            (
                "third: calls that get references are remembered",
                "isinstance(a, (Cell, Closure, Either))",
                "isinstance(a, (Closure, Either))",
            ),
        ],
    ),
    *in_file(
        "codegen/runtime/record_layout.py",
        RECORDS,
        [
            (
                "third: fields behind others are not aligned",
                "offsets.append(-(-end // step) * step)\n        end",
                "offsets.append(end)\n        end",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/replays.py",
        ROWS,
        [
            (
                "third: stacks of a loop's test stay rows first",
                "_exchanged_param(p) if k in places else p for k",
                "p for k",
            ),
        ],
    ),
]
