"""How much memory a compiled call uses, as numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of one call. `str` shows them as a table.

    Attributes:
        inputs, outputs: the arrays of the caller.
        temporaries: the arena that all temporaries of the call share.
        scratch: what each thread has for itself.
        threads: how many threads a call may use.
    """

    inputs: int
    outputs: int
    temporaries: int
    scratch: int
    threads: int

    @property
    def peak(self) -> int:
        """Everything at once."""
        return self.inputs + self.outputs + self.own

    @property
    def own(self) -> int:
        """What the call needs besides the arrays of the caller."""
        return self.temporaries + self.threads * self.scratch

    def __str__(self) -> str:
        threads = f"{self.threads} x {bytes_text(self.scratch)}"
        rows = (
            ("inputs", bytes_text(self.inputs)),
            ("outputs", bytes_text(self.outputs)),
            ("temporaries", bytes_text(self.temporaries)),
            ("scratch", threads if self.scratch else bytes_text(0)),
            ("peak", bytes_text(self.peak)),
        )
        return "\n".join([f"{name:<12} {text:>14}" for name, text in rows])


def bytes_text(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {UNITS[unit]}"
