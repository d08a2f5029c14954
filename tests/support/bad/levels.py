"""Bad programs, fifth part: levels and tangents."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import tensorad as ta
from tensorad import topi
from tensorad.errors import CombinerError, DefinitionError, DTypeError, GradError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
N = np.arange(3)


@CASES.refused(
    GradError,
    "make_dual needs a level, but none is open.",
    "  in: make_dual",
    "  hint: write `with ta.dual_level() as level:` around what is to be differentiated; a "
    "function that is traced opens one inside of it.",
)
def no_level() -> None:
    ta.make_dual(V, V)


@CASES.refused(
    GradError,
    "make_dual: level 0 was opened elsewhere.",
    "  in: <dual level 0>",
    "  hint: a function that is traced, and each thread, has levels of its own: open one inside "
    "of it; tangents at other levels reach it with its arguments.",
)
def a_level_of_another_program() -> None:
    with ta.dual_level() as level:
        ta.function(lambda x: ta.make_dual(x, x, level=level))(V)


@CASES.refused(
    GradError,
    "unpack_dual: level 0 was left, and its tangents are gone.",
    "  in: <dual level 0, left>",
    "  hint: unpack inside of its `with`, and use what that gives.",
)
def a_level_that_was_left() -> None:
    with ta.dual_level() as level:
        d = ta.make_dual(V, V)
    ta.unpack_dual(d, level=level)


@CASES.refused(
    GradError,
    "make_dual: level 0 was left, and its tangents are gone.",
    "  in: <dual level 0, left>",
    "  hint: unpack inside of its `with`, and use what that gives.",
)
def a_dual_at_a_level_that_was_left() -> None:
    with ta.dual_level() as level:
        pass
    ta.make_dual(V, V, level=level)


@CASES.refused(
    GradError,
    "unpack_dual: the level was not entered.",
    "  in: <dual level, not entered>",
    "  hint: write `with ta.dual_level() as level:` and level=level.",
)
def a_level_that_was_not_entered() -> None:
    ta.unpack_dual(V, level=ta.dual_level())


@CASES.refused(
    GradError,
    "make_dual: there is no level 2, levels 0 to 0 are open.",
    "  in: make_dual",
    "  hint: levels are numbered from the outermost one, 0; leave out level= for the innermost "
    "one.",
)
def a_number_of_no_level() -> None:
    with ta.dual_level():
        ta.make_dual(V, V, level=2)


@CASES.refused(
    GradError,
    "unpack_dual: there is no level 0, none is open.",
    "  in: unpack_dual",
    "  hint: levels are numbered from the outermost one, 0; leave out level= for the innermost "
    "one.",
)
def a_number_without_levels() -> None:
    ta.unpack_dual(V, level=0)


@CASES.refused(
    GradError,
    "make_dual: a level is what dual_level gives, or its number, got str.",
    "  in: make_dual",
    "  hint: write `with ta.dual_level() as level:` and level=level.",
)
def a_name_for_a_level() -> None:
    with ta.dual_level():
        ta.make_dual(V, V, level="inner")  # type: ignore[arg-type]


@CASES.refused(
    GradError,
    "level 0 was entered already.",
    "  in: <dual level 0, left>",
    "  hint: a level is entered once: call ta.dual_level() again.",
)
def a_level_entered_twice() -> None:
    level = ta.dual_level()
    with level:
        pass
    with level:
        pass


@CASES.refused(
    GradError,
    "level 0 is left while level 1 inside of it is open.",
    "  in: <dual level 0, left>",
    "  hint: levels are left in the order opposite to that of entering them; all of them are left "
    "now.",
)
def levels_left_out_of_order() -> None:
    outer, inner = ta.dual_level(), ta.dual_level()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)


@CASES.refused(
    GradError,
    "leaving a level: level 0 was opened elsewhere.",
    "  in: <dual level 0>",
    "  hint: a function that is traced, and each thread, has levels of its own: open one inside "
    "of it; tangents at other levels reach it with its arguments.",
)
def a_level_left_by_another_thread() -> None:
    caught: list[BaseException] = []
    with ta.dual_level() as level:

        def leave() -> None:
            try:
                level.__exit__(None, None, None)
            except GradError as e:
                caught.append(e)

        t = threading.Thread(target=leave)
        t.start()
        t.join()
    raise caught[0]


@CASES.refused(
    GradError,
    "make_dual: x has a tangent at level 0 already.",
    "  in: mul : float64 (3,) at HERE",
    "  hint: a value has one tangent at each level: open another level inside for further "
    "derivatives, or pass unpack_dual(...)[0].",
)
def a_second_tangent() -> None:
    with ta.dual_level():
        d = ta.make_dual(V, V)
        ta.make_dual(d * 2.0, V)


@CASES.refused(
    GradError,
    "make_dual: v has a tangent at level 0 already.",
    "  in: mul : float64 (3,) at HERE",
    "  hint: a value has one tangent at each level: open another level inside for further "
    "derivatives, or pass unpack_dual(...)[0].",
)
def a_tangent_with_a_tangent() -> None:
    with ta.dual_level():
        d = ta.make_dual(V, V)
        ta.make_dual(V, d * 2.0)


@CASES.refused(
    ShapeError,
    "make_dual: the tangent v has shape (2,), but x has shape (3,).",
    "  in: x : float64 (3,), v : float64 (2,)",
    "  hint: a tangent has the shape of what it belongs to; topi.full_like fills one.",
)
def a_tangent_of_another_shape() -> None:
    with ta.dual_level():
        ta.make_dual(V, V[:2])


@CASES.refused(
    DTypeError,
    "make_dual: the tangent v has dtype float32, but x has dtype float64.",
    "  in: x : float64 (3,), v : float32 (3,)",
    "  hint: convert it: .astype('float64').",
)
def a_tangent_of_another_dtype() -> None:
    with ta.dual_level():
        ta.make_dual(V, V.astype("float32"))


@CASES.refused(
    DTypeError,
    "make_dual: the tangent v has dtype int64, but x has dtype float64.",
    "  in: x : float64 (3,), v : int64 (3,)",
    "  hint: convert it: .astype('float64').",
)
def a_tangent_of_integers() -> None:
    with ta.dual_level():
        ta.make_dual(V, N)


@CASES.refused(
    DTypeError,
    "make_dual: x has dtype int64, which has no tangent.",
    "  in: x : int64 (3,), v : float64 (3,)",
    "  hint: integers and booleans do not move: convert with .astype('float32'), or give None.",
)
def integers_with_a_tangent() -> None:
    with ta.dual_level():
        ta.make_dual(N, V)


@CASES.refused(
    GradError,
    "make_dual: no part of x is a float.",
    "  in: x['n'] : int64 (3,)",
    "  hint: integers and booleans have no tangent: convert with .astype('float32').",
)
def nothing_to_move() -> None:
    with ta.dual_level():
        ta.make_dual({"n": N}, {"n": None})


@CASES.refused(
    DefinitionError,
    "make_dual: the tangent has another structure at v['b'].",
    "  in:         x             v",
    "      v['a']  float64 (3,)  float64 (3,)",
    "      v['b']  float64 (3,)  -",
    "  hint: a tangent is a tree like what it belongs to; None stands for integers.",
)
def another_tree() -> None:
    with ta.dual_level():
        ta.make_dual({"a": V, "b": V}, {"a": V})


@CASES.refused(
    GradError,
    "make_dual: whether c has a tangent at level 0 is not known before the body of for_loop at "
    "HERE is written down.",
    "  in: c : float64 (3,)",
    "  hint: open a level inside of the loop; or pass unpack_dual(...)[0].",
)
def a_tangent_for_a_carry() -> None:
    with ta.dual_level():
        ta.for_loop(0, 2, lambda t, c: ta.make_dual(c, V), ta.const(V))


@CASES.refused(
    GradError,
    "NumPy would lose the tangent that x has at level 0.",
    "  in: x : float64 (3,) at HERE",
    "  hint: compute with tensorad's functions, or look at ta.unpack_dual(...)[0].",
)
def a_dual_for_numpy() -> None:
    with ta.dual_level():
        np.sort(ta.make_dual(V, V))


@CASES.refused(
    GradError,
    "float() would lose the tangent that sum has at level 0.",
    "  in: sum : float64 () at HERE",
    "  hint: compute with tensorad's functions, or look at ta.unpack_dual(...)[0].",
)
def a_dual_as_a_number() -> None:
    with ta.dual_level():
        float(ta.make_dual(V, V).sum())


@CASES.refused(
    GradError,
    "fw_mode must be True, False or None, got 'forward'.",
    "  hint: True is forward mode, False reverse mode; leave it out for the one that costs less.",
)
def a_name_as_fw_mode() -> None:
    ta.jvp(topi.sin, (V,), (V,), fw_mode="forward")  # type: ignore[call-overload]


@CASES.refused(
    GradError,
    "hessian was given both mode='reverse' and fw_mode=True.",
    "  hint: both say how the gradient is differentiated again: leave one out.",
)
def two_modes_of_a_hessian() -> None:
    x = ta.placeholder((3,), "float64", name="x")
    ta.hessian((x * x).sum(), x, mode="reverse", fw_mode=True)


@CASES.refused(
    DefinitionError,
    "stop_gradient has no mode 'backward'.",
    '  hint: use mode="both", "reverse" or "forward".',
)
def an_unknown_mode() -> None:
    ta.stop_gradient(ta.const(V), mode="backward")


@CASES.refused(
    GradError,
    "gradcheck compares both modes, but stop_reverse.x stops derivatives in one.",
    "  in: stop_reverse.x : float64 (3,) at HERE",
    '  hint: check one mode after the other: modes=("forward",), modes=("reverse",).',
)
def a_check_of_both_modes() -> None:
    ta.gradcheck(lambda x: (ta.stop_gradient(x, mode="reverse") * x).sum(), V)


@CASES.refused(
    CombinerError,
    "the combiner of add stops derivatives in one mode.",
    "  hint: stop what is reduced: sum(stop_gradient(x, mode=...)); a combiner may stop both "
    "modes.",
)
def a_combiner_that_stops_one_mode() -> None:
    def step(a: Any, b: Any) -> Any:
        return a + ta.stop_gradient(b, mode="forward")

    add = ta.comm_reducer(step, lambda dtype: 0.0, name="add")
    k = ta.reduce_axis(3, name="k")
    x = ta.const(V)
    ta.compute((), lambda: add(x[k], axis=k))
