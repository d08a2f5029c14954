"""Values of records compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorad.ir.reference.records import Record


def assert_same(have: Any, want: Any, rtol: float = 1e-9) -> None:
    """Two results are equal, the records that they hold included."""
    stack = [(np.asarray(have), np.asarray(want))]
    while stack:
        a, b = stack.pop()
        assert a.shape == b.shape
        if a.dtype != object:
            np.testing.assert_allclose(a, b, rtol, 1e-9)
            continue
        for r, s in zip(a.flat, b.flat, strict=True):
            assert isinstance(r, Record) and isinstance(s, Record)
            assert r.dtype is s.dtype and r.tag == s.tag
            stack += zip(r.values, s.values, strict=True)
