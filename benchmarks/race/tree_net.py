"""A recursive network tree by tree, beside PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from benchmarks.measure.timing import Call, race
from benchmarks.peers.ours import NAME
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.programs import tree_net

PEERS: Final = ("torch", "jax")
TREES: Final = 200
EACH, ANEW, AT_ONCE = "tree_net", "tree_net, trees made anew", "tree_net, JAX all at once"
FLOORS: Final = {"torch": 10.0, "jax": 1.0}
"""For trees that are there. JAX, with all trees in one call of padded arrays, has no floor: it
multiplies matrices where the others multiply vectors."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Milliseconds for all trees, with a call for each, all of them checked."""
    rows = [EACH, ANEW, AT_ONCE]
    chosen = [n for n in rows if n not in done and (not names or any(m in n for m in names))]
    if not chosen:
        return
    calls = contestants(TREES, threads)
    raced = race({("trees", n): call for n, call in calls.items()}, rounds)
    ms = {n: raced.times["trees", n].median_s * 1e3 for n in calls}
    for row in chosen:
        values = _figures(row, ms)
        yield Figures(row, threads, values, foreign=raced.foreign)


def contestants(count: int, threads: int) -> dict[str, Call]:
    """What is timed, by name, of trees whose results are the same."""
    w, given = tree_net.weights(), tree_net.shapes(count)
    mine = tree_net.ours(w, given)
    calls = {NAME: mine.call, ANEW: tree_net.ours_made_anew(w, given)}
    wanted = mine.results()
    absent = missing(PEERS)
    if "torch" not in absent:
        torch = tree_net.by_torch(w, given, threads)
        tree_net.check(wanted, torch.results(), "torch")
        calls["torch"] = torch.call
    if "jax" not in absent:
        jax = tree_net.by_jax(w, [[s] for s in given])
        tree_net.check(wanted, jax.results(), "jax")
        calls["jax"] = jax.call
        at_once = tree_net.by_jax(w, [given])
        tree_net.check([tree_net.added(wanted)], at_once.results(), "jax, all at once")
        calls[AT_ONCE] = at_once.call
    return calls


def _figures(row: str, ms: dict[str, float]) -> dict[str, float]:
    """What a row shows: our time, those of others and ratios."""
    mine = ms[ANEW if row == ANEW else NAME]
    others = {"jax": AT_ONCE} if row == AT_ONCE else {n: n for n in PEERS}
    found = {n: ms[key] for n, key in others.items() if key in ms}
    values = {f"{NAME} ms": mine} | {f"{n} ms": t for n, t in found.items()}
    return values | {f"{n} / ours": t / mine for n, t in found.items()}


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """A floor for each framework."""
    own = [r for r in rows if r.name == EACH]
    pairs = [(f"{n} / ours", floor) for n, floor in FLOORS.items()]
    return those([asked(own, f"{EACH}, {ratio}", ratio, floor) for ratio, floor in pairs])


SUITE: Final = Suite(
    "trees", "a recursive network on trees beside PyTorch and JAX, tree by tree", measure, judge,
    peers=PEERS,
)  # fmt: skip
