"""The words of CONTRIBUTING.md: few of the project's own, and none that standard terms replaced."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path, PurePosixPath

import pytest

from tests.project.test_guides import ROOT, modules

MOST_WORDS = 25
RETIRED = {
    "codegen": {
        "ask": "prefetch",
        "asking": "prefetch",
        "asks": "prefetch",
        "band": "rows side by side",
        "bands": "rows side by side",
        "claim": "contraction plan",
        "claimed": "is a contraction",
        "epoch": "version of the settings",
        "fetch": "prefetch",
        "jammed": "unroll and jam",
        "picked": "indirect",
        "rider": "fused store",
        "riders": "fused stores",
        "sweep": "sums in memory",
        "swept": "sums in memory",
        "turn": "iteration",
        "turns": "iterations",
    },
    "simplify": {"watched": "recorded", "turn": "short circuit"},
}
"""By package, what no part of an identifier says any more, and what does."""
ELSEWHERE = {
    "codegen/llvm/math/range_reduction.py": {"turn"},  # of a circle
    "codegen/runtime/background_compiler.py": {"turn", "turns"},  # threads take turns
}
"""Files in which the word means what it says."""


def own_words(text: str) -> list[str]:
    """The entries of the glossary."""
    _, _, after = text.partition("\n## Words\n")
    section = after.split("\n## ")[0]
    return re.findall(r"^- `([^`]+)`: ", section, re.M)


def parts(source: str) -> set[str]:
    """What identifiers are made of, between underscores."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    names = {t.string for t in tokens if t.type == tokenize.NAME}
    return {part for name in names for part in name.lower().split("_")}


def retired(file: str, source: str) -> dict[str, str]:
    """The retired words in the identifiers of a file, and in its name, with what replaced them."""
    words = RETIRED[PurePosixPath(file).parts[0]]
    found = parts(source) | set(PurePosixPath(file).stem.split("_"))
    return {w: words[w] for w in sorted(found & set(words) - ELSEWHERE.get(file, set()))}


def test_own_words_are_few() -> None:
    words = own_words((ROOT / "CONTRIBUTING.md").read_text())
    assert 0 < len(words) <= MOST_WORDS
    assert len(set(words)) == len(words), "one meaning for a word"


@pytest.mark.parametrize("package", RETIRED)
def test_retired_words_do_not_return(package: str) -> None:
    files: dict[str, Path] = {str(p.relative_to(ROOT)): p for p in modules(ROOT / package)}
    found = {name: retired(name, p.read_text()) for name, p in files.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_retired_words_are_seen() -> None:
    source = "def f(_ask_for, turns):\n    return 'epoch'  # claim\n"
    assert retired("codegen/a.py", source) == {"ask": "prefetch", "turns": "iterations"}
    assert retired("codegen/epoch.py", "") == {"epoch": "version of the settings"}
    assert own_words("# A\n\n## Words\n\n- `a`: one\n- `b`: two\n\n## B\n\n- `c`: no\n") == [
        "a",
        "b",
    ]
