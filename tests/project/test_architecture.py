"""Imports go downward, heavy packages stay behind their bridges, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 450

BELOW = {
    "errors": set(),
    "process_memory": set(),
    "config": {"errors", "process_memory"},
    "progress": {"config"},
    "ir": {"errors", "config"},
    "simplify": {"errors", "config", "ir"},
    "bound": {"errors", "ir"},
    "autodiff": {"errors", "config", "progress", "ir", "simplify", "bound"},
    "te": {"errors", "config", "ir", "simplify", "autodiff"},
    "topi": {"errors", "config", "ir", "te"},
    "codegen": {"errors", "config", "ir", "simplify"},
    "compiled": {"errors", "config", "ir", "simplify", "autodiff", "codegen"},
    "tuning": {"errors", "config", "ir", "codegen", "compiled"},
    "building": {
        "tuning",
        "errors",
        "config",
        "progress",
        "ir",
        "simplify",
        "autodiff",
        "te",
        "topi",
        "codegen",
        "compiled",
    },
    "sparse": {"errors", "config", "ir", "simplify", "autodiff", "codegen", "compiled", "building"},
}
"""What each part may import beside itself. Parts above building may import everything."""
TOP = {
    "__main__",
    "checking",
    "counting",
    "display",
    "explaining",
    "upstream",
    "workloads",
}

BRIDGES = {
    "islpy": {
        "simplify/sets/integer_set.py",
        "simplify/sets/space.py",
        "simplify/sets/visit_points.py",
    },
    "sympy": {"simplify/sympy_bridge.py"},
    "llvmlite": {"codegen/target/object_code.py", "codegen/target/link.py"},
    "scipy": {"tensorad/sparse/scipy_bridge.py"},
}

LAZY = {
    ("ir", "display"): "a tensor displays itself: _repr_html_ loads the HTML writer when called",
    ("building", "display"): "lowered loops display themselves in the same way",
    ("sparse", "display"): "sparse matrices display themselves in the same way",
}
"""Upward imports inside functions, each with its reason. Everything else obeys BELOW."""


def source_files() -> list[Path]:
    folders = ("tensorad", "codegen", "simplify", "benchmarks")
    found = [p for f in folders for p in sorted((ROOT / f).rglob("*.py"))]
    return [
        p
        for p in found
        if p.relative_to(ROOT).parts[:2] not in (("tensorad", "codegen"), ("tensorad", "simplify"))
    ]


def part_of(path: Path) -> str:
    """The layer a file belongs to: the name after `tensorad.` in its import name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "tensorad" else parts[0]


def imported_modules(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported inside a function), TYPE_CHECKING blocks left out."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            stack.extend((n, inside) for n in node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            base = node.module or ""
            if base == "tensorad":
                yield from ((f"tensorad.{alias.name}", inside) for alias in node.names)
            else:
                yield base, inside
        deeper = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        stack.extend((n, deeper) for n in ast.iter_child_nodes(node))


FILES = source_files()
NAMES = [str(p.relative_to(ROOT)) for p in FILES]


def is_entry(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts == ("tensorad", "__init__.py") or parts[0] == "benchmarks"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_imports_go_downward(path: Path) -> None:
    if is_entry(path):
        return
    part = part_of(path)
    assert part in BELOW or part in TOP, f"{part} has no place in the layers"
    if part in TOP:
        return
    wrong = []
    for module, inside in imported_modules(ast.parse(path.read_text())):
        if module.split(".")[0] != "tensorad" or module == "tensorad":
            continue
        target = module.split(".")[1]
        if target == part or target in BELOW[part] or (inside and (part, target) in LAZY):
            continue
        wrong.append(module)
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_heavy_packages_stay_behind_their_bridges(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for module, _ in imported_modules(ast.parse(path.read_text())):
        top = module.split(".")[0]
        assert top not in BRIDGES or name in BRIDGES[top], f"{name} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_files_have_one_subject(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_LINES, "split the file by subject"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "the first line says what the file is about"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_nothing_is_left_behind(path: Path) -> None:
    for word in ("TODO", "FIXME", "XXX", "except Exception", "breakpoint()"):
        assert word not in path.read_text()
