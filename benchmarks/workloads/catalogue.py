"""All workloads, by name."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.workloads import (
    convolutions,
    dense,
    elements,
    own,
    pairs,
    pools,
    products,
    rows,
    steps,
    unusual,
)
from benchmarks.workloads.problem import Workload
from benchmarks.workloads.programs import hmm, lstm, neural_ode, particles, training

GROUPS = ("notebook", "layers", "unusual", "gathered")
SMALL = ("dense_small", "conv_seed", "maxpool_small", "softmax_small", "flatten", "prod", "mttkrp")
"""A set that runs in seconds without any framework."""

_FILES = (dense, convolutions, pools, rows, products, elements, steps, unusual, own, pairs)

WORKLOADS: dict[str, Workload] = {
    w.name: w for group in GROUPS for f in _FILES for w in f.WORKLOADS if w.group == group
}

PROGRAMS: dict[str, Workload] = {
    w.name: w for f in (lstm, hmm, neural_ode, particles, training) for w in f.WORKLOADS
}
"""Those of the suite `programs`, which no other measures."""


def chosen(names: Sequence[str] = ()) -> list[Workload]:
    """Workloads of a group, or whose name contains one of the parts; all without names."""
    found = []
    for w in WORKLOADS.values():
        small = "small" in names and w.name in SMALL
        if not names or small or any(n == w.group or n in w.name for n in names if n != "small"):
            found.append(w)
    return found
