"""Compiled kernels, shared by everything that has equal loops."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tensorad.codegen import jit, machine
from tensorad.codegen.kernel_key import kernel_key
from tensorad.codegen.llvm_lanes import statements
from tensorad.codegen.llvm_loop import FunctionText, function_text, phases
from tensorad.codegen.loopir import Check, Kernel
from tensorad.ir.expr import Size
from tensorad.ir.tensor import Tensor

KEPT: Final = 256
"""Compiled kernels kept although nothing uses them."""
LONG_BLOCK: Final = 1500
"""LLVM's optimising selection is quadratic in a block's length: longer ones go without."""
_HEADER: Final = "!0 = !{}\n!1 = !{i32 1}"


@dataclass(frozen=True)
class Phase:
    """One function of a kernel."""

    address: int
    parallel: bool
    sizes: tuple[Size, ...]


class CompiledKernel:
    """The functions of a kernel, in order, and the library that holds them."""

    def __init__(self, library: jit.Library, functions: list[FunctionText]) -> None:
        self.phases = tuple(
            [Phase(library.addresses[f.name], f.parallel, f.sizes) for f in functions]
        )
        self._library = library


_compiled: weakref.WeakValueDictionary[str, CompiledKernel] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, CompiledKernel] = OrderedDict()


def compiled_kernel(kernel: Kernel) -> tuple[CompiledKernel, tuple[Tensor, ...]]:
    """Machine code for the kernel, and its tensors in the order the code wants them."""
    cpu = machine.target()
    key, tensors = kernel_key(kernel)
    if cpu:
        key = f"{cpu}\n{key}"
    with jit.lock:
        found = _compiled.get(key)
        if found is None:
            found = _compile(kernel, tensors, cpu)
            _compiled[key] = found
        _recent[key] = found
        _recent.move_to_end(key)
        if len(_recent) > KEPT:
            _recent.popitem(last=False)
    return found, tensors


def checks_of(kernel: Kernel) -> list[Check]:
    """The kernel's checks in the order of their codes 1, 2, ..."""
    return [s for s in statements(kernel.body) if isinstance(s, Check)]


def kernel_text(kernel: Kernel, tensors: tuple[Tensor, ...]) -> tuple[str, list[FunctionText]]:
    """The module of LLVM IR of one kernel."""
    functions: list[FunctionText] = []
    first_check = 1
    for number, (body, parallel) in enumerate(phases(kernel.body)):
        name = f"kernel{number}"
        made = function_text(name, body, parallel, tensors, first_check, kernel.scratch)
        functions.append(made)
        first_check += sum(isinstance(s, Check) for s in statements(body))
    declarations: dict[str, str] = {}
    helpers: dict[str, str] = {}
    for f in functions:
        declarations.update(f.declarations)
        helpers.update(f.functions)
    parts = [*declarations.values(), *helpers.values(), *[f.text for f in functions], _HEADER]
    return "\n".join(parts), functions


def _compile(kernel: Kernel, tensors: tuple[Tensor, ...], cpu: str) -> CompiledKernel:
    text, functions = kernel_text(kernel, tensors)
    names = tuple([f.name for f in functions])
    external = {n: None for f in functions for n in f.declarations if not n.startswith("llvm.")}
    longest = max([f.largest_block for f in functions], default=0)
    opt = 0 if longest > LONG_BLOCK else 2
    library = jit.load(text, names, (*external, *_RUNTIME), opt, cpu)
    return CompiledKernel(library, functions)


_RUNTIME: Final = ("fmaf", "fma", "memset", "memcpy")
"""What LLVM itself may call on machines that lack an instruction."""
