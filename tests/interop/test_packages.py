"""Packages of other systems that are not installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tensorad.errors import MissingPackageError
from tensorad.interop.packages import imported


def test_a_package_and_modules_inside() -> None:
    package, decoder = imported("json", "decoder")
    assert package is json and decoder is json.decoder


def test_a_missing_package() -> None:
    with pytest.raises(MissingPackageError) as missing:
        imported("no_such_package")
    assert str(missing.value) == (
        "tensorad.interop.no_such_package needs the package no_such_package, which is not "
        "installed.\n  hint: pip install 'tensorad[no_such_package]'."
    )


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("package", ["torch", "jax", "onnx"])
def test_what_is_installed_is_imported_when_it_is_used(package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    code = f"""
import sys, numpy, tensorad, tensorad.interop
tensorad.grad(lambda x: (x * x).sum())(numpy.ones(2))
print({package!r} in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
    )  # fmt: skip
    assert found.stdout == "False\n"
