"""How much memory a compiled call uses, as numbers and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorad import config
from tensorad.codegen.loops.scratch import buffer, scratch_bytes
from tensorad.codegen.runtime.arena import plan_arena
from tensorad.codegen.runtime.arguments import size_number
from tensorad.codegen.runtime.executable import Executable
from tensorad.errors import BindError
from tensorad.ir.analysis.sizes import bytes_of, bytes_text
from tensorad.ir.expr import Expr, Size
from tensorad.ir.tensor import Tensor


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of one call. `str` shows them as a table.

    Attributes:
        inputs, outputs: the arrays of the caller.
        constants: tables that are part of the formulas.
        temporaries: the arena that all temporaries of the call share.
        scratch: what each thread has for itself.
        threads: how many threads a call may use.
        stores: name, and bytes an iteration, of what loops store: a part of the temporaries and
            outputs, or, where only the run tells how often they run, beside them.
    """

    inputs: int
    outputs: int
    constants: int
    temporaries: int
    scratch: int
    threads: int
    stores: tuple[tuple[str, int], ...] = ()

    @property
    def peak(self) -> int:
        """Everything at once."""
        return self.inputs + self.outputs + self.constants + self.own

    @property
    def own(self) -> int:
        """What only lives during the call."""
        return self.temporaries + self.threads * self.scratch

    def __str__(self) -> str:
        threads = f"{self.threads} x {bytes_text(self.scratch)}"
        rows = (
            ("inputs", bytes_text(self.inputs)),
            ("outputs", bytes_text(self.outputs)),
            ("constants", bytes_text(self.constants)),
            ("temporaries", bytes_text(self.temporaries)),
            ("scratch", threads if self.scratch else bytes_text(0)),
            ("peak", bytes_text(self.peak)),
        )
        stores = [(f"  {name}", f"{bytes_text(n)} a step") for name, n in self.stores]
        return "\n".join([f"{name:<12} {text:>14}" for name, text in (*rows, *stores)])


def memory_use(
    program: Executable, name: str, sizes: tuple[Expr, ...], given: Mapping[str, int]
) -> MemoryUse:
    """The memory of one call at the given sizes.

    Raises:
        BindError: a size is missing, unknown, or no number >= 0.
        ShapeError, LimitError: no array can have these sizes.
    """
    known = sizes_given(name, sizes, given, "memory_at", "ask for f.memory")
    return MemoryUse(
        sum(bytes_of(t, known) for t in program.inputs),
        sum(bytes_of(t, known) for t in program.outputs),
        program.constant_bytes,
        plan_arena(program.temporaries, known)[1],
        max([scratch_bytes(k, known) for k in program.with_scratch], default=0),
        config.current().num_threads,
        tuple([(t.name, _row_bytes(t, known)) for t in program.stores]),
    )


def _row_bytes(t: Tensor, sizes: Mapping[Expr, int]) -> int:
    return bytes_of(buffer(t.name, t.shape[1:], t.dtype), sizes)


def sizes_given(
    name: str, sizes: Sequence[Expr], given: Mapping[str, int], method: str, without: str
) -> dict[Expr, int]:
    """The numbers of sizes that are given by name.

    Args:
        name: the function's; `method`: what is asked of it at these sizes.
        without: what to do where there are none.
    Raises:
        BindError: a size is missing, unknown, or no number >= 0.
    """
    wanted = {s.name: s for s in sizes if isinstance(s, Size)}
    example = ", ".join([f"{n}=..." for n in wanted])
    for n, value in given.items():
        if n not in wanted:
            raise BindError(
                f"{n} = {value!r} is no size of {name}.",
                where=f"{method}({example})",
                hint="pass every symbolic size by its name."
                if wanted
                else f"it has no symbolic sizes: {without}.",
            )
    numbers = {n: size_number(n, value) for n, value in given.items()}
    missing = [n for n in wanted if n not in numbers]
    if missing:
        raise BindError(
            f"{method} of {name} depends on {', '.join(missing)}.",
            where=f"{method}({example})",
            hint=f"say at which sizes: f.{method}({example}).",
        )
    return {s: numbers[n] for n, s in wanted.items()}
