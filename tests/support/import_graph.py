"""Which file imports which: when loaded, inside functions, and for types alone. Long functions."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

LINKED = {"codegen": "tensorad.codegen", "simplify": "tensorad.simplify"}
"""Import names of folders that tensorad/ holds as links."""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """(module or module.name, whether it is late) of every import."""
    stack = [(tree, False)]
    while stack:
        node, late = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((f"{node.module}.{alias.name}", late) for alias in node.names)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            stack.extend((n, True) for n in node.body)
            stack.extend((n, late) for n in node.orelse)
            continue
        late = late or isinstance(node, (*_FUNCTIONS, ast.Lambda))
        stack.extend((n, late) for n in ast.iter_child_nodes(node))


def imports(root: Path, files: Iterable[str]) -> list[Import]:
    """The imports between the files, of all kinds."""
    known = {import_name(file): file for file in files}
    found: dict[Import, None] = {}
    for source in known.values():
        for name, late in imported(ast.parse((root / source).read_text())):
            target = known.get(name) or known.get(name.rpartition(".")[0])
            if target is not None and target != source:
                found[Import(source, target, late)] = None
    return list(found)


def has_functions(text: str) -> bool:
    """Whether a file defines a function for others."""
    found = [n for n in ast.parse(text).body if isinstance(n, _FUNCTIONS)]
    return any(not n.name.startswith("_") for n in found)


def long_functions(text: str, most: int) -> list[str]:
    """The functions of more than `most` lines, from `def` on."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, _FUNCTIONS)]
    return [n.name for n in found if (n.end_lineno or n.lineno) - n.lineno + 1 > most]


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
