"""Schedules found by measuring: a search around what the analysis chose, remembered."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorad import config
from tensorad.codegen.cost.predict import predict
from tensorad.codegen.directives import REORDERING, Choices, Schedules, switches
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.target import machine
from tensorad.compiled import CompiledFunction
from tensorad.errors import BuildError
from tensorad.ir.expr import Expr, size_var
from tensorad.ir.tensor import Op
from tensorad.process import memo

SECONDS: Final = 10.0
"""How long a search may take unless told otherwise."""
TILES: Final = ((4, 1), (4, 2), (6, 1), (6, 4), (8, 1), (8, 2), (2, 1), (2, 2), (2, 4), (3, 4),
                (5, 2), (12, 2), (1, 1), (1, 2), (1, 4), (1, 8))  # fmt: skip
SMALL_SHARE: Final = 0.05
"""Tensors whose kernels take less than this share of the predicted time are left alone."""
BETTER: Final = 0.97
"""A change is kept if it takes at most this share of the time."""
_FORMAT: Final = 1
"""Of what is stored on disk."""
_remembered: dict[str, dict[str, Choices]] = memo({})

Make = Callable[[Schedules], CompiledFunction]
Run = Callable[[], object]


@dataclass(frozen=True, eq=False)
class Task:
    """A program to find schedules for.

    Attributes:
        make: the function compiled by some schedules.
        program: the loops by the schedules given.
        ops: what has loops.
        given: the user's schedules; what they decide stays.
        arrays: sets of arguments that results are compared on.
        sizes: numbers for symbolic sizes.
    """

    make: Make
    program: LoopProgram
    ops: Sequence[Op]
    given: Schedules
    arrays: Sequence[Sequence[Array]]
    sizes: Mapping[str, int]

    def call(self, f: CompiledFunction, n: int, **out: object) -> list[Array]:
        """The results on one set of arguments."""
        found = f(*self.arrays[n], **out, **self.sizes)
        return found if isinstance(found, list) else [found]


def tuned(task: Task, seconds: float) -> Schedules:
    """The schedules with which calls take the least time; their results have the same bits.

    What was found for equal loops on an equal machine is taken from memory, or from
    TENSORAD_CACHE_DIR if it is set.
    """
    key = key_of(task)
    found = _remembered.get(key)
    if found is None:
        found = _load(key)
    if found is None:
        found = Search(task, seconds).run()
        _store(key, found)
    _remembered[key] = found
    return replace(task.given, named={**task.given.named, **found})


def key_of(task: Task) -> str:
    """What the result of a search depends on: loops, names, decisions made, machine, threads."""
    parts = [repr(kernel_key(k)[0]) for k in task.program.kernels]
    parts += [f"{op.name} {task.given.of(op.name)}" for op in task.ops]
    parts += [str(machine.current()), str(config.current().num_threads), str(_FORMAT)]
    return hashlib.sha256("\n\n".join(parts).encode()).hexdigest()


class Search:
    """Changes one decision of one tensor at a time; the costliest tensors first."""

    def __init__(self, task: Task, seconds: float) -> None:
        self.task = task
        self.end = time.perf_counter() + seconds
        self.best: dict[str, Choices] = {}
        self.tried = 0

    def run(self) -> dict[str, Choices]:
        """The choices that were kept, by tensor name."""
        if time.perf_counter() >= self.end:
            return {}
        first = self.task.make(self.task.given)
        wanted = [self.task.call(first, n) for n in range(len(self.task.arrays))]
        kept = first
        for name in self.order():
            for field, value in candidates(self.task.given.of(name), self.axes(name)):
                if time.perf_counter() >= self.end:
                    break
                changed = replace(self.current(name), **{field: value})  # type: ignore[arg-type]  # a field of that kind
                other = self.attempt({**self.best, name: changed}, wanted)
                if other is not None and self.is_faster(other, kept):
                    kept, self.best[name] = other, changed
        if self.best and not self.is_faster(kept, first):
            return {}  # what looked like gains was noise
        return self.best

    def current(self, name: str) -> Choices:
        """The decisions about a tensor so far."""
        return self.best.get(name, self.task.given.of(name))

    def axes(self, name: str) -> list[str]:
        """The output axes of the tensors of a name."""
        own = [a.name for op in self.task.ops if op.name == name for a in getattr(op, "axes", ())]
        return list(dict.fromkeys(own))

    def order(self) -> list[str]:
        """Tensors by the time their kernels take, as predicted; small shares are left out."""
        sizes: dict[Expr, int] = {size_var(name): n for name, n in self.task.sizes.items()}
        speed = machine.current()
        costs: dict[str, float] = {}
        for kernel in self.task.program.kernels:
            p = predict(kernel, sizes)
            cost = p.flops / (speed.vector_bytes * 1e9) + (p.read + p.written) / 2e10
            for op in self.task.ops:
                if any(t.op is op or t.name == op.name for t in (*kernel.writes, *kernel.scratch)):
                    costs[op.name] = costs.get(op.name, 0.0) + cost
        total = sum(costs.values())
        ranked = sorted(costs, key=lambda name: -costs[name])
        return [name for name in ranked if costs[name] >= SMALL_SHARE * total]

    def attempt(
        self, named: Mapping[str, Choices], wanted: Sequence[Sequence[Array]]
    ) -> CompiledFunction | None:
        """The function with other choices, if it exists and its results have the same bits."""
        self.tried += 1
        schedules = replace(self.task.given, named={**self.task.given.named, **named})
        try:
            f = self.task.make(schedules)
        except BuildError:  # no loops can be written this way
            return None
        for n, want in enumerate(wanted):
            if not all(map(same_bits, self.task.call(f, n), want)):
                return None
        return f

    def is_faster(self, f: CompiledFunction, than: CompiledFunction) -> bool:
        """Whether its calls take clearly less time, measured in turn."""
        runs = [partial(self.task.call, g, 0, out=self.task.call(g, 0)) for g in (f, than)]
        return compare(runs[0], runs[1]) <= BETTER


def candidates(given: Choices, axes: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Decisions that are open, each made in several ways: (field, value).

    Decisions that are there to change the order of a sum are not among them. A tile may change it
    (several vectors of a reduce axis): `Search.attempt` refuses what changes a bit.
    """
    for name in switches():
        if getattr(given, name) is None and name not in REORDERING:
            yield from ((name, value) for value in (True, False))
    if given.tile is None:
        yield from (("tile", tile) for tile in TILES)
    if given.order is None and len(axes) > 1:
        yield from (("order", (a,)) for a in axes)


