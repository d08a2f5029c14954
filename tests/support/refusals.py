"""Refusals: functions that must raise one error with one whole text."""

from __future__ import annotations

import re
from collections.abc import Callable
from os.path import basename
from types import CodeType
from typing import NamedTuple

import pytest

from tensorad.errors import UserError


class Case(NamedTuple):
    attempt: Callable[[], object]
    error: type[UserError]
    text: str


class Refusals(list[Case]):
    """The cases of one test file."""

    def refused(
        self, error: type[UserError], *lines: str
    ) -> Callable[[Callable[[], object]], Callable[[], object]]:
        """The decorated function must raise exactly this; `HERE` stands for its own line."""

        def register(attempt: Callable[[], object]) -> Callable[[], object]:
            self.append(Case(attempt, error, "\n".join(lines)))
            return attempt

        return register


def placed(error: BaseException) -> str:
    """The whole text, with HERE for the user's lines."""
    return re.sub(r"\w+\.py:\d+", "HERE", str(error))


def check(case: Case) -> None:
    """The case raises its error with its text."""
    with pytest.raises(UserError) as caught:
        case.attempt()
    assert type(caught.value) is case.error
    text = str(caught.value)
    code = case.attempt.__code__
    own = rf"{re.escape(basename(code.co_filename))}:(\d+)"
    for found in re.finditer(own, text):
        assert int(found[1]) in _lines(code), "the error names the line of the definition"
    assert re.sub(own, "HERE", text) == case.text


def _lines(code: CodeType) -> set[int]:
    """The lines of a function and of those inside of it."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return {line for _, _, line in code.co_lines() if line}.union(*map(_lines, inner))
