"""What joins operations in one loop, pass by pass: when it does, and that values stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.directives import OPEN, Choices, Schedules
from tensorad.codegen.fusion import fusion_passes
from tensorad.codegen.fusion.contractions_in_rows import emit_rows, in_rows, plan_rows
from tensorad.codegen.fusion.emit import write_group
from tensorad.codegen.fusion.epilogues import at_own_place, is_formula, with_epilogues
from tensorad.codegen.fusion.equal_groups import pair_key
from tensorad.codegen.fusion.fused_stores import fuse_stores
from tensorad.codegen.fusion.horizontal import join_siblings
from tensorad.codegen.fusion.item_key import item_key
from tensorad.codegen.fusion.latest_start import Lateness
from tensorad.codegen.fusion.overlapped_tiling import join_stencils
from tensorad.codegen.fusion.row_block_fusion import fuse_row_blocks
from tensorad.codegen.fusion.row_block_sums import one_by_one
from tensorad.codegen.fusion.row_groups import joined, lone, may_join
from tensorad.codegen.fusion.steps import Step, all_steps, kernel_step, may_fuse
from tensorad.codegen.fusion.tile import Tile
from tensorad.codegen.in_place_scatters import Lowering, join
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram
from tensorad.codegen.loops.rename_tensors import with_buffers, with_tensors
from tensorad.codegen.lower import needed_units, single_units
from tensorad.codegen.schedule.sums_in_memory import emit_sums_in_memory
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Expr, axis, int_const, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs
from tests.codegen.fusion.test_row_block_fusion import normalised
from tests.support.loops.small_loops import (
    arrays_for,
    check_kernel,
    check_stores,
    computed,
    nest_for,
    outputs_of,
)
from tests.support.machines import described

N, M = 6, 8
X = te.placeholder((N, M), "float64", name="X")
W = te.placeholder((M, M), "float64", name="W")
V = te.placeholder((M,), "float64", name="V")


def steps_of(*wanted: Tensor, choices: Choices = OPEN) -> list[Step]:
    return all_steps(needed_units(wanted, [X, W, V]), Schedules(choices))


def product() -> Tensor:
    k = te.reduce_axis(M, name="k")
    return te.compute((N, M), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="P")


def biased(p: Tensor) -> Tensor:
    return te.compute((N, M), lambda i, j: p[i, j] + V[j], name="Y")


def mirrored(p: Tensor) -> Tensor:
    return te.compute((N, M), lambda i, j: p[i, M - 1 - j] + V[j], name="Y")


@pytest.mark.parametrize(("formula", "count"), [(biased, 1), (mirrored, 2)])
@pytest.mark.parametrize("stored", [False, True])
def test_a_formula_ends_the_loops_of_what_it_reads_in_place(
    formula: Callable[[Tensor], Tensor], count: int, stored: bool
) -> None:
    p = product()
    y = formula(p)
    wanted = [y, p] if stored else [y]
    steps = steps_of(*wanted)
    assert len(steps) == 2
    last = steps[1].item
    assert last is not None
    assert is_formula(last)
    assert at_own_place(steps[0], steps[1]) == (count == 1)
    found = with_epilogues(steps, wanted)
    assert len(found) == count
    if count == 1:
        (kernel,) = found[0].written()
        assert set(kernel.writes) == set(wanted)
        check_kernel(kernel, X, W, V)


def test_nothing_is_joined_where_loops_were_chosen() -> None:
    assert may_fuse(OPEN)
    assert not may_fuse(Choices(fuse=False))
    steps = steps_of(biased(product()), choices=Choices(fuse=False))
    assert with_epilogues(steps, []) == steps


def test_groups_share_the_rows_that_all_reads_keep() -> None:
    k = te.reduce_axis(M, name="k")
    top = te.compute((N,), lambda i: te.max(X[i, k], axis=k), name="T")
    same = te.compute((N, M), lambda i, j: X[i, j] - top[i], name="Y")
    other = te.compute((N, M), lambda i, j: X[i, j] - top[N - 1 - i], name="Y")
    for t, rows in ((same, 1), (other, 0)):
        steps = steps_of(t)
        place = {s: n for n, s in enumerate(steps)}
        first, second = map(lone, steps)
        assert may_join(first, second) == bool(rows)
        group = joined(first, second, place)
        assert (group is not None) == bool(rows)
        if group is not None:
            assert group.steps == tuple(steps)
            assert len(group.rows) == rows


@pytest.mark.parametrize("mirror", [False, True])
def test_a_group_keeps_its_rows_where_it_reads_what_it_was_read_by(mirror: bool) -> None:
    k = te.reduce_axis(M, name="k")
    top = te.compute((N,), lambda i: te.max(X[i, k], axis=k), name="T")
    low = te.compute((N, M), lambda i, j: X[i, j] - top[i], name="L")
    end = te.compute((N, M), lambda i, j: top[i] * low[N - 1 - i if mirror else i, j], name="Y")
    steps = steps_of(end)
    place = {s: n for n, s in enumerate(steps)}
    first, middle, last = map(lone, steps)
    ends = joined(first, last, place)
    assert ends is not None
    assert may_join(ends, middle) == (not mirror)
    assert (joined(ends, middle, place) is None) == mirror


def test_items_of_equal_formulas_have_one_key() -> None:
    def scaled(x: Tensor, factor: float) -> list[Step]:
        y = te.compute((M, M), lambda i, j: x[i, j] * factor, name="Y")
        return all_steps(needed_units([y], [x]), Schedules())

    items = [scaled(W, 2.0), scaled(te.placeholder((M, M), "float64"), 2.0), scaled(W, 3.0)]
    keys = []
    for (step,) in items:
        assert step.item is not None
        keys.append(item_key(step.item)[0])
    assert list(dict.fromkeys(keys)) == [keys[0], keys[2]]


def test_equal_pairs_of_groups_are_judged_once() -> None:
    def key(factor: float) -> object:
        steps = steps_of(mirrored(te.compute((N, M), lambda i, j: X[i, j] * factor)))
        first, second = map(lone, steps)
        return pair_key(steps, ((first, None), (second, None)), {})

    found = dict.fromkeys([key(2.0), key(2.0), key(3.0)])
    assert len(found) == 2
    assert None not in found


def test_a_contraction_runs_for_some_rows() -> None:
    (step,) = steps_of(product(), choices=Choices(contract=True))
    assert step.item is not None
    assert step.is_contraction
    blocking = in_rows(step.plans.contraction_plan(step.item))
    assert blocking is not None
    c = blocking.contraction
    i = c.nest.axes[0]
    outer = axis("i", 0, N)
    made = emit_rows(step.item, plan_rows(step.item, c, {i: outer}, {i: None}))
    body = (*made.before, For(outer, made.body))
    check_stores(body, step.writes[0], X, W, scratch=[*made.copies, *made.scratch])
    assert in_rows(None) is None


def values(kernels: Sequence[Kernel], wanted: Sequence[Tensor], *inputs: Tensor) -> None:
    program = LoopProgram(inputs, tuple(wanted), tuple(kernels))
    arrays = arrays_for(*inputs)
    want = interpret(list(wanted), arrays)
    for a, b in zip(outputs_of(program, arrays), want, strict=True):
        np.testing.assert_array_equal(a, b)


def stencils(rows: int) -> tuple[Tensor, Tensor]:
    u = te.placeholder((rows, M), "float64", name="U")

    def step(x: Tensor, name: str) -> Tensor:
        def formula(i: Expr, j: Expr) -> Expr:
            above = te.select(i > 0, x[i - 1, j], 0.0)
            return x[i, j] * 2.0 - above

        return te.compute((rows, M), formula, name=name)

    return u, step(step(u, "A"), "B")


@pytest.mark.parametrize(("rows", "count"), [(96, 1), (4, 2)])
def test_large_stencils_run_in_one_loop_over_blocks(rows: int, count: int) -> None:
    u, b = stencils(rows)
    with described("l1=512,l2=2048,l3=4096"):
        steps = all_steps(needed_units([b], [u]), Schedules())
        kernels = [k for s in steps for k in s.written()]
        made = list(join_stencils(kernels, {steps[0].writes[0]: {b: None}}, {b: None}, Schedules()))
    assert (len(kernels), len(made)) == (2, count)
    values(made, [b], u)


def test_sums_over_rows_run_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of a layer normalisation: two sums over rows, and the rows themselves."""
    wanted, given = normalised(2048, 256)
    units = needed_units(wanted, given)
    lowering = Lowering(tuple(given), tuple(wanted), Schedules())
    with described("l2=262144"):
        steps = all_steps(units, Schedules())
        joined_steps = join_siblings(steps)
        monkeypatch.setattr(fusion_passes, "TILING_PASSES", ())
        kernels = list(fusion_passes.fuse_units(units, lowering))
        made = list(fuse_row_blocks(kernels, Schedules()))
        apart = list(fuse_row_blocks(kernels, Schedules(Choices(fuse=False))))
    assert len(joined_steps) < len(steps)
    assert len(made) < len(kernels)
    assert apart == kernels


