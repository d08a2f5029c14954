"""Compiled kernels, shared by everything that has equal loops."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from tensorad.codegen.llvm.loops import FunctionText
from tensorad.codegen.llvm.phases import function_text, phases
from tensorad.codegen.loops.ir import Check, Kernel
from tensorad.codegen.loops.kernel_key import kernel_key, local_sizes
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.target import link, machine
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key
from tensorad.ir.expr import Size
from tensorad.ir.tensor import Tensor
from tensorad.process import Guard, memo

KEPT: Final = 256
"""Compiled kernels kept although nothing uses them."""
LONG_BLOCK: Final = 1500
"""LLVM's optimising selection is quadratic in a block's length: longer ones go without."""
_HEADER: Final = "!0 = !{}\n!1 = !{i32 1}"


@dataclass(frozen=True)
class Phase:
    """One function of a kernel; sizes that loops give are known by their numbers in its key."""

    address: int
    parallel: bool
    sizes: tuple[Size | int, ...]

    def sizes_of(self, kernel: Kernel) -> list[Size]:
        """The sizes it is passed for one of the kernels that share it."""
        local = local_sizes(kernel)
        return [local[s] if isinstance(s, int) else s for s in self.sizes]


class Code:
    """The functions of one kernel's text, by number, and the library that holds them."""

    def __init__(self, library: link.Library, addresses: tuple[int, ...]) -> None:
        self.addresses = addresses
        self._library = library


class CompiledKernel:
    """The functions of a kernel, in order."""

    def __init__(
        self, code: Code, functions: Sequence[FunctionText], local: Mapping[Size, int]
    ) -> None:
        self.phases = tuple(
            [
                Phase(address, f.parallel, tuple([local.get(s, s) for s in f.sizes]))
                for address, f in zip(code.addresses, functions, strict=True)
            ]
        )
        self._code = code


class Job:
    """A kernel on its way to machine code."""

    def __init__(self, key: Key, made: CompiledKernel | None = None) -> None:
        self.key = key
        self.made = made
        self.cpu = ""
        self.functions: list[FunctionText] = []
        self.local: dict[Size, int] = {}
        self.digest = b""
        self.lines = 0
        self.opt = 2

    def write(self, kernel: Kernel, tensors: tuple[Tensor, ...], cpu: str) -> None:
        """Write the functions."""
        text, self.functions = kernel_text(kernel, tensors)
        self.local = {s: n for n, s in enumerate(local_sizes(kernel))}
        longest = max([f.largest_block for f in self.functions], default=0)
        self.opt = 0 if longest > LONG_BLOCK else 2
        self.cpu = cpu
        self.digest = blake2b(f"{cpu}\n{text}".encode()).digest()
        self.lines = text.count("\n")

    def compiled(self) -> CompiledKernel:
        """The code, which is there by now; it is remembered."""
        if self.made is None:
            raise InternalError(f"a kernel was not compiled:\n{repr(self.key)[:20000]}")
        with _guard.lock:
            found = _compiled.setdefault(self.key, self.made)
            _recent[self.key] = found
            _recent.move_to_end(self.key)
            if len(_recent) > KEPT:
                _recent.popitem(last=False)
        return found


_guard = Guard()
"""Reentrant, as finalizers and handlers of signals may build."""
_compiled: weakref.WeakValueDictionary[Key, CompiledKernel] = memo(
    weakref.WeakValueDictionary(), _guard
)
_recent: OrderedDict[Key, CompiledKernel] = memo(OrderedDict(), _guard)
_codes: weakref.WeakValueDictionary[bytes, Code] = memo(weakref.WeakValueDictionary())
"""Code by what its text is: kernels that differ in how they came about may share it."""


def job_of(kernel: Kernel, begun: Mapping[Key, Job]) -> tuple[Job, tuple[Tensor, ...]]:
    """The kernel's text, or code that is there, and its tensors in the order the code wants them.

    Args:
        begun: jobs by key, one of which may serve.
    """
    cpu, m = machine.target(), machine.current()
    own, tensors = kernel_key(kernel)
    key = (cpu, m.line, m.vector_bytes, *own)  # what the writers of LLVM IR ask of the machine
    if key in begun:
        return begun[key], tensors
    with _guard.lock:
        found = _compiled.get(key)
    job = Job(key, found)
    if found is None:
        job.write(kernel, tensors, cpu)
    return job, tensors


def compiled_kernel(kernel: Kernel) -> tuple[CompiledKernel, tuple[Tensor, ...]]:
    """Machine code for one kernel, and its tensors in the order the code wants them."""
    job, tensors = job_of(kernel, {})
    load_together([job])
    return job.compiled(), tensors


def checks_of(kernel: Kernel) -> list[Check]:
    """The kernel's checks in the order of their codes 1, 2, ..."""
    return [s for s in statements(kernel.body) if isinstance(s, Check)]


def kernel_text(kernel: Kernel, tensors: tuple[Tensor, ...]) -> tuple[str, list[FunctionText]]:
    """The module of LLVM IR of one kernel."""
    functions: list[FunctionText] = []
    first_check = 1
    for number, (body, parallel) in enumerate(phases(kernel.body)):
        name = f"kernel{number}"
        made = function_text(name, body, parallel, tensors, first_check, kernel)
        functions.append(made)
        first_check += sum(isinstance(s, Check) for s in statements(body))
    return _module(functions), functions


def _module(functions: Sequence[FunctionText]) -> str:
    """The text of a module; helpers of one name are the same everywhere."""
    declarations: dict[str, str] = {}
    helpers: dict[str, str] = {}
    for f in functions:
        declarations.update(f.declarations)
        helpers.update(f.functions)
    parts = [*declarations.values(), *helpers.values(), *[f.text for f in functions], _HEADER]
    return "\n".join(parts)


def load_together(jobs: Sequence[Job]) -> None:
    """Compile jobs of one level and processor in one module, each text once."""
    distinct = {job.digest: job for job in jobs if job.made is None}
    codes = {digest: _codes.get(digest) for digest in distinct}
    new = [job for digest, job in distinct.items() if codes[digest] is None]
    if new:
        codes.update(_compile(new))
    for job in jobs:
        code = codes.get(job.digest)
        if code is not None:
            job.made = CompiledKernel(code, job.functions, job.local)


def _compile(jobs: Sequence[Job]) -> dict[bytes, Code]:
    named = [[f.renamed(f"k{n}_{f.name}") for f in job.functions] for n, job in enumerate(jobs)]
    functions = [f for own in named for f in own]
    names = tuple([f.name for f in functions])
    external = {n: None for f in functions for n in f.declarations if not n.startswith("llvm.")}
    library = link.load(_module(functions), names, (*external, *_RUNTIME), jobs[0].opt, jobs[0].cpu)
    made: dict[bytes, Code] = {}
    for job, own in zip(jobs, named, strict=True):
        code = Code(library, tuple([library.addresses[f.name] for f in own]))
        made[job.digest] = _codes[job.digest] = code
    return made


_RUNTIME: Final = ("fmaf", "fma", "memset", "memcpy")
"""What LLVM itself may call on machines that lack an instruction."""
