"""What definitions need to run: how an activation lies in memory, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.ir import Routine
from tensorad.codegen.loops.run_sizes import Products
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.runtime.arena import Array, plan_arena
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.codegen.runtime.record_layout import RecordPart, value_of
from tensorad.codegen.runtime.step_table import Mark, Scope, Word
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.expr import Expr, LocalSize, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Tensor, dim_expr


class RoutineCode:
    """A definition's tensors.

    Slots of an activation: params, results, constants, temporaries of its arena, tensors of which
    only the run tells the size, tensors that are placed where others lie.
    """

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        given = dict.fromkeys((*routine.params, *routine.results))
        buffers = find_buffers(routine.nodes, given)
        self.constants = tuple(buffers.constants)
        self.temporaries = buffers.temporaries
        slots: dict[Tensor, int] = {}
        for t in (*given, *buffers.constants, *[life.tensor for life in buffers.temporaries]):
            slots[t] = len(slots)
        self.first_constant = len(given)
        for t in (*buffers.dynamic, *buffers.placed):
            slots.setdefault(t, len(slots))
        self.slots = slots
        self.n_dynamic = len(buffers.dynamic)
        heap = {t: -2 * (n + 1) for n, t in enumerate(buffers.dynamic)}
        products = Products(dict.fromkeys(routine.definition.sizes), routine.products)
        self.scope = Scope(slots, heap, block.GROW, products)
        self.releases = not any(is_record(t.dtype) for t in routine.results)


class RoutineTable:
    """The table of definitions for one binding of the sizes."""

    def __init__(
        self,
        codes: Sequence[RoutineCode],
        entries: Sequence[int],
        addresses: Mapping[Tensor, int],
        sizes: Mapping[Expr, int],
    ) -> None:
        """Plan the memory of activations.

        Args:
            entries: the first steps.
            addresses: of constants.
        Raises:
            LimitError: the temporaries of an activation exceed TENSORAD_MAX_BYTES.
        """
        self._templates: list[Array] = []
        self._words = np.zeros((max(1, len(codes)), block.ROUTINE_WORDS), np.int64)
        for row, code, entry in zip(self._words, codes, entries, strict=False):
            self._plan(row, code, entry, addresses, sizes)

    @property
    def address(self) -> int:
        return self._words.ctypes.data

    def bytes_of(self, number: int) -> int:
        """The bytes of an activation."""
        return int(self._words[number, block.FRAME_BYTES])

    def _plan(
        self, row: Array, code: RoutineCode, entry: int, addresses: Mapping[Tensor, int],
        sizes: Mapping[Expr, int],
    ) -> None:  # fmt: skip
        offsets, arena = plan_arena(code.temporaries, sizes)
        values = [word_value(w, sizes) for w in code.scope.words]
        before = len(code.slots) + 2 * code.n_dynamic
        whole = block.FRAME_HEAD + 8 * (before + len(values))
        head = -(-whole // ALIGNMENT) * ALIGNMENT
        first = code.first_constant + len(code.constants)
        template = np.zeros(before + len(values), np.int64)
        template[code.first_constant : first] = [addresses[t] for t in code.constants]
        template[first : first + len(offsets)] = [head + o for o in offsets]
        template[before:] = values
        self._templates.append(template)
        row[block.ENTRY] = entry
        row[block.FRAME_BYTES] = head + arena
        row[block.TEMPLATE] = template.ctypes.data
        row[block.TEMPLATE_BYTES] = template.nbytes
        row[block.FIRST_PLACED] = first
        row[block.PLACED] = len(offsets)
        row[block.SIZES_AT] = 8 * before
        row[block.RELEASES] = code.releases


def word_value(w: Word, sizes: Mapping[Expr, int]) -> int:
    """A word at the start; those of a loop are set while it runs."""
    if isinstance(w, (LocalSize, Mark)):
        return 0
    if isinstance(w, int):
        return w
    if isinstance(w, RecordPart):
        return value_of(w, sizes)
    return sizes[w] if isinstance(w, Size) else bytes_of(w, sizes)


def word_sizes(w: Word) -> list[Size]:
    """The symbolic sizes that a word is made of."""
    if isinstance(w, (int, Mark)):
        return []
    if isinstance(w, Size):
        found = [w]
    else:
        fields = w.variant.fields if isinstance(w, RecordPart) else ()
        shapes = [w.shape] if isinstance(w, Tensor) else [f.shape for f in fields]
        found = [*sizes_in(*[dim_expr(n) for shape in shapes for n in shape])]
    return [s for s in found if not isinstance(s, LocalSize)]
