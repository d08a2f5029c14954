"""Values of records compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorad.ir.reference.records import Record


def assert_same(have: Any, want: Any, rtol: float = 1e-9, dtype: str = "float64") -> None:
    """Two results are equal, the records that they hold included; float32 has fewer digits."""
    stack = [(np.asarray(have), np.asarray(want), dtype)]
    while stack:
        a, b, of = stack.pop()
        assert a.shape == b.shape
        if a.dtype != object:
            least = 1e-5 if "float32" in (of, str(a.dtype)) else 1e-9
            np.testing.assert_allclose(a, b, max(rtol, least), least)
            continue
        for r, s in zip(a.flat, b.flat, strict=True):
            assert isinstance(r, Record) and isinstance(s, Record)
            assert r.dtype is s.dtype and r.tag == s.tag
            kinds = [str(f.dtype) for f in r.dtype.variants[r.tag].fields]
            stack += zip(r.values, s.values, kinds, strict=True)
