"""ONNX's own cases of single nodes: each is computed, or refused for a reason that stands here."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx")

from onnx.backend.test.case import node as nodes  # noqa: E402

from tensorad.errors import OnnxError  # noqa: E402
from tensorad.interop.onnx import load  # noqa: E402

pytestmark = pytest.mark.interop
REASONS: Final = (
    "of which there is no arithmetic here",
    "there are no tensors of",
    "quantised kernels are not imported",
    "there are no strings here",
    "there are no sequences and optional values here",
    "loops that a graph runs in calls are not imported",
    "the shape of its output depends on data",
    "its output is random",
    "elements are dropped at random in training mode",
    "the bits of floats are not imported: no formula reads them",
    "is older than those that are imported",
    "decides about shapes, but is computed from data",
    "operators of the domain 'ai.onnx.",
)
"""What a refusal may say."""
_DECIDING: Final[dict[str, tuple[int, ...]]] = {
    "Reshape": (1,), "Slice": (1, 2, 3, 4), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,),
    "Range": (0, 1, 2), "Squeeze": (1,), "Unsqueeze": (1,), "Pad": (1, 3), "Split": (1,),
    "Resize": (1, 2, 3), "OneHot": (1,), "CumSum": (1,), "CumProd": (1,), "Dropout": (1, 2),
    "ReduceSum": (1,), "NonZero": (0,), "CenterCropPad": (1,), "If": (0,), "AffineGrid": (1,),
    "Trilu": (1,), "TopK": (1,), "Col2Im": (1, 2), "MaxUnpool": (2,), "DFT": (1, 2),
    "STFT": (1, 3), "MelWeightMatrix": (0, 1, 2, 3, 4),
    "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,),
}  # fmt: skip
"""Inputs that decide about shapes: cases give them in calls, here they are told while importing."""


MODULES: Final = tuple(
    m.name
    for m in walk_packages(nodes.__path__, f"{nodes.__name__}.")
    if not m.ispkg and "._" not in m.name
)
"""Most have the cases of one operator; loading all takes many seconds."""


@cache
def cases(module: str) -> list[Any]:
    """Those of a module, which are written down when it is loaded."""
    known = nodes._NodeTestCases
    before = len(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module(module)
    return list(known[before:])


def deciding(model: Any) -> set[str]:
    """Names that shapes depend on."""
    found: set[str] = set()
    for node in reversed(model.graph.node):
        places = _DECIDING.get(node.op_type, (1,) if node.op_type.startswith("Reduce") else ())
        found.update([name for k, name in enumerate(node.input) if k in places])
        if node.op_type not in ("Shape", "Size") and found & set(node.output):
            found.update(node.input)
    return found


def array(value: Any) -> Any:
    """A value of a case."""
    proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if proto else np.asarray(value)


def is_listed(text: str) -> bool:
    """Whether each node that a refusal names has a reason that stands above."""
    lines = text.partition("  in: ")[2].partition("\n  hint: ")[0].splitlines() or [text]
    return all(any(r in line for r in (*REASONS, "nodes more")) for line in lines)


def check(case: Any) -> None:
    """Its values are those that ONNX gives, or what it needs is listed as missing."""
    given, wanted = case.data_sets[0]
    names = [i.name for i in case.model.graph.input]
    fixed = deciding(case.model)
    values = dict(zip(names, given, strict=False))
    try:
        constants = {n: array(v) for n, v in values.items() if n in fixed}
        model = load(case.model, constants=constants)
    except OnnxError as error:
        assert is_listed(str(error)), f"{case.name}: {error}"
        return
    found = model.build()({n: array(values[n]) for n in model.inputs})
    for output, want in zip(case.model.graph.output, map(array, wanted), strict=True):
        own = found[output.name]
        assert (own.dtype, own.shape) == (want.dtype, want.shape), case.name
        np.testing.assert_allclose(own, want, rtol=1e-3, atol=1e-5, err_msg=case.name)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("module", MODULES)
def test_cases(module: str) -> None:
    found = cases(module)
    assert found
    for case in found:
        check(case)


def test_a_case_with_another_reason_is_found() -> None:
    assert not is_listed("1 node of the model cannot be imported.\n  in: node 0 (Conv): no.")
    assert is_listed(
        "2 nodes.\n  in: node 0 (Loop): loops that a graph runs in calls are not imported."
    )
