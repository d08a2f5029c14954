"""The driver and its pool in every order of two and three threads, and mistakes that this finds.

The text that is compiled is run (`tests/support/interleavings`), so there is no other model of it.
Memory is sequentially consistent there; `ORDERS` says what processors and compilers must keep.
"""

from __future__ import annotations

from typing import Final

import pytest

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.threads.linux_calls import HAS_THREADS
from tests.support.interleavings.pool import POOL, Fork, Loops, Pool, Resize
from tests.support.interleavings.stress import stress

pytestmark = pytest.mark.skipif(not HAS_THREADS, reason="loops run on one thread here")

TWO = Loops((2,))
SMALL: Final[dict[str, Pool]] = {
    "loops one after the other": Pool([[Loops((3, 2))]]),
    "errors": Pool([[Loops((2, 3), fails=frozenset({1, 2}))]]),
    "parts taken whole": Pool([[Loops((4,), marks=block.WHOLE)]]),
    "light loops": Pool([[Loops((2, 2), marks=block.LIGHT)]]),
    "more threads asked for than there are": Pool([[Loops((3,), threads=3)]]),
    "fewer and more workers": Pool([[TWO, Resize(0), TWO, Resize(1), TWO]]),
    "workers end beside a loop": Pool([[TWO], [Resize(0)]]),
    "slices, and forks between them": Pool([[Loops((20,), marks=block.WHOLE, slices=2)]]),
    "a fork beside a change of the number": Pool([[Resize(0)], [Fork(), Resize(1), TWO]]),
}
LARGE: Final[dict[str, Pool]] = {
    "two workers": Pool([[Loops((2,), threads=3)]], workers=2),
    "two callers": Pool([[TWO], [TWO]]),
    "a caller, and one that changes the number": Pool([[TWO, TWO], [Resize(0), Resize(1)]]),
    "refused threads": Pool([[TWO], [Resize(2)]], refuses=True),
    "a fork beside a loop": Pool([[TWO], [Fork(), TWO]]),
    "a fork, then threads": Pool([[Loops((2,), threads=1)], [Fork(), Resize(1), TWO]]),
}

