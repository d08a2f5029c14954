"""Compiled functions as plain functions of addresses, for callers that are not Python."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.entry.frames_ir import frame_library, trampoline_text
from tensorad.codegen.entry.plan_words import NO_ADDRESS
from tensorad.codegen.runtime.executable import Layout
from tensorad.codegen.runtime.frames import unknown_code
from tensorad.codegen.target import link
from tensorad.codegen.threads import native_settings
from tensorad.errors import BindError

Shape = tuple[int, ...]


class CEntry:
    """A compiled function at fixed sizes as a function of C.

    Its type is `int64_t f(void **buffers)`: addresses of contiguous arrays in C order, aligned to
    their elements, inputs first, then outputs, each in the order of the compiled function. Bytes of
    bool arrays are 0 or 1. No output shares a byte with an input or another output. It returns 0,
    or a code that `error` puts in words; outputs are undefined then. Null pointers are refused so,
    where there are elements.

    It may be called from any thread, at once from any number of them, and without Python's lock; it
    takes that one for nothing but functions of `ta.foreign`. It uses as many threads as the
    settings say at the time. The address is valid as long as this object lives, in forked children
    too.

    Attributes:
        name: of the compiled function.
        address: of the function.
        input_shapes, output_shapes: in elements.
        is_long: whether other threads of Python should run during a call.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        input_shapes: Sequence[Shape],
        output_shapes: Sequence[Shape],
        buffers: Sequence[str],
    ) -> None:
        """
        Args:
            layout: of these shapes' sizes.
            buffers: names of inputs and outputs.
        """
        self.name = name
        self.input_shapes, self.output_shapes = tuple(input_shapes), tuple(output_shapes)
        self.is_long = layout.is_long
        self._layout = layout
        self.frames = layout.frames
        """Those of the function's calls at these sizes, from wherever they come."""
        native_settings.read_by_native_code()
        enter = {"enter": frame_library().addresses["enter"]}
        shapes = [*self.input_shapes, *self.output_shapes]
        self._looked_at = {
            NO_ADDRESS - n: name
            for n, (name, shape) in enumerate(zip(buffers, shapes, strict=True))
            if 0 not in shape
        }
        positions = [NO_ADDRESS - code for code in self._looked_at]
        text = trampoline_text(self.frames.address, positions)
        self._code = link.load(text, ("entered",), (), opt=0, addresses=enter)
        self.address: int = self._code.addresses["entered"]

    def __repr__(self) -> str:
        return f"<CEntry {self.name} at {self.address:#x}>"

    def error(self, code: int) -> BaseException:
        """What stopped a call that returned this code, to be raised.

        Of calls that failed the last 4096 are known. The code of an older one still tells which
        access failed, but not at which index.

        Returns:
            BoundsError: an index from data lies outside of its tensor.
            BindError: the address of an array with elements was 0.
            LimitError: the call would exceed TENSORAD_MAX_BYTES, or the system has no memory.
            what a function of `ta.foreign` has raised; that is to be asked once.
        Raises:
            BoundsError: no call has returned this code.
        """
        if code in self._looked_at:
            return BindError(
                f"{self.name} was called with the address 0 for {self._looked_at[code]}, which has "
                "elements.",
                hint="pass the address of memory that lasts as long as the call; tensors whose "
                "storage was freed have none.",
            )
        if not self.frames.has_told(code):
            raise unknown_code(self.name, code)
        return self.frames.error(code)
