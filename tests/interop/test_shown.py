"""What the README shows of other systems."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.project.test_readme import blocks

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_the_examples_print_what_is_shown() -> None:
    for package in ("torch", "jax"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    scope: dict[str, Any] = {"np": np, "ta": ta}
    for source, expected in zip(blocks("py"), blocks("text"), strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, scope)
        assert printed.getvalue() == expected
