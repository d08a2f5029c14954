"""Calls of an operator as Python text, with what is looked at written out tensor by tensor.

Most of a short call is what is asked of its tensors; loops over them would take twice as long.
A call whose tensors are like those before asks one question of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorad.interop.torch.pytorch import MEMORY_KEYS, PLAIN, fw, torch
from tensorad.process import memoised

Compute = Callable[..., Any]
MISSING: Final = object()
"""What stands for an argument that is not given."""

_STATE: Final = {
    "compiling": torch.compiler.is_dynamo_compiling,
    "keys": torch._C._dispatch_keys,
    "memory": MEMORY_KEYS,
    "plain": PLAIN,
    "strided": torch.strided,
    "forward": fw,
    "modes": torch._C._len_torch_dispatch_stack,
    "functions": torch._C._len_torch_function_stack,
    "transforms": torch._C._functorch.peek_interpreter_stack,
    "tracing": torch._C._get_tracing_state,
    "enabled": torch.is_grad_enabled,
    "inferring": torch.is_inference_mode_enabled,
    "autocast": torch.is_autocast_enabled,
    "like": torch.empty_like,
    "dense": torch.contiguous_format,
    "missing": MISSING,
}


def written_out(kernel: Any, ways: dict[Any, Compute]) -> tuple[Compute, Compute]:
    """(on contiguous tensors that fit, the method `__call__` of an operator).

    Args:
        kernel: what runs.
        ways: what is called where somebody differentiates, by the inputs that require it.
    """
    make = _maker(len(kernel.dtypes), kernel.alike)
    made: tuple[Compute, Compute] = make(kernel, ways)
    return made


@memoised(64)
def _maker(inputs: int, alike: tuple[int, ...]) -> Callable[..., Any]:
    names = dict(_STATE)
    exec(compile(call_text(inputs, alike), "<tensorad torch operator>", "exec"), names)
    return names["make"]  # type: ignore[no-any-return]


def _run(inputs: Sequence[int], alike: Sequence[int]) -> list[str]:
    """The lines from a function of C for these tensors to results."""
    outputs = range(len(alike))
    given = [f"a{n}.data_ptr()" for n in inputs] + [f"y{k}.data_ptr()" for k in outputs]
    return [
        *[
            f"y{k} = like(a{n})" if n >= 0 else f"y{k} = like(t{k}, memory_format=dense)"
            for k, n in zip(outputs, alike, strict=True)
        ],
        f"code = run({', '.join(['address', *given])})",
        "if code: raise error(code)",
        f"return {', '.join([f'y{k}' for k in outputs])}",
    ]


def call_text(inputs: int, alike: Sequence[int]) -> str:
    """The text of `make(kernel, ways)`.

    Args:
        alike: for each output the input that has its dtype and shape, or -1.
    """
    numbers = range(inputs)
    arguments = ", ".join([f"a{n}" for n in numbers])
    defaults = "".join([f"a{n}=missing, " for n in numbers])
    row = "".join([f"a{n}, " for n in numbers])
    shapes = "".join([f"a{n}.shape, " for n in numbers])
    asked = "".join([f"a{n}.requires_grad, " for n in numbers])
    types = "".join([f"type(a{n}), " for n in numbers])
    sized = "".join(
        [
            f"type(a{n}) in plain and a{n}.layout is strided and not a{n}.is_nested and "
            for n in numbers
        ]
    )
    memory = "".join(
        [f"a{n}.dtype is d{n} and keys(a{n}).raw_repr() in memory and " for n in numbers]
    )
    even = " and ".join([f"a{n}.is_contiguous()" for n in numbers]) or "True"
    dense = ", ".join(["self", *[f"a{n}.contiguous()" for n in numbers]])
    alone = "not more and forward._current_level < 0 and not modes() and not functions()"
    untraced = "transforms() is None and tracing() is None"
    bound = "".join([f", t{k}" for k in range(len(alike))])
    run = _run(numbers, alike)
    return "\n".join(
        [
            "def make(kernel, ways):",
            "    known, seen, last = kernel.known, kernel.seen, kernel.nothing",
            *[f"    d{n} = kernel.dtypes[{n}]" for n in numbers],
            f"    def compute({arguments}):",
            f"        fits, needs, run, address, error{bound} = last",
            f"        if not fits({arguments}):",
            f"            shapes = ({shapes})",
            f"            run, address, error{bound} = known.get(shapes) or kernel.bind(shapes)",
            *[f"        {line}" for line in run],
            f"    def call(self, {defaults}{'/, ' if inputs else ''}*more, **named):",
            "        nonlocal last",
            f"        if named: return self.by_name(({row}*more,), named)",
            f"        if compiling(): return self.in_general(({row}*more,))",
            f"        fits, needs, run, address, error{bound} = last",
            f"        if not ({sized}transforms() is None and fits({arguments}) and {alone}):",
            f"            if not ({sized}{memory}{alone} and {untraced}):",
            f"                return self.in_general(({row}*more,))",
            f"            if not ({even}): return call({dense})",
            f"            key = ({shapes}{asked}{types}inferring(), autocast('cpu'))",
            f"            own = seen.get(key) or kernel.see(key, ({row}))",
            f"            fits, needs, run, address, error{bound} = last = own",
            "        if needs and enabled():",
            f"            return (ways.get(needs) or self.way(needs))({arguments})",
            *[f"        {line}" for line in run],
            "    return compute, call",
        ]
    )
