"""Packages of other systems that are not installed."""

from __future__ import annotations

import json

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
