"""Derivatives of operators: functions of autograd.

What a backward reads is kept by the rules of autograd: inputs and results of the function. Values
that are kept besides are results too, which are not handed out, so that derivatives of any order
go through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tensorad.interop.operators import Derived, Operator
from tensorad.interop.torch.kernels import Kernel
from tensorad.interop.torch.pytorch import torch

Call = Callable[..., Any]


class Own(Protocol):
    """An operator of PyTorch, as its derivatives and what is registered see it."""

    operator: Operator
    kernel: Kernel
    compute_dense: Call

    def compute(self, *tensors: Any) -> Any:
        """The results, without derivatives."""

    def differentiated(self, *tensors: Any) -> Any:
        """The results, with derivatives."""

    def derived(self, found: Derived) -> Call:
        """The operator of a derivative, or for rows."""

    def used(self, wanted: Sequence[int]) -> Sequence[int]:
        """The results that adjoints of these inputs may read."""

    def saves(self, wanted: Sequence[int]) -> Sequence[int]:
        """The values that are kept for adjoints of these inputs: inputs, then results."""


def function_of(own: Own) -> Any:
    """The `autograd.Function`: both modes, and rows for `torch.func.vmap`."""
    operator = own.operator
    integers = _integers(own)

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        made = output if isinstance(output, tuple) else (output,)
        used = own.used(operator.differentiable_inputs)
        ctx.save_for_backward(*inputs, *[made[n] for n in used])
        ctx.save_for_forward(*inputs)
        ctx.mark_non_differentiable(*[made[n] for n in integers])
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, *grads: Any) -> Any:
        wanted, inputs = operator.differentiable_inputs, len(operator.inputs)
        saves = (*range(inputs), *[inputs + n for n in own.used(wanted)])
        given = [g is not None for g in grads]
        return pulling(own, saves, wanted, ctx.needs_input_grad, given)(ctx.saved_tensors, grads)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        moving = [n for n in operator.differentiable_inputs if tangents[n] is not None]
        found: list[Any] = [None] * len(operator.outputs)
        if moving and operator.differentiable_outputs:
            made = operator.pushforward(moving)
            values = (*ctx.saved_tensors, *[tangents[n] for n in moving])
            results = own.derived(made)(*[values[k] for k in made.takes])
            put(found, operator.differentiable_outputs, results)
        return found[0] if len(found) == 1 else tuple(found)

    def vmap(info: Any, in_dims: Sequence[int | None], *tensors: Any) -> Any:
        mapped = [n for n, d in enumerate(in_dims) if d is not None]
        moved = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, in_dims, strict=True)]
        made = operator.for_rows(mapped)
        results = own.derived(made)(*moved)
        dims = tuple([0 if m else None for m in made.moves])
        return results, dims[0] if len(dims) == 1 else dims

    static = {
        "forward": own.compute,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": vmap,
    }
    members = {name: staticmethod(f) for name, f in static.items()}
    return type(operator.name, (torch.autograd.Function,), members)


def plain_function_of(own: Own, wanted: Sequence[int]) -> Any:
    """The function of autograd alone, of tensors that are memory, for inputs that require it.

    It keeps what its backward reads, no more if there is one result.
    """
    operator = own.operator
    integers, several = _integers(own), len(operator.outputs) > 1
    saves = own.saves(wanted)
    inputs = len(operator.inputs)
    all_inputs = saves == tuple(range(inputs))

    def forward(ctx: Any, *tensors: Any) -> Any:
        results = own.compute_dense(*tensors)
        if all_inputs:
            ctx.save_for_backward(*tensors)
        else:
            values = (*tensors, *(results if several else (results,)))
            ctx.save_for_backward(*[values[n] for n in saves])
        if several:
            ctx.mark_non_differentiable(*[results[n] for n in integers])
            ctx.set_materialize_grads(False)
        return results

    pulls: dict[Any, Callable[..., Any]] = {}

    def backward(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad
        key = (needs, *[g is not None for g in grads]) if several else needs
        pull = pulls.get(key)
        if pull is None:
            given = [g is not None for g in grads]
            pull = pulls[key] = pulling(own, saves, wanted, needs, given)
        return pull(ctx.saved_tensors, grads)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(operator.name, (torch.autograd.Function,), members)


def pulling(
    own: Own,
    saves: Sequence[int],
    wanted: Sequence[int],
    needs: Sequence[bool],
    given: Sequence[bool],
) -> Callable[[Any, Any], Any]:
    """What makes gradients of the inputs, of values that are saved and gradients of the outputs.

    Args:
        saves: which values are saved: inputs, then outputs, by position.
        wanted: inputs that required it when these were saved.
        needs: inputs that require it now. `given`: outputs with a gradient.
    """
    operator = own.operator
    asked = [n for n in operator.differentiable_inputs if needs[n]]
    heads = [n for n in operator.differentiable_outputs if given[n]]
    if not asked or not heads:
        nothing = (None,) * len(needs)
        return lambda saved, grads: nothing
    made = _reading(own, saves, asked, heads)
    if made is None:
        made, asked = _reading(own, saves, wanted, heads), list(wanted)
    assert made is not None, "what all gradients read is saved"
    values = len(operator.inputs) + len(operator.outputs)
    names = [
        f"s[{saves.index(k)}]" if k < values else f"g[{heads[k - values]}]" for k in made.takes
    ]
    rows = "".join([f"r{n}, " for n in asked])
    found = "".join([f"r{n}, " if needs[n] and n in asked else "None, " for n in range(len(needs))])
    several = rows if len(asked) > 1 else f"r{asked[0]}"
    text = f"def pull(s, g):\n    {several} = derived({', '.join(names)})\n    return {found}"
    known = {"derived": own.derived(made)}
    exec(compile(text, "<tensorad torch gradient>", "exec"), known)
    return known["pull"]


def _reading(
    own: Own, saves: Sequence[int], asked: Sequence[int], heads: Sequence[int]
) -> Derived | None:
    """The pullback, if it reads no other values than those that are saved."""
    inputs = len(own.operator.inputs)
    used = [n - inputs for n in saves if n >= inputs]
    made = own.operator.pullback_from(asked, heads, used)
    values = inputs + len(own.operator.outputs)
    return made if all(k in saves for k in made.takes if k < values) else None


def _integers(own: Own) -> list[int]:
    operator = own.operator
    return sorted(set(range(len(operator.outputs))) - set(operator.differentiable_outputs))


def put(found: list[Any], places: Sequence[int], results: Any) -> None:
    """Results at their places."""
    several = results if isinstance(results, tuple) else (results,)
    for n, value in zip(places, several, strict=True):
        found[n] = value
