"""Digits learned by a module of PyTorch around an operator of one's own.

The operator is a layer of prototypes: of each image and each prototype the soft minimum of
weighted distances over four parts of the image, which no operator of PyTorch is. It is one
formula; its gradients are derived, compiled, and called by autograd. Images come from two
processes of a `DataLoader`. Run with `python examples/torch_training.py`
(`pip install -e ".[train,torch]"`).
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, Final

import numpy as np

import tensorad as ta
from tensorad.interop.torch import op

torch: Any = import_module("torch")
datasets: Any = import_module("torch.utils.data")
PROTOTYPES: Final = 96
TEST: Final = 360
"""Images that are not learned from."""


def distances() -> Any:
    """The operator: Y[n, p] = -log(sum over parts of exp(-distance of the part))."""
    n, p = ta.size("n"), ta.size("p")
    x = ta.placeholder((n, 64), name="X")
    centres = ta.placeholder((p, 64), name="C")
    weights = ta.placeholder((p, 64), name="W")
    k = ta.reduce_axis(16, "k")
    parts = ta.compute(
        (n, p, 4),
        lambda i, j, part: ta.sum(
            (x[i, 16 * part + k] - centres[j, 16 * part + k]) ** 2 * weights[j, 16 * part + k], k
        ),
        name="parts",
    )
    q = ta.reduce_axis(4, "q")
    y = ta.compute(
        (n, p), lambda i, j: -ta.log(ta.sum(ta.exp(-parts[i, j, q]), q) + 1e-6), name="Y"
    )
    return op([y], [x, centres, weights], "part_distances")


part_distances = distances()


class Prototypes(torch.nn.Module):  # type: ignore[misc]
    """Distances to prototypes, then a linear layer."""

    def __init__(self, images: Any) -> None:
        super().__init__()
        self.centres = torch.nn.Parameter(images[:PROTOTYPES].clone())
        self.weights = torch.nn.Parameter(torch.full((PROTOTYPES, 64), 0.5))
        self.norm = torch.nn.BatchNorm1d(PROTOTYPES)
        self.out = torch.nn.Linear(PROTOTYPES, 10)

    def forward(self, x: Any) -> Any:
        return self.out(self.norm(part_distances(x, self.centres, self.weights)))


def data() -> tuple[Any, Any, Any]:
    """Images to learn from, and others: pixels in [0, 1], digits."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = torch.from_numpy((digits.data[order] / 16).astype("float32"))
    targets = torch.from_numpy(digits.target[order])
    return datasets.TensorDataset(images[TEST:], targets[TEST:]), images[:TEST], targets[:TEST]


def accuracy(model: Any, images: Any, targets: Any) -> float:
    """The part of the images that is recognised."""
    model.eval()
    with torch.no_grad():
        found = model(images).argmax(1)
    model.train()
    return float((found == targets).double().mean())


def train(epochs: int = 8, workers: int = 2) -> float:
    """Learn; the accuracy on images that were not learned from."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # steps are too short to be shared
    known, images, targets = data()
    model = Prototypes(known.tensors[0])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    loader = datasets.DataLoader(
        known, batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        for batch, wanted in loader:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(batch)
        schedule.step()
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1}: loss {total / len(known):.4f}, {seconds:.2f} s")
    return accuracy(model, images, targets)


if __name__ == "__main__":
    print(f"test accuracy {100 * train():.1f} %")
