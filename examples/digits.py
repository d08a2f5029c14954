"""Handwritten digits of 8 x 8 pixels, told apart by a perceptron and by a convolutional network.

pip install -e ".[train]", then python examples/digits.py, or with --help for the choices. Each
epoch is one call of machine code: a loop over batches that an array of indices picks, with
gradients and an optimiser's steps inside.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from tqdm import tqdm

import tensorad as ta
from tensorad import optim, topi

nn: Final = topi.nn
BATCH: Final = 32
BAR: Final = "{desc} {bar:30} {n_fmt}/{total_fmt} epochs, {elapsed}{postfix}"
OPTIMISERS: Final = {
    "sgd": optim.SGD(0.3),
    "momentum": optim.Momentum(0.05),
    "nesterov": optim.Momentum(0.05, nesterov=True),
    "adam": optim.Adam(2e-3),
}


class Images(NamedTuple):
    """Pixels from 0 to 1, shape (n, 8, 8), and what digits they show, shape (n,)."""

    pixels: Any
    digits: Any


def check_installed(module: str, what: str) -> None:
    """A module of the extra can be found.

    Raises:
        SystemExit: it cannot; tells how to install it.
    """
    if find_spec(module) is None:
        raise SystemExit(
            f"{what}, which is not installed: no module {module}.\n"
            'Install it with: pip install -e ".[train]"'
        )


def load(seed: int = 0) -> tuple[Images, Images]:
    """1347 images to learn from and 450 for the test, each digit in the same share of both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    pixels = (found.images / found.images.max()).astype(np.float32)
    parts = train_test_split(
        pixels, found.target.astype(np.int64), test_size=0.25, stratify=found.target,
        random_state=seed,
    )  # fmt: skip
    return Images(parts[0], parts[2]), Images(parts[1], parts[3])


@dataclass
class Layer:
    """Weights of a dense layer or of a convolution, and one number for each of its outputs."""

    w: Any
    b: Any

    @staticmethod
    def drawn(rng: np.random.Generator, shape: tuple[int, ...], inputs: int, outputs: int) -> Layer:
        """With outputs of about the size of the inputs, where a ReLU follows."""
        w = rng.normal(scale=math.sqrt(2 / inputs), size=shape)
        return Layer(w.astype(np.float32), np.zeros(outputs, np.float32))

    @staticmethod
    def dense(rng: np.random.Generator, inputs: int, outputs: int) -> Layer:
        """w has shape (inputs, outputs)."""
        return Layer.drawn(rng, (inputs, outputs), inputs, outputs)

    @staticmethod
    def window(rng: np.random.Generator, inputs: int, outputs: int) -> Layer:
        """A convolution of 3 x 3 pixels."""
        return Layer.drawn(rng, (outputs, inputs, 3, 3), 9 * inputs, outputs)


def perceptron(rng: np.random.Generator) -> dict[str, Layer]:
    """Weights of three dense layers."""
    sizes = {"first": (64, 256), "second": (256, 128), "last": (128, 10)}
    return {name: Layer.dense(rng, *of) for name, of in sizes.items()}


def perceptron_logits(p: dict[str, Layer], x: Any) -> Any:
    """One number for each image and digit."""
    h = nn.flatten(x)
    for layer in (p["first"], p["second"]):
        h = nn.relu(h @ layer.w + layer.b)
    return h @ p["last"].w + p["last"].b


@dataclass
class Convolutional:
    """Weights of two convolutions and a dense layer."""

    windows: list[Layer]
    last: Layer


def convolutional(rng: np.random.Generator) -> Convolutional:
    """16 and 32 windows."""
    windows = [Layer.window(rng, 1, 16), Layer.window(rng, 16, 32)]
    return Convolutional(windows, Layer.dense(rng, 32 * 4 * 4, 10))


def convolutional_logits(p: Convolutional, x: Any) -> Any:
    """One number for each image and digit."""
    h = x[:, None]  # one channel
    for layer in p.windows:
        h = nn.relu(nn.bias_add(nn.conv2d(h, layer.w, padding=1), layer.b))
    h = nn.flatten(nn.pool(h, kernel=2, stride=2))
    return h @ p.last.w + p.last.b


class Network(NamedTuple):
    """How to draw weights, and what is computed with them."""

    draw: Callable[[np.random.Generator], Any]
    logits: Callable[[Any, Any], Any]
    epochs: int


NETWORKS: Final = {
    "mlp": Network(perceptron, perceptron_logits, 30),
    "conv": Network(convolutional, convolutional_logits, 20),
}


