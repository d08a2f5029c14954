"""Which file imports which: when loaded, inside functions, and for types alone. Long functions."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

LINKED = {"codegen": "tensorad.codegen", "simplify": "tensorad.simplify"}
"""Import names of folders that tensorad/ holds as links."""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements hold others."""


class Import(NamedTuple):
    """One file imports another; both are names relative to the root."""

    source: str
    target: str
    late: bool
    """Inside a function, or under TYPE_CHECKING."""


def source_files(root: Path, folders: Iterable[str]) -> list[str]:
    """The Python files of folders, each once though links lead to some of them."""
    links = {("tensorad", name) for name in LINKED}
    found = [p.relative_to(root) for f in folders for p in sorted((root / f).rglob("*.py"))]
    return [p.as_posix() for p in found if p.parts[:2] not in links]


def import_name(file: str) -> str:
    """What `import` calls a file."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join([LINKED.get(parts[0], parts[0]), *parts[1:]])


class Outline(NamedTuple):
    """What a file imports and defines."""

    has_docstring: bool
    imports: tuple[tuple[str, bool], ...]
    """(module or module.name, whether it is late)"""
    lengths: tuple[tuple[str, int], ...]
    """Of each function, methods and inner ones too: its name, and its lines from `def` on."""
    has_functions: bool
    """Whether there are some for others."""


@cache
def outline_of(path: Path) -> Outline:
    """The outline of a file, which is read once."""
    return outline(path.read_text())


def outline(text: str) -> Outline:
    """What a source imports and defines."""
    tree = ast.parse(text)
    every = list(_statements(tree))
    functions = [n for n, _ in every if isinstance(n, _FUNCTIONS)]
    lengths = [(n.name, (n.end_lineno or n.lineno) - n.lineno + 1) for n in functions]
    return Outline(
        ast.get_docstring(tree) is not None,
        tuple((name, late) for node, late in every for name in _imported(node)),
        tuple(lengths),
        any(isinstance(n, _FUNCTIONS) and not n.name.startswith("_") for n in tree.body),
    )


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Each statement, and whether it is late. Expressions hold none and are not walked."""
    stack: list[tuple[ast.AST, bool]] = [(n, False) for n in tree.body]
    while stack:
        node, late = stack.pop()
        yield node, late
        if isinstance(node, ast.If) and _is_for_types(node.test):
            stack.extend((n, True) for n in node.body)
            stack.extend((n, late) for n in node.orelse)
            continue
        late = late or isinstance(node, _FUNCTIONS)
        for field in BLOCKS:
            stack.extend((n, late) for n in getattr(node, field, ()))


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def imports(root: Path, files: Iterable[str]) -> list[Import]:
    """The imports between the files, of all kinds."""
    known = {import_name(file): file for file in files}
    found: dict[Import, None] = {}
    for source in known.values():
        for name, late in outline_of(root / source).imports:
            target = known.get(name) or known.get(name.rpartition(".")[0])
            if target is not None and target != source:
                found[Import(source, target, late)] = None
    return list(found)


def graph(found: Iterable[Import]) -> dict[str, list[str]]:
    """What each file imports."""
    result: dict[str, list[str]] = {}
    for source, target, _ in found:
        result.setdefault(source, []).append(target)
    return result


def cycle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Some nodes each of which leads to the next, the last being the first; none if there are."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def unit_of(file: str, top: str, rows: Container[str]) -> str:
    """The row a file of a folder belongs to: a file in it by name, a folder in it, or "."."""
    first = file.removeprefix(f"{top}/").split("/")[0]
    return first if first in rows or not first.endswith(".py") else "."


def upward(found: Iterable[Import], top: str, rows: Mapping[str, set[str]]) -> list[str]:
    """The imports inside of a folder that its rows do not allow."""
    inside = [i for i in found if all(f.startswith(f"{top}/") for f in (i.source, i.target))]
    wrong = []
    for i in inside:
        source, target = (unit_of(f, top, rows) for f in (i.source, i.target))
        if source != target and target not in rows[source]:
            wrong.append(f"{i.source} imports {i.target}")
    return wrong
