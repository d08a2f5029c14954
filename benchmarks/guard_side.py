"""One side of the guard: a process that times tensorad's calls when it is told to.

It reads requests from its standard input and writes answers, each a line of JSON:
{"prepare": workload} -> {"calls": {mode: seconds}, "failed": {mode: error}} and
{"sample": mode, "calls": n} -> {"seconds": of one call}.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.measure.timing import settle
from benchmarks.peers import ours
from benchmarks.peers.contestant import Call, attempted
from benchmarks.workloads.catalogue import WORKLOADS


def main(modes: list[str]) -> int:
    """Answer until the input ends."""
    calls: dict[str, Call] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            answer = _prepared(request["prepare"], modes, calls)
        else:
            answer = {"seconds": _seconds(calls[request["sample"]], request["calls"])}
        print(json.dumps(answer), flush=True)
    return 0


def _prepared(name: str, modes: list[str], calls: dict[str, Call]) -> dict[str, Any]:
    """Compile a workload's calls in place of those before; the fastest of three each."""
    calls.clear()
    problem = WORKLOADS[name].problem()
    found = attempted(ours.NAME, modes, lambda: ours.contestant(problem, modes))
    calls.update(found.calls)
    seconds = {m: min([_seconds(call, 1) for _ in range(3)]) for m, call in calls.items()}
    return {"calls": seconds, "failed": found.failed}


def _seconds(call: Call, count: int) -> float:
    """Of one call, the mean of so many."""
    settle()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
