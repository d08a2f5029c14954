"""Functions of many examples at once (`vmap`), beside PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from tqdm import tqdm

import tensorad as ta
from benchmarks.measure.timing import Call, race
from benchmarks.peers.ours import NAME
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.problem import Array
from tensorad import topi

PEERS: Final = ("torch", "jax")
EXAMPLES, FEATURES, HIDDEN, CLASSES = 1000, 64, 128, 10
ROOTS, MOST_STEPS = 1_000_000, 60
RATIO: Final = "best / ours"
FLOORS: Final = {"gradients of examples": 1 / 1.3}
"""Roots have none: JAX does the most steps for every row, we the sum of them."""
Made = Mapping[str, tuple[Call, Callable[[], list[Array]]]]
"""By contestant: what is timed, and its results."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Milliseconds, all of them checked."""
    cases: dict[str, Callable[[int], Made]] = {
        "gradients of examples": partial(gradients, EXAMPLES),
        "roots of rows": partial(roots, ROOTS),
    }
    chosen = {n: c for n, c in cases.items() if not names or any(part in n for part in names)}
    for name in tqdm([n for n in chosen if n not in done], unit="function", leave=False):
        made = chosen[name](threads)
        check(made)
        raced = race({("mapped", n): call for n, (call, _) in made.items()}, rounds)
        ms = {n: raced.times["mapped", n].median_s * 1e3 for n in made}
        values = {f"{n} ms": t for n, t in ms.items()}
        others = [t for n, t in ms.items() if n != NAME]
        if others:
            values[RATIO] = min(others) / ms[NAME]
        yield Figures(name, threads, values, foreign=raced.foreign)


def check(made: Made) -> None:
    """All have the same results.

    Raises:
        ArithmeticError: they have not.
    """
    wanted = made[NAME][1]()
    for name, (_, results) in made.items():
        for a, b in zip(results(), wanted, strict=True):
            apart = float(np.abs(a - b).max()) / float(np.abs(b).max())
            if not apart <= 1e-4:
                raise ArithmeticError(f"vmap by {name}: the result is off by {apart:.1e}.")


# -- the gradient of the loss of a perceptron, for each example ------------------------------------


def gradients(count: int, threads: int) -> Made:
    """`vmap(grad(loss))` of a perceptron with one hidden layer."""
    rng = np.random.default_rng(0)
    w = {
        "hidden": (rng.standard_normal((FEATURES, HIDDEN)) / 8).astype(np.float32),
        "bias": np.zeros(HIDDEN, np.float32),
        "last": (rng.standard_normal((HIDDEN, CLASSES)) / 11).astype(np.float32),
    }
    x = rng.standard_normal((count, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, count)

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = ta.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
        return -topi.nn.log_softmax(z[None, :])[0][y]

    mine = ta.vmap(ta.grad(loss), (None, 0, 0))
    made = {NAME: _ours(lambda: list(mine(w, x, y).values()))}
    absent = missing(PEERS)
    if "torch" not in absent:
        made["torch"] = _torch_gradients(threads, w, x, y)
    if "jax" not in absent:
        made["jax"] = _jax_gradients(w, x, y)
    return made


def _ours(call: Callable[[], list[Array]]) -> tuple[Call, Callable[[], list[Array]]]:
    return call, call


def _torch_gradients(threads: int, w: Mapping[str, Array], x: Array, y: Array) -> Any:
    import torch

    torch.set_num_threads(threads)

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = torch.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
        return torch.nn.functional.cross_entropy(z[None], y[None])

    mapped = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    given = {n: torch.from_numpy(a) for n, a in sorted(w.items())}, *map(torch.from_numpy, (x, y))
    return lambda: mapped(*given), lambda: [a.numpy() for a in mapped(*given).values()]


def _jax_gradients(w: Mapping[str, Array], x: Array, y: Array) -> Any:
    import jax

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = jax.numpy.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
        return -jax.nn.log_softmax(z)[y]

    mapped = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    given = jax.device_put((dict(w), x, y))
    return (
        lambda: jax.block_until_ready(mapped(*given)),
        lambda: [np.asarray(a) for _, a in sorted(mapped(*given).items())],
    )


# -- roots by Newton's method, each row with its own number of steps -------------------------------


def roots(count: int, threads: int) -> Made:
    """`vmap` of a loop that ends by a condition, after 0 to about `MOST_STEPS` steps."""
    rng = np.random.default_rng(0)
    a = np.full(count, 2, np.float32)
    start = (2.0 ** rng.integers(-3, MOST_STEPS - 5, count)).astype(np.float32)

    def root(a: Any, start: Any) -> Any:
        return ta.while_loop(lambda x: abs(x * x - a) > 1e-5 * a, lambda x: (x + a / x) / 2, start)

    mine = ta.vmap(root)
    made = {NAME: _ours(lambda: [mine(a, start)])}
    if "jax" not in missing(PEERS):
        made["jax"] = _jax_roots(a, start)
    return made


def _jax_roots(a: Array, start: Array) -> Any:
    import jax

    def root(a: Any, start: Any) -> Any:
        return jax.lax.while_loop(
            lambda x: abs(x * x - a) > 1e-5 * a, lambda x: (x + a / x) / 2, start
        )

    mapped = jax.jit(jax.vmap(root))
    given = jax.device_put((a, start))
    return lambda: jax.block_until_ready(mapped(*given)), lambda: [np.asarray(mapped(*given))]


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """A floor for each function."""
    return those(
        [
            asked([r for r in rows if r.name == name], f"{name}, {RATIO}", RATIO, floor)
            for name, floor in FLOORS.items()
        ]
    )


SUITE: Final = Suite(
    "examples", "functions of many examples beside PyTorch's and JAX's vmap", measure, judge,
    peers=PEERS,
)  # fmt: skip
