"""Operators of PyTorch in loaders' processes, in parallel training, pickled and copied."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from tests.interop.torch import torch_processes  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_rows_from_two_processes_of_a_loader(method: str) -> None:
    data = torch_processes.Rows(torch_processes.made(f"test_processes_{method}"))
    expected = torch.stack([data[n] for n in range(len(data))])
    loader = torch.utils.data.DataLoader(
        data, batch_size=4, num_workers=2, multiprocessing_context=method
    )
    torch.testing.assert_close(torch.cat(list(loader)), expected, rtol=0, atol=0)


def test_gradients_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(torch_processes.one_of_two, (str(tmp_path),), nprocs=2)
    layer = torch_processes.Layer(torch_processes.made("test_processes_alone"))
    alone = torch_processes.gradient(layer, torch_processes.batch())
    for rank in range(2):
        found = torch.load(tmp_path / str(rank))
        assert float((found - alone).abs().max()) <= 1e-12


def test_one_thread_of_pytorch() -> None:
    f = torch_processes.made("test_processes_threads")
    x, w = torch_processes.batch(), torch.rand(5, 4, dtype=torch.float64)
    expected, before = f(x, w), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(f(x, w), expected)
    finally:
        torch.set_num_threads(before)


_READS = """
import pickle, sys
layer = pickle.loads(sys.stdin.buffer.read())
import torch
sys.stdout.write(str(float(layer(torch.ones(2, 4, dtype=torch.float64)).sum().detach())))
"""


def test_operators_are_pickled_and_copied() -> None:
    f = torch_processes.made("test_processes_pickled")
    assert pickle.loads(pickle.dumps(f)) is f and copy.deepcopy(f) is f
    layer = torch_processes.Layer(f)
    twin = copy.deepcopy(layer)
    x = torch.ones(2, 4, dtype=torch.float64)
    assert twin.f is f and torch.equal(twin(x), layer(x))
    other = subprocess.run(
        [sys.executable, "-c", _READS], input=pickle.dumps(layer), capture_output=True, check=True,
        cwd=Path(__file__).resolve().parents[3], timeout=300,
    )  # fmt: skip
    assert float(other.stdout) == pytest.approx(float(layer(x).sum().detach()))
