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

from tensorad.codegen.entry import plan_words as plan
from tests.support.interleavings.entries import IDLE, PLAN, RECORDS, FromPython, Plain

GOOD: Final = {
    "one place, two threads": Plain([[False, False], [False]]),
    "no place": Plain([[False], [False]], kept=0),
    "two places": Plain([[False, False], [False, False]], kept=2),
    "failures": Plain([[True, False], [False, True]]),
    "the end": Plain([[False, True, False]], leaves=True),
    "failures, and one that asks": Plain([[True, True]], asks=2),
    "from Python, one place": FromPython([[False, False], [False]], kept=1),
    "from Python, no place": FromPython([[False], [False]], kept=0),
    "from Python, failures": FromPython([[True, False], [True]], kept=1),
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
    # memory for records is taken once: who loses reads what the first one shows
    "records": {("load", "acquire"), ("change", "acq_rel")},
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
        places[PLAN + 8 * plan.TICKET] = "ticket"
        places[PLAN + 8 * plan.FAILURES] = "records"
        for address, operation, order in made.orders:
            word = "record" if address >= RECORDS else places[address]
            found.setdefault(word, set()).add((operation, order))
    return found


def test_atomic_accesses_have_their_orders() -> None:
    assert orders_of() == ORDERS


_TAKEN = "try:\n  %taken = atomicrmw xchg ptr %place, i64 0 acquire\n"
_ZERO = "  store atomic i64 0, ptr %record seq_cst, align 8\n"
_NUMBER = "  store atomic i64 %number, ptr %record seq_cst, align 8\n"
WEAKER: Final = {
    "a frame is taken": (_TAKEN, _TAKEN.replace("acquire", "monotonic")),
    "records are shown": ("i64 %own acq_rel acquire", "i64 %own monotonic monotonic"),
    "records are looked for": (
        "load atomic i64, ptr %place acquire",
        "load atomic i64, ptr %place monotonic",
    ),
    "a frame is put back": ("i64 %own release monotonic", "i64 %own monotonic monotonic"),
    "a record is taken back": (_ZERO, _ZERO.replace("seq_cst", "monotonic")),
    "a record gets its number": (_NUMBER, _NUMBER.replace("seq_cst", "release")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WEAKER)
def test_weaker_orders_are_found(name: str) -> None:
    assert orders_of([WEAKER[name]]) != ORDERS


_TICKET = "  %before = atomicrmw add ptr %counter, i64 1 monotonic\n"
_PUT = """  %pair = cmpxchg ptr %free, i64 0, i64 %own release monotonic
  %stored = extractvalue {i64, i1} %pair, 1
"""
_DISPOSED = "  call void @dispose(ptr %plan, ptr %frame)\n  ret i64 %answer\n"
_ENDED = "  %code1 = call i64 @ended(ptr %plan, ptr %frame, i64 %r1)\n"
_RUN = "  %r1 = call i64 @released(ptr %frame)\n"
_LET_GO = "let_go:\n  call void @Py_DecRef(ptr %owner)\n"
_SHOWN = """  %pair = cmpxchg ptr %place, i64 0, i64 %own acq_rel acquire
  %others = extractvalue {i64, i1} %pair, 0
  %shown = extractvalue {i64, i1} %pair, 1
"""
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
        Plain([[True]], edits=[(_DISPOSED, "  ret i64 %answer\n")]),
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
    "records of failures are shown by a store": (
        "memory is lost",
        Plain(
            [[True], [True]],
            edits=[
                (_SHOWN, "  store atomic i64 %own, ptr %place release, align 8\n"
                         "  %others = add i64 %own, 0\n  %shown = icmp eq i64 0, 0\n")
            ],
        ),
    ),
    "from Python: a frame is free while it runs": (
        "same frame|after it was freed",
        FromPython(
            [[False], [False]], kept=1,
            edits=[(_RUN, "  %early = call i64 @ended(ptr %plan, ptr %frame, i64 0)\n" + _RUN)],
        ),
    ),
    "from Python: a frame never comes back": (
        "memory is lost",
        FromPython([[False]], kept=1, edits=[(_ENDED, "  %code1 = add i64 %r1, 0\n")]),
    ),
    "from Python: a binding is held for ever": (
        "held for ever",
        FromPython([[False]], kept=1, edits=[(_LET_GO, "let_go:\n")]),
    ),
    "from Python: a failed call holds its binding": (
        "held for ever",
        FromPython([[True]], kept=1, edits=[("  call void @Py_DecRef(ptr %lent)\n", "")]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str) -> None:
    wanted, threads = MISTAKES[name]
    told, _, _ = threads.found().mistake.partition("\n")
    assert any(w in told for w in wanted.split("|")), told
