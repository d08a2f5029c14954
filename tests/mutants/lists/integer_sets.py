"""Integer sets, domains, and plans that are remembered."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

DOMAIN: Final = Part(
    "tests/simplify/domain tests/simplify/sets tests/simplify/zeros tests/simplify/test_symbolic.py",
    "tests/simplify/test_eliminate.py tests/simplify/test_certificate.py tests/te/test_facts.py"
    " tests/simplify/test_tables.py tests/simplify/test_digits.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "simplify/domain/polyhedral.py",
        DOMAIN,
        [
            (
                "sizes are at least 1",
                "facts = logical_and(*[s >= 0 for s in sizes], *known)",
                "facts = logical_and(*[s >= 1 for s in sizes], *known)",
            ),
            (
                "what is known of sizes is not used",
                "facts = logical_and(*[s >= 0 for s in sizes], *known)",
                "facts = logical_and(*[s >= 0 for s in sizes])",
            ),
            (
                "remembered plans ignore the facts they were made under",
                "return _memo.solve(used, inner, affine, facts, solve)",
                "return _memo.solve(used, inner, affine, TRUE, solve)",
            ),
            (
                "a plan with a residual counts as exact",
                'reason = reason or "no loop bounds describe the points alone"',
                "pass",
            ),
            (
                "an unsolved part is not tested",
                "inside = part.gist_condition(context.intersect(bounds))",
                "inside = TRUE",
            ),
            (
                "conditions that isl cannot take are dropped",
                'return Solution((as_given(inner, logical_and(*conditions)),), False, "none", str(error))',
                'return Solution((as_given(inner, TRUE),), False, "none", str(error))',
            ),
            (
                "a domain in too many pieces is not tested",
                "piece = as_given(inner, logical_and(*conditions))",
                "piece = as_given(inner, TRUE)",
            ),
            (
                "the shortest inexact plan wins over an exact one",
                "if other.exact and (not best.exact or plan_size(other) < plan_size(best)):",
                "if not best.exact or plan_size(other) < plan_size(best):",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/memoised.py",
        DOMAIN,
        [
            (
                "remembered bodies ignore the facts about their sizes",
                "key = numbering.key(len(axes), roots, facts, config.current().isl_operations)",
                "key = numbering.key(len(axes), roots, config.current().isl_operations)",
            ),
            (
                "remembered bodies ignore the values of integer tensors",
                "return (t.dtype, t.shape) if t.dtype.is_float else t",
                "return (t.dtype, t.shape)",
            ),
            (
                "a renamed reduction loses its condition",
                "return reduce_expr(e.combiner, sources, tuple(axes), new[e.condition], e.index)",
                "return reduce_expr(e.combiner, sources, tuple(axes), index=e.index)",
            ),
            (
                "the facts of an axis's bounds do not count",
                "facts = facts_about(sizes_in(*bounds, body))",
                "facts = facts_about(sizes_in(body))",
            ),
        ],
    ),
    *in_file(
        "simplify/domain/solution.py",
        DOMAIN,
        [
            (
                "remembered plans ignore how many axes are outer",
                "len(outer), len(inner), roots)",
                "len(outer) + len(inner), roots)",
            ),
            (
                "a renamed plan keeps the guard of the first",
                "guard, residual = substitute(piece.guard, new), substitute(piece.residual, new)",
                "guard, residual = piece.guard, substitute(piece.residual, new)",
            ),
            (
                "a renamed plan loses its residual",
                "return Piece(guard, tuple(axes), values, residual)",
                "return Piece(guard, tuple(axes), values)",
            ),
        ],
    ),
    *in_file(
        "simplify/sets/integer_set.py",
        DOMAIN,
        [
            (
                "a stride's offset is not verified",
                "if s > 1 and self.implies((a - offset) % s == 0):",
                "if s > 1:",
                "the isl of today gives offsets that hold; this is a guard against another one",
            ),
            (
                "a stride's offset is always 0",
                "offset = self._linear(info.get_offset().floor()).to_expr()",
                "offset = int_const(0)",
            ),
            (
                "lower bounds rounded down",
                "lowers[ceil_div(negated, abs(c))] = None",
                "lowers[floor_div(negated, abs(c))] = None",
            ),
            (
                "upper bounds rounded up",
                "uppers[floor_div(positive, abs(c))] = None",
                "uppers[ceil_div(positive, abs(c))] = None",
            ),
            (
                "bounds of one part are taken for those of the union",
                "if union:  # a bound",
                "if False:  # a bound",
            ),
            (
                "an equation bounds from above only",
                "if c > 0 or constraint.is_equality():\n                    negated",
                "if c > 0:\n                    negated",
            ),
            (
                "the pieces of a set overlap",
                "disjoint = self._data.make_disjoint().coalesce().compute_divs()",
                "disjoint = self._data.coalesce().compute_divs()",
            ),
            (
                "a hull that is larger than the set",
                "if hull.is_equal(self._data):",
                "if True:",
            ),
            (
                "one value by pieces loses its first condition",
                "guard = IntegerSet(over, domain).to_condition()\n            result = select(guard,",
                "guard = TRUE\n            result = select(guard,",
            ),
            (
                "a set's condition has its last part alone",
                "parts = logical_and(parts, self._constraint(constraint))",
                "parts = self._constraint(constraint)",
            ),
            (
                "points are sought where sizes are at least 1",
                "positive = [s >= 0 for s in sizes]",
                "positive = [s >= 1 for s in sizes]",
            ),
            (
                "points are sought without what is known",
                "return IntegerSet.of(space, *positive, facts, *conditions, condition).sample()",
                "return IntegerSet.of(space, *positive, *conditions, condition).sample()",
            ),
        ],
    ),
    *in_file(
        "simplify/sets/space.py",
        DOMAIN,
        [
            (
                "quotients by a negative number round up",
                "quotient = (value if divisor > 0 else value.neg()).scale_down_val(scale).floor()",
                "quotient = value.scale_down_val(isl.Val(str(divisor), context=_context())).ceil()",
            ),
            (
                "a remainder by a negative number is that by its magnitude",
                "return value - quotient.scale_val(isl.Val(str(divisor), context=_context()))",
                "return value - quotient.scale_val(scale)",
            ),
            (
                "a choice between conditions overlaps",
                "return self._sets[a].intersect(chosen).union(other)",
                "return self._sets[a].union(other)",
            ),
            (
                "a narrowing cast is no cast",
                "case Cast(value=v) if v.dtype.is_integer and widens(v, e):",
                "case Cast(value=v) if v.dtype.is_integer:",
            ),
        ],
    ),
]
