"""Records are kept while someone listens, by kind."""

from __future__ import annotations

import tensorad as ta
from tensorad.ir.analysis.decisions import (
    Decision,
    Incoming,
    Record,
    is_listening,
    listening,
    note,
)
from tensorad.ir.expr import TRUE

X = ta.placeholder((3,), name="X")
TOLD = Decision((X,), "stored")
READ = Incoming(X, (), TRUE, ())


def test_a_listener_hears_its_kind_in_order() -> None:
    with listening(Record) as every:
        for record in (READ, TOLD, READ):
            note(record)
    with listening(Decision) as decisions:
        for record in (READ, TOLD, READ):
            note(record)
    assert every == [READ, TOLD, READ]
    assert decisions == [TOLD]


def test_nothing_is_kept_when_nobody_listens() -> None:
    note(TOLD)
    assert not is_listening()
    with listening(Record) as heard:
        assert is_listening()
    note(TOLD)
    assert heard == [] and not is_listening()


def test_the_inner_of_two_listeners_hears() -> None:
    with listening(Record) as outer:
        with listening(Decision) as inner:
            note(TOLD)
        note(READ)
    assert (outer, inner) == ([READ], [TOLD])
