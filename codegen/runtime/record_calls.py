"""Calls with records among arguments or results: in native memory during the call alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorad import config
from tensorad.codegen.entry.checks_ir import READY
from tensorad.codegen.runtime.arena import Array, OutputBlocks
from tensorad.codegen.runtime.arguments import Parameter, addresses_of
from tensorad.codegen.runtime.executable import Executable, Frame, Layout
from tensorad.codegen.runtime.record_results import decoded
from tensorad.codegen.runtime.record_values import RecordParameter, Stored, encoded
from tensorad.ir.records import is_record
from tensorad.ir.reference.records import Makers, Value, handle
from tensorad.ir.tensor import Tensor


class RecordCalls:
    """The calls of one function."""

    def __init__(
        self,
        executable: Executable,
        parameters: Sequence[Parameter],
        outputs: Sequence[Tensor],
        blocks: Sequence[OutputBlocks],
    ) -> None:
        self._executable = executable
        self._parameters = parameters
        self._has_records = [isinstance(p, RecordParameter) for p in parameters]
        self._types = [t.dtype for t in outputs]
        self._blocks = blocks
        self._handles = [n for n, d in enumerate(self._types) if is_record(d)]

    def ready(self, values: Sequence[Any]) -> list[Array] | None:
        """The arguments as `Parameter.accepted` has them, where a look at each tells that native
        code may have it as it is; the shapes of all have to be numbers."""
        found: list[Array] = []
        for p, v in zip(self._parameters, values, strict=True):
            if isinstance(v, Value):
                if v.record_type is not p.tensor.dtype or p.shape:
                    return None
                found.append(handle(v))
                continue
            if type(v) is not np.ndarray or v.dtype is not p.dtype or v.shape != p.shape:
                return None
            if p.is_bool or v.flags.num & READY != READY:
                return None
            found.append(v)
        return found

    def run(
        self,
        layout: Layout,
        arrays: Sequence[Array],
        shapes: Sequence[tuple[int, ...]],
        then: int,
        makers: Makers,
    ) -> list[Array]:
        """The results, records being made by `makers`.

        Args:
            arrays: accepted ones; `shapes` those of the results.
            then: the version of the settings.
        Raises:
            ShapeError, DTypeError, BindError, LimitError, BoundsError: see `encoded` and
                `Executable.run`.
        """
        numbers, limit = layout.numbers, config.current().max_bytes
        given: list[Stored] = []
        inputs = []
        kept = []
        for p, a, has_records in zip(self._parameters, arrays, self._has_records, strict=True):
            if has_records:
                made = encoded(a, numbers, limit)
                given += made.parts
                kept.append(made)
                inputs.append(made.handles)
            else:
                inputs.append(p.fitted(a))
        found: list[Array] = [b.array(s) for b, s in zip(self._blocks, shapes, strict=True)]

        def read(frame: Frame) -> None:
            wanted = [(found[n], self._types[n]) for n in self._handles]
            made = decoded(wanted, frame.call, given, numbers, makers)
            for n, a in zip(self._handles, made, strict=True):
                found[n] = a

        addresses = addresses_of((*inputs, *found))
        self._executable.run(layout, addresses, then, read if self._handles else None)
        return found
