"""Handwritten digits of 8 x 8 pixels, told apart by a model of JAX with an operator of one's own.

pip install -e ".[train,jax]", then python -m examples.jax_training, or with --help for the choices.
The first layer measures how far each image is from each of its prototypes, in sums of absolute
differences: a formula of tensorad, whose derivatives `jax.grad` asks for, inside of `jax.jit`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import tensorad as ta
from examples.digits import Images, check_installed, load
from tensorad.errors import MissingPackageError

PIXELS: Final = 64
PROTOTYPES: Final = 256
HIDDEN: Final = 128
BATCH: Final = 32
EPOCHS: Final = 30
RATE: Final = 3e-3
DECAYS: Final = (0.9, 0.999)
LEAST: Final = 1e-8

Weights = dict[str, Any]


def distances() -> Callable[..., Any]:
    """The operator D[i, j] = the sum over k of abs(X[i, k] - W[j, k]), inside of JAX."""
    from tensorad.interop.jax import op

    n, m = ta.size("n"), ta.size("m")
    x, w = ta.placeholder((n, PIXELS), name="X"), ta.placeholder((m, PIXELS), name="W")
    k = ta.reduce_axis(PIXELS, name="k")
    d = ta.compute((n, m), lambda i, j: ta.sum(ta.abs(x[i, k] - w[j, k]), axis=k), name="D")
    return op(d, [x, w], "distances")


def drawn(rng: np.random.Generator, images: Images) -> Weights:
    """Prototypes are images, the rest is of about the size of its inputs."""
    chosen = rng.choice(len(images.digits), PROTOTYPES, replace=False)
    found = {"prototypes": images.pixels[chosen].reshape(PROTOTYPES, PIXELS)}
    for name, (inputs, outputs) in {"hidden": (PROTOTYPES, HIDDEN), "last": (HIDDEN, 10)}.items():
        scale = np.sqrt(2 / inputs)
        found[name] = (scale * rng.normal(size=(inputs, outputs))).astype(np.float32)
        found[f"{name} bias"] = np.zeros(outputs, np.float32)
    return found


def logits(measure: Callable[..., Any], weights: Weights, pixels: Any) -> Any:
    """One number for each image and digit."""
    import jax.numpy as jnp

    far = measure(pixels.reshape(-1, PIXELS), weights["prototypes"])
    mean, spread = far.mean(1, keepdims=True), far.std(1, keepdims=True)
    near = jnp.maximum((mean - far) / spread, 0.0)
    hidden = jnp.maximum(near @ weights["hidden"] + weights["hidden bias"], 0.0)
    return hidden @ weights["last"] + weights["last bias"]


def functions(measure: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A step of Adam on one batch, and the share of images that are told right; both compiled."""
    import jax
    import jax.numpy as jnp

    def cost(weights: Weights, pixels: Any, digits: Any) -> Any:
        scores = jax.nn.log_softmax(logits(measure, weights, pixels))
        return -jnp.take_along_axis(scores, digits[:, None], 1).mean()

    def moved(first: Any, second: Any, t: Any) -> Any:
        first, second = first / (1 - DECAYS[0] ** t), second / (1 - DECAYS[1] ** t)
        return first / (jnp.sqrt(second) + LEAST)

    def step(weights: Weights, moments: Any, rate: Any, t: Any, pixels: Any, digits: Any) -> Any:
        gradients = jax.grad(cost)(weights, pixels, digits)
        powers = (gradients, jax.tree.map(lambda g: g * g, gradients))
        moments = tuple(
            jax.tree.map(lambda m, g, d=decay: d * m + (1 - d) * g, old, new)
            for decay, old, new in zip(DECAYS, moments, powers, strict=True)
        )
        along = jax.tree.map(partial(moved, t=t), *moments)
        return jax.tree.map(lambda w, a: w - rate * a, weights, along), moments

    def right(weights: Weights, pixels: Any, digits: Any) -> Any:
        return (logits(measure, weights, pixels).argmax(1) == digits).mean()

    return jax.jit(step), jax.jit(right)


def train(
    measure: Callable[..., Any], images: Images, test: Images, epochs: int = EPOCHS, seed: int = 0
) -> float:
    """Learn in a number of epochs; the share of the test images that are told right then."""
    import jax

    rng = np.random.default_rng(seed)
    step, right = functions(measure)
    weights = drawn(rng, images)
    zeros = jax.tree.map(np.zeros_like, weights)
    moments, t = (zeros, zeros), 0
    count = len(images.digits) // BATCH * BATCH
    for n in range(epochs):
        rate = np.float32(RATE * (1 + np.cos(np.pi * n / epochs)) / 2)
        for batch in rng.permutation(len(images.digits))[:count].reshape(-1, BATCH):
            t += 1
            pixels, digits = images.pixels[batch], images.digits[batch].astype(np.int32)
            weights, moments = step(weights, moments, rate, np.float32(t), pixels, digits)
    return float(right(weights, test.pixels, test.digits.astype(np.int32)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and tell how many test images are told right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"{EPOCHS} when left out")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: there has to be one")
    check_installed("sklearn", "The digits come with scikit-learn")
    try:
        measure = distances()
    except MissingPackageError as error:
        raise SystemExit(str(error)) from None
    begun = time.perf_counter()
    images, test = load(options.seed)
    share = train(measure, images, test, options.epochs, options.seed)
    seconds = time.perf_counter() - begun
    print(f"{share:.2%} of {len(test.digits)} test images right, {seconds:.1f} s")


if __name__ == "__main__":
    main()
