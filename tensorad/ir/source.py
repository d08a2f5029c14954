"""Where in the user's files something was written."""

from __future__ import annotations

import sys
from os.path import basename
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).resolve().parent.parent)


def source_line() -> str:
    """ "file:line" of the nearest frame outside tensorad: where the user wrote the compute."""
    frame = sys._getframe(1)
    if frame.f_code.co_name == "__init__" and frame.f_back is not None:
        frame = frame.f_back  # the generated constructor of a dataclass has no file
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def is_own(filename: str) -> bool:
    """Whether a file belongs to the package."""
    return filename.startswith(_PACKAGE)
