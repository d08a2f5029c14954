"""A regression guard: the ratios of two runs, never their seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from benchmarks.peers.ours import NAME
from benchmarks.records import Row
from benchmarks.tables import aligned, number, title

ALLOWED: Final = 0.6
"""A ratio may fall to this share of what it was; noise of a shared machine stays above."""
CALL_MS: Final = 0.02
"""Below this, a peer's time is its call's."""


def compare(old: Sequence[Row], new: Sequence[Row]) -> tuple[list[Row], str]:
    """(complaints, text): rows of both runs whose ratio to a common peer fell too far.

    For every peer that both runs have, (peer / ours) of the least times is compared; the row
    is judged by the peer that speaks best for the new run, since a peer may have become slower
    or faster by itself.
    """
    before = {r.key: r for r in old if NAME in r.least_ms}
    complaints: list[Row] = []
    cells = []
    for r in new:
        if r.key not in before or NAME not in r.least_ms:
            continue
        shares = _shares(before[r.key], r)
        if not shares:
            continue
        peer = max(shares, key=shares.__getitem__)
        fallen = shares[peer] < ALLOWED
        name = f"{title(r)} {r.mode}, {r.threads} thread{'s' * (r.threads > 1)}"
        if fallen:
            complaints.append(r)
        then, now = _ratio(before[r.key], peer), _ratio(r, peer)
        mark = "FELL" if fallen else ""
        cells.append([name, peer, number(then), number(now), f"{shares[peer]:.2f}", mark])
    text = aligned(["peer / ours", "peer", "then", "now", "share", ""], cells) if cells else ""
    summary = f"{len(cells)} ratios compared, {len(complaints)} below {ALLOWED} of what they were"
    return complaints, f"{text}\n{summary}".lstrip()


def _shares(old: Row, new: Row) -> dict[str, float]:
    names = [n for n in new.least_ms if n in old.least_ms and n != NAME]
    kernels = [n for n in names if min(old.least_ms[n], new.least_ms[n]) >= CALL_MS] or names
    return {n: _ratio(new, n) / _ratio(old, n) for n in kernels}


def _ratio(r: Row, peer: str) -> float:
    ours = r.least_ms[NAME]
    return r.least_ms[peer] / ours if ours else math.inf
