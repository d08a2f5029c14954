"""Imports go downward and in no circles, heavy packages stay behind bridges, files stay small."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

from tests.support.import_graph import (
    Import,
    Outline,
    cycle,
    graph,
    imports,
    outline,
    outline_of,
    source_files,
    unit_of,
    upward,
)

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = source_files(ROOT, ("tensorad", "codegen", "simplify", "benchmarks", "examples"))
TESTS = source_files(ROOT, ("tests",))
MAX_LINES = 450
MAX_FUNCTION = 60
"""Lines from `def` on; ruff holds branches and statements."""
MAX_FILES = 20
"""In a folder."""

_TE = {"errors", "config", "ir", "simplify", "autodiff"}
_COMPILED = {"errors", "process", "ir", "simplify", "autodiff", "codegen", "compiled"}
BELOW = {
    "errors": set(),
    "process_memory": set(),
    "process": set(),
    "config": {"errors", "process_memory"},
    "progress": {"config"},
    "collector": {"process"},
    "passes": {"errors", "config"},
    "ir": {"errors", "config", "process", "passes"},
    "simplify": {"errors", "config", "process", "passes", "ir"},
    "bound": {"errors", "ir"},
    "autodiff": {
        "errors",
        "config",
        "process",
        "progress",
        "collector",
        "passes",
        "ir",
        "simplify",
    },
    "te": _TE,
    "topi": {"errors", "config", "ir", "te"},
    "codegen": {"errors", "config", "process", "collector", "passes", "ir", "simplify"},
    "compiled": {"errors", "config", "ir", "simplify", "autodiff", "codegen"},
    "tuning": {"errors", "config", "process", "ir", "codegen", "compiled"},
    "building": {*_TE, "te", "topi", "codegen", "compiled", "tuning", "progress", "collector"},
    "program": {
        "errors",
        "process",
        "passes",
        "ir",
        "simplify",
        "autodiff",
        "te",
        "codegen",
        "compiled",
        "building",
    },
    "implicit": {"errors", "ir", "simplify", "autodiff", "te", "topi", "program"},
    "levels": {"errors", "process", "ir", "autodiff", "building", "program"},
    "batching": {"errors", "process", "ir", "autodiff", "program"},
    "interop": {*_COMPILED, "te", "topi", "building", "batching", "program"},
    "sparse": {*_COMPILED, "config", "building"},
}
"""What each part may import beside itself. Parts above building may import everything."""
TOP = {
    "__init__",
    "__main__",
    "bisect",
    "checking",
    "counting",
    "display",
    "explaining",
    "language",
    "optim",
    "stories",
    "tools",
    "upstream",
    "workloads",
}

BRIDGES = {
    "islpy": {
        "simplify/readback/relations.py",
        *[f"simplify/sets/{n}.py" for n in ("integer_set", "space", "visit_points")],
    },
    "sympy": {"simplify/sympy_bridge.py"},
    "llvmlite": {"codegen/target/object_code.py", "codegen/target/link.py"},
    "scipy": {"tensorad/sparse/scipy_bridge.py"},
}

ORACLES = {
    "tensorad/bound.py": {
        "tensorad/__main__.py",
        "tensorad/explaining.py",
        "benchmarks/suites/combiners.py",
        "benchmarks/suites/work_table.py",
    },
    "tensorad/ir/reference/formulas.py": {
        *("tensorad/ir/reference/interpret.py", "tensorad/ir/reference/forms.py"),
        *("codegen/loops/interpret.py", "tensorad/checking/engine.py"),
    },
}
"""What the product is judged by, and who may run or show it: nobody decides by it."""

LATE = {
    ("building", "display"): "lowered loops display and report themselves: loaded when called",
}
"""Upward imports inside functions or for types, each with its reason. All else obeys BELOW."""
_NESTS = {"model.py", "loops", "nest", "cost"}
_LOW = {"dtypes.py", "hooks.py", "node.py", "nodes.py", "leaves.py"}
"""What the records of scalar functions are written with."""
_PLAIN = {"loops", "scan", "in_place_scatters.py"}
_INTEROP = {f"{n}.py" for n in ("packages", "shapes", "same", "spread", "cuts", "xla")}
_TREES = {"data", "trees.py", "sides.py", "values.py", "calls.py"}
ROWS: dict[str, dict[str, set[str]]] = {
    "codegen": {
        ".": set(),
        "directives.py": set(),
        "model.py": set(),
        "target": {"model.py"},
        "loops": {"model.py"},
        "in_place_scatters.py": {"loops", "directives.py"},
        "nest": {"model.py", "loops"},
        "cost": {"model.py", "loops", "nest", "target", "directives.py"},
        # from nests to loops
        "schedule": {*_NESTS, "directives.py", "target"},
        "splitting": {"model.py", "loops", "nest", "cost", "schedule"},
        "caches": {*_NESTS, "directives.py", "target", "schedule"},
        "contraction": {*_NESTS, "directives.py", "target", "schedule", "splitting"},
        "scan": {*_NESTS, "directives.py", "target", "in_place_scatters.py", "schedule"},
        "fusion": {
            *_NESTS,
            "directives.py",
            "target",
            "in_place_scatters.py",
            "schedule",
            "splitting",
            "caches",
            "contraction",
            "scan",
        },
        "index_checks": {"loops", "nest", "in_place_scatters.py", "caches"},
        "plain_loops.py": {*_PLAIN, "nest"},
        "unit_passes.py": {*_PLAIN, "plain_loops.py", "index_checks"},
        "control": {"loops"},
        "common_terms.py": {"model.py", "cost"},
        "lower.py": {
            *_NESTS,
            "common_terms.py",
            "control",
            "directives.py",
            "in_place_scatters.py",
            "caches",
            "scan",
            "fusion",
            "plain_loops.py",
            "unit_passes.py",
        },
        # from loops to machine code
        "llvm": {*_NESTS, "target"},
        "threads": {"loops", "target", "llvm"},
        "entry": {"loops", "target", "llvm", "threads"},
        "runtime": {"loops", "cost", "target", "llvm", "threads", "entry"},
    },
    "simplify": {
        ".": set(),
        "sympy_bridge.py": set(),
        "index": set(),
        "sets": {"index"},
        "bounds": {"index", "sets"},
        "domain": {"index", "sets"},
        "certify": {"index", "sets", "domain"},
        "readback": {"domain", "certify"},
        "zeros": {"index", "sets", "bounds", "domain", "certify", "readback"},
        "formula": {"index", "sets", "bounds", "certify", "readback", "zeros"},
        "control": {"index", "bounds", "formula"},
    },
    "tensorad/autodiff": {
        "local": set(),
        "adjoints": {"local"},
        "control": {"local", "adjoints"},
        "counting": {"adjoints"},
        ".": {"local", "adjoints", "control", "counting"},
    },
    "tensorad/ir": {
        "dtypes.py": set(),
        "hooks.py": set(),
        "node.py": {"hooks.py"},
        "nodes.py": {"dtypes.py", "hooks.py", "node.py"},
        "leaves.py": {"dtypes.py", "node.py", "nodes.py"},
        "elementary": {"dtypes.py", "nodes.py", "leaves.py"},
        ".": {*_LOW, "elementary"},
        "analysis": {*_LOW, "elementary", "."},
        "arrays": {*_LOW, "elementary", ".", "analysis"},
        "text": {*_LOW, "elementary", ".", "analysis", "arrays"},
        "reference": {*_LOW, "elementary", ".", "analysis", "arrays", "text"},
    },
    "tensorad/language": {
        "types.py": set(),
        "terms.py": {"types.py"},
        "values.py": {"types.py", "terms.py"},
        "residual": {"types.py", "terms.py", "values.py"},
        ".": {"types.py", "terms.py", "values.py", "residual"},
        "__init__.py": {"terms.py", "values.py", "."},
    },
    "tensorad/program": {
        "data": set(),
        "trees.py": {"data"},
        "sides.py": {"data", "trees.py"},
        "values.py": {"data", "trees.py"},
        "calls.py": {"data", "trees.py", "values.py"},
        "leaf_types.py": {"data", "trees.py", "values.py", "calls.py"},
        "references": {*_TREES, "leaf_types.py"},
        "calling": {*_TREES, "references", "leaf_types.py"},
        "carries.py": {*_TREES, "references", "leaf_types.py"},
        "checkpointing": {
            "data",
            "trees.py",
            "values.py",
            "calls.py",
            "leaf_types.py",
            "references",
            "carries.py",
        },
        ".": {*_TREES, "references", "leaf_types.py", "calling", "carries.py", "checkpointing"},
        "kinds": {*_TREES, "references", "leaf_types.py", "calling", "."},
        "rules": {*_TREES, "references", "leaf_types.py", "calling", "."},
        "__init__.py": {"trees.py", "references", "checkpointing", "rules", "kinds", "."},
    },
    "tensorad/topi": {
        ".": set(),
        "nn": {"."},
        "as_numpy": {"."},
        "__init__.py": {".", "nn"},
    },
    "benchmarks": {
        ".": set(),
        "work_cases": set(),
        "workloads": set(),
        "peers": {"workloads"},
        "measure": {"workloads", "peers"},
        "report": {"peers", "measure"},
        "limits": {"workloads", "report"},
        "race": {"workloads", "peers", "measure", "report", "limits"},
        "suites": {"work_cases", "workloads", "peers", "measure", "report", "limits", "race"},
        "commands": {"workloads", "peers", "measure", "report", "limits", "race", "suites"},
        "guard.py": {"workloads", "measure", "report", "commands"},
        "guard_side.py": {"workloads", "peers", "measure"},
        "calls_compared.py": {"report", "guard.py"},
        "__main__.py": {"peers", "measure", "race", "commands", "guard.py", "calls_compared.py"},
    },
    "tensorad/interop": {
        **{row: set[str]() for row in _INTEROP},
        **{".": _INTEROP, "kept.py": _INTEROP, "operators.py": {*_INTEROP, "kept.py"}},  # noqa: PIE800
        **{row: {*_INTEROP, "operators.py"} for row in ("jax.py", "torch")},
        "onnx": {"packages.py"},
    },
}
"""By folder, bottom to top: what each folder or file in it may import; "." is its other files."""

TO_LOOPS = {"schedule", "splitting", "caches", "contraction", "scan", "fusion"}
TO_MACHINE_CODE = {"llvm", "threads", "entry", "runtime"}
"""Halves of codegen that know nothing of each other."""

NO_MIRROR = {"random", "project", "seeds", "support", "golden", "fuzz", "soak", "mutants"}
"""Folders of tests/ that are about no one folder of the product."""


@cache
def all_imports() -> list[Import]:
    """Those of the product and of the tests."""
    return imports(ROOT, [*PRODUCT, *TESTS])


def part_of(file: str) -> str:
    """The layer a file belongs to: the name after `tensorad.` in its import name."""
    parts = PurePosixPath(file).with_suffix("").parts
    return parts[1] if parts[0] == "tensorad" else parts[0]


def test_imports_go_downward() -> None:
    wrong = []
    for source, target, late in all_imports():
        if source.startswith(("benchmarks/", "examples/", "tests/")):
            continue
        part, other = part_of(source), part_of(target)
        assert part in BELOW or part in TOP, f"{part} has no place in the layers"
        if part in TOP or other == part or other in BELOW[part] or (late and (part, other) in LATE):
            continue
        wrong.append(f"{source} imports {target}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("top", ROWS)
def test_imports_inside_of_a_folder_go_downward(top: str) -> None:
    wrong = upward(all_imports(), top, ROWS[top])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("top", ROWS)
def test_rows_are_bottom_to_top_and_name_what_exists(top: str) -> None:
    seen: set[str] = set()
    for row, below in ROWS[top].items():
        assert below <= seen, f"{row} is above what it may import"
        assert (ROOT / top / row).exists()
        seen.add(row)
    inside = [f for f in PRODUCT if f.startswith(f"{top}/")]
    assert {unit_of(f, top, seen) for f in inside} <= seen, "every folder has a row"


def test_folders_with_folders_have_rows() -> None:
    tops = set()
    for file in PRODUCT:
        parts = file.split("/")
        depth = 2 if parts[0] == "tensorad" else 1
        if len(parts) > depth + 1:
            tops.add("/".join(parts[:depth]))
    assert tops == set(ROWS)


def test_halves_of_codegen_know_nothing_of_each_other() -> None:
    for half, other in ((TO_LOOPS, TO_MACHINE_CODE), (TO_MACHINE_CODE, TO_LOOPS)):
        for row in half:
            assert not ROWS["codegen"][row] & other


def test_no_files_import_each_other_in_a_circle() -> None:
    found = cycle(graph(all_imports()))
    assert not found, " -> ".join(found)


def test_heavy_packages_stay_behind_their_bridges() -> None:
    for file in PRODUCT:
        for name, _ in outline_of(ROOT / file).imports:
            package = name.split(".")[0]
            assert package not in BRIDGES or file in BRIDGES[package], f"{file} imports {name}"


def test_modules_have_tests_of_their_own() -> None:
    tested = {target for source, target, _ in all_imports() if source.startswith("tests/")}
    every = [f for f in PRODUCT if f.startswith(("codegen/", "simplify/", "tensorad/autodiff/"))]
    missing = [f for f in every if f not in tested and outline_of(ROOT / f).has_functions]
    assert missing == [], "test what the module's functions ensure"


def test_nobody_decides_by_an_oracle() -> None:
    for oracle, shown in ORACLES.items():
        users = {s for s, target, _ in all_imports() if target == oracle}
        assert {s for s in users if not s.startswith("tests/")} == shown


def test_files_say_what_they_are_about() -> None:
    silent = [f for f in PRODUCT if not outline_of(ROOT / f).has_docstring]
    silent = [f for f in silent if (ROOT / f).read_text().strip()]
    assert silent == [], "the first line says what the file is about"


def test_files_have_one_subject() -> None:
    lines = {f: (ROOT / f).read_text().count("\n") for f in (*PRODUCT, *TESTS)}
    assert {f: n for f, n in lines.items() if n > MAX_LINES} == {}, "split by subject"


def long_functions(found: Outline, most: int = MAX_FUNCTION) -> list[str]:
    return [name for name, lines in found.lengths if lines > most]


def test_functions_are_short() -> None:
    found = {f: long_functions(outline_of(ROOT / f)) for f in (*PRODUCT, *TESTS)}
    assert {f: names for f, names in found.items() if names} == {}


def test_long_functions_are_found() -> None:
    method = "class C:\n    @cache\n    def long(self):\n        a()\n        b()\n"
    text = f"def short():\n    pass\n\n{method}"
    assert long_functions(outline(text), 2) == ["long"]
    assert long_functions(outline(text), 3) == []


def test_nothing_is_left_behind() -> None:
    words = ("TODO", "FIXME", "XXX", "except Exception", "breakpoint()")
    texts = {f: (ROOT / f).read_text() for f in PRODUCT}
    assert [(f, word) for f, text in texts.items() for word in words if word in text] == []


def test_folders_stay_small() -> None:
    counts = Counter(PurePosixPath(f).parent.as_posix() for f in (*PRODUCT, *TESTS))
    assert {f: n for f, n in counts.items() if n > MAX_FILES} == {}


def test_tests_mirror_the_product() -> None:
    folders = {PurePosixPath(f).parent.relative_to("tests") for f in TESTS}
    own = [f.as_posix() for f in folders if f.parts and f.parts[0] not in NO_MIRROR]
    product = {p.as_posix() for f in PRODUCT for p in PurePosixPath(f).parents}
    product |= {f.removesuffix(".py") for f in PRODUCT}
    assert [f for f in own if f not in product and f"tensorad/{f}" not in product] == []


def write(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(files)


def test_circles_are_found() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": []}) == []
    edges = {"a": ["b"], "b": ["c", "e"], "c": ["d"], "d": ["b"], "e": []}
    found = cycle(edges)
    assert sorted(found[1:]) == ["b", "c", "d"]
    assert found[0] == found[-1]
    assert all(after in edges[before] for before, after in pairwise(found))


def test_imports_of_all_kinds_are_found(tmp_path: Path) -> None:
    files = {
        "codegen/low/__init__.py": "",
        "codegen/low/a.py": "def f():\n    from tensorad.codegen.high import b\n",
        "codegen/high/b.py": "if TYPE_CHECKING:\n    from tensorad.codegen.top import C\n",
        "codegen/top.py": "import tensorad.codegen.low.a\nfrom tensorad.codegen.low import X\n",
    }
    found = imports(tmp_path, write(tmp_path, files))
    assert set(found) == {
        ("codegen/low/a.py", "codegen/high/b.py", True),
        ("codegen/high/b.py", "codegen/top.py", True),
        ("codegen/top.py", "codegen/low/a.py", False),
        ("codegen/top.py", "codegen/low/__init__.py", False),
    }
    assert len(cycle(graph(found))) == 4
    rows = {"low": set[str](), "high": {"low"}, "top.py": {"low"}}
    assert sorted(upward(found, "codegen", rows)) == [
        "codegen/high/b.py imports codegen/top.py",
        "codegen/low/a.py imports codegen/high/b.py",
    ]
