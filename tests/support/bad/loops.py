"""Bad programs, second part: loops, and what only a run finds."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad import config
from tensorad.errors import (
    BindError,
    BoundsError,
    BuildError,
    DefinitionError,
    DTypeError,
    LimitError,
    ShapeError,
)
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
X = np.ones((2, 3))
LONG = np.ones(17)
ORDER = np.arange(20)
kept: list[Any] = []


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


# loops


@CASES.refused(
    DefinitionError,
    "the carry of scan at HERE changes its structure at state['n'].",
    "  in:                 before        after",
    "      state['h']      float64 (3,)  float64 (3,)",
    "      state['n']      number 0      -",
    "      state['count']  -             int64 ()",
    "  hint: return a carry like the one that comes in.",
)
def a_carry_of_another_structure() -> None:
    def step(state: Any, row: Any) -> Any:
        return {"h": state["h"] + row, "count": state["n"] + 1}, None

    run(lambda x: ta.scan(step, {"h": np.zeros(3), "n": 0}, x), X)


@CASES.refused(
    ShapeError,
    "the carry of while_loop at HERE changes its shape at s.",
    "  in: before: float64 (3,), after: float64 (6,)",
    "  hint: a carry has one shape in all iterations.",
)
def a_carry_that_grows() -> None:
    run(lambda x: ta.while_loop(lambda s: s.sum() < 9, lambda s: ta.topi.concatenate([s, s]), x), V)


@CASES.refused(
    DTypeError,
    "the carry of for_loop at HERE changes its dtype at s.",
    "  in: before: float32 (3,), after: float64 (3,)",
    "  hint: convert the result with .astype('float32'), or start with float64.",
)
def a_carry_that_turns_into_float64() -> None:
    run(lambda x, w: ta.for_loop(0, 3, lambda i, s: s + w, x), V.astype("float32"), V)


@CASES.refused(
    DTypeError,
    "the carry of while_loop at HERE changes its dtype at k.",
    "  in: before: int64 (), after: float64 ()",
    "  hint: convert the result with .astype('int64'), or start with float64.",
)
def a_carry_that_is_divided() -> None:
    run(lambda n: ta.while_loop(lambda k: k > 1, lambda k: k / 2, n), np.int64(8))


@CASES.refused(
    DefinitionError,
    "body_fn of for_loop at HERE is called as f(i, carry): too many positional arguments.",
    "  in: <lambda>(s)",
    "  hint: write a function of these arguments; several values are one argument, as a tuple "
    "or another tree.",
)
def a_body_without_counter() -> None:
    run(lambda x: ta.for_loop(0, 3, lambda s: s + 1, x), V)


@CASES.refused(
    DefinitionError,
    "cond_fn of while_loop at HERE is called as f(carry): missing a required argument: 's'.",
    "  in: <lambda>(n, s)",
    "  hint: write a function of these arguments; several values are one argument, as a tuple "
    "or another tree.",
)
def a_condition_of_two_carries() -> None:
    run(lambda x: ta.while_loop(lambda n, s: n < 3, lambda n, s: (n + 1, s), (0, x)), V)


@CASES.refused(
    DefinitionError,
    "the condition of while_loop at HERE is always True: the loop would never end.",
    "  hint: compare what the body changes, e.g. x < 10.",
)
def a_condition_that_is_always_true() -> None:
    run(lambda x: ta.while_loop(lambda s: True, lambda s: s + 1, x), V)


@CASES.refused(
    DTypeError,
    "the condition of while_loop at HERE must be a 0-d bool, got bool (3,).",
    "  hint: return a comparison of 0-d tensors, e.g. x < 10.",
)
def a_condition_for_each_element() -> None:
    run(lambda x: ta.while_loop(lambda s: s < 3, lambda s: s + 1, x), V)


@CASES.refused(
    DTypeError,
    "upper of for_loop at HERE is no whole number: float64 ().",
    "  hint: pass an integer, a size, or a 0-d integer tensor.",
)
def a_bound_that_is_a_float() -> None:
    run(lambda x: ta.for_loop(0, x.sum(), lambda i, s: s, x), V)


@CASES.refused(
    DTypeError,
    "upper of for_loop at HERE is 1180591620717411303424, which no loop can count to.",
    "  hint: counters are 64-bit integers.",
)
def a_bound_beyond_all_counters() -> None:
    run(lambda x: ta.for_loop(0, 2**70, lambda i, s: s * x, 1.0), 1.0)


@CASES.refused(
    DefinitionError,
    "the length of scan at HERE is -1.",
    "  hint: say how often f runs: 0 times or more.",
)
def a_negative_length() -> None:
    run(lambda x: ta.scan(lambda c, _: (c, c), x, length=-1), V)


@CASES.refused(
    DefinitionError,
    "the function of scan at HERE must return a pair (carry, y), got 3 values.",
    "  hint: return (carry, None) if there is nothing to collect.",
)
def a_scan_of_three() -> None:
    run(lambda x: ta.scan(lambda c, row: (c, row, row), 0.0, x), V)


@CASES.refused(
    BindError,
    "the arguments do not fit scan: missing a required argument: 'init'.",
    "  in: scan(f, init, xs=None, length=None, reverse=False, *, checkpoint=None, memory=None)",
    "  hint: call it as it is defined.",
)
def a_scan_without_init() -> None:
    run(lambda x: ta.scan(lambda c, row: (c, row)), V)


@CASES.refused(
    DefinitionError,
    "checkpoint of for_loop at HERE is 0.",
    '  hint: pass "sqrt", or how many iterations a segment has: 1 or more.',
)
def a_segment_of_no_iterations() -> None:
    run(lambda x: ta.for_loop(0, 9, lambda i, h: ta.sin(h), x, checkpoint=0), V)


@CASES.refused(
    DefinitionError,
    "checkpoint of for_loop at HERE is 'root'.",
    '  hint: pass "sqrt", or how many iterations a segment has: 1 or more.',
)
def an_unknown_kind_of_segments() -> None:
    run(lambda x: ta.for_loop(0, 9, lambda i, h: ta.sin(h), x, checkpoint="root"), V)


@CASES.refused(
    DefinitionError,
    "memory of for_loop at HERE is 47 bytes; it needs 48 at least.",
    "  in: a carry has 24 bytes",
    "  hint: one carry is stored and one computed again; the more are stored, the fewer iterations "
    "run again.",
)
def memory_for_less_than_two_states() -> None:
    run(lambda x: ta.for_loop(0, 9, lambda i, h: ta.sin(h), x, memory=47), V)


@CASES.refused(
    DefinitionError,
    "memory of for_loop at HERE is '1 MiB'.",
    "  hint: pass a number of bytes, an integer.",
)
def memory_that_is_no_number() -> None:
    run(lambda x: ta.for_loop(0, 9, lambda i, h: ta.sin(h), x, memory="1 MiB"), V)


@CASES.refused(
    DefinitionError,
    "memory of for_loop at HERE is a number, but its body writes the reference r made at HERE.",
    "  hint: carry what the reference holds, and set it after the loop; or pass "
    'checkpoint="sqrt", or how many iterations a segment has.',
)
def memory_for_references() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        return ta.for_loop(0, 9, lambda i, h: (r.add(h), ta.sin(h))[1], x, memory=1000)

    run(f, V)


@CASES.refused(
    DefinitionError,
    "for_loop at HERE has checkpoint='sqrt' and memory=1000.",
    "  hint: pass one of them: memory tells how much is stored, checkpoint how often.",
)
def memory_and_segments() -> None:
    run(lambda x: ta.for_loop(0, 9, lambda i, h: ta.sin(h), x, checkpoint="sqrt", memory=1000), V)


@CASES.refused(
    DefinitionError,
    "scan at HERE collects values in segments, and only its run tells how many.",
    "  hint: leave out the checkpoint, or return None in place of y.",
)
def values_collected_in_segments_of_unknown_number() -> None:
    run(lambda x, n: ta.scan(lambda c, _: (c, c), x, length=n, checkpoint="sqrt")[0], V, 3)


@CASES.refused(
    DefinitionError,
    "there is no policy 'dots' of a checkpoint.",
    '  hint: pass "nothing", "all", a list of names that ta.keep gives, or a function of a tensor.',
)
def an_unknown_policy() -> None:
    ta.checkpoint(lambda x: x, policy="dots")


@CASES.refused(
    DefinitionError,
    "nothing in the checkpoint of f at HERE is called hidden.",
    "  in: computed there: h, sin",
    '  hint: name what is to be stored: ta.keep(x, "hidden").',
)
def a_name_that_nothing_keeps() -> None:
    f = ta.checkpoint(lambda x: ta.keep(ta.sin(x), "h"), policy=["h", "hidden"])
    run(lambda x: f(x), V)


@CASES.refused(
    DefinitionError,
    "checkpoint_sequential of 2 functions cannot have 3 segments.",
    "  hint: pass a number from 1 to 2.",
)
def more_segments_than_functions() -> None:
    ta.checkpoint_sequential([ta.sin, ta.cos], 3)


@CASES.refused(
    DefinitionError,
    "a Python index or range() needs a number, but this is an expression of the formula.",
    "  in: i",
    "  hint: sum over a reduce_axis instead of a range; a list that is read there is a tensor, "
    "A = ta.const(list), A[i].",
)
def a_python_list_at_the_counter() -> None:
    run(lambda x: ta.for_loop(0, 3, lambda i, s: s * [1, 2, 3][i], x), V)


@CASES.refused(
    DefinitionError,
    "last_row uses row outside of the body of scan at HERE, where it has no value.",
    "  in: row : float64 (3,)",
    "  hint: return what is needed from the function it belongs to.",
)
def a_row_that_left_its_scan() -> None:
    def last_row(x: Any) -> Any:
        kept.clear()
        ta.scan(lambda c, row: (kept.append(row), (c, None))[1], 0.0, x)
        return kept[0]

    run(last_row, X)


@CASES.refused(
    BuildError,
    "d has the shape (trips,), which only the run of a loop tells.",
    "  in: d : float32 (trips,)",
    "  hint: let tensors inside of loops have shapes that do not depend on counters; a "
    "condition on an index may.",
)
def a_shape_that_each_iteration_changes() -> None:
    def rows(c: Any, r: Any) -> Any:
        return c + 1, ta.scan(lambda d, _: (d + 1.0, d), 0.0, length=c)[1]

    run(lambda x: ta.scan(rows, 0, x)[1].sum(), V)


# found by the run


@CASES.refused(
    BoundsError,
    "x is read at index 17 of axis 0, which has extent 17.",
    "  in: x[i] in x_item at HERE, in iteration 17 of the loop at HERE",
    "  hint: the index comes from sizes and counters of this call: correct it, or clamp it in "
    "the formula with minimum and maximum.",
)
def out_of_bounds_in_iteration_17() -> None:
    run(lambda x: ta.for_loop(0, 20, lambda i, s: s + x[i], 0.0), LONG)


@CASES.refused(
    BoundsError,
    "s_set is written at index 17 of axis 0, which has extent 17.",
    "  in: s_set[i] in s_set at HERE, in iteration 17 of the loop at HERE",
    "  hint: the index comes from sizes and counters of this call: correct it, or clamp it in "
    "the formula with minimum and maximum.",
)
def a_run_time_count_that_leaves_the_array() -> None:
    run(lambda x, n: ta.for_loop(0, n, lambda i, s: s.at[i].set(0.0), x), LONG, 20)


@CASES.refused(
    BoundsError,
    "x is read at index 17 of axis 0, which has extent 17.",
    "  in: x[i[]] in x_item at HERE, in iteration 17 of the loop at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum.",
)
def a_place_from_data_in_iteration_17() -> None:
    run(lambda x, order: ta.scan(lambda c, i: (c + x[i], None), 0.0, order)[0], LONG, ORDER)


@CASES.refused(
    BoundsError,
    "x is read at index 17 of axis 0, which has extent 17.",
    "  in: x[c[0][]] in x_item at HERE, in iteration 17 of the loop at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum.",
)
def a_carried_place_in_iteration_17() -> None:
    def total(x: Any) -> Any:
        return ta.while_loop(lambda c: c[0] < 20, lambda c: (c[0] + 1, c[1] + x[c[0]]), (0, 0.0))

    run(total, LONG)


@CASES.refused(
    BoundsError,
    "const is read at index 17 of axis 0, which has extent 17.",
    "  in: const[add[]] in const_item at HERE, in iteration 8 of the loop at HERE, in iteration "
    "2 of the loop at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum.",
)
def a_place_in_a_loop_of_a_loop() -> None:
    def inner(c: Any, first: Any) -> Any:
        return ta.for_loop(0, 9, lambda k, s: s + ta.const(LONG)[first + k], c), None

    run(lambda p: ta.scan(inner, 0.0, p)[0], np.array([0, 8, 9]))


@CASES.refused(
    BoundsError,
    "x is read at index -4 of axis 0, which has extent 3.",
    "  in: x[i[]] in x_item at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum.",
)
def a_negative_place() -> None:
    run(lambda x, i: x[i], V, -4)


@CASES.refused(
    BoundsError,
    "x is read at index 20 of axis 0, which has extent 17.",
    "  in: x[i[]] in x_item at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum.",
)
def a_place_in_the_branch_that_runs() -> None:
    run(lambda x, i: ta.cond(i > 5, lambda: x[i], lambda: 0.0), LONG, 20)


@CASES.refused(
    LimitError,
    "what the loop at HERE stores of its iterations exceeds 1.0 GiB.",
    "  in: c : float32 (trips,), trips = 2,305,843,009,213,693,952",
    "  hint: run fewer iterations, store less of each, or raise the limit with the environment "
    "variable TENSORAD_MAX_BYTES.",
)
def more_rows_than_memory() -> None:
    with config.override(max_bytes=1 << 30):
        run(lambda n: ta.scan(lambda c, _: (c + 1.0, c), 0.0, length=n)[1].sum(), 2**61)


@CASES.refused(
    LimitError,
    "what the loop at HERE stores of its iterations exceeds 1000 B.",
    "  in: mul : float64 (trips + 1, 3), trips = 40",
    "  hint: run fewer iterations, store less of each, or raise the limit with the environment "
    "variable TENSORAD_MAX_BYTES.",
)
def more_iterations_than_the_limit() -> None:
    def power(x: Any) -> Any:
        return ta.while_loop(lambda c: c[0] < 1000, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]

    with config.override(max_bytes=1000):
        ta.grad(lambda x: power(x).sum())(V)


@CASES.refused(
    LimitError,
    "c of shape (1000, 3) and dtype float64 takes 24000 bytes; the limit is 1000.",
    "  hint: use smaller sizes, or raise the limit with the environment variable "
    "TENSORAD_MAX_BYTES.",
)
def results_beyond_the_limit() -> None:
    with config.override(max_bytes=1000):
        run(lambda x: ta.scan(lambda c, _: (c + x, c), x, length=1000)[1], V)
