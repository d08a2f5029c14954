"""What runs in other processes of tests, and is imported there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorad.interop.torch import op
from tests.interop.operators import dense

torch: Any = import_module("torch")
ROWS = 8


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A module around an operator, which it holds."""

    def __init__(self, f: Any) -> None:
        super().__init__()
        self.f = f
        generator = torch.Generator().manual_seed(1)
        self.w = torch.nn.Parameter(torch.rand(5, 4, dtype=torch.float64, generator=generator))

    def forward(self, x: Any) -> Any:
        return self.f(x, self.w)


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    """Rows that an operator computes, in the processes of a loader."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __len__(self) -> int:
        return 2 * ROWS

    def __getitem__(self, n: int) -> Any:
        w = torch.ones(5, 4, dtype=torch.float64, requires_grad=True)
        y = self.f(torch.full((1, 4), float(n), dtype=torch.float64), w)
        return torch.cat([y[0].detach(), torch.autograd.grad(y.sum(), w)[0][0]])


def made(name: str) -> Any:
    """The operator, under a name of its own."""
    case = dense()
    return op(case.outputs, case.inputs, name)


def batch() -> Any:
    """What all processes learn from together."""
    generator = torch.Generator().manual_seed(2)
    return torch.rand(ROWS, 4, dtype=torch.float64, generator=generator)


def gradient(layer: Any, rows: Any) -> Any:
    """Of the mean of squares, by the weights of the layer."""
    (layer(rows) ** 2).mean().backward()
    return next(layer.parameters()).grad


def one_of_two(rank: int, folder: str) -> None:
    """A process of data parallel training."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    layer = torch.nn.parallel.DistributedDataParallel(Layer(made("test_processes_parallel")))
    found = gradient(layer, batch()[rank * ROWS // 2 :][: ROWS // 2])
    torch.save(found, f"{folder}/{rank}")
    torch.distributed.destroy_process_group()
