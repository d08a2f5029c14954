"""LLVM IR text to machine code: the target machine and object files (one of two llvmlite users)."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

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
    name, features = (cpu, "") if cpu or triple else host()
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=name, features=features, opt=opt, jit=True, reloc="pic", codemodel="small"
    )


def _machine_of_thread(opt: int, cpu: str, triple: str) -> Any:
    """Target machines are not shared between threads."""
    machines = _local.__dict__.setdefault("machines", {})
    key = opt, cpu, triple
    if key not in machines:
        machines[key] = target_machine(opt, cpu, triple)
    return machines[key]


def assembly(text: str, opt: int, cpu: str = "", triple: str = "") -> str:
    """The assembly language of a module of LLVM IR."""
    module = llvm.parse_assembly(text)
    return str(_machine_of_thread(opt, cpu, triple).emit_assembly(module))


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
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the code: {error}\n{text[:20000]}") from error
    if "asm" in debug:
        print(machine.emit_assembly(module))
    return bytes(machine.emit_object(module))
