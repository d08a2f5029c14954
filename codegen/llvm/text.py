"""LLVM IR as text: types, constants, values, and nested regions code can be hoisted into."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from tensorad.codegen.target import machine
from tensorad.ir.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    DType,
)
from tensorad.ir.elementary.steps import MAGIC, bits_of, integers, power_of_two, to_bits
from tensorad.ir.nodes import Number
from tensorad.ir.records import is_record

_TYPES: Final = {
    BOOL: "i1",
    UINT8: "i8",
    INT8: "i8",
    INT16: "i16",
    INT32: "i32",
    INT64: "i64",
    FLOAT32: "float",
    FLOAT64: "double",
}
RegionKind = Literal["entry", "preheader", "body", "branch"]


def type_text(dtype: DType, lanes: int = 0) -> str:
    """The register type: a scalar, or a vector of `lanes`."""
    scalar = _scalar_text(dtype)
    return f"<{lanes} x {scalar}>" if lanes else scalar


def _scalar_text(dtype: DType) -> str:
    """A handle is an address."""
    return "i64" if is_record(dtype) else _TYPES[dtype]


def memory_type(dtype: DType, lanes: int = 0) -> str:
    """The type in memory: a bool is a byte."""
    return type_text(UINT8 if dtype is BOOL else dtype, lanes)


def mangled(dtype: DType, lanes: int = 0) -> str:
    """The suffix of an overloaded intrinsic, e.g. "v16f32"."""
    letter = "f" if dtype.is_float else "i"
    return f"v{lanes}{letter}{dtype.bits}" if lanes else f"{letter}{dtype.bits}"


def memory_suffix(dtype: DType, lanes: int) -> str:
    """The suffix of a memory intrinsic: a bool is a byte."""
    return mangled(UINT8 if dtype is BOOL else dtype, lanes)


def constant_text(value: Number, dtype: DType) -> str:
    """A scalar constant operand; floats by the bits of the rounded value."""
    if dtype is BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype is FLOAT32:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def vector_constant(value: Number, dtype: DType, lanes: int) -> str:
    """A constant operand of a scalar (lanes 0) or vector type."""
    text = constant_text(value, dtype)
    return f"splat ({_scalar_text(dtype)} {text})" if lanes else text


class Value(NamedTuple):
    """An SSA value: one register name, or one per vector of a wide lane group.

    `level` is the depth of the region that holds it; `mask` has a bit for every mutable thing
    (scalar, written tensor) it was computed from.
    """

    names: tuple[str, ...]
    dtype: DType
    lanes: int
    level: int
    mask: int

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass
class Region:
    """Instructions that end in the basic block `label`; inner regions join it when closed."""

    kind: RegionKind
    label: str
    always_entered: bool = True
    """For a preheader: the loop is known to run at least once."""
    lines: list[str] = field(default_factory=list)
    cached: list[object] = field(default_factory=list)
    """What the expression cache holds at this level: forgotten with the region."""
    label_at_start: str = ""

    def __post_init__(self) -> None:
        self.label_at_start = self.label


class Code:
    """One function under construction: its open regions, fresh names and declarations."""

    def __init__(self) -> None:
        self.regions: list[Region] = [Region("entry", "entry")]
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        """Internal functions the code calls: their whole text by name."""
        self.failures: list[str] = []
        """Blocks placed at the end of the function."""
        self.inlined = 0
        """Elementary functions written out so far."""
        self.streamed = False
        """Whether some store passes the caches."""
        self._names = 0

    @property
    def depth(self) -> int:
        """The level of the innermost open region."""
        return len(self.regions) - 1

    @property
    def region(self) -> Region:
        return self.regions[-1]

    def fresh(self, stem: str = "v") -> str:
        """A new register or label name, without its sigil."""
        self._names += 1
        return f"{stem}{self._names}"

    def put(self, text: str, level: int | None = None) -> str:
        """Append an instruction to the region at `level`; its new register."""
        self._names += 1
        name = f"%v{self._names}"
        self.regions[-1 if level is None else level].lines.append(f"{name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Append an instruction without a result to the innermost region."""
        self.regions[-1].lines.append(text)

    def start_block(self, label: str) -> None:
        """Begin a new basic block in the innermost region."""
        self.regions[-1].lines.append(f"{label}:")
        self.regions[-1].label = label

    def declare(self, name: str, result: str, *arguments: str) -> None:
        """Declare an external function once."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def called(self, name: str, result: str, *operands: tuple[str, object]) -> str:
        """The call of an external function, by the types and texts of its operands."""
        self.declare(name, result, *[ty for ty, _ in operands])
        return f"call {result} @{name}({', '.join([f'{ty} {x}' for ty, x in operands])})"


@dataclass(slots=True)
class Writer:
    """Instructions on operands of one dtype and lane count, put at one level of the code.

    The same formula written with it gives scalar and vector code of equal results.
    """

    code: Code
    level: int
    dtype: DType
    lanes: int

    @property
    def type(self) -> str:
        return type_text(self.dtype, self.lanes)

    def of(self, dtype: DType) -> Writer:
        """The same place and lanes with another dtype."""
        return Writer(self.code, self.level, dtype, self.lanes)

    def put(self, text: str) -> str:
        return self.code.put(text, self.level)

    def const(self, value: Number) -> str:
        return vector_constant(value, self.dtype, self.lanes)

    def binary(self, instruction: str, x: str, y: str) -> str:
        return self.put(f"{instruction} {self.type} {x}, {y}")

    def add(self, x: str, y: str) -> str:
        return self.binary("fadd" if self.dtype.is_float else "add", x, y)

    def sub(self, x: str, y: str) -> str:
        return self.binary("fsub" if self.dtype.is_float else "sub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self.binary("fmul" if self.dtype.is_float else "mul", x, y)

    def div(self, x: str, y: str) -> str:
        return self.binary("fdiv", x, y)

    def fma(self, x: str, y: str, z: str) -> str:
        return self.intrinsic("fma", x, y, z)

    def neg(self, x: str) -> str:
        if self.dtype.is_float:
            return self.put(f"fneg {self.type} {x}")
        return self.binary("sub", self.const(0), x)

    def compare(self, predicate: str, x: str, y: str) -> str:
        kind = "fcmp" if self.dtype.is_float else "icmp"
        return self.put(f"{kind} {predicate} {self.type} {x}, {y}")

    def select(self, cond: str, x: str, y: str) -> str:
        flag = type_text(BOOL, self.lanes)
        return self.put(f"select {flag} {cond}, {self.type} {x}, {self.type} {y}")

    def convert(self, instruction: str, x: str, to: DType) -> str:
        target = type_text(to, self.lanes)
        return self.put(f"{instruction} {self.type} {x} to {target}")

    def intrinsic(self, name: str, *args: str) -> str:
        """llvm.<name> of operands and result of this type."""
        full = f"llvm.{name}.{mangled(self.dtype, self.lanes)}"
        return self.put(self.code.called(full, self.type, *[(self.type, a) for a in args]))

    def scaled(self, x: str, shifted: str) -> str:
        """x * 2^n for 1/2 < x < 2 and the n in the low bits of `shifted`: one instruction where
        there is one, otherwise two products.

        The first product is exact, so that subnormal results round once either way.
        """
        i = self.of(integers(self).dtype)
        wide = machine.usable_vector_bytes() == 64  # only AVX-512 has it; elsewhere it calls ldexp
        if wide and self.lanes * self.dtype.size_bytes == 64:
            return self._scaled_register(x, self.sub(shifted, self.const(MAGIC[self.dtype])))
        n = i.sub(to_bits(self, shifted), i.const(bits_of(self, MAGIC[self.dtype])))
        if wide:
            name = f"llvm.ldexp.{mangled(self.dtype, self.lanes)}.{mangled(i.dtype, self.lanes)}"
            return self.put(self.code.called(name, self.type, (self.type, x), (i.type, n)))
        half = i.binary("ashr", n, i.const(1))
        first = self.mul(x, power_of_two(self, half))
        return self.mul(first, power_of_two(self, i.sub(n, half)))

    def _scaled_register(self, x: str, n: str) -> str:
        """x * 2^n of a whole register; n is a float, as the instruction wants it."""
        letter = "s" if self.dtype is FLOAT32 else "d"
        name, mask = f"llvm.x86.avx512.mask.scalef.p{letter}.512", f"i{self.lanes}"
        operands = [(self.type, x), (self.type, n), (self.type, x), (mask, -1), ("i32", 4)]
        return self.put(self.code.called(name, self.type, *operands))

    def repeated(self, x: str, step: Callable[[str], tuple[str, str]]) -> str:
        """What `step` makes of x until it asks to go on in no lane; begins blocks."""
        code = self.code
        again, done, state = code.fresh("again"), code.fresh("done"), f"%{code.fresh('x')}"
        before, lines = code.region.label, code.region.lines
        code.line(f"br label %{again}")
        code.start_block(again)
        at = len(lines)
        after, more = step(state)
        lines.insert(at, f"{state} = phi {self.type} [{x}, %{before}], [{after}, %{again}]")
        if self.lanes:
            bits = self.put(f"bitcast <{self.lanes} x i1> {more} to i{self.lanes}")
            more = self.put(f"icmp ne i{self.lanes} {bits}, 0")
        code.line(f"br i1 {more}, label %{again}, label %{done}")
        code.start_block(done)
        return after
