"""The machine that code is compiled for: caches, vector registers, threads.

Only choices that leave the order of every sum alone may read it; the others take a `Model`
(`codegen/model.py`).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import sys
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tensorad import config
from tensorad.codegen.model import USUAL_PACE
from tensorad.codegen.target import object_code
from tensorad.errors import DefinitionError

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PROBE: Final = """define void @f(ptr %p) {
  %x = load <16 x float>, ptr %p
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %p
  ret void
}"""
_POWER: Final = "a power of two"
_WANTED: Final = {
    "str": "a name",
    "int": "a positive integer",
    "float": "a number, not negative",
    "line": _POWER,
    "vector_bytes": _POWER,
}
"""What the flag may say, by the kinds of facts, and of those that masks are made of."""
COUNTED_ON: Final = 32 << 20
"""Bytes of the last cache that the system may tell of: more belongs to a whole socket.

One core reaches the rest hardly faster than memory, and others use it. The flag may say more.
"""
_VECTORS: Final = {"%xmm": 16, "%ymm": 32, "%zmm": 64}
"""Names of vector registers of x86, and their bytes."""
_ONE_UNIT: Final = (
    "znver1", "znver4", "cannonlake", "icelake-client", "tigerlake", "rocketlake", "x86-64-v4",
)  # fmt: skip
"""Processors that put two units together for a multiply-add of their widest registers."""
_FAR_LINES: Final = ("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d")
"""Processors that wait for few lines at once, and long for each; their `by_lines` is 3."""


@dataclass(frozen=True)
class Machine:
    """What a schedule may ask about a machine. Sizes are in bytes; the defaults are modest.

    The flag TENSORAD_MACHINE replaces any of them: cpu=haswell,l2=262144.
    """

    cpu: str = "generic"
    """LLVM's name of the processor."""
    l1: int = 32 << 10
    l2: int = 256 << 10
    """The second cache, of one core."""
    l3: int = 4 << 20
    """The last cache, shared by cores: what one process counts on, see `COUNTED_ON`."""
    line: int = 64
    vector_bytes: int = 16
    registers: int = 16
    """Vector registers."""
    multiply_adds: int = 1
    """Those of whole registers that a core begins in a cycle."""
    cores: int = 1
    """CPUs that this process may use."""
    flops: float = 0.0
    """Float32 operations per second of one core at best; 0: not known, see `measured`."""
    read: float = 0.0
    """Bytes per second that one core reads from memory; 0: not known, see `measured`."""
    by_lines: float = 0.0
    """Times as long as in a stream that lines take which a core asks for one by one; 0: they come
    while it computes."""

    def __str__(self) -> str:
        caches = ", ".join([f"L{n} {_size(getattr(self, f'l{n}'))}" for n in (1, 2, 3)])
        lanes = f"{self.registers} vector registers of {self.vector_bytes} bytes"
        return f"{self.cpu}: {caches}, {lanes}, {self.cores} CPU{'s' * (self.cores != 1)}"

    @property
    def pace(self) -> float:
        """Bytes that one core reads from memory in a cycle: the usual where speeds are not said.

        Measured ones would give each process plans of its own.
        """
        if not (self.flops and self.read):
            return USUAL_PACE
        return self.read * 2 * (self.vector_bytes // 4) * self.multiply_adds / self.flops


def current() -> Machine:
    """The machine code is compiled for."""
    return _described(config.current().machine)


@lru_cache(maxsize=16)
def _described(text: str) -> Machine:
    given = _parsed(text)
    found = this_machine()
    cpu = str(given.get("cpu", found.cpu))
    if cpu != found.cpu:
        found = _with_registers(replace(found, cpu=cpu), probed_vector_bytes(cpu))
    elif "vector_bytes" in given and "cpu" not in given:  # of a processor without a name
        units = 1 if int(given["vector_bytes"]) > 32 else 2
        found = replace(found, multiply_adds=units, by_lines=0.0)
    return replace(found, **given)  # type: ignore[arg-type]  # _parsed checks the types


def target() -> str:
    """The processor to compile for if it is not this one, else ""."""
    text = config.current().machine
    if "cpu" not in text:
        return ""
    cpu = current().cpu
    return "" if cpu == this_machine().cpu else cpu


def usable_vector_bytes() -> int:
    """The described width of vectors, at most what the processor compiled for really has."""
    cpu = target()
    found = probed_vector_bytes(cpu) if cpu else this_machine().vector_bytes
    return min(found, current().vector_bytes)


def _parsed(text: str) -> dict[str, str | int | float]:
    kinds = {f.name: str(f.type) for f in fields(Machine)}
    found: dict[str, str | int | float] = {}
    for part in [p for p in text.split(",") if p.strip()]:
        name, _, value = [p.strip() for p in part.partition("=")]
        kind = kinds.get(name)
        if kind == "str" and value:
            found[name] = value
        elif kind == "int" and value.isdecimal() and _may_be(name, int(value)):
            found[name] = int(value)
        elif kind == "float" and value.replace(".", "", 1).isdecimal():
            found[name] = float(value)
        elif kind is not None:
            wanted = _WANTED.get(name, _WANTED[kind])
            raise DefinitionError(
                f"TENSORAD_MACHINE: {name} must be {wanted}, got {value!r}.",
                where=f"TENSORAD_MACHINE={text}",
                hint="write name=value, as in cpu=haswell,l2=262144; sizes in bytes.",
            )
        else:
            raise DefinitionError(
                f"TENSORAD_MACHINE has the part {part.strip()!r}, which says nothing.",
                where=f"TENSORAD_MACHINE={text}",
                hint=f"write name=value with {', '.join(kinds)}; sizes in bytes.",
            )
    return found


def _may_be(name: str, value: int) -> bool:
    """Whether a fact may be this number: lines and vectors are cut by masks and halves."""
    return value > 0 and (_WANTED.get(name) != _POWER or value & (value - 1) == 0)


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """This machine, as far as the system tells."""
    cpu, features = object_code.host()
    width = _vector_bytes(features)
    caches = _linux_caches(_CACHES) if sys.platform != "darwin" else _mac_caches()
    found = _with_registers(Machine(cpu), width)
    known = {name: size for name, size in caches.items() if size > 0}
    if "l3" in known:
        known["l3"] = min(known["l3"], COUNTED_ON)
    return replace(found, cores=config.available_cpus(), **known)  # type: ignore[arg-type]  # sizes


def _with_registers(m: Machine, vector_bytes: int) -> Machine:
    """A processor with its registers of so many bytes, and what follows from its name."""
    units = 1 if m.cpu in _ONE_UNIT else 2
    registers, by_lines = _registers(vector_bytes), 3.0 if m.cpu in _FAR_LINES else 0.0
    return replace(
        m, vector_bytes=vector_bytes, registers=registers, multiply_adds=units, by_lines=by_lines
    )


def _vector_bytes(features: str) -> int:
    known = dict.fromkeys(features.split(","))
    if "+avx512f" in known:
        return 64
    return 32 if "+avx2" in known else 16


def _registers(vector_bytes: int) -> int:
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return 32 if arm or vector_bytes == 64 else 16


@lru_cache(maxsize=16)
def probed_vector_bytes(cpu: str) -> int:
    """The widest register that LLVM uses for a processor, seen from what it writes.

    Raises:
        DefinitionError: it is none of x86-64, on such a machine.
    """
    known = platform.machine().lower() in ("x86_64", "amd64")
    # without 64 bits: asked for them, LLVM ends the process where a processor has none
    text = object_code.assembly(_PROBE, 0, cpu, "i686-unknown-linux-gnu" if known else "")
    found = [width for name, width in _VECTORS.items() if name in text]
    if known and not found:
        raise DefinitionError(
            f"LLVM knows no processor {cpu!r} of x86-64.",
            where=f"TENSORAD_MACHINE={config.current().machine}",
            hint="write a name of LLVM, as in cpu=haswell or cpu=x86-64-v4, or leave cpu out.",
        )
    return max(found, default=16)


def _linux_caches(folder: Path) -> dict[str, int]:
    """Sizes of the data caches from sysfs; what a container hides is left out."""
    found: dict[str, int] = {}
    for entry in sorted(folder.glob("index*")):
        try:
            kind, level, size, line = [
                (entry / name).read_text().strip()
                for name in ("type", "level", "size", "coherency_line_size")
            ]
        except OSError:
            continue
        if kind != "Instruction" and level in ("1", "2", "3"):
            found[f"l{level}"] = _bytes(size)
            found["line"] = _bytes(line)
    return found


def _bytes(text: str) -> int:
    """32K, 1M or a plain number as bytes; 0 if it is none."""
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(digits) * unit if digits.isdigit() else 0


def _mac_caches() -> dict[str, int]:
    """Sizes from sysctl; the cores of the fast kind where there are two."""
    library = ctypes.CDLL(ctypes.util.find_library("c"))
    found: dict[str, int] = {}
    for name, key in (("l1", "l1dcachesize"), ("l2", "l2cachesize"), ("l3", "l3cachesize"),
                      ("line", "cachelinesize")):  # fmt: skip
        for place in (f"hw.perflevel0.{key}", f"hw.{key}"):
            value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
            where = ctypes.byref(value), ctypes.byref(size)
            if library.sysctlbyname(place.encode(), *where, None, 0) == 0 and value.value > 0:
                found[name] = value.value
                break
    if "l3" not in found and "l2" in found:  # no L3: the L2 of a cluster is the last cache
        found["l3"] = found["l2"]
    return found


def _size(n: int) -> str:
    for unit, name in ((1 << 20, "MB"), (1 << 10, "kB")):
        if n >= unit:
            return f"{n / unit:.4g} {name}"
    return f"{n} B"
