"""What stops a call is told in the words of the user's program."""

from __future__ import annotations

import tensorad as ta
from tensorad.codegen.loops.ir import Check, Repeat
from tensorad.codegen.runtime.failures import out_of_bounds, too_large
from tensorad.codegen.runtime.step_table import Reserved
from tensorad.ir.arrays.indexing import from_the_end
from tensorad.ir.expr import Expr, int_const, local_size
from tensorad.ir.references import Read

X = ta.placeholder((3, 5), name="X")
K = ta.placeholder((), "int64", name="k")
TRIPS = local_size("trips")
T = local_size("t", TRIPS)
LOOP = Repeat(T, TRIPS, None, (), (), None, (), (), (), False, "user.py:7")
HINT = (
    "  hint: the index comes from {} of this call: correct it, or clamp it in the formula with "
    "minimum and maximum."
)


def words(row: Expr, index: int, **more: str) -> list[str]:
    read = Read(X.dtype, X, (row, int_const(0)))
    found = out_of_bounds(Check(read, 0, int_const(3), "Y", **more), index, 3, (LOOP,), {T: 4})
    return str(found).splitlines()


def test_an_index_is_told_as_it_was_written() -> None:
    assert words(K(), 3, source="user.py:9") == [
        "X is read at index 3 of axis 0, which has extent 3.",
        "  in: X[k[], 0] in Y at user.py:9, in iteration 4 of the loop at user.py:7",
        HINT.format("the data"),
    ]
    for index, given in ((-1, -4), (3, 3)):
        assert words(from_the_end(K(), int_const(3)), index)[:2] == [
            f"X is read at index {given} of axis 0, which has extent 3.",
            "  in: X[k[], 0] in Y, in iteration 4 of the loop at user.py:7",
        ]
    assert words(T + 1, 5)[2] == HINT.format("sizes and counters")


def test_a_store_is_told_with_its_loop() -> None:
    store = ta.placeholder((TRIPS, 5), name="c")
    found = str(too_large(Reserved(store, LOOP), {TRIPS: 12345}, 1024)).splitlines()
    assert found[:2] == [
        "what the loop at user.py:7 stores of its iterations exceeds 1.0 KiB.",
        "  in: c : float32 (trips, 5), trips = 12,345",
    ]
