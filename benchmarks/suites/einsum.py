"""Sums over products of several tensors beside frameworks that choose an order themselves."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from benchmarks.measure.timing import Call, race
from benchmarks.peers.ours import allocated
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite
from benchmarks.report.verdicts import Verdict, geometric_mean
from benchmarks.workloads.problem import Array
from tensorad import te, topi
from tensorad.building import build

CHAINS: Final = 50
PEERS: Final = ("torch", "jax")
_EXTENTS: Final = (8, 16, 24, 32, 48, 64, 96, 128, 160, 256)
_LETTERS: Final = "abcdefghi"


@dataclass(frozen=True)
class Case:
    """One einsum and the shapes of its operands."""

    text: str
    shapes: tuple[tuple[int, ...], ...]


TUCKER: Final = Case("abc,ia,jb,kc->ijk", ((16, 16, 16), (96, 16), (96, 16), (96, 16)))


def cases() -> dict[str, Case]:
    """A Tucker decomposition put together, and chains of three to eight tensors.

    Each tensor of a chain shares a letter with the next; some of the matrices are stored the other
    way, some have a letter of the result or one of their own besides.
    """
    found = {"tucker": TUCKER}
    rng = random.Random(0)
    for n in range(CHAINS):
        count = rng.randint(3, 8)
        extents = {c: rng.choice(_EXTENTS) for c in _LETTERS[: count + 1]}
        extents |= {"x": rng.choice((2, 3, 4)), "z": rng.choice((2, 3, 4))}
        terms = [_LETTERS[i : i + 2][:: rng.choice((1, -1))] for i in range(count)]
        if n % 2:
            for letter in "xz":
                at = rng.randrange(count)
                terms[at] = letter + terms[at]
        output = _LETTERS[0] + _LETTERS[count] + ("x" if n % 2 else "")
        shapes = tuple([tuple([extents[c] for c in t]) for t in terms])
        found[f"chain {n:02} of {count}"] = Case(f"{','.join(terms)}->{output}", shapes)
    return found


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Every sum whose name contains one of the parts."""
    wanted = {n: c for n, c in cases().items() if not names or any(part in n for part in names)}
    rows = [(n, c) for n, c in wanted.items() if n not in done]
    for name, case in tqdm(rows, unit="sum", leave=False):
        calls = _calls(case, threads)
        raced = race({("einsum", n): c for n, c in calls.items()}, rounds)
        times = {n: raced.times["einsum", n].median_s for n in calls}
        ours = times.pop("tensorad")
        values = {"ms": ours * 1e3, **{f"{n} ms": s * 1e3 for n, s in times.items()}}
        if times:
            values["best / ours"] = min(times.values()) / ours
        yield Figures(name, threads, values, foreign=raced.foreign)


def _calls(case: Case, threads: int) -> dict[str, Call]:
    """Ours into an array allocated once, the others' into new ones, all checked."""
    arrays = _arrays(case, np.float32)
    tensors = [te.placeholder(s, name=f"T{n}") for n, s in enumerate(case.shapes)]
    y = topi.einsum(case.text, *tensors)
    f = build(y, tensors)
    (out,) = allocated([y])
    calls: dict[str, Any] = {"tensorad": lambda: f(*arrays, out=out)}
    absent = missing(PEERS)
    if "torch" not in absent:
        import torch

        torch.set_num_threads(threads)
        theirs = [torch.from_numpy(a) for a in arrays]
        calls["torch"] = lambda: torch.einsum(case.text, *theirs)
    if "jax" not in absent:
        import jax

        run = jax.jit(lambda *a: jax.numpy.einsum(case.text, *a, optimize="optimal"))
        given = [jax.device_put(a) for a in arrays]
        calls["jax"] = lambda: jax.block_until_ready(run(*given))
    expected = np.einsum(case.text, *_arrays(case, np.float64), optimize="optimal")
    for name, call in calls.items():
        _check(f"{case.text} of {name}", np.asarray(call()), expected, 1e-4)
    _check_doubles(case, expected)
    return calls


def _arrays(case: Case, dtype: Any) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32).astype(dtype) for s in case.shapes]


def _check_doubles(case: Case, expected: Array) -> None:
    tensors = [te.placeholder(s, "float64", name=f"T{n}") for n, s in enumerate(case.shapes)]
    found = build(topi.einsum(case.text, *tensors), tensors)(*_arrays(case, np.float64))
    _check(f"{case.text} in float64", found, expected, 1e-12)


def _check(what: str, found: Array, expected: Array, limit: float) -> None:
    apart = float(np.abs(found - expected).max()) / float(np.abs(expected).max())
    if not apart <= limit:
        raise ArithmeticError(f"{what} is off by {apart:.1e}.")


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """What all of them together are asked."""
    ratios = [r.values["best / ours"] for r in rows if "best / ours" in r.values]
    if not ratios:
        return []
    mean = geometric_mean(ratios)
    text = f"{mean:.2f} of 1 over {len(ratios)}"
    return [Verdict("einsum in the order of each, geometric mean of best / ours", mean >= 1, text)]


SUITE: Final = Suite(
    "einsum", "products of several tensors, in the order that each library chooses", measure,
    judge, peers=PEERS,
)  # fmt: skip
