"""The suite of programs with loops: gradients by hand are right, everybody agrees, verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers import ours
from benchmarks.peers.registry import contestants, missing
from benchmarks.race.frameworks import largest_error, reference
from benchmarks.report.figures import Figures
from benchmarks.suites import programs
from benchmarks.workloads.catalogue import PROGRAMS
from benchmarks.workloads.problem import Array, Sizes
from tests.random.generators import SOAK

TINY: dict[str, Sizes] = {
    "lstm": {"steps": 5, "n": 3, "features": 4, "width": 6},
    "hmm": {"steps": 7, "n": 3, "states": 5},
    "neural_ode": {"steps": 6, "n": 3, "width": 2, "hidden": 5},
    "particles": {"steps": 9, "n": 5},
    "mlp_step Adam": {"n": 6, "features": 9, "hidden": 5},
    "lenet_step Adam": {"n": 2},
}


def check(name: str, peers: tuple[str, ...]) -> list[str]:
    """All contestants against NumPy at float64; who took part."""
    p = PROGRAMS[name].problem(TINY[name])
    modes = ("fwd", "fb") if p.step is None else ("step",)
    expected = reference(p)
    found = []
    for c in contestants(p, peers, modes, threads=1):
        found.append(c.name)
        assert not c.failed
        for mode in c.calls:
            error = largest_error(p, c.results(mode), expected[mode])
            assert error <= p.tolerance, f"{c.name} {mode}"
    return found


def test_every_program_has_a_tiny_size_and_a_floor() -> None:
    assert set(TINY) == set(PROGRAMS) == set(programs.FLOORS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", list(TINY))
def test_tensorad_agrees_with_float64(name: str) -> None:
    assert "tensorad" in check(name, ())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TINY)[:: 1 if SOAK else 3])
def test_installed_peers_agree_with_float64(name: str) -> None:
    peers = tuple([n for n in programs.PEERS if n != "torch_compile" and n not in missing([n])])
    known = PROGRAMS[name].problem(TINY[name]).formulas
    assert set(check(name, peers)) >= {n for n in peers if n in known}


@pytest.mark.parametrize("name", ["lstm", "hmm", "neural_ode", "particles"])
def test_gradients_by_hand_are_slopes(name: str) -> None:
    """Along a random direction of all inputs, by central differences at float64."""
    p = PROGRAMS[name].problem(TINY[name])
    rng = np.random.default_rng(1)
    exact = {n: a.astype(np.float64) for n, a in p.inputs.items()}
    way = {n: rng.standard_normal(exact[n].shape) for n in p.wrt}

    def loss(step: float) -> float:
        moved = {n: exact[n] + step * way[n] for n in p.wrt}
        return float(p.numpy({**exact, **moved}, np.ones(())).forward()[0])

    found: list[Array] = p.numpy(exact, np.ones(())).gradients()
    slope = sum([float((way[n] * g).sum()) for n, g in zip(p.wrt, found, strict=True)])
    assert slope == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-7)


def test_steps_with_adam_go_on_from_the_steps_before() -> None:
    p = PROGRAMS["mlp_step Adam"].problem(TINY["mlp_step Adam"])
    call = ours.contestant(p, ["step"]).calls["step"]
    losses = [float(call()[0]) for _ in range(20)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_programs_are_judged_by_their_own_floors() -> None:
    rows = [
        Figures("lstm", 1, {programs.RATIO: 2.5, programs.FIRST: 0.5, programs.EARLIER: 2.0}),
        Figures("particles", 1, {programs.RATIO: 2.5, "least MB / ours": 0.5}),
    ]
    found = {v.what: v.holds for v in programs.judge(rows)}
    assert found == {
        "lstm, best / ours": True,
        "particles, best / ours": False,
        "programs, mean best / ours, 1 thread": True,
        "first call, s": True,
        "first call, jax / ours": True,
        "memory, frameworks' least / ours": False,
    }
