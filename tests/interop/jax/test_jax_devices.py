"""Operators inside of JAX on two devices, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.interop.jax.inside_jax import MARKS
from tests.interop.operators import CASES

pytestmark = MARKS


def test_two_devices_give_the_values_and_gradients_of_one() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.interop.jax.two_devices"],
        capture_output=True, text=True, timeout=300, check=False,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p), **flags},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    said = dict(line.split(": ", 1) for line in run.stdout.splitlines())
    wrong = said.pop("out of range")
    names = [*CASES, "sharded arguments", "explicit axes"]
    assert said == dict.fromkeys(names, "same")
    assert "BoundsError: X is read at index 7 of axis 0, which has extent 3" in wrong
