"""Calls: arrays that overlap or do not fit, sizes from shapes, the native way in, interop."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

CALLS: Final = Part(
    "tests/codegen/runtime/test_arguments_checked.py tests/te/test_arguments.py tests/te/test_errors_arrays.py",
    "tests/codegen/entry tests/codegen/runtime/test_build.py tests/ir/arrays/test_exchange.py",
)
ENTRY: Final = Part("tests/codegen/entry", "tests/codegen/runtime/test_arguments_checked.py")
SHAPES: Final = Part("tests/interop/test_shapes.py", "tests/interop/test_operators.py")

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "codegen/runtime/arguments.py",
        CALLS,
        [
            (
                "arrays that touch overlap",
                "if begins[k] < end and begin < ends[k]:",
                "if begins[k] <= end and begin <= ends[k]:",
            ),
            (
                "outputs are not compared with each other",
                "for other_name, other in (*inputs, *outputs[:number]):",
                "for other_name, other in inputs:",
            ),
            (
                "undecided memory is apart",
                "except np.exceptions.TooHardError:\n        return True",
                "except np.exceptions.TooHardError:\n        return False",
            ),
            (
                "an output may overlap itself",
                "        if stride < reach:\n            return array.size > 0",
                "        if stride < array.itemsize * 0:\n            return array.size > 0",
            ),
            ("read-only outputs are written", "if not array.flags.writeable:", "if False:"),
            (
                "bytes other than 0 and 1 as bools",
                "if self.is_bool and array.size and array.view(np.uint8).max() > 1:",
                "if self.is_bool and array.size and array.view(np.uint8).max() > 255:",
            ),
            (
                "another byte order is read as it is",
                "if array.dtype != self.dtype:  # by",
                'if array.dtype.newbyteorder("=") != self.dtype:  # by',
            ),
            (
                "conversions that lose information",
                'np.can_cast(array.dtype, self.dtype, "safe")',
                'np.can_cast(array.dtype, self.dtype, "same_kind")',
            ),
            (
                "numbers that do not fit wrap",
                'if self.dtype.kind in "iu" and not (array == found).all():',
                "if False:",
            ),
            ("a mask is lost", "if isinstance(value, np.ma.MaskedArray):", "if False:"),
            (
                "sizes that shapes give override those that are told",
                "sizes.setdefault(extent, n)",
                "sizes[extent] = n",
            ),
            ("a size with a rest", "if rest or sizes[s] < 0:", "if sizes[s] < 0:"),
            ("a size below 0 by an extent", "if rest or sizes[s] < 0:", "if rest:"),
            (
                "shapes need not agree",
                "            p.check_shape(a, sizes)\n        return sizes",
                "            pass\n        return sizes",
            ),
            (
                "True is a size",
                "if not isinstance(value, (int, np.integer)) or isinstance(value, bool):",
                "if not isinstance(value, (int, np.integer)):",
            ),
            (
                "an extent with a size in two places",
                "if not factor or any(s is e for leaf in form.terms for e in postorder(leaf)):",
                "if not factor:",
            ),
        ],
    ),
    *in_file(
        "codegen/entry/checks_ir.py",
        ENTRY,
        [
            (
                "native calls take any rank",
                "%abc = and i1 %ab, %c\n  ret i1 %abc",
                "%abc = and i1 %a, %c\n  ret i1 %abc",
            ),
            (
                "native calls take any dtype",
                "%ab = and i1 %a, %b\n  %abc = and i1 %ab, %c\n",
                "%ab = and i1 %b, %b\n  %abc = and i1 %ab, %c\n",
            ),
            (
                "native calls take any strides",
                "%abc = and i1 %ab, %c\n  ret i1 %abc",
                "%abc = and i1 %ab, %ab\n  ret i1 %abc",
            ),
            (
                "native calls look at bools in whole words only",
                "%rest = icmp slt i64 %t, %bytes\n",
                "%rest = icmp slt i64 %t, 0\n",
            ),
            (
                "native calls compare all extents but the last",
                "define internal i1 @same(ptr %o, ptr %extents, i64 %rank) nounwind {{\nentry:\n",
                "define internal i1 @same(ptr %o, ptr %extents, i64 %whole) nounwind {{\nentry:\n  %rank = sub i64 %whole, 1\n",
            ),
            (
                "native calls take settings of before",
                "%current = icmp eq i64 %then, %now",
                "%current = icmp eq i64 %then, %then",
            ),
            ("native outputs may overlap", "%both = and i1 %a, %b\n", "%both = and i1 %a, false\n"),
        ],
    ),
    *in_file(
        "codegen/entry/frames_ir.py",
        ENTRY,
        [
            (
                "frames are used twice",
                "  %taken = atomicrmw xchg ptr %place, i64 0 acquire\n  %got = icmp ne i64 %taken, 0\n  br i1 %got, label %old",
                "  %taken = load i64, ptr %place\n  %got = icmp ne i64 %taken, 0\n  br i1 %got, label %old",
            ),
            (
                "calls that fail lose their frame",
                "  call void @dispose(ptr %plan, ptr %frame)\n  ret i64 %answer",
                "  ret i64 %answer",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/shapes.py",
        SHAPES,
        [
            (
                "shapes of another rank",
                "        if len(shape) != t.ndim:\n            raise _unlike(t, shape, {})\n",
                "        pass\n",
            ),
            (
                "shapes that disagree",
                "if known and shape_values((extent,), sizes)[0] != n:",
                "if False:",
            ),
            (
                "constants of extents are forgotten",
                "sizes[unknown[0]] = (n - form.constant) // factor",
                "sizes[unknown[0]] = n // factor",
            ),
            (
                "factors of known sizes are forgotten",
                "n = n - c * size_value(leaf, sizes)",
                "n = n - size_value(leaf, sizes)",
            ),
        ],
    ),
]
