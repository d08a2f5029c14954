"""How memory behind the caches behaves: lengths that decide how rows are read and stored."""

from __future__ import annotations

from typing import Final

SHORTEST: Final = 1024
"""Bytes of a row from which its two ends, stored in parts of lines, do not cost too much."""
ROWS_AHEAD: Final = 8
"""Rows between a stored one and the one whose first line, stored in parts, is asked for."""
MAX_STRIDE: Final = 4
"""Lanes farther apart than this are gathered and scattered one by one."""
LONGEST = 2048
"""Bytes of rows that the processor does not follow to their ends by itself."""
