"""PyTorch's own samples of its operators (OpInfo): values, derivatives, errors."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import TensoradError

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="expecttest is not installed")
from torch.utils import _pytree as trees  # noqa: E402

from tests.interop.torch.opinfo_table import (  # noqa: E402
    DIFFERENCES,
    LENIENT,
    TABLE,
    VALUES_ALONE,
    NotTakenError,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SOAK: Final = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SAMPLES: Final = 10**6 if SOAK else 8
SMALL: Final = 150, 2500  # elements, and those of two tensors multiplied: the interpreter is quick
COMPILED: Final = 2  # samples whose machine code runs as well
Array = np.ndarray[Any, Any]


@cache
def operators() -> dict[str, Any]:
    """PyTorch's by their names, loaded when they are asked for: that takes seconds."""
    known = import_module("torch.testing._internal.common_methods_invocations").op_db
    return {o.name + (f"|{o.variant_test_name}" if o.variant_test_name else ""): o for o in known}


class Lifted:
    """A sample as a graph: a placeholder for each tensor in it."""

    def __init__(self, sample: Any) -> None:
        self.leaves: list[Any] = []
        self.inputs: list[Any] = []
        whole = (sample.input, sample.args, sample.kwargs)
        self.torch_args = trees.tree_map(self._torch, whole)
        self.graph_args = trees.tree_map(self._placeholder, self.torch_args)

    @staticmethod
    def _torch(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return leaf

    def _placeholder(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        dtype = str(leaf.dtype).removeprefix("torch.")
        if dtype.startswith(("complex", "bfloat", "half")):
            raise NotTakenError(f"dtype {dtype}")
        made = ta.placeholder(tuple(leaf.shape), dtype, name=f"x{len(self.leaves)}")
        self.leaves.append(leaf)
        self.inputs.append(made)
        return made

    def graph(self, name: str) -> list[Any]:
        x, args, kwargs = self.graph_args
        made = TABLE[name](x, *args, **kwargs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def result(self, name: str) -> list[Any]:
        x, args, kwargs = self.torch_args
        made = operators()[name].op(x, *args, **kwargs)
        found = [y for y in trees.tree_leaves(made) if isinstance(y, torch.Tensor)]
        return found[:1] if name in VALUES_ALONE else found

    def values(self) -> dict[Any, Array]:
        return {p: t.detach().numpy() for p, t in zip(self.inputs, self.leaves, strict=True)}


def _samples(name: str, dtype: Any) -> Iterator[Any]:
    torch.manual_seed(0)
    made = operators()[name].sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)
    return iter(made)


def _random(like: Any) -> Any:
    return torch.rand(tuple(like.shape), dtype=torch.float64) + 0.25


class Asked:
    """What is asked of a sample, of PyTorch and as tensors."""

    def __init__(self, name: str, sample: Any) -> None:
        self.op = operators()[name]
        self.lifted = lifted = Lifted(sample)
        ys, leaves = lifted.graph(name), lifted.leaves
        results = lifted.result(name)
        self.bindings = lifted.values()
        self.tensors: dict[str, list[Any]] = {"value": ys}
        self.wanted: dict[str, list[Any]] = {"value": results}
        floats = [k for k, t in enumerate(leaves) if t.requires_grad]
        pairs = [(y, r) for y, r in zip(ys, results, strict=True) if r.requires_grad]
        if floats and pairs and self.op.supports_autograd:
            xs = [lifted.inputs[k] for k in floats]
            self._derivatives(name, pairs, xs, [leaves[k] for k in floats])

    def _new(self, like: Any, name: str) -> tuple[Any, Any]:
        value = _random(like)
        made = ta.placeholder(tuple(like.shape), "float64", name=name)
        self.bindings[made] = value.numpy()
        return made, value

    def _derivatives(
        self, name: str, pairs: list[tuple[Any, Any]], xs: list[Any], leaves: list[Any]
    ) -> None:
        ys, results = [y for y, _ in pairs], [r for _, r in pairs]
        heads = [self._new(r, f"h{k}") for k, r in enumerate(results)]
        along = [self._new(x, f"u{k}") for k, x in enumerate(leaves)]
        given = {x: u for x, (u, _) in zip(xs, along, strict=True)}
        self.tensors["vjp"] = gs = ta.vjp(ys, xs, [h for h, _ in heads])
        second = self.op.supports_gradgrad
        found = torch.autograd.grad(
            results, leaves, [h for _, h in heads], create_graph=second, allow_unused=True
        )
        self.wanted["vjp"] = _filled(found, leaves)
        if self.op.supports_forward_ad:
            self.tensors["jvp"] = ta.jvp(ys, given)
            self.wanted["jvp"] = self._forward(name, leaves, [u for _, u in along])
        if second:
            self.tensors["second"] = ta.jvp(gs, given)
            used = [
                (g * u).sum()
                for g, (_, u) in zip(found, along, strict=True)
                if g is not None and g.requires_grad
            ]
            again = (
                torch.autograd.grad(sum(used), leaves, allow_unused=True)
                if used
                else [None] * len(leaves)
            )
            self.wanted["second"] = _filled(again, leaves)

    def _forward(self, name: str, leaves: list[Any], along: list[Any]) -> list[Any]:
        forward = torch.autograd.forward_ad
        directions = {id(x): u for x, u in zip(leaves, along, strict=True)}
        with forward.dual_level():

            def dual(leaf: Any) -> Any:
                if id(leaf) in directions:
                    return forward.make_dual(leaf, directions[id(leaf)])
                return leaf

            x, args, kwargs = trees.tree_map(dual, self.lifted.torch_args)
            made = trees.tree_leaves(operators()[name].op(x, *args, **kwargs))
            parts = [
                forward.unpack_dual(y)
                for y in made
                if isinstance(y, torch.Tensor) and y.is_floating_point()
            ]
            return [torch.zeros_like(p.primal) if p.tangent is None else p.tangent for p in parts]

    def compare(self, *, compiled: bool) -> dict[str, str]:
        """What differs, and how."""
        flat = [t for part in self.tensors.values() for t in part]
        sizes = sorted(t.numel() for part in self.wanted.values() for t in part)
        small = sum(sizes) <= SMALL[0] and math.prod(sizes[-2:]) <= SMALL[1]
        ways = [ta.evaluate] if compiled or not small else []
        ways += [ta.interpret] if small else []
        differ: dict[str, str] = {}
        for way in ways:
            made = way(flat if len(flat) > 1 else flat[0], self.bindings)
            found = iter(made if len(flat) > 1 else [made])
            for kind, wanted in self.wanted.items():
                for w in wanted:
                    text = _difference(np.asarray(next(found)), w.numpy(force=True), 1e-9)
                    if text:
                        differ.setdefault(kind, f"{way.__name__}: {text}")
        return differ


def _filled(found: Any, leaves: list[Any]) -> list[Any]:
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def _difference(found: Array, wanted: Array, tolerance: float) -> str:
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    wide = wanted.astype("float64")
    scale = np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide))
    try:
        np.testing.assert_allclose(
            found.astype("float64"), wide, rtol=tolerance, atol=tolerance * max(scale, 1e-3)
        )
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", TABLE)
def test_values_and_derivatives(name: str) -> None:
    taken, refused, differ = 0, [], {}
    for sample in _samples(name, torch.float64):
        try:
            asked = Asked(name, sample)
        except NotTakenError as reason:
            refused.append(str(reason))
            continue
        for kind, text in asked.compare(compiled=taken < COMPILED).items():
            differ.setdefault(kind, f"{sample.summary()}\n{text}")
        taken += 1
        if taken == SAMPLES:
            break
    assert taken, refused
    kinds, reason = DIFFERENCES.get(name, (frozenset(), ""))
    assert kinds == frozenset(differ), "\n".join([name, reason, *map(str, differ.items())])
    print(f"opinfo {name}: {taken} samples, {len(refused)} not taken")