ORDERS: Final = {
    # Dekker's pattern: one writes A and reads B, the other writes B and reads A
    "generation": {"change": {"seq_cst"}, "load": {"acquire", "monotonic"}},
    "sleepers": {"change": {"seq_cst"}, "load": {"seq_cst", "monotonic"}},
    "waiting": {"store": {"seq_cst"}, "load": {"seq_cst"}},
    # what was written before is read afterwards
    "state": {"change": {"seq_cst"}, "load": {"acquire", "seq_cst"}},
    "busy": {"change": {"acquire"}, "store": {"release"}},
    "stop": {"store": {"seq_cst"}, "load": {"acquire"}},
    # a counter: who gets an iteration, and nothing beside it
    "next": {"change": {"monotonic"}, "load": {"monotonic"}},
}
_WORDS: Final = {
    block.GENERATION: "generation", block.STATE: "state", block.SLEEPERS: "sleepers",
    block.WAITING: "waiting", block.POOL_BUSY: "busy", block.STOP: "stop",
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_two_threads_in_any_order(name: str) -> None:
    """Each iteration runs once and in its loop, errors are told, nobody sleeps forever."""
    found = SMALL[name].found()
    assert found.mistake == ""
    assert found.states > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_three_threads_in_any_order(name: str) -> None:
    found = LARGE[name].found()
    assert found.mistake == ""
    assert found.states > 3000


def test_atomic_accesses_have_their_orders() -> None:
    """Each word as `ORDERS` says; those of hints are not among them."""
    seen: set[tuple[int, str, str]] = set()
    for pool in (Pool([[Loops((2,))]]), Pool([[Resize(0), Resize(1)]])):
        pool.orders = seen
        assert pool.found().mistake == ""
    said = {(w, o, order) for w, rows in ORDERS.items() for o, orders in rows.items()
            for order in orders}  # fmt: skip
    found = {(_WORDS.get(a - POOL, "next"), operation, order) for a, operation, order in seen}
    assert found <= said
    assert {(w, o) for w, o, _ in found} == {(w, o) for w, o, _ in said}
    next_words = {a for a, _, _ in seen if a - POOL not in _WORDS}
    assert all((a - POOL - block.ERRORS) % 64 == block.NEXT for a in next_words)


_CLAIM = """  %pair = cmpxchg ptr %next, i64 %b, i64 %e monotonic monotonic
  %got = extractvalue {i64, i1} %pair, 1
  br i1 %got, label %run, label %claim
"""
_TORN = """  %there = load atomic i64, ptr %next monotonic, align 8
  %got = icmp eq i64 %there, %b
  br i1 %got, label %mine0, label %claim
mine0:
  store atomic i64 %e, ptr %next monotonic, align 8
  br label %run
"""
_ADDED = "  %g = atomicrmw add ptr %gen, i32 1 seq_cst\n"
_WORK = "work:\n  call void @part(ptr %pool, i64 0)\n"
_OPENED = "  %opened = atomicrmw or ptr %state, i32 65536 seq_cst\n"
_NAP = "nap:\n  call void @wait(ptr %state, i32 %p2)\n"
_FUTEX = "define internal void @wait(ptr %word, i32 %old) nounwind {\n"
_READ_AGAIN = "  %old0 = load atomic i32, ptr %word seq_cst, align 4\n"
_JOINED = "  %joined = call i32 @pthread_join(i64 %thread, ptr null)\n"
_STORED = "  store i64 %from2, ptr %first\n"

MISTAKES: Final[dict[str, tuple[str, list[tuple[str, str]]]]] = {
    "iterations are claimed by a load and a store": ("runs twice", [(_CLAIM, _TORN)]),
    "the launch returns with one worker at work": (
        "same time|has ended|ends|has not run",
        [("%over = icmp eq i32 %p, 0", "%over = icmp sle i32 %p, 1"),
         ("%over2 = icmp eq i32 %p2, 0", "%over2 = icmp sle i32 %p2, 1")],
    ),
    "workers are woken before there is something new": (
        "something new",
        [(_OPENED + _ADDED, _OPENED), (_WORK, _WORK.replace("work:\n", "work:\n" + _ADDED))],
    ),
    "a thread sleeps without looking once more": (
        "nobody goes on", [(_FUTEX, _FUTEX + _READ_AGAIN),
                           ("i32 128, i32 %old,", "i32 128, i32 %old0,")]
    ),
    "the last worker wakes nobody": (
        "nobody goes on", [("rouse:\n  call void @wake(ptr %state)\n", "rouse:\n")]
    ),
    "the launcher does not say that it waits": (
        "nobody goes on", [("  store atomic i32 1, ptr %waiting seq_cst, align 4\n", "")]
    ),
    "the job is open before it is complete": (
        "same time",
        [(_OPENED, ""), ("  store ptr %fn, ptr %job\n", _OPENED + "  store ptr %fn, ptr %job\n")],
    ),
    "the job stays open": (
        "nobody goes on", [("%closed = atomicrmw and ptr %state, i32 -65537",
                            "%closed = atomicrmw or ptr %state, i32 0")]
    ),
    "a worker takes part in a job that is closed": (
        "same time|after its loop|runs twice|has not run",
        [("br i1 %open, label %join, label %after", "br label %join")],
    ),
    "the place of a part is not set": ("has not run|runs twice", [(_STORED, "")]),
    "nobody helps others": ("has not run", [("%all = icmp sge i64 %tried, %threads",
                                            "%all = icmp sge i64 %tried, 1")]),
}  # fmt: skip
RESIZING: Final[dict[str, tuple[str, list[tuple[str, str]]]]] = {
    "nobody waits for workers that end": ("left behind", [(_JOINED, "")]),
    "workers are woken before the number of the job": (
        "nobody goes on",
        [(_ADDED + "  call void @wake(ptr %gen)\n", "  call void @wake(ptr %gen)\n" + _ADDED)],
    ),
    "the number changes beside a loop": (
        "nobody goes on|same time|twice",
        [("br i1 %got, label %compare, label %late", "br label %compare")],
    ),
    "workers are not told to end": (
        "nobody goes on", [("  store atomic i32 1, ptr %stopped seq_cst, align 4\n", "")]
    ),
    "the pool stays busy": (
        "nobody goes on",
        [("store i64 %begun, ptr %number\n  store atomic i32 0, ptr %busy release, align 4",
          "store i64 %begun, ptr %number")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_loops_are_found(name: str) -> None:
    wanted, edits = MISTAKES[name]
    _is_found(Pool([[Loops((3, 2))]], edits=edits), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESIZING)
def test_mistakes_beside_a_change_of_the_number_are_found(name: str) -> None:
    wanted, edits = RESIZING[name]
    _is_found(Pool([[TWO, TWO], [Resize(0), Resize(1)]], edits=edits), wanted)


def _is_found(pool: Pool, wanted: str) -> None:
    mistake = pool.found().mistake
    told, _, way = mistake.partition("\n")
    assert any(w in told for w in wanted.split("|")), mistake
    assert way, "with the steps that lead there"


@pytest.mark.slow
def test_iterations_of_many_tiny_loops_are_counted() -> None:
    """More by `python -m tests.support.interleavings.stress`."""
    found = stress(100_000)
    assert found.wrong == []
    assert found.loops >= found.launches >= 100_000