def compare(first: Run, second: Run, rounds: int = 7, least: float = 2e-4) -> float:
    """The time of one over that of the other: least times of calls in turn."""
    times = [once(first), once(second)]
    count = max(1, int(least / max(1e-7, min(times))))
    times = [float("inf")] * 2
    for number in range(rounds):
        for n, run in enumerate((first, second)):
            times[n] = min(times[n], once(run, count))
        if number >= 1 and times[0] > 1.5 * times[1]:
            break  # hopeless
    return times[0] / max(times[1], 1e-12)


def once(run: Run, count: int = 1) -> float:
    """Seconds of one call, over `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal bit by bit, but for which NaN a NaN is."""
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind != "f":
        return False
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return False
    return np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


def wide_range(a: Array, seed: int) -> Array:
    """The same signs over forty powers of two: sums in another order differ in their bits."""
    if a.dtype.kind != "f":
        return a
    powers = np.random.default_rng(seed).integers(-20, 21, a.shape)
    return np.asarray(np.ldexp(a, powers), a.dtype)


def _file(key: str) -> Path | None:
    folder = config.current().cache_dir
    return Path(folder) / "tuned" / f"{key}.json" if folder else None


def _load(key: str) -> dict[str, Choices] | None:
    """What an earlier process found; None where nothing legible is stored."""
    file = _file(key)
    if file is None:
        return None
    try:
        stored: Any = json.loads(file.read_text())
        return {name: Choices(**_fields(made)) for name, made in stored["choices"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # absent or damaged
        return None


def _fields(made: Mapping[str, Any]) -> dict[str, Any]:
    """Lists, as JSON has them, to tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in made.items()}


def _store(key: str, found: Mapping[str, Choices]) -> None:
    """Keep for later processes; a folder that cannot be written to is no reason to fail."""
    file = _file(key)
    if file is None:
        return
    text = json.dumps(
        {
            "machine": str(machine.current()),
            "choices": {name: c.made() for name, c in found.items()},
        },
        indent=1,
    )
    part = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(file)  # readers see all of it or nothing
    except OSError:
        with suppress(OSError):
            part.unlink()