def test_stores_over_the_points_of_a_sum_ride_with_it() -> None:
    rows, columns = 2048, 1000
    x, h = (te.placeholder((rows, columns), name=n) for n in "XH")
    r = te.reduce_axis(rows, name="r")
    s = te.compute((columns,), lambda j: te.sum(te.exp(x[r, j]) * h[r, j], axis=r), name="S")
    same = te.compute((rows, columns), lambda i, j: te.exp(x[i, j]) * 2.0, name="Y")
    other = te.compute((rows, columns), lambda i, j: te.exp(x[rows - 1 - i, j]) * 2.0, name="Y")
    for y, fewer in ((same, 1), (other, 0)):
        steps = all_steps(needed_units([s, y], [x, h]), Schedules())
        assert len(fuse_stores(steps)) == len(steps) - fewer


def test_rows_of_a_sweep_are_added_one_by_one() -> None:
    k = te.reduce_axis(N, name="k")
    y = te.compute((M,), lambda j: te.sum(X[k, j], axis=k), name="Y")
    nest = nest_for(y)
    first, rows = emit_sums_in_memory(nest, nest.axes[0], 0, 2)
    assert isinstance(rows, For)
    single = one_by_one(rows)
    assert single is not None
    assert single.axis.step is int_const(1)
    check_stores((first, single), y, X)
    assert isinstance(first, For)
    assert one_by_one(first) is None


