"""What the formulas of scalar functions are written with: instructions on registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tensorad.ir.dtypes import DType


class Emitter(Protocol):
    """Writes instructions on scalars or vectors of one dtype; registers are text.

    A method appends an instruction and gives the register of its result. Comparisons give
    registers of conditions; predicates are those of LLVM ("olt", "uno"; "slt" of integers).
    """

    @property
    def dtype(self) -> DType: ...

    def of(self, dtype: DType) -> Emitter:
        """The same place and lanes with another dtype."""
        ...

    def const(self, value: float) -> str: ...
    def add(self, x: str, y: str) -> str: ...
    def sub(self, x: str, y: str) -> str: ...
    def mul(self, x: str, y: str) -> str: ...
    def div(self, x: str, y: str) -> str: ...
    def neg(self, x: str) -> str: ...

    def fma(self, x: str, y: str, z: str) -> str:
        """x y + z, rounded once."""
        ...

    def compare(self, predicate: str, x: str, y: str) -> str: ...
    def select(self, cond: str, x: str, y: str) -> str: ...

    def binary(self, instruction: str, x: str, y: str) -> str:
        """An instruction by its name, e.g. "and", "shl"."""
        ...

    def convert(self, instruction: str, x: str, to: DType) -> str:
        """A conversion by its name, e.g. "bitcast", "fpext"."""
        ...

    def intrinsic(self, name: str, *args: str) -> str:
        """A function that processors have, e.g. "sqrt", "fabs", "trunc"."""
        ...

    def scaled(self, x: str, shifted: str) -> str:
        """x 2^n for 1/2 < x < 2 and the n in the low bits of `shifted`, rounded once."""
        ...

    def repeated(self, x: str, step: Callable[[str], tuple[str, str]]) -> str:
        """What `step` makes of x, at least once and until it asks to go on in no lane.

        A lane that is ready is given to further steps and must stay as it is. Only in functions
        whose row has `loops`.
        """
        ...
