"""What a function may come to use: the names it mentions, those that they mention, and so on."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.support.import_graph import BLOCKS, import_name

Place = tuple[str, str]
"""A file, and a name at its top: a function, a class with all its methods, or a constant."""


def mentions(root: Path, files: Iterable[str]) -> dict[Place, list[Place]]:
    """Per name at the top of a file: the names of these files that it mentions, types included."""
    known = {import_name(file): file for file in files}
    found: dict[Place, list[Place]] = {}
    for file in known.values():
        tree = ast.parse((root / file).read_text())
        modules, names = _imported(tree, known)
        tops = [(name, node) for node in tree.body for name in _defined(node)]
        names |= {name: (file, name) for name, _ in tops}
        for name, node in tops:
            used = [_place(e, names, modules) for e in ast.walk(node)]
            found.setdefault((file, name), []).extend([p for p in used if p is not None])
    return found


def _imported(
    tree: ast.Module, known: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Place]]:
    """The modules and the names that a file imports, as it calls them."""
    modules: dict[str, str] = {}
    names: dict[str, Place] = {}
    stack: list[ast.AST] = [*tree.body]
    while stack:
        node = stack.pop()
        stack.extend(n for field in BLOCKS for n in getattr(node, field, ()))
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            own = alias.asname or alias.name
            if f"{node.module}.{alias.name}" in known:  # type: ignore[attr-defined]  # as above
                modules[own] = known[f"{node.module}.{alias.name}"]  # type: ignore[attr-defined]
            elif node.module in known:  # type: ignore[attr-defined]
                names[own] = (known[node.module], alias.name)  # type: ignore[attr-defined]
    return modules, names


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _place(e: ast.AST, names: Mapping[str, Place], modules: Mapping[str, str]) -> Place | None:
    if isinstance(e, ast.Name):
        return names.get(e.id)
    if isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id in modules:
        return modules[e.value.id], e.attr
    return None


def way(
    edges: Mapping[Place, Iterable[Place]], start: Place, is_end: Callable[[Place], bool]
) -> list[Place]:
    """The shortest chain of mentions from a name to one of the ends; nothing if there is none."""
    before: dict[Place, Place | None] = {start: None}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        if is_end(here):
            chain = [here]
            while (last := before[chain[-1]]) is not None:
                chain.append(last)
            return chain[::-1]
        for p in edges.get(here, ()):
            if p not in before:
                before[p] = here
                queue.append(p)
    return []
