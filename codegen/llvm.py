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


def target_machine(opt: int) -> Any:
    """A target machine for this processor; `opt` is LLVM's code generation level."""
    initialize()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=opt,
        jit=True,
        reloc="pic",
        codemodel="small",
    )


def _machine_of_thread(opt: int) -> Any:
    """Target machines are not shared between threads."""
    machines = _local.__dict__.setdefault("machines", {})
    if opt not in machines:
        machines[opt] = target_machine(opt)
    return machines[opt]


def compile_text(text: str, opt: int) -> bytes:
    """The object file of a module of LLVM IR; no middle-end passes are run.

    Raises:
        InternalError: the text is not valid LLVM IR.
    """
    machine = _machine_of_thread(opt)
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
