"""Chains of equal steps: the work of deriving and building them grows as they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from benchmarks.workloads.chain_programs import PROGRAMS
from tensorad.autodiff.counting import products, visits
from tensorad.autodiff.reverse import vjp
from tensorad.codegen import lower
from tensorad.codegen.fusion import fuse, horizontal, plan_cache
from tensorad.codegen.fusion.latest_start import Lateness
from tensorad.codegen.loops import kernel_key as keys
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor
from tensorad.process import forget
from tensorad.simplify.bounds import reads
from tensorad.simplify.formula import tidy
from tensorad.simplify.formula.available_values import AvailableValues
from tests.codegen.schedule.test_planning import count_calls

LENGTHS = (4, 8, 16)
NAMES = ("hidden Markov", "recurrent")
ALIKE = (*NAMES, "wave")
"""Programs of whose steps none reads what is its own."""
Outputs = tuple[list[Tensor], list[Tensor]]


def gradient(name: str, steps: int) -> Outputs:
    y, inputs = PROGRAMS[name](steps)
    return [y, *vjp(y, inputs)], inputs


def grows_linearly(counts: list[int]) -> bool:
    """Whether twice the steps cost at most twice as much more."""
    first, second, third = counts
    return third - second <= 2 * (second - first)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("of", "method"),
    [(AvailableValues, "_read_as"), (horizontal, "_joined")],
    ids=["a sum among those of its tensors", "siblings among readers of the same"],
)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_equal_or_alike_is_looked_for_in_few_places(
    name: str, of: object, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for steps in LENGTHS:
        forget()
        compared = count_calls(monkeypatch, of, method)
        lower_program(*gradient(name, steps))
        counts.append(len(compared))
        monkeypatch.undo()
    assert grows_linearly(counts), counts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ALIKE)
def test_the_points_of_equal_steps_are_counted_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for steps in LENGTHS[1:]:
        levels = [count_calls(monkeypatch, m, "loop_levels") for m in (visits, products)]
        gradient(name, steps)
        counts.append([len(calls) for calls in levels])
        monkeypatch.undo()
    assert counts[0] == counts[1] and all(counts[0]), counts


def test_formulas_that_stay_tensors_are_not_walked_for_each_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = []
    for steps in LENGTHS[1:]:
        forget()
        walked = count_calls(monkeypatch, tidy, "postorder")
        gradient("wave", steps)
        counts.append(len(walked))
        monkeypatch.undo()
    each = (counts[1] - counts[0]) / (LENGTHS[2] - LENGTHS[1])
    assert 0 < each <= 3, counts  # a step's own formula; it reads each of its tensors up to 5 times


@pytest.mark.parametrize("name", NAMES)
def test_paths_between_steps_are_looked_for_near_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[object] = []
    original = Lateness.leads_to

    def watched(self: Any, starts: Iterable[Any], end: Any, inputs: Callable[[Any], Any]) -> bool:
        first = dict.fromkeys(starts)

        def entering(x: object) -> Any:
            entered.extend([] if x in first else [x])
            return inputs(x)

        return original(self, first, end, entering)

    monkeypatch.setattr(Lateness, "leads_to", watched)
    counts = []
    for steps in LENGTHS:
        outputs = gradient(name, steps)
        entered.clear()
        lower_program(*outputs)
        counts.append(len(entered))
    assert grows_linearly(counts), counts


@pytest.mark.parametrize("name", NAMES)
def test_equal_steps_are_planned_and_compiled_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, compiled = [], []
    for steps in LENGTHS[1:]:
        outputs = gradient(name, steps)
        plans = count_calls(monkeypatch, plan_cache, "plan_nest")
        program = lower_program(*outputs)
        planned.append(len(plans))
        monkeypatch.undo()
        equal = [k for k in program.kernels if len(k.reads) < 8]  # a sum of all steps reads them
        keys = dict.fromkeys([kernel_key(k)[0] for k in equal])
        compiled.append(len(keys))
    assert planned[0] == planned[1] > 0 and compiled[0] == compiled[1] > 0, (planned, compiled)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_equal_steps_are_keyed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for steps in (64, 128):
        outputs = gradient(name, steps)
        written = count_calls(monkeypatch, keys, "_written")
        finished = count_calls(monkeypatch, lower, "finished_kernel")
        for k in lower_program(*outputs).kernels:
            kernel_key(k)
        counts.append((len(written), len(finished)))
        monkeypatch.undo()
    assert counts[0] == counts[1] and all(counts[0]), counts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ALIKE)
def test_reads_of_equal_steps_are_judged_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = gradient(name, 8), gradient(name, 16)
    lower_program(*outputs[0])
    classified = count_calls(monkeypatch, reads, "_classified")
    lower_program(*outputs[1])
    assert len(classified) <= 2, classified  # sums of all steps are no equal steps


@pytest.mark.parametrize("name", ["recurrent", "wave"])
def test_equal_pairs_that_are_no_group_are_tried_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for steps in LENGTHS[1:]:
        y, inputs = PROGRAMS[name](steps, 128)
        tried = count_calls(monkeypatch, fuse, "joined")
        lower_program([y], inputs)
        counts.append(len(tried))
        monkeypatch.undo()
    assert counts[0] == counts[1] > 0, counts
