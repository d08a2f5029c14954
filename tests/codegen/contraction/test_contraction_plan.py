"""How the cheapest way to run a contraction is found: by bounds, the others are not completed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.codegen.contraction import choose
from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.cost import cycles_on, least_cycles
from tensorad.codegen.contraction.recognise import Contraction
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.lower import lower_program
from tensorad.codegen.target import machine
from tensorad.codegen.target.machine import Machine
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

MACHINES = (
    "registers=32,vector_bytes=64,cores=1,l2=1048576,l3=16777216",
    "registers=16,vector_bytes=32,cores=4,l2=262144,l3=1048576",
    "multiply_adds=2,l2=2097152,l3=4194304,by_lines=3",
)


def product() -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((61, 600), name="A"), te.placeholder((600, 250), name="B")
    return topi.matmul(a, b), [a, b]


def batch() -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((6, 64, 32), name="A"), te.placeholder((6, 48, 32), name="B")
    return topi.batch_matmul(a, b), [a, b]


def convolution() -> tuple[Tensor, list[Tensor]]:
    x, w = te.placeholder((3, 6, 14, 14), name="X"), te.placeholder((16, 6, 5, 5), name="W")
    return topi.nn.conv2d(x, w), [x, w]


def deep() -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((64, 9000), name="A"), te.placeholder((9000, 1024), name="B")
    return topi.matmul(a, b), [a, b]


def wide() -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((32, 1000), name="A"), te.placeholder((1000, 2500), name="B")
    return topi.matmul(a, b), [a, b]


Formula = Callable[[], tuple[Tensor, list[Tensor]]]
Asked = list[tuple[Contraction, int, Choices]]


def contractions(formula: Formula, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """All that are planned for a tensor and its gradients."""
    y, inputs = formula()
    found: Asked = []
    plan = choose.plan_contraction

    def heard(c: Contraction, width: int, choices: Choices = OPEN) -> Blocking | None:
        found.append((c, width, choices))
        return plan(c, width, choices)

    head = te.placeholder(y.shape, name="H")
    with monkeypatch.context() as patch:
        patch.setattr("tensorad.codegen.contraction.plan_pieces.plan_contraction", heard)
        lower_program([y, *vjp(y, inputs, head)], [*inputs, head])
    assert len(found) >= 3
    return found


def shown(b: Blocking | None) -> tuple[object, ...]:
    """All that is chosen."""
    if b is None:
        return ()
    sides = tuple([a.name for a in (*b.rows.axes, *b.lanes.axes, *b.group)])
    loops = b.panel, b.split, b.block, b.by_rows, b.parallel, b.together, b.pitch, b.sliver
    return (*sides, b.registers, b.most, b.mode, b.rows_mode, *loops)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", MACHINES)
@pytest.mark.parametrize("formula", [product, batch, convolution, deep, wide])
def test_no_way_costs_less_than_its_bound(
    text: str, formula: Formula, monkeypatch: pytest.MonkeyPatch
) -> None:
    with described(text):
        target = machine.current()
        for c, width, choices in contractions(formula, monkeypatch):
            for draft in choose._drafts(c, width, target, choices):
                made = choose._completed(draft, target, choices)
                least = least_cycles(draft, target)
                assert least <= cycles_on(made, target) * (1 + 1e-9), shown(made)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", MACHINES)
@pytest.mark.parametrize("formula", [product, batch, convolution, deep, wide])
def test_bounds_leave_the_choice_as_it_is_and_most_ways_out(
    text: str, formula: Formula, monkeypatch: pytest.MonkeyPatch
) -> None:
    completed: list[Blocking] = []
    complete = choose._completed

    def counted(draft: Blocking, target: Machine, choices: Choices) -> Blocking:
        completed.append(draft)
        return complete(draft, target, choices)

    ways = 0
    with described(text):
        target = machine.current()
        for c, width, choices in contractions(formula, monkeypatch):
            with monkeypatch.context() as patch:
                patch.setattr(choose, "_completed", counted)
                found = choose._cheapest(c, width, target, choices)
            with monkeypatch.context() as patch:
                patch.setattr(choose, "least_cycles", lambda *_: 0.0)
                wanted = choose._cheapest(c, width, target, choices)
            assert shown(found) == shown(wanted)
            ways += len(list(choose._drafts(c, width, target, choices)))
    assert len(completed) < 0.65 * ways


def panel_of(n: int, dtype: str, machine_text: str) -> tuple[int, ...]:
    """Slivers, steps and lanes of the panel of a product of squares; () where none is packed."""
    a, b = te.placeholder((n, n), dtype, name="A"), te.placeholder((n, n), dtype, name="B")
    k = te.reduce_axis(n, name="k")
    y = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="Y")
    with described(f"vector_bytes=64,registers=32,cores=1,l3=33554432,{machine_text}"):
        kernels = lower_program([y], [a, b]).kernels
    panels = [t for kernel in kernels for t in kernel.scratch]
    assert len(panels) < 2
    return tuple([int(extent) for t in panels for extent in t.shape if isinstance(extent, int)])


@pytest.mark.parametrize(
    ("l2", "kept"),
    [(512 << 10, 384 << 10), (1 << 20, 768 << 10), (2 << 20, 1 << 20), (4 << 20, 2 << 20)],
)
def test_panels_leave_room_for_what_passes_the_second_cache(l2: int, kept: int) -> None:
    assert choose.kept(Machine(l2=l2)) == kept
    for dtype, size_bytes in (("float32", 4), ("float64", 8)):
        shape = panel_of(2048, dtype, f"l1=49152,l2={l2},multiply_adds=2")
        assert kept // 2 <= prod(shape) * size_bytes <= kept


@pytest.mark.parametrize("l2", [1 << 20, 2 << 20])
def test_long_slivers_are_packed_one_by_one_in_any_large_second_cache(l2: int) -> None:
    assert panel_of(512, "float32", f"l1=49152,l2={l2}")[-1] == 64
