"""Derivatives: rules, linear terms, selections, rescaled sums, forward mode."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

LOCAL: Final = Part(
    "tests/autodiff/local tests/autodiff/test_rules.py tests/autodiff/test_derivatives.py",
    "tests/autodiff/test_combiners.py tests/autodiff/test_rescaled.py tests/autodiff/test_modes.py"
    " tests/autodiff/test_hostile_formulas.py tests/autodiff/test_reverse.py",
)
SELECTIONS: Final = Part(
    "tests/autodiff/local tests/autodiff/test_combiners.py", "tests/autodiff/test_modes.py"
)
RESCALED: Final = Part(
    "tests/autodiff/local tests/autodiff/test_rescaled.py", "tests/autodiff/test_combiners.py"
)
FORWARD: Final = Part(
    "tests/autodiff/control/test_forward_scatters.py tests/autodiff/local tests/autodiff/test_modes.py",
    "tests/autodiff/test_scans.py tests/seeds/test_forward_mode.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/autodiff/local/rules.py",
        LOCAL,
        [
            (
                "pow: logarithm without its guard",
                'log_x = select(x > 0, call("log", select(x > 0, x, _number(1, x))), _number(0, x))',
                'log_x = call("log", x)',
            ),
            (
                "pow: x**0 by the base without its guard",
                "by_base = select(flat, _number(0, n), mul(n, lower))",
                "by_base = mul(n, lower)",
            ),
            (
                "pow: a constant exponent of 0 is not flat",
                "if n.value == 0:\n            return (None, None)",
                "if n.value == 0 and False:\n            return (None, None)",
            ),
            (
                "pow: by the exponent times x instead of the value",
                "return (by_base, mul(y, log_x))",
                "return (by_base, mul(x, log_x))",
            ),
            (
                "sub: the second operand's sign",
                '"sub": lambda y, a, b: (_number(1, y), _number(-1, y)),',
                '"sub": lambda y, a, b: (_number(1, y), _number(1, y)),',
            ),
            (
                "div: the divisor's partial by a/b instead of y/b",
                "neg(div(y, b))),",
                "neg(div(a, b))),",
            ),
            ("mul: the factors swapped", "(b, a),\n", "(a, b),\n"),
        ],
    ),
    *in_file(
        "tensorad/autodiff/local/linear.py",
        LOCAL,
        [
            (
                "select: the second side under the condition itself",
                "yield b, logical_not(c), None",
                "yield b, c, None",
            ),
            (
                "max and min: ties to both",
                "yield a, logical_not(second), None",
                "yield a, logical_not(beats(e.op, b, a)) if e.op == 'minimum' else TRUE, None",
            ),
            (
                "a path's guard replaced by the new one",
                "both = logical_and(g, guard)",
                "both = guard",
            ),
            (
                "two paths with one guard: the last stays",
                "into[both] = add(into[both], cast(new, into[both].dtype))",
                "into[both] = cast(new, into[both].dtype)",
            ),
            (
                "merged guards over data speak as if of indices",
                "guards = [g if by_data else possible(g) for g in values]",
                "guards = [possible(g) for g in values]",
            ),
            (
                "guards on data are kept apart like those on indices",
                "if guard is TRUE or is_index_condition(guard):",
                "if True:",
            ),
            (
                "guards on indices are merged like those on data",
                "if guard is TRUE or is_index_condition(guard):",
                "if guard is TRUE:",
            ),
            (
                "the reduction's factor is lost on index guards",
                "scaled = scaled if factor is None else times(factor, scaled)",
                "scaled = scaled if factor is None or guard is not TRUE else times(factor, scaled)",
            ),
            (
                "a quotient's sign is lost",
                'case Call(op="neg", args=(x,)):\n            return neg(times(x, factor))',
                'case Call(op="neg", args=(x,)):\n            return times(x, factor)',
            ),
            (
                "what two alternatives share is what the first one has",
                "shared = {p: None for p in first if all(p in a for a in alternatives)}",
                "shared = {p: None for p in first if any(p in a for a in alternatives[1:])}",
            ),
            (
                "stopped in one mode is stopped in both",
                "if mode is not None and is_stopped(e, mode):",
                'if is_stopped(e, "forward") or is_stopped(e, "reverse"):',
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/local/selections.py",
        SELECTIONS,
        [
            (
                "an unclaimed origin ignores whether both sides are the same",
                "unclaimed = logical_and(taken < 0, self.same[c])",
                "unclaimed = taken < 0",
            ),
            (
                "an unclaimed origin stays unclaimed where both sides are the same",
                "return select(c, a, b), select(unclaimed, other, taken)",
                "return select(c, a, b), taken",
            ),
            (
                "an element equal to the identity takes no win",
                "later = logical_or(beats(op, b, a), unclaimed)",
                "later = beats(op, b, a)",
            ),
            (
                "an element takes the identity's place unless equal",
                'unclaimed = logical_and(at_a < 0, at_b >= 0, call("eq", b, a))',
                "unclaimed = logical_and(at_a < 0, at_b >= 0)",
            ),
            (
                "sides agree if one component does",
                "return {c: logical_and(*parts) for c, parts in found.items()}",
                "return {c: parts[0] for c, parts in found.items()}",
            ),
            (
                "a component counts though what it is taken from does not",
                "        if not lost:\n            return tuple(chosen)",
                "        if True:\n            return tuple(chosen)",
            ),
            (
                "marks of a group run into each other",
                "scaled = mul(position, int_const(len(group)))",
                "scaled = position",
            ),
            (
                "the other origin is the smaller one",
                'other = call("maximum", at_a, at_b)',
                'other = call("minimum", at_a, at_b)',
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/local/rescaled.py",
        RESCALED,
        [
            (
                "the identity of the scaled sum is not looked at",
                "if not result.dtype.is_float or combiner.identity[c].value != 0:",
                "if not result.dtype.is_float:",
                "the identity's shift is infinite: whatever it is multiplied by, exp of it is 0",
            ),
            (
                "the identity of the shift is not looked at",
                "return own and dtype.is_float and combiner.identity[c].value == nothing",
                "return own and dtype.is_float",
            ),
            (
                "what is left of the step is not proved to vanish",
                " or not vanishes((), rest, {}):",
                ":",
            ),
            (
                "both sides' factors need not be alike",
                "if substitute(factors[0], {own[0]: own[1]}) is not factors[1] or not",
                "if not",
            ),
            (
                "own and last need not cancel",
                "if rate is None or form.terms.get(((last, 1),)) != -rate or len(form.terms) != 2:",
                "if rate is None or len(form.terms) != 2:",
            ),
            (
                "further terms in the exponent",
                "!= -rate or len(form.terms) != 2:",
                "!= -rate:",
            ),
            (
                "the shift's share forgets the rate",
                "moved = mul(factor, mul(const(float(scale.rate), e.dtype), summed))",
                "moved = mul(factor, summed)",
            ),
            (
                "the shift's share is not summed",
                "moved = mul(factor, mul(const(float(scale.rate), e.dtype), summed))",
                "moved = mul(factor, const(float(scale.rate), e.dtype))",
            ),
            (
                "the slope by the last shift has the sign of the own",
                "return slope, neg(slope)",
                "return slope, slope",
            ),
            (
                "the condition of the sum is lost for the shift",
                "*body_terms(component, own, wanted, e.axes, e.condition, moved),",
                "*body_terms(component, own, wanted, e.axes, TRUE, moved),",
            ),
        ],
    ),
    *in_file(
        "tensorad/autodiff/forward.py",
        FORWARD,
        [
            (
                "a scatter's start loses its tangent",
                "start = None if op.init is None else self.tangents.get(op.init)",
                "start = None",
            ),
            (
                "a scatter's start loses its tangent where updates move too",
                'init = None if start is None or op.init is None else store(start, f"d{op.init.name}")',
                "init = None",
            ),
            (
                "an update's condition is lost",
                "updates.append(Update(indices, new, substitute(u.condition, mapping)))",
                "updates.append(Update(indices, new, TRUE))",
            ),
            (
                "a given direction replaces what reaches the tensor",
                "return Adjoint(axes, add(own, cast(tangent.at(axes), own.dtype)))",
                "return Adjoint(axes, own)",
            ),
            (
                "terms with other conditions share one sum",
                "key = (t.axes, t.condition)",
                "key = (t.axes, TRUE)",
            ),
            (
                "an infinite tangent behind a closed select",
                "guard = logical_and(t.guard, t.switch) if infinite else t.guard",
                "guard = t.guard",
            ),
            (
                "a term's guard is lost",
                "guard = logical_and(t.guard, t.switch) if infinite else t.guard\n    return guarded(guard, ",
                "guard = TRUE\n    return guarded(guard, ",
            ),
            (
                "the condition beside no axes is lost",
                "else guarded(condition, source)",
                "else source",
                "a term without axes is of no reduction, or of a selected element: its condition is true",
            ),
            (
                "an operation whose rules are given is pushed as well",
                "if tangent is not None and not is_ruled(t, self.rules):",
                "if tangent is not None:",
            ),
        ],
    ),
]
