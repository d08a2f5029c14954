"""Every mistake still is one edit of the source, and the edited file still is Python."""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.lists import KINDS
from tests.mutants.mistake import ROOT, Mistake
from tests.mutants.runner import Copy, WrongSetup

EVERY = [m for mistakes in KINDS.values() for m in mistakes]


def problems(mistake: Mistake) -> list[str]:
    """Why a mistake cannot be planted, or its tests cannot run."""
    found = [p for ring in mistake.part.paths() for p in ring if not (ROOT / p).exists()]
    try:
        ast.parse(mistake.planted_in((ROOT / mistake.file).read_text()))
    except (SyntaxError, ValueError) as e:
        found.append(str(e))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_can_be_planted(kind: str) -> None:
    assert {m.name: p for m in KINDS[kind] if (p := problems(m))} == {}


def test_mistakes_are_many_and_have_names_of_their_own() -> None:
    assert len(EVERY) >= 200
    names = Counter([*KINDS, *[m.name for m in EVERY]])
    assert [n for n, times in names.items() if times > 1] == []
    assert len({(m.file, m.old, m.new) for m in EVERY}) == len(EVERY)


def test_tests_that_select_nothing_say_nothing_about_mistakes(tmp_path: Path) -> None:
    """A file that is skipped as a whole, for a package that is missing, is another thing."""
    copy = Copy.__new__(Copy)
    copy.folder, copy.environment = tmp_path, dict(os.environ)
    (tmp_path / "test_absent.py").write_text("import pytest\npytest.importorskip('no_such_one')\n")
    (tmp_path / "test_one.py").write_text("def test_it():\n    pass\n")
    assert copy.run(["test_absent.py"], 60.0).noticed == ""
    assert copy.run(["test_one.py"], 60.0).noticed == ""
    with pytest.raises(WrongSetup, match=r"no test is selected by test_one\.py -k another"):
        copy.run(["test_one.py", "-k", "another"], 60.0)
