"""Which way a call of an operator of PyTorch took."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
_KNOWN: Final = {"call", "like", "in_general", "forward", "differentiated", "fake"}


def ways(run: Callable[[], Any]) -> set[str]:
    """Names of functions of the package, and of text that it made, which were called.

    `like`: tensors were looked at one by one, since they are not like those of the call before;
    nothing else in the text of a call asks for the mode of inference.
    """
    names: set[str] = set()
    asked = torch.is_inference_mode_enabled

    def look(frame: Any, event: str, of: Any) -> None:
        code = frame.f_code
        if event == "c_call" and code.co_filename[0] == "<" and of is asked:
            names.add("like")
        if event == "call" and ("interop/torch" in code.co_filename or code.co_filename[0] == "<"):
            names.add(code.co_qualname.rsplit(".", 1)[-1])

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return names & _KNOWN
