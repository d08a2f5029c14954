"""Machines that tests describe, so that what the analysis chooses is the same wherever they run.

A test whose assertion depends on what is chosen (loops, plans, tiles, scratch, threads) names the
whole machine by `described`. A test of values leaves the machine as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tensorad.codegen import machine
from tensorad.config import override

ZEN4: Final = "l1=32768,l2=1048576,l3=33554432,line=64,vector_bytes=64,registers=32,cores=2"


@contextmanager
def described(changes: str = "", **settings: object) -> Iterator[None]:
    """Have everything planned for two cores of a Zen 4, but for what `changes` says of it.

    As a `with` block or as the decorator of a test. As many threads as cores unless `settings`
    says otherwise; code is compiled for the processor at hand unless `changes` has a cpu, which
    brings its own registers.
    """
    base = ZEN4
    if "cpu=" in changes:
        base = ",".join(p for p in base.split(",") if not p.startswith(("vector_", "registers=")))
    with override(machine=f"{base},{changes}"):
        cores = machine.current().cores
    with override(**{"machine": f"{base},{changes}", "num_threads": cores} | settings):
        yield
