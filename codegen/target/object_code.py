"""LLVM IR text to machine code: the target machine and object files (one of two llvmlite users)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import llvmlite.binding as llvm

from tensorad import config
from tensorad.errors import InternalError

_local = threading.local()


@lru_cache(maxsize=1)
def initialize() -> None:
    """Set LLVM up for this machine, once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def host() -> tuple[str, str]:
    """This processor's name in LLVM, and its features as LLVM writes them."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine(opt: int, cpu: str = "", triple: str = "") -> Any:
    """A target machine; `opt` is LLVM's code generation level.

    Args:
        cpu: a processor in LLVM's words, with the features it implies; default: this one.
        triple: the system to compile for; default: this one.
    """
    initialize()
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    name, features = (cpu, _implied(target.triple)) if cpu or triple else host()
    return target.create_target_machine(
        cpu=name, features=features, opt=opt, jit=True, reloc="pic", codemodel="small"
    )


def _implied(triple: str) -> str:
    """Features of every processor of a system: LLVM ends the process where a name has less."""
    return "+64bit,+sse2" if triple.startswith("x86_64") else ""


def _machine_of_thread(opt: int, cpu: str, triple: str) -> Any:
    """Target machines are not shared between threads."""
    machines = _local.__dict__.setdefault("machines", {})
    key = opt, cpu, triple
    if key not in machines:
        machines[key] = target_machine(opt, cpu, triple)
    return machines[key]


def _module(text: str) -> Any:
    """A verified module in a context of its own.

    A context keeps every type and constant it has seen: one for all modules would grow for ever.

    Raises:
        RuntimeError: the text is not valid LLVM IR.
    """
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    return module


def assembly(text: str, opt: int, cpu: str = "", triple: str = "") -> str:
    """The assembly language of a module of LLVM IR."""
    module = _module(text)
    return str(_machine_of_thread(opt, cpu, triple).emit_assembly(module))


def refusal(text: str) -> str:
    """What LLVM has against a module of LLVM IR, in its words; "" if it makes code of it."""
    try:
        module = _module(text)
    except RuntimeError as error:
        first = str(error).partition("error: ")[2] or str(error)
        return first.splitlines()[0]
    made = str(_machine_of_thread(0, "", "").emit_assembly(module))
    unknown = re.search(r"\bllvm\.[\w.]+", made)  # what it makes code of is not called by name
    return f"unknown intrinsic '{unknown.group()}'" if unknown else ""


def compile_text(text: str, opt: int, cpu: str = "", triple: str = "") -> bytes:
    """The object file of a module of LLVM IR; no middle-end passes are run.

    Raises:
        InternalError: the text is not valid LLVM IR.
    """
    machine = _machine_of_thread(opt, cpu, triple)
    debug = config.current().debug
    if "llvm" in debug:
        print(text)
    try:
        module = _module(text)
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the code: {error}\n{text[:20000]}") from error
    if "asm" in debug:
        print(machine.emit_assembly(module))
    with _without_strength_reduction():
        return bytes(machine.emit_object(module))


_VERSIONS: Final = range(15, 23)
"""LLVM's versions known to have the option below; it ends a process over one it does not know."""


@contextmanager
def _without_strength_reduction() -> Iterator[None]:
    """Generate code without LLVM's loop strength reduction.

    It takes half of the time for long loops and finds nothing there: addresses are formed by
    level already. The option belongs to the process, so llvmlite's lock is held while it is set:
    whoever else compiles keeps the pass.
    """
    lock = llvmlite_lock()
    if lock is None or llvm.llvm_version_info[0] not in _VERSIONS:
        yield
        return
    with lock:
        llvm.set_option("", "-disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("", "-disable-lsr=false")


def llvmlite_lock() -> Any:
    """llvmlite's own lock, reentrant: held by every call into LLVM.

    llvmlite 0.50 keeps it at binding.ffi.lib._lock._lock.
    """
    library = getattr(getattr(llvm, "ffi", None), "lib", None)
    return getattr(getattr(library, "_lock", None), "_lock", None)
