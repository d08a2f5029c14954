"""Programs: loops, carries, references; batching; folds along axes."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

LOOPS: Final = Part(
    "tests/program/test_loops.py tests/program/references tests/program/test_bad_programs.py",
    "tests/program tests/te/test_errors_language.py",
)
BATCHING: Final = Part("tests/batching")
REDUCERS: Final = Part(
    "tests/topi/test_topi_reduction.py tests/ir/test_interpret.py tests/autodiff/test_combiners.py",
    "tests/te/test_te.py tests/codegen/nest tests/codegen/llvm/test_llvm_extrema.py",
)
DIGITS: Final = Part(
    "tests/simplify/test_digits.py tests/simplify/index", "tests/simplify/test_symbolic.py"
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/program/carries.py",
        LOOPS,
        [
            (
                "references do not hold what the loop gives",
                "    carry.kept.store(last[len(carry.own) :])\n",
                "",
            ),
            (
                "a carry may change its structure",
                '        if path is not None:\n            raise DefinitionError(\n                f"the carry of',
                '        if False:\n            raise DefinitionError(\n                f"the carry of',
            ),
            ("a carry may change its shape", "if not types.same_shape(n, value):", "if False:"),
            ("a carry may change its dtype", "if not types.takes(n, value):", "if False:"),
            (
                "references in turn may be collected",
                "    check_collected([ys.structure], body.where)\n",
                "",
            ),
            (
                "a body has what stands around the loop",
                "structure = self.standing.given(self.flat.structure)",
                "structure = self.flat.structure",
            ),
            (
                "references that are found count as rounds",
                "            n_rounds -= is_new  # as often as there are references and functions\n",
                "",
            ),
            (
                "a condition that is always True",
                "    if value is True:\n",
                "    if value is True and False:\n",
            ),
            (
                "a condition of any dtype",
                "if test.dtype is BOOL and not test.shape:",
                "if not test.shape:",
            ),
            (
                "a condition of any shape",
                "if test.dtype is BOOL and not test.shape:",
                "if test.dtype is BOOL:",
            ),
            (
                "a condition writes references",
                'frame(f"the condition of {body.where}", refuses=True)',
                'frame(f"the condition of {body.where}")',
            ),
            (
                "a reversed loop runs forward",
                "count=times.count, reverse=times.reverse,",
                "count=times.count,",
            ),
            (
                "a promoted carry is not looked at again",
                "if carry.join(flat.leaves) or carry.promote(flat.leaves):",
                "if carry.join(flat.leaves):",
            ),
            (
                "what is kept of a body may be a reference",
                '    check_kept([(flat.structure, body.name), (ys.structure, "y")], "result", written.owner)\n',
                "",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/references/standing.py",
        LOOPS,
        [
            (
                "data may choose whether two places have one reference",
                "if other != path and not len({*cells}) == len({*found[other]}) == 1:",
                "if False:",
            ),
            (
                "each place has a reference of its own",
                "            if twin is None:\n",
                "            if twin is None or True:\n",
            ),
            (
                "what stands holds what it held first",
                "            own.hold(cell, held)\n",
                "            pass\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/program/references/slots.py",
        LOOPS,
        [
            (
                "a slot of a reference is carried twice",
                "new = [s for s in slots if s not in self.slots]",
                "new = list(slots)",
            ),
            (
                "a promoted reference is not looked at again",
                "return not (self.promote_to([held.dtypes[n] for held, n in places]) or is_other)",
                "return True",
            ),
            (
                "dtypes that calls met are not looked at again",
                "        self._met_others |= self.promote_to(others)\n",
                "        self.promote_to(others)\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/uneven.py",
        BATCHING,
        [
            (
                "rows that are done go on",
                "left = numbers_of(goes_on, rows, level.rows)",
                "left = numbers_of(goes_on, None, level.rows)",
            ),
            (
                "a row's iterations are counted from 0",
                'trip = formula("trips", (r,), add(self.counter, ONE), "")',
                'trip = formula("trips", (r,), self.counter, "")',
            ),
            (
                "a scanned part of another row",
                "first = (row, self.counter) if whole is None else (self.counter, row)",
                "first = (row, self.counter) if whole is None else (self.counter, r)",
            ),
            (
                "counts below 0",
                'return formula("trips", (row,), call("maximum", value, ZERO), "")',
                'return formula("trips", (row,), value, "")',
                "rows are listed for the iterations that they have: of a number below 0 there is none",
            ),
            (
                "a reversed loop of rows runs forward",
                "carries=op.carries, reverse=op.reverse,",
                "carries=op.carries,",
            ),
            (
                "the first test is not made",
                "started = numbers_of(first, None, level.rows)",
                "started = numbers_of(formula('all', (level.row(),), const(True, first.dtype), ''), None, level.rows)",
            ),
            (
                "what is fixed is that of the first rows",
                "found.image[p] = rows.gathered(self.param(self.level.image[t]))",
                "found.image[p] = self.param(self.level.image[t])",
            ),
        ],
    ),
    *in_file(
        "tensorad/batching/singly.py",
        BATCHING,
        [
            (
                "regions by records are never needed",
                "if isinstance(op, (Inject, Tag, Fields, Recursion)):\n        return True",
                "if isinstance(op, (Inject, Tag, Fields, Recursion)):\n        return False",
            ),
            ("sizes of rows are those of all", "    _check_sizes(region.ops, level)\n", ""),
            (
                "what is scanned is not told from what is fixed",
                "    given.sort(key=lambda t: t not in level.image)\n",
                "",
            ),
            (
                "what other operations read of a region is lost",
                "made = [t for t in dict.fromkeys((*read, *wanted)) if t.op in own]",
                "made = [t for t in dict.fromkeys(wanted) if t.op in own]",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/combiner.py",
        REDUCERS,
        [
            (
                "the last of equal maxima",
                'better = call("gt" if op == "maximum" else "lt", y, x)',
                'better = call("ge" if op == "maximum" else "le", y, x)',
            ),
            (
                "NaN wins only once it leads",
                'first_nan = logical_and(call("isnan", y), logical_not(call("isnan", x)))\n    return logical_or(better, first_nan)',
                "return better",
            ),
            (
                "the last NaN wins",
                'first_nan = logical_and(call("isnan", y), logical_not(call("isnan", x)))',
                'first_nan = call("isnan", y)',
            ),
            (
                "no operand beats the identity alone",
                "take = logical_and(yp >= 0, logical_or(xp < 0, beats(op, yv, xv)))",
                "take = logical_and(yp >= 0, beats(op, yv, xv))",
            ),
            (
                "no operand wins like one",
                "take = logical_and(yp >= 0, logical_or(xp < 0, beats(op, yv, xv)))",
                "take = logical_or(xp < 0, beats(op, yv, xv))",
                "no operand has the worst of all values: it beats none, and replaces only another one",
            ),
            (
                "positions in column-major order",
                "position = add(mul(position, n), a)",
                "position = add(mul(a, n), position)",
            ),
            ("products begin with 0", "one = const(1, dtype)", "one = const(0, dtype)"),
        ],
    ),
    *in_file(
        "tensorad/ir/arrays/prefix.py",
        REDUCERS,
        [
            ("exclusive scans are inclusive", "exclusive=exclusive,", "exclusive=False,"),
            ("scans from the end begin at the start", "reverse=reverse,", "reverse=False,"),
        ],
    ),
    *in_file(
        "simplify/domain/mixed_radix.py",
        DIGITS,
        [
            (
                "a digit may be its radix",
                "return self._is_natural(low) and self._is_natural(limit - high - 1)",
                "return self._is_natural(low) and self._is_natural(limit - high)",
            ),
            (
                "a digit may be below 0",
                "return self._is_natural(low) and self._is_natural(limit - high - 1)",
                "return self._is_natural(limit - high - 1)",
            ),
            (
                "an axis reaches its extent",
                "most = most * (self.extents[s] - 1)",
                "most = most * self.extents[s]",
            ),
            (
                "factors of sums of sizes are at least 1",
                "if len(digit.extent.terms) == 1:\n            (monomial,) = digit.extent.terms\n            self.positive.update(dict.fromkeys(s for s, _ in monomial))",
                "for monomial in digit.extent.terms:\n            self.positive.update(dict.fromkeys(s for s, _ in monomial))",
            ),
            (
                "any size is at least 1",
                "            if s not in self.positive:\n                return False\n            p = p.replace",
                "            p = p.replace",
                "what is evidently from 0 to a limit has no symbol but the limit's, which are looked at before",
            ),
            (
                "a digit above the lower one keeps its weight",
                "for weight, extent in ((d.weight * low, high), (d.weight, low)):",
                "for weight, extent in ((d.weight * high, high), (d.weight, low)):",
            ),
            (
                "the top digit of a part is no remainder",
                "top = d.weight * d.extent == self.extents[a]",
                "top = d.weight * d.extent != self.extents[a] * 0",
            ),
            (
                "an equation of the upper digits alone",
                "return [*self._equate(r, t), *self._equate(q, s)]",
                "return [*self._equate(q, s)]",
            ),
            (
                "axes in bounds are split, too",
                "        if owner in self.fixed:\n            return\n",
                "",
            ),
            (
                "an axis from 1 on counts as one from 0",
                "if a.lower is ZERO and a.step is ONE and is_of_sizes(a.upper):",
                "if a.step is ONE and is_of_sizes(a.upper):",
            ),
            (
                "conditions that are no polynomials are dropped",
                "            self.is_whole = False\n            return [substitute(c, self._images())]",
                "            self.is_whole = False\n            return []",
            ),
        ],
    ),
]
