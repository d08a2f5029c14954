"""Errors with the binding that they are about, and its line."""

from __future__ import annotations

from typing import Final

from tensorad.errors import UserError
from tensorad.language.printer import binding_text
from tensorad.language.terms import Binding

_PLACED: Final = "_place"


def place(b: Binding) -> str:
    """line 7: y = x @ w."""
    text = binding_text(b, "").split("\n")[0]
    return f"line {b.line}: {text}"


def located(e: UserError, b: Binding) -> UserError:
    """The error with the binding; the innermost one stays."""
    if getattr(e, _PLACED, False):
        return e
    made = renewed(e, type(e), place(b))
    setattr(made, _PLACED, True)
    return made


def renewed(e: UserError, kind: type[UserError], where: str | None = None) -> UserError:
    """The error of another class, or with another place."""
    what, _, hint = str(e).partition("\n  hint: ")
    what, _, before = what.partition("\n  in: ")
    return kind(what, where=where or before or None, hint=hint or None)
