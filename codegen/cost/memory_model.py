"""How memory behind the caches behaves: lengths that decide how rows are read and stored."""

from __future__ import annotations

from typing import Final

SHORTEST: Final = 1024
"""Bytes of a row from which its two ends, stored in parts of lines, do not cost too much."""
LINE: Final = 64
"""Bytes that stores past the caches take to memory at once; loads bring `Machine.line`."""
PREFETCH_DISTANCE: Final = 8192
"""Bytes between what is read in a stream and what is asked for."""
BYTES_PER_CYCLE: Final = 16
"""What memory beyond the second cache delivers to one thread at best: loops are planned by it."""
SHARED_BYTES_PER_CYCLE: Final = 8
"""The same in a long loop, about: whether threads start is decided by it."""
ROWS_AHEAD: Final = 8
"""Rows between a stored one and the one whose first line, stored in parts, is prefetched."""
MAX_STRIDE: Final = 4
"""Lanes farther apart than this are gathered and scattered one by one."""
LONGEST: Final = 2048
"""Bytes of rows that the processor does not follow to their ends by itself."""
