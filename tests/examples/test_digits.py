"""Training runs on handwritten digits: accuracy, time, and what a terminal without them is told."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from examples import digits
from tensorad.optim import Adam

ROOT = Path(__file__).resolve().parents[2]
LEAST = {"mlp": 0.97, "conv": 0.98}
MOST_SECONDS = 60.0
"""Of processors: what else the machine does is no part of it."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip


def few(n: int) -> digits.Images:
    """Stripes of eight kinds, which a few steps tell apart."""
    rng = np.random.default_rng(0)
    kinds = np.arange(n) % 8
    pixels = rng.uniform(0, 0.2, (n, 8, 8)).astype("float32")
    pixels[np.arange(n), kinds] += 0.8
    return digits.Images(pixels, kinds.astype("int64"))


def test_an_epoch_takes_the_steps_that_a_loop_in_python_takes() -> None:
    network = digits.NETWORKS["mlp"]
    images, adam = few(24), Adam(1e-3)
    weights = network.draw(np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(24).reshape(3, 8)
    epoch, error = digits.functions(network.logits)
    found, _, mean = epoch(adam, weights, adam.init(weights), images, order)

    def cost(weights: Any, pixels: Any, kinds: Any) -> Any:
        return digits.nn.cross_entropy(network.logits(weights, pixels), kinds)

    slope, state, losses = ta.value_and_grad(cost), adam.init(weights), []
    for batch in order:
        loss, gradients = slope(weights, images.pixels[batch], images.digits[batch])
        weights, state = adam.step(weights, gradients, state)
        losses.append(loss)
    np.testing.assert_allclose(mean, np.mean(losses), rtol=1e-6)
    ta.tree_map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, weights)
    told = ta.function(network.logits)(weights, images.pixels).argmax(1)
    assert error(weights, images) == pytest.approx(np.mean(told != images.digits), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST)
def test_digits_are_told_apart_within_a_minute_from_the_import(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits need the extra train")
    pytest.importorskip("matplotlib", reason="plots need the extra train")
    picture = tmp_path / "losses.png"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("-m", "examples.digits", name, "--plot", str(picture))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
    assert done.returncode == 0, done.stderr
    line = rf"{name}: (\d\d\.\d\d)% of 450 test images right, [\d.]+ s\n"
    found = re.fullmatch(line, done.stdout)
    assert found is not None
    assert float(found[1]) > 100 * LEAST[name]
    assert done.stderr == "", "no bar where nobody looks"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("module", "what", "command"),
    [
        ("sklearn", "The digits come with scikit-learn", []),
        ("matplotlib", "Pictures are drawn with matplotlib", ["--plot", "losses.png"]),
    ],
)
def test_what_is_not_installed_is_told_before_anything_is_trained(
    module: str, what: str, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda name: None if name == module else digits)
    with pytest.raises(SystemExit) as caught:
        digits.main(command)
    assert caught.value.code == (
        f"{what}, which is not installed: no module {module}.\n"
        'Install it with: pip install -e ".[train]"'
    )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["mlp", "cnn"], "'cnn' is none of mlp, conv"),
        (["--epochs", "0"], "--epochs 0: there has to be one"),
    ],
)
def test_wrong_commands(command: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        digits.main(command)
    assert capsys.readouterr().err.endswith(f"error: {text}\n")
