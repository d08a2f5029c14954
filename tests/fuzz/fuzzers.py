"""All kinds of cases, by name."""

from __future__ import annotations

from tests.fuzz.index_cases import INDEX_FUZZERS
from tests.fuzz.program_cases import PROGRAM_FUZZERS

FUZZERS = {**INDEX_FUZZERS, **PROGRAM_FUZZERS}
