"""Facts about symbolic sizes: what is recorded, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.analysis.facts import assume, facts_about, forget_facts


@pytest.fixture(autouse=True)
def _no_facts_left() -> Iterator[None]:
    forget_facts()
    yield
    forget_facts()


def test_a_fact_is_found_by_each_of_its_sizes() -> None:
    n, m = ta.size("n"), ta.size("m")
    assume(2 * n <= m)
    assert facts_about([n]) == facts_about([m]) == (2 * n <= m,)
    assert facts_about([ta.size("other")]) == ()


def test_a_conjunction_is_several_facts() -> None:
    n, m = ta.size("n"), ta.size("m")
    assume((n >= 1) & (m >= 2))
    assert facts_about([n]) == (n >= 1,)
    assert facts_about([m]) == (m >= 2,)


def test_linked_sizes_bring_their_facts() -> None:
    n, m, p = ta.size("n"), ta.size("m"), ta.size("p")
    assume(m >= 2)
    assume(n > m)
    assume(p > 5)
    assert facts_about([n]) == (m >= 2, n > m)


def test_what_always_holds_is_no_fact() -> None:
    assume(True)
    assume(ta.size("n") == ta.size("n"))
    assert facts_about([ta.size("n")]) == ()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda n, X, i: 3,
            "assume needs a condition over sizes, got int.\n"
            "  in: assume(3)\n"
            '  hint: compare sizes, e.g. n = size("n"); assume(2*n <= m).',
        ),
        (
            lambda n, X, i: n + 1,
            "assume needs a condition over sizes, got int64.\n"
            "  in: assume(n + 1)\n"
            '  hint: compare sizes, e.g. n = size("n"); assume(2*n <= m).',
        ),
        (
            lambda n, X, i: i < n,
            "assume takes conditions over sizes only, but i is none.\n"
            "  in: assume(i < n)\n"
            "  hint: state conditions of an index with where= or select(...).",
        ),
        (
            lambda n, X, i: X[0] > 0,
            "assume takes conditions over sizes only, but X[0] is none.\n"
            "  in: assume(X[0] > 0.0)\n"
            "  hint: state conditions of an index with where= or select(...).",
        ),
        (
            lambda n, X, i: n != n,
            "assume was given a condition that never holds.\n"
            "  in: assume(False)\n"
            '  hint: compare sizes, e.g. n = size("n"); assume(2*n <= m).',
        ),
    ],
)
def test_refusals(make: object, text: str) -> None:
    n, X, i = ta.size("n"), ta.placeholder((3,), name="X"), ta.reduce_axis(4, name="i")
    with pytest.raises(DefinitionError) as error:
        assume(make(n, X, i))  # type: ignore[operator]  # a lambda of the table
    assert str(error.value) == text
    assert facts_about([n]) == ()
