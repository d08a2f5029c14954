"""Functions whose instructions a test writes, as machine code that it calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from tensorad.codegen.llvm.text import Code
from tensorad.codegen.target import link

HEADER = "!0 = !{}\n!1 = !{i32 1}"
"""What loads and stores refer to."""
_kept: list[link.Library] = []


def native(code: Code, parameters: Sequence[str], result: str = "0") -> Callable[..., int]:
    """The function of pointers with these names whose body is in `code`; called with arrays."""
    head = ", ".join([f"ptr %{p}" for p in parameters])
    function = [
        f"define i64 @f({head}) nounwind {{",
        "entry:",
        *code.regions[0].lines,
        f"ret i64 {result}",
        *code.failures,
        "}",
    ]
    parts = [HEADER, *code.declarations.values(), *code.functions.values(), *function]
    library = link.load("\n".join(parts), ("f",), ())
    called = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * len(parameters))
    found = called(library.addresses["f"])

    _kept.append(library)
    return lambda *arrays: int(found(*[a.ctypes.data for a in arrays]))