@dataclass
class Training:
    """What became of a network.

    Attributes:
        weights: the last ones.
        losses: the mean over the batches of each epoch.
        errors: the share of the test images that were told wrong after each epoch.
        seconds: all of it, compiling included.
    """

    weights: Any
    losses: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    seconds: float = 0.0


def functions(logits: Callable[[Any, Any], Any]) -> tuple[ta.Function, ta.Function]:
    """An epoch, and the share of images that are told wrong."""

    def cost(weights: Any, images: Images) -> Any:
        return nn.cross_entropy(logits(weights, images.pixels), images.digits)

    @ta.function
    def epoch(optimiser: Any, weights: Any, state: Any, images: Images, order: Any) -> Any:
        """Row i of order says which images are batch i."""

        def batch(i: Any, carry: Any) -> Any:
            weights, state, total = carry
            some = Images(images.pixels[order[i]], images.digits[order[i]])
            loss, gradients = ta.value_and_grad(cost)(weights, some)
            weights, state = optimiser.step(weights, gradients, state)
            return weights, state, total + loss

        batches = order.shape[0]
        weights, state, total = ta.for_loop(0, batches, batch, (weights, state, 0.0))
        return weights, state, total / batches

    @ta.function
    def error(weights: Any, images: Images) -> Any:
        told = logits(weights, images.pixels).argmax(1)
        return topi.not_equal(told, images.digits).astype("float32").mean()

    return epoch, error


def train(
    name: str,
    optimiser: Any,
    images: Images,
    test: Images,
    epochs: int | None = None,
    seed: int = 0,
) -> Training:
    """Learn in a number of epochs, of the network's own choice if it is None.

    The rate falls along half a cosine: it is a leaf of the optimiser, an argument of each call.
    """
    begun = time.perf_counter()
    network = NETWORKS[name]
    epochs = epochs or network.epochs
    rng = np.random.default_rng(seed)
    found = Training(network.draw(rng))
    state = optimiser.init(found.weights)
    epoch, error = functions(network.logits)
    batches = len(images.digits) // BATCH
    shown = ta.config.current().progress and sys.stderr.isatty()
    bar = tqdm(range(epochs), name, leave=False, disable=not shown, bar_format=BAR)
    for n in bar:
        order = rng.permutation(len(images.digits))[: batches * BATCH].reshape(batches, BATCH)
        now = replace(optimiser, rate=optimiser.rate * (1 + math.cos(math.pi * n / epochs)) / 2)
        found.weights, state, loss = epoch(now, found.weights, state, images, order)
        found.losses.append(float(loss))
        found.errors.append(float(error(found.weights, test)))
        bar.set_postfix_str(f"loss {loss:.4f}, right {1 - found.errors[-1]:.2%}")
    found.seconds = time.perf_counter() - begun
    return found


def plot(trainings: Mapping[str, Training]) -> Any:
    """A figure of losses and of errors by epochs."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    losses, errors = figure.subplots(1, 2)
    for name, t in trainings.items():
        epochs = range(1, len(t.losses) + 1)
        losses.plot(epochs, t.losses, ".-", label=name)
        errors.plot(epochs, t.errors, ".-", label=name)
    losses.set_yscale("log")
    losses.set_title("Loss in training, mean of each epoch")
    errors.set_title("Test images told wrong")
    errors.set_ylim(bottom=0)
    errors.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for axes in (losses, errors):
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    losses.legend(frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and tell how many test images are told right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="mlp, conv; both when left out")
    parser.add_argument("--optimiser", choices=OPTIMISERS, default="adam")
    parser.add_argument("--epochs", type=int, help="30 for mlp and 20 for conv when left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of losses and errors")
    options = parser.parse_args(arguments)
    unknown = [n for n in options.networks if n not in NETWORKS]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(NETWORKS)}")
    if options.epochs is not None and options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: there has to be one")
    check_installed("sklearn", "The digits come with scikit-learn")
    if options.plot:
        check_installed("matplotlib", "Pictures are drawn with matplotlib")
    images, test = load()
    found = {}
    for name in options.networks or NETWORKS:
        t = train(name, OPTIMISERS[options.optimiser], images, test, options.epochs, options.seed)
        right = round((1 - t.errors[-1]) * len(test.digits))
        share = right / len(test.digits)
        print(f"{name}: {share:.2%} of {len(test.digits)} test images right, {t.seconds:.1f} s")
        found[name] = t
    if options.plot:
        plot(found).savefig(options.plot, dpi=150)


if __name__ == "__main__":
    main()
