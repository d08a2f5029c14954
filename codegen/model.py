"""What decides the order of a sum, beside its formula, its sizes and what is decided by hand.

Sums are rounded in the order of their additions. Whoever fixes that order asks a `Model`, which is
the same everywhere, and cannot reach `Machine` (`codegen/target/machine.py`), which is not. What
changes no bit asks the machine; what serves both questions takes a `Processor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

PAGE: Final = 4096
"""Bytes after which a first cache uses the same `WAYS` places again, and of a page of memory."""
WAYS: Final = 8
USUAL_PACE: Final = 5.5
"""Bytes that one core reads from memory in a cycle, about: three machines have 5.3 to 7.3."""


class Processor(Protocol):
    """What estimates ask that are made for the model and for the machine. Sizes are in bytes."""

    @property
    def l2(self) -> int: ...
    @property
    def l3(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def vector_bytes(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def multiply_adds(self) -> int: ...
    @property
    def cores(self) -> int: ...
    @property
    def by_lines(self) -> float: ...
    @property
    def pace(self) -> float: ...


@dataclass(frozen=True)
class Model:
    """The processor that sums are ordered for, and the lengths from which they are cut.

    To change a field is to change the bits of results, on all machines alike.
    """

    vector_bytes: int = 64
    """Of a register: a float sum in lanes has so many bytes of partial sums, times registers."""
    registers: int = 32
    multiply_adds: int = 1
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = 64
    cores: int = 4
    by_lines: float = 0.0
    pace: float = USUAL_PACE
    group: int = 8
    """Registers of one lane group at most."""
    held: int = 24
    """Registers that a tile may hold at a time, with what its copies share."""
    in_flight: int = 128
    """Operations worked on at a time: the next tile starts before short folds end."""
    step_cycles: float = 4.0
    """Until the result of one operation can be used."""
    mask_cycles: float = 5.0
    """Until a comparison or a choice by one can be used."""
    kept: tuple[tuple[int, float], ...] = ((8_000_000, 1.0), (600_000, 0.25))
    """Bytes that loops may move within a cache, and what a byte from behind it costs."""

    block: int = 16_384
    """Points that one block of a sum should visit at least, over all elements it adds up."""
    long: int = 1 << 18
    """Points from which a sum is split."""
    long_alone: int = 1 << 20
    """Terms of one sum from which it is split for its accuracy alone."""
    few_outputs: int = 16
    """Elements apart from those in lanes that are enough for several threads."""
    fewest_rows: int = 128
    fewest_blocks: int = 4
    strip: int = 8
    """Rows that loops over rows may take at a time: blocks are whole strips."""
    slices: int = 8
    """Blocks of whole slices of what is read, about: threads share these."""
    sliced: int = 8
    """Times the partial sums of slices that what is read has in elements, at least."""
    small: int = 64
    """A tensor of a smaller part of all that is read stays in the cache of each thread."""

    @property
    def accumulators(self) -> int:
        """Registers of accumulators at most; the other half holds operands."""
        return self.registers // 2

    def lanes(self, size_bytes: int) -> int:
        """Elements of a register."""
        return self.vector_bytes // max(1, size_bytes)


MODEL: Final = Model()
