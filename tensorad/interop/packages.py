"""Packages of other systems, imported with the module that is named after them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorad.errors import MissingPackageError


def imported(package: str, *inside: str) -> list[Any]:
    """A package and modules inside of it, by their names in it.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        names = [package, *[f"{package}.{name}" for name in inside]]
        return [import_module(name) for name in names]
    except ImportError as error:
        raise MissingPackageError(
            f"tensorad.interop.{package} needs the package {package}, which is not installed.",
            hint=f"pip install 'tensorad[{package}]'.",
        ) from error
