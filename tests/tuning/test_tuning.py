"""Schedules found by measuring: what is tried, what is kept, what is remembered."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, tuning
from tensorad.codegen import directives as choices_module
from tensorad.codegen.directives import REORDERING, Choices, Schedules, switches
from tensorad.codegen.lower import lower_program, needed_ops
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BindError
from tensorad.ir.tensor import Tensor
from tensorad.process import forget


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget()
    yield
    forget()


def product(n: int = 33) -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((n, 20), name="A"), te.placeholder((20, 50), name="B")
    k = te.reduce_axis(20, name="k")
    return te.compute((n, 50), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"), [a, b]


def never(*_: object) -> None:
    raise AssertionError("nothing should be measured")


def task(given: Schedules, made: dict[CompiledFunction, Schedules]) -> tuning.Task:
    """The product, its functions noted with the schedules that made them."""
    c, inputs = product()

    def make(schedules: Schedules) -> CompiledFunction:
        f = ta.build(c, inputs, schedule=schedules.named or schedules.everywhere)
        made[f] = schedules
        return f

    rng = np.random.default_rng(0)
    sets = [[rng.normal(size=s).astype("f") for s in ((33, 20), (20, 50))] for _ in range(2)]
    ops = [op for op, _ in needed_ops([c], inputs)]
    return tuning.Task(make, lower_program([c], inputs, choices=given), ops, given, sets, {})


def search(
    monkeypatch: pytest.MonkeyPatch, given: Schedules, liked: Choices
) -> tuple[dict[str, Choices], list[Choices]]:
    """What a search keeps if calls are faster by what they have in common with `liked`."""
    made: dict[CompiledFunction, Schedules] = {}

    def merit(f: CompiledFunction) -> int:
        c = made[f].of("C")
        return sum(c.made().get(name) == value for name, value in liked.made().items())

    monkeypatch.setattr(tuning.Search, "is_faster", lambda _, f, g: merit(f) > merit(g))
    found = tuning.Search(task(given, made), 60.0).run()
    return found, [s.of("C") for s in made.values()]


def test_several_decisions_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    liked = Choices(tile=(2, 1), parallel=True)
    found, tried = search(monkeypatch, Schedules(), liked)
    assert found == {"C": liked}
    assert len(tried) > 10 and all(not set(c.made()) & set(REORDERING) for c in tried)


def test_what_the_user_decided_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Schedules(Choices(tile=(3, 1), vector="j"))
    found, tried = search(monkeypatch, given, Choices(tile=(2, 1), parallel=False))
    assert all(c.tile == (3, 1) and c.vector == "j" for c in tried)
    assert found == {"C": Choices(tile=(3, 1), vector="j", parallel=False)}


def test_gains_that_do_not_last_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, *[False] * 1000])
    monkeypatch.setattr(tuning.Search, "is_faster", lambda *_: next(answers))
    assert tuning.Search(task(Schedules(), {}), 60.0).run() == {}


def test_results_in_another_order_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.Search, "is_faster", lambda *_: True)
    made = task(Schedules(Choices(vector="j")), {})
    found = tuning.Search(made, 60.0)
    first = [made.call(made.make(made.given), n) for n in range(2)]
    assert found.attempt({"C": Choices(vector="k", tile=(1, 1))}, first) is None
    assert found.attempt({"C": Choices(vector="j", tile=(1, 2))}, first) is not None


def test_bits_stay_and_the_budget_holds() -> None:
    c, inputs = product()
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=tuple(map(int, t.shape))).astype("f") for t in inputs]  # type: ignore[arg-type]  # numbers
    want = ta.build(c, inputs)(*arrays)
    assert ta.build(c, inputs, tune=0.3)(*arrays).tobytes() == want.tobytes()


def test_no_time_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.Search, "attempt", never)
    c, inputs = product()
    assert isinstance(ta.build(c, inputs, tune=0.0), CompiledFunction)


def test_the_process_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def run(_: object) -> dict[str, Choices]:
        runs.append(1)
        return {"C": Choices(tile=(2, 1))}

    monkeypatch.setattr(tuning.Search, "run", run)
    for _ in range(2):
        ta.build(*product(), tune=True)
    assert len(runs) == 1
    ta.build(*product(34), tune=True)
    assert len(runs) == 2, "other sizes are another program"
    with override(machine="l2=12345"):
        ta.build(*product(), tune=True)
    assert len(runs) == 3, "so is another machine"
    with override(num_threads=7):
        ta.build(*product(), tune=True)
    assert len(runs) == 4, "so are other threads"


def test_the_disk_remembers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {"C": Choices(tile=(2, 1), order=("j",), parallel=False)}
    monkeypatch.setattr(tuning.Search, "run", lambda _: found)
    seen: list[Schedules] = []
    tuned = tuning.tuned

    def noted(task: tuning.Task, seconds: float) -> Schedules:
        seen.append(tuned(task, seconds))
        return seen[-1]

    monkeypatch.setattr("tensorad.building.tuned", noted)
    with override(cache_dir=str(tmp_path)):
        ta.build(*product(), tune=True)
        (file,) = (tmp_path / "tuned").iterdir()
        forget()
        monkeypatch.setattr(tuning.Search, "run", never)
        ta.build(*product(), tune=True)
        assert seen[0].named == seen[1].named == found
        for damage in ("", "{", "[]", '{"choices": {"C": {"tile": [99]}}}', '{"choices": 3}'):
            file.write_text(damage)
            forget()
            monkeypatch.setattr(tuning.Search, "run", lambda _: found)
            ta.build(*product(), tune=True)
            assert seen[-1].named == found and file.read_text() != damage


def test_a_folder_that_cannot_be_written_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tuning.Search, "run", lambda _: {})
    (tmp_path / "file").write_text("")
    with override(cache_dir=str(tmp_path / "file")):
        ta.build(*product(), tune=True)


def test_symbolic_sizes_need_numbers() -> None:
    n = te.size("n")
    x = te.placeholder((n, 4), name="X")
    y = te.compute((n, 4), lambda i, j: x[i, j] * 2.0, name="Y")
    with pytest.raises(BindError) as caught:
        ta.build(y, [x], tune=True)
    assert str(caught.value) == (
        "tune needs a number for the size n of X.\n"
        "  in: X : float32 (n, 4)\n"
        "  hint: pass it: tune={'n': 8}."
    )
    f = ta.build(y, [x], tune={"n": 9})
    np.testing.assert_array_equal(f(np.ones((3, 4), "f")), np.full((3, 4), 2.0))


def test_index_data_is_valid_while_tuning() -> None:
    x, p = te.placeholder((5,), name="X"), te.placeholder((8,), "int64", name="P")
    y = te.compute((8,), lambda i: x[p[i] * 2], name="Y")
    f = ta.build(y, [x, p], tune=0.1)
    assert f(np.arange(5, dtype="f"), np.full(8, 2)).tolist() == [4.0] * 8


def test_decisions_that_reorder_say_so() -> None:
    """A field whose docstring speaks of another order is never tried, and the other way."""
    tree = ast.parse(inspect.getsource(choices_module))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Choices").body
    told = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            told[field.target.id] = ast.literal_eval(text.value)  # type: ignore[union-attr]  # names
    assert set(switches()) <= set(told) and set(REORDERING) <= set(told)
    for name in switches():
        says = "reorder" in told[name] and "No sum is reordered" not in told[name]
        assert says == (name in REORDERING), name


def test_times_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    times = {"a": iter([3.0, 5.0, 2.0, 9.0] * 9), "b": iter([4.0, 4.0, 4.0, 4.0] * 9)}

    def once(run: str, count: int = 1) -> float:
        calls.append(run)
        return next(times[run])

    monkeypatch.setattr(tuning, "once", once)
    assert tuning.compare("a", "b") == 0.5  # type: ignore[arg-type]  # names stand for runs
    assert calls[:6] == list("ababab")


def test_bits_of_nan_do_not_matter() -> None:
    a = np.array([1.0, np.nan, -0.0])
    b = np.array([1.0, -np.nan, -0.0])
    assert tuning.same_bits(a, b) and not tuning.same_bits(a, np.array([1.0, np.nan, 0.0]))
    assert not tuning.same_bits(a, np.array([1.0, 2.0, -0.0]))
