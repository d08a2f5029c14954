"""Refusals: functions that must raise one error with one whole text."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    found = re.search(r"test_errors_\w+\.py:(\d+)", text)
    if found:
        lines = [line for _, _, line in case.attempt.__code__.co_lines()]
        assert int(found[1]) in lines, "the error names the line of the definition"
        text = text.replace(found[0], "HERE")
    assert text == case.text
