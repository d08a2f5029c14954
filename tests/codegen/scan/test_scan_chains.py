"""Loops of single scans, chains of them, and the formulas that they take in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.directives import OPEN, Choices, Schedules
from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.lower import needed_units
from tensorad.codegen.scan.chains import chain_of, scan_chains, with_chains
from tensorad.codegen.scan.inline_sources import with_sources
from tensorad.codegen.scan.parts import scan_parts
from tensorad.codegen.scan.schedule import schedule_chain, schedule_scan
from tensorad.codegen.scan.vector_rows import can_vectorise_rows, schedule_row_tiles
from tensorad.ir.tensor import Scan, Tensor
from tests.support.loops.small_loops import check_kernel, loops_in

X = te.placeholder((6, 7), "float64", name="X")
H = te.placeholder((6,), "float64", name="H")
FADE = te.comm_reducer(lambda x, y: x * 0.5 + y, lambda d: 0.0, name="fade")
MAKE: dict[str, Callable[[], Tensor]] = {
    "along rows": lambda: te.scan(X, 1),
    "down columns": lambda: te.scan(X, 0),
    "backwards": lambda: te.scan(X, 1, reverse=True),
    "exclusive": lambda: te.scan(X, 0, exclusive=True),
    "in order": lambda: te.scan(X, 1, FADE),
}
"""Of whole numbers: any order of a sum has its bits; states that halve are exact, too."""


def scan_of(t: Tensor) -> Scan:
    assert isinstance(t.op, Scan)
    return t.op


@pytest.mark.parametrize("choices", [OPEN, Choices(parallel=True), Choices(vector=False)], ids=str)
@pytest.mark.parametrize("name", MAKE)
def test_one_scan(name: str, choices: Choices) -> None:
    y = MAKE[name]()
    kernel = schedule_scan(scan_of(y), (y,), choices)
    check_kernel(kernel, X)
    columns = name in ("down columns", "exclusive")
    kinds = {s.kind for s in loops_in(kernel.body)}
    assert ("vector" in kinds) == (columns and choices.vector is not False)
    assert ("parallel" in kinds) == (choices.parallel is True)


def test_rows_take_lanes_where_their_steps_are_the_same() -> None:
    y = te.scan(X, 0)
    op = scan_of(y)
    assert can_vectorise_rows(op, scan_parts(op, (y,)), op.axes[-1])
    backwards = scan_parts(scan_of(te.scan(X, 1, reverse=True)), ())
    assert backwards.steps[0].name == "s"


def product_gradient() -> tuple[tuple[Unit, ...], Tensor]:
    k = te.reduce_axis((0, 7), "k")
    y = te.compute((6,), lambda i: te.prod(X[i, k], axis=k), "Y")
    (dx,) = ta.vjp(y, [X], H)
    return needed_units([dx], [X, H]), dx


def test_a_scan_backwards_follows_the_scan_whose_states_it_reads() -> None:
    units, dx = product_gradient()
    scans = [u for u in units if isinstance(u.op, Scan)]
    ((last, members),) = scan_chains(units, [dx]).items()
    assert members == tuple(scans)
    assert last is scans[-1]
    chain = chain_of(members, [dx])
    kernel = schedule_chain(chain, OPEN)
    assert kernel is not None
    assert set(chain.inside) == {s for s in units[0].live if s not in kernel.writes}
    assert not set(chain.inside) & set(kernel.writes)
    check_kernel(kernel, X, H)
    *others, whole = with_chains(units, [dx], Schedules())
    assert others == [u for u in units if u not in members]
    assert whole.loops is not None
    assert set(whole.live) == set(kernel.writes)
    check_kernel(whole.loops, X, H)


def test_states_that_others_read_end_no_chain() -> None:
    y = te.scan(X, 1)
    turned = te.compute((7, 6), lambda j, i: y[i, j])
    z = te.scan(turned, 1)
    units = needed_units([z], [X])
    assert scan_chains(units, [z]) == {}
    check = Kernel("check", (), (), ())
    checked = [replace(u, checks=(check,)) for u in product_gradient()[0]]
    assert scan_chains(checked, []) == {}


def test_light_scans_have_no_strips_of_rows() -> None:
    units, dx = product_gradient()
    ((_, members),) = scan_chains(units, [dx]).items()
    assert schedule_row_tiles(chain_of(members, [dx]), Choices(vector=False)) is None


@pytest.mark.parametrize(
    ("combiner", "wanted", "count"),
    [("prod", False, 1), ("prod", True, 2), ("sum", False, 2)],
)
def test_formulas_that_only_scans_read_are_taken_in(
    combiner: str, wanted: bool, count: int
) -> None:
    doubled = te.compute((6, 7), lambda i, j: X[i, j] * 2.0 - 1.0, "D")
    y = te.scan(doubled, 1, combiner)
    stored = [y, doubled] if wanted else [y]
    units = needed_units(stored, [X])
    found = with_sources(units, stored, Schedules())
    assert len(found) == count
    assert (len(units), len(found) < len(units)) == (2, count == 1)
    op = found[-1].op
    assert isinstance(op, Scan)
    assert (X in found[-1].inputs()) == (count == 1)
    if count == 1:
        check_kernel(schedule_scan(op, found[-1].live, OPEN), X)
