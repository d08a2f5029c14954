"""The package list, the links beside it, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tensorad as ta

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("codegen", "simplify")


def package_folders() -> set[str]:
    """Import names of every folder with an __init__.py below tensorad and the linked ones."""
    found = set()
    for top in ("tensorad", *LINKED):
        for init in (ROOT / top).rglob("__init__.py"):
            parts = list(init.parent.relative_to(ROOT).parts)
            if parts[0] in LINKED:
                parts.insert(0, "tensorad")
            found.add(".".join(parts))
    return found


def run(code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_packages_are_the_folders() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(config["packages"]) == package_folders()
    assert config["packages"] == sorted(config["packages"])


@pytest.mark.parametrize("name", LINKED)
def test_links_point_to_the_folders(name: str) -> None:
    link = ROOT / "tensorad" / name
    assert link.resolve() == ROOT / name
    module = sys.modules.get(f"tensorad.{name}") or __import__(f"tensorad.{name}")
    assert module is not None


@pytest.mark.parametrize("name", LINKED)
def test_the_bare_name_is_refused(name: str) -> None:
    result = run(f"import {name}")
    assert result.returncode != 0
    assert f"ImportError: import tensorad.{name}" in result.stderr


def test_a_checkout_without_links_still_works(tmp_path: Path) -> None:
    for source in package_folders():
        parts = source.split(".")
        folder = Path(*(parts[1:] if parts[1:2] and parts[1] in LINKED else parts))
        target = tmp_path / folder
        target.mkdir(parents=True, exist_ok=True)
        for file in (ROOT / folder).glob("*.py"):
            (target / file.name).write_text(file.read_text())
    code = (
        "import tensorad.codegen.loops.ir as m, tensorad.simplify.domain.solution; "
        "print(m.__file__)"
    )
    result = run(code, cwd=tmp_path)
    assert result.stderr == ""
    assert Path(result.stdout.strip()) == tmp_path / "codegen" / "loops" / "ir.py"


def test_import_loads_no_heavy_package() -> None:
    heavy = {"sympy", "islpy", "llvmlite", "torch", "jax", "jaxlib", "onnx", "onnxruntime"}
    code = f"""
import sys, tensorad
print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))
"""
    assert run(code).stdout.strip() == "[]"


@pytest.mark.parametrize("free", [None, 0, 1])
def test_free_threaded_builds_are_refused(free: int | None) -> None:
    lines = [
        "import sys, sysconfig",
        "sys.version_info = (3, 14, 0, 'final', 0)",
        f"sysconfig.get_config_var = {{'Py_GIL_DISABLED': {free}}}.get",
        "import tensorad",
    ]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    told = run.stderr.strip().splitlines()
    assert run.returncode == (1 if free else 0), told
    if free:
        assert told[-2:] == [
            "ImportError: tensorad does not run on free-threaded builds of Python: its tables of "
            "expressions and the memory of its calls rely on the interpreter's lock",
            "hint: use the usual build of the same version (python3.13, not python3.13t).",
        ]


def test_every_public_name_resolves() -> None:
    missing = [name for name in ta.__all__ if getattr(ta, name, None) is None]
    assert missing == []
    assert dir(ta) == ta.__all__


@pytest.mark.slow
def test_names_stay_what_they_are_after_every_import() -> None:
    code = """
import importlib, pkgutil, types, tensorad
before = {n: getattr(tensorad, n) for n in tensorad.__all__}
for m in pkgutil.walk_packages(tensorad.__path__, "tensorad."):
    if m.name.startswith("tensorad.") and not m.name.endswith("__main__"):
        if m.name.split(".")[1] in ("tests", "benchmarks"):
            continue
        try:
            importlib.import_module(m.name)
        except tensorad.errors.MissingPackageError:
            pass
print([n for n in before if getattr(tensorad, n) is not before[n]])
"""
    result = run(code)
    assert result.stderr == ""
    assert result.stdout.strip() == "[]"


def test_no_submodule_hides_a_public_name() -> None:
    """`import tensorad.build` would replace the function `ta.build` by the module."""
    files = {p.stem for p in (ROOT / "tensorad").glob("*.py")}
    assert files & set(ta.__all__) <= {"config", "errors"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tensorad' has no attribute 'nothing'"):
        ta.nothing  # type: ignore[attr-defined]  # noqa: B018  # asked for on purpose


def test_type_checkers_see_every_public_name() -> None:
    tree = ast.parse((ROOT / "tensorad" / "__init__.py").read_text())
    conditional = [n for n in tree.body if isinstance(n, ast.If)]
    block = next(n for n in conditional if ast.unparse(n.test) == "TYPE_CHECKING")
    seen = [
        alias.asname
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(filter(None, seen)) == ta.__all__
