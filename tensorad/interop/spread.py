"""Functions of C on a row of addresses, called with one address after the other.

No memory is shared between calls: the row is on the stack of the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from tensorad.codegen.llvm.call_block import stored
from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.codegen.target import link
from tensorad.process import memoised

MOST: Final = 256
"""Addresses of one call up to which native code makes the row."""


def spread(entry: CEntry) -> Callable[..., int]:
    """What takes the address of the entry, then those of its buffers, and calls it.

    Python's lock is given away if the call is long.
    """
    count = len(entry.input_shapes) + len(entry.output_shapes)
    prototype: Any = ctypes.CFUNCTYPE if entry.is_long else ctypes.PYFUNCTYPE
    if count > MOST:
        run = prototype(ctypes.c_int64, ctypes.c_void_p)(entry.address)
        row = ctypes.c_void_p * count
        return lambda _, *addresses: int(run(row(*addresses)))
    code = _code(count)
    made: Any = prototype(ctypes.c_int64, *[ctypes.c_void_p] * (count + 1))(
        code.addresses["spread"]
    )
    made.code = code  # as long as it may be called
    return made  # type: ignore[no-any-return]


@memoised(32)
def _code(count: int) -> link.Library:
    return link.load(_text(count), ("spread",), (), opt=0)


def _text(count: int) -> str:
    """The module: @spread(function, addresses...)."""
    arguments = "".join([f", ptr %a{n}" for n in range(count)])
    stores = [f"  {stored(f'ptr %a{n}', f'%at{n}', '%row', 8 * n)}" for n in range(count)]
    return "\n".join(
        [
            f"define i64 @spread(ptr %function{arguments}) nounwind {{",
            f"  %row = alloca [{max(count, 1)} x ptr]",
            *stores,
            "  %code = call i64 %function(ptr %row)",
            "  ret i64 %code",
            "}",
        ]
    )
