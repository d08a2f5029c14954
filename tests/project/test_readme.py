"""The README's example prints what the README says, and its commands are the agreed ones."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
SETUP = 'python3 -m venv .venv && .venv/bin/pip install -q -e ".[test]" && .venv/bin/python -m '


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def test_the_example_prints_what_is_shown() -> None:
    shown = blocks("")[1:]
    scope: dict[str, object] = {}
    for source, expected in zip(blocks("python"), shown, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, scope)
        assert printed.getvalue() == expected


def test_the_two_commands() -> None:
    assert blocks("")[0] == f"{SETUP}tensorad\n{SETUP}pytest -q -n auto\n"


def test_every_path_exists() -> None:
    table = README.read_text().split("## Where things are")[1]
    paths = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[1:]
    for name in re.findall(r"`([^`]+)`", " ".join(paths)):
        assert (ROOT / name).exists() or (ROOT / "tensorad" / name).exists(), name
