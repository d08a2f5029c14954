"""Facts about indices from data: which there are, which cover others, which are tested as one."""

from __future__ import annotations

from tensorad import te
from tensorad.codegen.index_checks.facts import (
    counts,
    elements_of,
    facts_of,
    needed_axes,
    short_circuit_and,
)
from tensorad.codegen.index_checks.insert import with_checks
from tensorad.codegen.index_checks.joins import joined
from tensorad.codegen.loops.ir import Check
from tensorad.codegen.loops.vector_loops import statements
from tensorad.codegen.lower import needed_units
from tensorad.ir.expr import TRUE, axis, int_const, read
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import op_of

TABLE = te.placeholder((20, 4), "float64", name="T")
PICK = te.placeholder((9,), "int64", name="P")


def rows(first: int = 0, count: int = 9) -> Tensor:
    shape = (count, 4)
    return te.compute(shape, lambda i, j: TABLE[PICK[i + first], j], name=f"Y{first}")


def test_only_what_data_decides_is_a_fact() -> None:
    (fact,) = facts_of(op_of(rows()))
    assert (fact.dimension, fact.read.tensor, str(fact.extent)) == (0, TABLE, "20")
    assert list(facts_of(op_of(te.compute((9, 4), lambda i, j: TABLE[i, j])))) == []
    guarded = te.compute(
        (9, 4), lambda i, j: te.select(PICK[i] > 3, TABLE[PICK[i], j], 0.0), name="G"
    )
    (under,) = facts_of(op_of(guarded))
    assert str(under.guard) == "P[i] > 3"
    assert fact.covers(under)
    assert not under.covers(fact)


def test_a_fact_about_all_elements_covers_one_about_some() -> None:
    (every,), (some,) = facts_of(op_of(rows())), facts_of(op_of(rows(2, 5)))
    assert every.elements is not None
    assert every.covers(some)
    assert not some.covers(every)


def test_indices_as_elements_of_a_tensor() -> None:
    i, j = axis("i", 0, 9), axis("j", 0, 4)
    picked = read(PICK, (i,))
    found = elements_of([i, j], [], picked + j, int_const(20))
    assert found is not None
    assert (found.value[0], found.rest) == (PICK, (0, 3))
    assert elements_of([i, j], [], picked + read(PICK, (8 - i,)), int_const(20)) is None
    assert elements_of([i, j], [], i + j, int_const(20)) is None


def test_small_questions() -> None:
    i, j = axis("i", 0, 9), axis("j", 0, 4)
    assert counts(i + 3, i)
    assert not counts(i * 2, i)
    k = axis("k", 0, i + 1)
    assert list(needed_axes([i, j, k], [k + 1])) == [i, k]
    assert short_circuit_and([]) is TRUE
    assert str(short_circuit_and([i > 2, j > 1])) in (
        "i > 2 and j > 1",
        "select(i > 2, j > 1, False)",
    )


def test_neighbours_are_tested_by_their_ends() -> None:
    y = te.compute(
        (9,), lambda i: TABLE[PICK[i], 0] + TABLE[PICK[i] + 3, 0] + TABLE[PICK[i] + 1, 0], name="Y"
    )
    found = list(facts_of(op_of(y)))
    assert len(found) == 3
    (joint,) = joined(found)
    assert set(joint.facts) == set(found)
    assert str(joint.limit) == "17"
    other = te.compute((9,), lambda i: TABLE[PICK[i], 0] + TABLE[0, PICK[8 - i]], name="Z")
    assert len(joined(list(facts_of(op_of(other))))) == 2


def test_what_was_checked_is_not_checked_again() -> None:
    first, second = rows(), rows(2, 5)
    units = with_checks(needed_units([first, second], [TABLE, PICK]))
    made = [k for u in units for k in u.checks]
    assert len(dict.fromkeys(made)) == 1
    assert sum([isinstance(s, Check) for s in statements(made[0].body)]) == 1
    safe = te.compute((9, 4), lambda i, j: TABLE[i, j], name="S")
    assert [len(u.checks) for u in with_checks(needed_units([safe], [TABLE]))] == [0]