def test_scatters_go_on_where_their_start_was_made() -> None:
    zero = te.compute((M,), lambda j: V[j] * 0.0, name="Z")
    a = axis("a", 0, N)
    update = Update((a,), read(V, (a,)))
    op = Scatter("S", (M,), FLOAT64, (a,), (update,), sum_combiner(FLOAT64), zero)
    (t,) = outputs(op)
    units = single_units([t], [V])
    (unit,) = join(units, [t])
    assert [p.name for p in unit.parts] == ["Z", "S"]
    assert len(join(units, [t, zero])) == 2  # it is wanted as it was


def test_kernels_of_equal_loops_take_other_tensors() -> None:
    (kernel,) = steps_of(biased(X))[0].written()
    x, y = te.placeholder((N, M), "float64", name="A"), te.placeholder((N, M), "float64", name="B")
    mapping = with_buffers(kernel, {X: x, kernel.writes[0]: y, V: V})
    made = with_tensors(kernel, "other", mapping)
    assert (made.name, made.writes, set(made.reads)) == ("other", (y,), {x, V})
    arrays = arrays_for(X, V)
    (want,) = computed(kernel, arrays)
    np.testing.assert_array_equal(computed(made, {x: arrays[X], V: arrays[V]})[0], want)
    step = kernel_step(kernel, steps_of(biased(X))[0].plans)
    assert step.written() == (kernel,)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("block", "runs"), [(1, [N]), (4, [1, 1]), (N, [1])])
def test_a_group_is_one_loop_over_its_rows(block: int, runs: list[int], stored: bool) -> None:
    """Blocks of four rows leave two; what nobody wants lies in scratch for the rows of a block."""
    k = te.reduce_axis(M, name="k")
    top = te.compute((N,), lambda i: te.max(X[i, k], axis=k), name="T")
    y = te.compute((N, M), lambda i, j: X[i, j] - top[i], name="Y")
    steps = steps_of(y)
    group = joined(*map(lone, steps), {s: n for n, s in enumerate(steps)})
    assert group is not None
    wanted = {top: None, y: None} if stored else {y: None}
    kernel = write_group(group, Tile(group.rows, block, False), wanted)
    assert kernel.writes == tuple(wanted)
    assert kernel.reads == ((X, top) if stored else (X,))
    assert [t.shape for t in kernel.scratch] == ([] if stored else [(block,) if block > 1 else ()])
    assert [s.axis.extent for s in kernel.body if isinstance(s, For)] == runs
    arrays = arrays_for(X)
    got = outputs_of(LoopProgram((X,), kernel.writes, (kernel,)), arrays)
    for found, want in zip(got, interpret(list(wanted), arrays), strict=True):
        np.testing.assert_array_equal(found, want)


def test_the_rows_of_a_group_are_shared_by_threads() -> None:
    y = te.compute((N, M), lambda i, j: X[i, j] * 2.0, name="Y")
    (step,) = steps_of(y)
    group = lone(step)
    kernel = write_group(group, Tile(group.rows[:1], 1, True), {y: None})
    (loop,) = kernel.body
    assert isinstance(loop, For) and loop.kind == "parallel"
    check_kernel(kernel, X)


def test_a_node_leads_to_one_that_is_as_late_as_itself() -> None:
    """b needs the node that a and c are merged into, and so is as late as it."""
    late = Lateness("abc")
    late.merge("m", ["a", "c"], {"m": ["b"], "b": []}.__getitem__)
    needs = {"m": [], "b": ["m"]}.__getitem__
    assert late.leads_to(["b"], "m", needs)
    assert not late.leads_to(["m"], "b", needs)
