"""DESIGN.md and the README of each package name files and functions that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "DESIGN.md"
CODE = ("codegen", "simplify", "tensorad", "benchmarks", "tests")
LINKS = (("tensorad", "codegen"), ("tensorad", "simplify"))
MOST_DESIGN, LEAST_README, MOST_README = 140, 20, 40
WIDEST = {"DESIGN.md": 160, "README.md": 120}
BLOCK = re.compile(r"(?:\s*- |\| |#|\d+\. |$)")
"""How a paragraph, an item of a list or a row of a table begins."""


def modules(folder: Path) -> list[Path]:
    """The Python files of a folder and below, not by way of the links in tensorad/."""
    found = [p for p in sorted(folder.rglob("*.py")) if "__pycache__" not in p.parts]
    inside = [p for p in found if p.relative_to(ROOT).parts[:2] not in LINKS]
    return [p for p in inside if p.name != "__init__.py"]


PACKAGES = [
    *[ROOT / name for name in CODE],
    *[
        p.parent
        for part in ("codegen", "simplify", "tensorad")
        for p in sorted((ROOT / part).glob("*/__init__.py"))
        if p.parent.relative_to(ROOT).parts not in LINKS
    ],
]
READMES = [
    p
    for part in CODE
    for p in sorted((ROOT / part).rglob("README.md"))
    if p.relative_to(ROOT).parts[:2] not in LINKS
]
GUIDES = [DESIGN, *READMES]


def named(paths: list[Path]) -> list[str]:
    return [str(p.relative_to(ROOT)) for p in paths]


@cache
def definitions(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes, constants; members also as `Class.member`."""
    found: set[str] = set()

    def enter(body: list[ast.stmt], owner: str) -> None:
        for node in body:
            names: list[str] = []
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names = [node.name]
                enter(node.body, node.name if isinstance(node, ast.ClassDef) else "")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                every = [e for t in targets for e in ast.walk(t)]
                names = [e.id for e in every if isinstance(e, ast.Name)]
            found.update(names)
            found.update([f"{owner}.{n}" for n in names if owner])

    enter(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables."""
    lines: list[str] = []
    for line in text.splitlines():
        if BLOCK.match(line) and lines:
            yield " ".join(lines)
            lines = []
        lines.append(line.strip())
    yield " ".join(lines)


def place_of(name: str, guide: Path) -> Path | None:
    """The file or folder of this name, beside the guide or in the project."""
    return next((p for p in (guide.parent / name, ROOT / name) if p.exists()), None)


@cache
def sources(place: Path | None) -> list[Path]:
    """The files of a place; of the project without one."""
    if place is None:
        return [p for part in CODE for p in modules(ROOT / part)]
    return [place] if place.is_file() else modules(place)


def unknown(guide: Path) -> Iterator[str]:
    """What a guide names that is not there."""
    for block in blocks(guide.read_text()):
        place: Path | None = None
        for name in re.findall(r"`([^`]+)`", block):
            if "/" in name or re.fullmatch(r"[\w.]+\.(?:py|md|c|toml|txt)", name):
                place = place_of(name, guide)
                if place is None:
                    yield f"no file {name}"
            elif re.fullmatch(r"[A-Za-z_][\w.]*", name):
                if not any(name in definitions(p) for p in sources(place)):
                    yield f"no {name} in {place or ROOT}"
            else:
                yield f"neither a path nor a name: {name}"


@pytest.mark.parametrize("guide", GUIDES, ids=named(GUIDES))
def test_what_is_named_exists(guide: Path) -> None:
    assert list(unknown(guide)) == []


@pytest.mark.parametrize("folder", PACKAGES, ids=named(PACKAGES))
def test_every_package_says_what_it_is(folder: Path) -> None:
    readme = folder / "README.md"
    assert readme.exists(), "say what it does, is given and returns, and what holds"
    assert "docs/decisions/" in readme.read_text(), "say where its decisions are recorded"


@pytest.mark.parametrize("guide", GUIDES, ids=named(GUIDES))
def test_guides_are_short(guide: Path) -> None:
    lines = guide.read_text().splitlines()
    if guide == DESIGN:
        assert len(lines) <= MOST_DESIGN
    else:
        assert LEAST_README <= len(lines) <= MOST_README
    assert max(map(len, lines)) <= WIDEST[guide.name]


def described() -> list[Path]:
    """The modules that a README has to name: those of packages that are imported."""
    return [p for part in ("codegen", "simplify", "tensorad") for p in modules(ROOT / part)]


def test_every_file_is_named() -> None:
    """In the README of its folder, or in that of a folder above."""
    missing = []
    for path in described():
        folder = next(p for p in path.parents if (p / "README.md").exists())
        if f"`{path.relative_to(folder)}`" not in (folder / "README.md").read_text():
            missing.append(str(path.relative_to(ROOT)))
    assert missing == []
