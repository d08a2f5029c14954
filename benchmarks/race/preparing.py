"""What PyTorch compiles for a run, compiled on all CPUs before anything is timed."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tqdm import tqdm

from benchmarks.measure.machine import fingerprint, versions
from benchmarks.measure.processes import TORCH_CACHE, bind_to, cpus, environment
from benchmarks.peers.contestant import attempted
from benchmarks.peers.registry import make, missing
from benchmarks.race.frameworks import Plan, instances
from tensorad import config

PEER: Final = "torch_compile"


def prepare(arguments: Sequence[str], threads: int) -> None:
    """Fill PyTorch's cache for `python -m benchmarks <arguments>`; once for every run."""
    given = environment(threads)
    run = [*arguments, str(threads), versions().get("torch", ""), fingerprint()]
    done = Path(given[TORCH_CACHE], f"run_{hashlib.sha256(repr(run).encode()).hexdigest()[:16]}")
    if missing([PEER]) or done.exists():
        return
    print(f"PyTorch compiles for {threads} thread{'s' * (threads > 1)}", flush=True)
    found = cpus()
    command = [sys.executable, "-m", "benchmarks", *arguments, "--prepare"]
    started = [
        subprocess.Popen(
            [*command, f"{n},{len(found)}"], env=given, preexec_fn=partial(bind_to, [cpu])
        )
        for n, cpu in enumerate(found)
    ]
    codes = [process.wait() for process in started]
    if not any(codes):
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()


def compile_share(plan: Plan, options: argparse.Namespace) -> int:
    """In one of these processes: every n-th instance; who fails is told when it is measured."""
    first, step = options.prepare
    for w, _, sizes in tqdm(instances(plan)[first::step], unit="workload", leave=False):
        p = w.problem(sizes)
        modes = [m for m in plan.modes if m != "step" or p.step]
        threads = config.current().num_threads
        attempted(PEER, modes, partial(make, PEER, p, modes, threads))
    return 0