@pytest.mark.parametrize("name", TABLE)
def test_values_in_float32(name: str) -> None:
    for sample in _samples(name, torch.float32):
        try:
            lifted = Lifted(sample)
            graph = lifted.graph(name)
        except NotTakenError:
            continue
        made = ta.evaluate(graph, lifted.values())
        found = made if len(graph) > 1 else [made]
        for y, r in zip(found, lifted.result(name), strict=True):
            text = _difference(np.asarray(y), r.detach().numpy(), 2e-5)
            assert not text, f"{sample.summary()}\n{text}"
        break
    else:
        pytest.fail("no sample was taken")


def _refused(name: str, sample: Any) -> bool:
    """Whether the sample is, by tensorad or because the table has no such arguments."""
    try:
        lifted = Lifted(sample)
        graph = lifted.graph(name)
        if not all(t.is_floating_point() for t in lifted.leaves):  # positions, checked in calls
            ta.evaluate(graph if len(graph) > 1 else graph[0], lifted.values())
    except (NotTakenError, TensoradError):
        return True
    except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if "opinfo" not in where:
            raise
        return True
    return False


def _reason(message: str) -> str:
    """The part of PyTorch's message by which tensorad is more lenient."""
    return next(
        (part for part in LENIENT if part == message or (part and part in message)), message
    )


def _accepted(name: str) -> set[str]:
    op = operators()[name]
    bad = op.error_inputs("cpu") if op.error_inputs_func is not None else ()
    return {_reason(str(b.error_regex)) for b in bad if not _refused(name, b.sample_input)}


@pytest.mark.parametrize("name", TABLE)
def test_bad_inputs_are_refused(name: str) -> None:
    assert _accepted(name) <= set(LENIENT)


@pytest.mark.parametrize("part", LENIENT)
def test_what_is_legal_here_is_still_taken(part: str) -> None:
    name, reason = LENIENT[part]
    assert part in _accepted(name), reason


def test_the_table_is_long_and_its_lists_name_its_rows() -> None:
    assert len(TABLE) >= 110
    assert set(TABLE) <= set(operators())
    assert set(DIFFERENCES) | VALUES_ALONE <= set(TABLE)
