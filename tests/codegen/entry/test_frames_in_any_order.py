"""Frames of both native entries in every order of two and three threads that call at once.

The text that is compiled is run (`tests/support/interleavings`). A frame is never with two calls,
its memory is given back once, and none is lost; what is told of a failure is its own. Mistakes in
the text are found. Memory is sequentially consistent there; `ORDERS` says what must be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tensorad.codegen.entry import plain_ir
from tests.support.interleavings.entries import ENTRY, IDLE, RECORDS, FromPython, Plain

GOOD: Final = {
    "one place, two threads": Plain([[False, False], [False]]),
    "no place": Plain([[False], [False]], kept=0),
    "two places": Plain([[False, False], [False, False]], kept=2),
    "failures": Plain([[True, False], [False, True]]),
    "the end": Plain([[False, True, False]], leaves=True),
    "failures, and one that asks": Plain([[True, True]], asks=2),
    "from Python, one frame": FromPython([2, 2], frames=1),
    "from Python, two frames": FromPython([2, 2], frames=2),
    "from Python, three threads": FromPython([1, 1, 1], frames=2),
}


@pytest.mark.parametrize("name", GOOD)
def test_frames_have_one_user(name: str) -> None:
    found = GOOD[name].found()
    assert found.mistake == ""
    assert found.states > 10


@pytest.mark.slow
def test_three_threads_on_one_place() -> None:
    found = Plain([[False], [False], [False]]).found()
    assert found.mistake == ""
    assert found.states > 5000


ORDERS: Final = {
    # who takes a frame reads what was written in it by who put it back
    "idle": {("load", "monotonic"), ("change", "acquire"), ("change", "release")},
    # a counter: which failure this is, and nothing beside it
    "ticket": {("change", "monotonic")},
    # 0, the words, the number: who finds the number before and after has the words
    "record": {("store", "seq_cst")},
}
_ATOMIC: Final = [
    Plain([[False, False], [False]]),
    Plain([[True, False], [False, True]]),
    Plain([[False], [False]], kept=2, leaves=True),
]


def orders_of(edits: Sequence[tuple[str, str]] = ()) -> dict[str, set[tuple[str, str]]]:
    """The atomic accesses to each word."""
    found: dict[str, set[tuple[str, str]]] = {}
    for threads in _ATOMIC:
        made = replace(threads, edits=edits, orders=set())
        assert made.found().mistake == ""
        places = {IDLE + 8 * n: "idle" for n in range(threads.kept)}
        places[ENTRY + 8 * plain_ir.TICKET] = "ticket"
        for address, operation, order in made.orders:
            word = "record" if address >= RECORDS else places[address]
            found.setdefault(word, set()).add((operation, order))
    return found


def test_atomic_accesses_have_their_orders() -> None:
    assert orders_of() == ORDERS


_ZERO = "  store atomic i64 0, ptr %record seq_cst, align 8\n"
_NUMBER = "  store atomic i64 %number, ptr %record seq_cst, align 8\n"
WEAKER: Final = {
    "a frame is taken": ("xchg ptr %place, i64 0 acquire", "xchg ptr %place, i64 0 monotonic"),
    "a frame is put back": ("i64 %own release monotonic", "i64 %own monotonic monotonic"),
    "a record is taken back": (_ZERO, _ZERO.replace("seq_cst", "monotonic")),
    "a record gets its number": (_NUMBER, _NUMBER.replace("seq_cst", "release")),
}


@pytest.mark.parametrize("name", WEAKER)
def test_weaker_orders_are_found(name: str) -> None:
    assert orders_of([WEAKER[name]]) != ORDERS


_TICKET = "  %before = atomicrmw add ptr %counter, i64 1 monotonic\n"
_TAKEN = "  %taken = atomicrmw xchg ptr %place, i64 0 acquire\n"
_PUT = """  %pair = cmpxchg ptr %free, i64 0, i64 %own release monotonic
  %stored = extractvalue {i64, i1} %pair, 1
"""
_SET = "  store i64 1, ptr %flag\n"
_FREED = "  store i64 0, ptr %busy\n"
_DISPOSED = "  call void @dispose(ptr %entry, ptr %frame)\n  ret i64 %number\n"
MISTAKES: Final = {
    "taken by a load and a store": (
        "same frame|same time|after it was freed|memory is lost",
        Plain(
            [[False, False], [False]],
            edits=[
                (_TAKEN, _TAKEN.replace("atomicrmw xchg ptr %place, i64 0 acquire",
                                        "load atomic i64, ptr %place acquire, align 8")
                 + "  store atomic i64 0, ptr %place monotonic, align 8\n")
            ],
        ),
    ),
    "put back by a load and a store": (
        "memory is lost",
        Plain(
            [[False], [False]],
            edits=[
                (_PUT, "  %was = load atomic i64, ptr %free monotonic, align 8\n"
                       "  %stored = icmp eq i64 %was, 0\n"
                       "  br i1 %stored, label %really, label %full\nreally:\n"
                       "  store atomic i64 %own, ptr %free release, align 8\n")
            ],
        ),
    ),
    "a frame that failed is kept by nobody": (
        "memory is lost",
        Plain([[True]], edits=[(_DISPOSED, "  ret i64 %number\n")]),
    ),
    "a full place, and the frame is dropped twice": (
        "freed twice|after it was freed",
        Plain([[True]], edits=[(_DISPOSED, _DISPOSED.split("  ret")[0] + _DISPOSED)]),
    ),
    "two failures have one number": (
        "no number of its own",
        Plain(
            [[True], [True]],
            edits=[
                (_TICKET, "  %before = load atomic i64, ptr %counter monotonic, align 8\n"
                          "  %next = add i64 %before, 1\n"
                          "  store atomic i64 %next, ptr %counter monotonic, align 8\n")
            ],
        ),
    ),
    "a record keeps its number while its words change": (
        "is told as", Plain([[True, True]], asks=1, edits=[(_ZERO, "")])
    ),
    "a record has its number before its words": (
        "is told as", Plain([[True, True]], asks=1, edits=[(_NUMBER, ""), (_ZERO, _NUMBER)])
    ),
    "a record gets no number": (
        "has no record", Plain([[True, True]], asks=1, edits=[(_NUMBER, "")])
    ),
    "from Python: a frame is not marked": (
        "same frame", FromPython([1, 1], frames=1, edits=[(_SET, "")])
    ),
    "from Python: a frame is free while it runs": (
        "same frame",
        FromPython([1, 1], frames=1, edits=[("release:\n", "release:\n" + _FREED)]),
    ),
    "from Python: a frame stays busy": (
        "stays busy",
        FromPython(
            [1], frames=1, edits=[("  store i64 0, ptr %busy\n  %good", "  %good")]
        ),
    ),
    "from Python: the lock is given away before the frame is taken": (
        "same time|same frame",
        FromPython(
            [1, 1], frames=1,
            edits=[("define ptr @take(ptr %frames) nounwind {\nentry:\n",
                    "define ptr @take(ptr %frames) nounwind {\nentry:\n"
                    "  %kept = call ptr @PyEval_SaveThread()\n"),
                   (_SET, _SET + "  call void @PyEval_RestoreThread(ptr %kept)\n")],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str) -> None:
    wanted, threads = MISTAKES[name]
    told, _, _ = threads.found().mistake.partition("\n")
    assert any(w in told for w in wanted.split("|")), told
