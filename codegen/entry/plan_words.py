"""The words of a plan, by which native code knows the frames of its calls, and of failures."""

from __future__ import annotations

from typing import Final

from tensorad.codegen.loops.scratch import ALIGNMENT

CALL_AT: Final = ALIGNMENT
"""Where in a frame its call block begins, in bytes; the first word is how much scratch memory it
has."""


# The words of a plan.
FRAME_BYTES, TEMPLATE, TEMPLATE_WORDS, MOVED, MOVED_WORDS = range(5)
"""Bytes of a frame; what its words are at first, and how many; which of them count from its
address, and how many."""
ARGUMENTS, DYNAMIC, SHARES, SCRATCH_BYTES, IDLE, KEPT = range(5, 11)
"""How many arguments there are, and tensors of which only the run tells the size; whether threads
share loops; bytes of scratch memory for each; frames that nobody uses, and how many there may
be."""
FAILURES, FAILURE_WORDS, WORD_COUNTS, PLACES, TICKET = range(11, 16)
"""Records of failures, from the first one on; words of one; of each step the words that it uses,
and the first place of its failures; the number of the last failure."""
PLAN_WORDS: Final = 16
# The words of a record of a failure: its number, what the driver says, words.
NUMBER, STEP, CODE, VALUE, EXTENT, DEPTH, ALLOWED = range(7)
FAILURE_HEAD: Final = 7
RECORDS: Final = 4096
"""Records of a plan; a further failure has the place of the first one."""
NUMBER_BITS: Final = 32
"""What a failed call returns: the place where it ended, then so many bits of its number."""
NO_CHECK: Final = 0
"""Of the places of a step the one that belongs to none of its checks, which follow."""
NO_FRAME: Final = -1
"""What a call returns for which the system has no memory."""
NO_ADDRESS: Final = -2
"""What a function of C returns where the address of its first buffer is 0, and one less for each
further buffer."""
