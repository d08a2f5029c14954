"""The table of work: every row keeps its rules, and its gradient is right."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.suites import work_table
from benchmarks.suites.work_table import CASES, Row, made, measure
from benchmarks.work_cases import (
    contractions,
    convolutions,
    domains,
    folds,
    pools,
    rearrangements,
)
from benchmarks.work_cases.case import ByHand, Case, Problem, inputs_of
from tensorad import config
from tensorad.building import build
from tensorad.counting import Innermost
from tensorad.ir.analysis.points import evaluate
from tensorad.ir.expr import Expr, size_var
from tensorad.ir.tensor import Placeholder, Tensor, dim_expr, outputs
from tensorad.ir.visit import topological_ops

Array = np.ndarray[Any, np.dtype[Any]]
PARTS = (contractions, convolutions, domains, folds, pools, rearrangements)
BY_NAME = {c.name: c for c in CASES}


def rows_of(part: ModuleType) -> list[tuple[Case, bool]]:
    return [(c, s) for c in part.CASES for s in ((False, True) if c.second else (False,))]


def test_the_table_is_large_and_its_rows_have_names() -> None:
    assert len(CASES) == len(BY_NAME) >= 250
    assert sum([c.second for c in CASES]) >= 20


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "iterations", "multiplications"),
    [
        ("dense dX", 4 * 6 * 5, 4 * 6 * 5),
        ("A[i,j] + A[j,i]", 36, 0),
        ("conv k2 s1 d1 p0 dX", 2 * 2 * 3 * 7 * 7 * 4, 2 * 2 * 3 * 7 * 7 * 4),
        ("sum pool k2 s2 p0", 2 * 2 * 64, 3 * 2 * 2 * 64),
        ("flatten 4d", 120, 2 * 120),
        ("flatten, all sizes symbolic", 120, 3 * 120),
        ("triangular sum of squares", 36, 21),
        ("causal attention dQ", 2 * 21 * 3 + 2 * 36 * 3, 2 * 21 * 3 + 2 * 36 * 3),
        ("cumsum", 120, 0),
    ],
)
def test_a_row_counts(name: str, iterations: int, multiplications: int) -> None:
    row = measure(BY_NAME[name], rounds=1)
    assert row.faults == []
    assert (row.iterations, row.multiplications) == (iterations, multiplications)


def test_gradients_of_gradients_have_bounds_of_their_own() -> None:
    first = measure(BY_NAME["A[i,j] * A[j,i]"], rounds=1)
    second = measure(BY_NAME["A[i,j] * A[j,i]"], rounds=1, second=True)
    assert second.name == "A[i,j] * A[j,i], twice"
    assert second.bound > first.bound
    assert second.faults == []


def row(**changes: object) -> Row:
    fields: dict[str, object] = {
        "name": "r", "iterations": 100, "bound": 100, "multiplications": 10, "limit": 20,
        "innermost": Innermost(0, 0), "nodes": 5, "ms": 1.0,
    }  # fmt: skip
    return Row(**(fields | changes))  # type: ignore[arg-type]  # names and values by the caller


def test_faults_name_the_broken_rules() -> None:
    assert row().faults == []
    assert row(iterations=101).faults == ["iterations"]
    assert row(multiplications=21).faults == ["multiplications"]
    assert row(by_hand=ByHand(96, 10)).faults == []
    assert row(by_hand=ByHand(95, 9)).faults == [
        "iterations by hand",
        "multiplications by hand",
    ]
    text = work_table.table([row(), row(iterations=101, name="worse")])
    assert "2 rows; 1 above their bound, worst 1.010 (worse)" in text
    assert "1 rows break a rule" in text


def test_the_command_prints_rows_and_says_whether_they_keep_the_rules(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["work", "trace", "diagonal matrix"]) == 0
    printed = capsys.readouterr().out
    assert "2 rows; 0 above their bound" in printed
    assert main(["work", "no such row"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda m: str(m.__name__.split(".")[-1]))
def test_every_row_keeps_the_rules(part: ModuleType) -> None:
    rows = [measure(c, 1, second) for c, second in rows_of(part)]
    assert [(r.name, r.faults) for r in rows if r.faults] == []
    assert [(r.name, r.ms) for r in rows if r.ms > 3 * work_table.MOST_MS] == []  # no hangs


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda m: str(m.__name__.split(".")[-1]))
def test_gradients_have_equally_many_nodes_at_any_extent(part: ModuleType) -> None:
    for case, second in rows_of(part):
        counts = {work_table.nodes(gradients_at(case, second, g)) for g in case.growth}
        assert len(counts) <= 1, (case.name, second, counts)


def gradients_at(case: Case, second: bool, growth: int) -> list[Tensor]:
    return work_table.gradients(made(case, second, growth))


def test_sums_of_rows_and_of_columns_are_not_confused() -> None:
    demand_slopes(BY_NAME["squared distances within X"], second=True)


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("part", PARTS, ids=lambda m: str(m.__name__.split(".")[-1]))
def test_compiled_gradients_are_slopes(part: ModuleType, half: int) -> None:
    for case, second in rows_of(part)[half::2]:
        demand_slopes(case, second)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "name",
    ["triangular sum of squares", "banded storage", "not-equal hole", "pad reflect", "tile",
     "symbolic band", "conv k3 s2 d1 p1 dX", "max pool k2 s2 p0", "reshape (6,20) -> (8,15)"],
)  # fmt: skip
def test_without_a_budget_for_sets_gradients_cost_more_but_are_right(name: str) -> None:
    with config.override(isl_operations=100):
        demand_slopes(BY_NAME[name], second=False)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [30, 1000, 10_000])
@pytest.mark.parametrize("part", [domains, rearrangements], ids=["domains", "rearrangements"])
def test_gradients_are_right_for_any_budget(part: ModuleType, operations: int) -> None:
    with config.override(isl_operations=operations):
        for case, _ in rows_of(part):
            demand_slopes(case, second=False)


def demand_slopes(case: Case, second: bool) -> None:
    with inputs_of("float64"):
        problem = made(case, second)
    for x, expected, found, scale in slopes(problem, np.random.default_rng(0)):
        assert abs(found - expected) <= 1e-6 * scale, (case.name, second, x, expected, found)


def slopes(
    p: Problem, rng: np.random.Generator, eps: float = 1e-6
) -> list[tuple[str, float, float, float]]:
    """For each input: its name, the central difference of H·y along a random direction, the
    gradient times that direction, and the size of the terms."""
    y, gradients = p.y, work_table.gradients(p)
    placeholders = [op for op in topological_ops([y, *gradients, *p.wrt])
                    if isinstance(op, Placeholder)]  # fmt: skip
    inputs = [t for op in placeholders for t in outputs(op)]
    f = build([y, *gradients], inputs)
    values = {t: p.arrays[t] if t in p.arrays else away_from_zero(t, p, rng) for t in inputs}
    weights = next((v for t, v in values.items() if t.name == "H"), np.float64(1.0))

    def run(changed: Tensor | None = None, by: object = 0.0) -> list[Array]:
        given = [v + by if t is changed else v for t, v in values.items()]
        return list(f(*given))

    _, *found = run()
    result = []
    for x, g in zip(p.wrt, found, strict=True):
        d = rng.standard_normal(g.shape)
        up, down = run(x, eps * d)[0], run(x, -eps * d)[0]
        expected = float(((up - down) * weights).sum()) / (2 * eps)
        scale = max(1.0, float(np.abs(g * d).sum()))
        result.append((x.name, expected, float((g * d).sum()), scale))
    return result


def away_from_zero(t: Tensor, p: Problem, rng: np.random.Generator) -> Array:
    sizes: dict[Expr, int] = {size_var(name): n for name, n in p.sizes.items()}
    shape = [int(evaluate((dim_expr(n),), {}, sizes)[0]) for n in t.shape]
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape))
