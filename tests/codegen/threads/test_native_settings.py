"""Settings that native code reads follow those of Python."""

from __future__ import annotations

import ctypes

import tensorad as ta
from tensorad.codegen.threads import native_settings as settings
from tensorad.codegen.threads.linux_calls import HAS_THREADS
from tensorad.codegen.threads.pool import pool_for


def test_words_follow_the_settings() -> None:
    words = (ctypes.c_int64 * 3).from_address(settings.read_by_native_code())
    before = ta.get_num_threads()
    try:
        ta.set_num_threads(3)
        assert words[settings.THREADS] == 3
        assert words[settings.POOL] == pool_for(3) != (0 if HAS_THREADS else 1)
        ta.set_num_threads(1)
        assert words[settings.THREADS] == 1 and words[settings.POOL] == 0
    finally:
        ta.set_num_threads(before)
    with ta.config.override(max_bytes=12345):
        assert words[settings.LIMIT] == 12345
    assert words[settings.LIMIT] != 12345
