"""What the library keeps between builds: `forget` empties it, or it is said why not."""

from __future__ import annotations

import ast
import importlib
import threading
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import process, tuning
from tensorad.ir.reference.interpret import interpret
from tensorad.process import Guard, forget, memo, memoised, once
from tensorad.simplify.domain import polyhedral
from tensorad.simplify.zeros import passes
from tests.project.test_architecture import PRODUCT, ROOT
from tests.support.import_graph import BLOCKS, import_name

OF_PACKAGES: Final = {
    f"tensorad/interop/{package}": package for package in ("torch", "jax", "onnx")
}
"""Sources that are imported where a package is."""

NOT_EMPTIED: Final = {
    "interned: equal things are one object, and compared by `is`": {
        "tensorad/ir/node.py": "_table",
        "tensorad/ir/leaves.py": "int_const",
        "tensorad/ir/analysis/alike.py": "_forms",
        "tensorad/ir/text/pickling.py": "_known",
        "codegen/index_checks/facts.py": "_stand_in",
        "simplify/domain/point_tables.py": "_tables",
        "tensorad/program/data/function_types.py": "_closed",
    },
    "functions and combiners, of which two are never equal: what one is made into is its own": {
        "tensorad/ir/combiner.py": "arg_combiner max_combiner min_combiner prod_combiner "
        "set_combiner sum_combiner any_combiner all_combiner known",
        "tensorad/ir/functions.py": "stop_function _plain_combiners",
        "tensorad/batching/rows.py": "_after",
        "tensorad/autodiff/local/folds.py": "_restricted",
        "tensorad/autodiff/local/steps.py": "derived_steps",
        "simplify/zeros/recorded_indices.py": "_combiners",
        "simplify/zeros/tested_indices.py": "_checked",
    },
    "tensors made for an operation: a sweep asks again and must meet those whose adjoints it has": {
        "tensorad/autodiff/local/combiners.py": "_winners",
        "tensorad/autodiff/local/folds.py": "_folds _factors",
        "tensorad/autodiff/local/scan_forms.py": "_traced _as_scans",
        "simplify/zeros/reduction_stages.py": "_staged",
    },
    "how something came about, or is used, which cannot be derived from it": {
        "tensorad/autodiff/counting/dense.py": "_jacobians",
        "tensorad/autodiff/provenance.py": "_derivations",
        "tensorad/ir/leaves.py": "reduce_axes bound_axes",
        "simplify/formula/product_order.py": "_written",
        "tensorad/ir/array_methods.py": "looked_at",
        "tensorad/levels/duals.py": "every",
    },
    "said by the user, or by modules when they are loaded": {
        "tensorad/config.py": "_current _watchers",
        "tensorad/ir/analysis/facts.py": "_facts",
        "tensorad/ir/elementary/table.py": "FUNCTIONS",
        "tensorad/program/trees.py": "_registered",
        "tensorad/program/kinds/variants.py": "_types",
        "tensorad/process.py": "_guards _in_child _around _memos _memoised",
    },
    "facts of arithmetic, of a class or of the machine, whatever the program": {
        "tensorad/ir/analysis/polynomial.py": "_power_sum",
        "simplify/index/intervals.py": "_ranges",
        "codegen/directives.py": "switches",
        "codegen/entry/abi_probe.py": "is_supported",
        "codegen/entry/native_type.py": "_types",
        "codegen/runtime/arguments.py": "layout_matches",
        "codegen/target/link.py": "_loaded _mathematics external_address _NO_ADDRESSES",
        "codegen/target/machine.py": "_described this_machine probed_vector_bytes",
        "codegen/target/object_code.py": "initialize host",
        "codegen/target/peak_speeds.py": "measured",
    },
    "in use: threads, libraries, a thread's own objects, a line on the terminal": {
        "tensorad/passes.py": "_times _seen",
        "tensorad/progress.py": "_line",
        "tensorad/interop/jax.py": "_named _held _is_registered",
        "tensorad/interop/torch/operators.py": "_registered",
        "tensorad/interop/xla.py": "targets self._numbers self._entries",
        "codegen/entry/native_type.py": "_kept",
        "codegen/target/link.py": "_linker",
        "codegen/target/object_code.py": "_local",
        "codegen/threads/activations_ir.py": "record_library",
        "codegen/threads/pool.py": "driver _pool _ends",
        "codegen/threads/native_settings.py": "_words _is_read",
        "codegen/entry/frames_ir.py": "frame_library _kept",
        "codegen/runtime/frames.py": "_native",
        "simplify/readback/relations.py": "_thread",
        "simplify/sets/space.py": "_thread",
    },
    "ends with what it belongs to: an executable, the plan of a nest": {
        "codegen/runtime/executable.py": "self._layouts",
        "codegen/splitting/index_sets.py": "target",
    },
    "no results: an empty mapping that nothing is put into": {"codegen/loops/printer.py": "NONE"},
}

CONTAINERS = {
    "WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "OrderedDict", "Counter", "defaultdict",
    "deque", "dict", "list", "local", "set",
}  # fmt: skip
DECORATORS = {"cache", "lru_cache", "once"}
"""Of functions whose results are kept, by themselves until the process ends."""
FILLING = {"add", "append", "appendleft", "extend", "insert", "setdefault", "update"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def memo_sites(text: str) -> dict[str, bool]:
    """Name -> whether `forget` empties it, for all that a module's functions keep for later.

    That is: containers of the module that are made empty or that functions fill, names that
    functions bind anew (`global`), decorated functions, and weak or ordered dictionaries
    wherever they are made.
    """
    tree = ast.parse(text)
    found = dict(_decorated(tree))
    lasting: dict[str, bool] = {}
    for target, value, outside in _assigned(tree):
        registered = _is_call(value, {"memo"})
        if registered or _is_kept(value, outside):
            found[ast.unparse(target)] = registered
        elif outside:
            lasting[ast.unparse(target)] = registered
    if any(_may_be_filled(name, text) for name in lasting):
        filled = set(_filled(tree))
        found.update({name: kept for name, kept in lasting.items() if name in filled})
    return found


def _may_be_filled(name: str, text: str) -> bool:
    """Whether a text has what `_filled` looks for in its tree."""
    return "global " in text or f"{name}[" in text or f"{name}." in text


def _called(e: ast.expr) -> str:
    """The last name of what is called or used as a decorator."""
    inner = e.func if isinstance(e, ast.Call) else e
    inner = inner.value if isinstance(inner, ast.Subscript) else inner
    if isinstance(inner, ast.Attribute):
        return inner.attr
    return inner.id if isinstance(inner, ast.Name) else ast.unparse(inner)


def _is_call(e: ast.expr, names: Container[str]) -> bool:
    return isinstance(e, ast.Call) and _called(e) in names


def _decorated(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    stack: list[ast.AST] = [*tree.body]
    while stack:
        node = stack.pop()
        stack.extend(n for field in BLOCKS for n in getattr(node, field, ()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if _called(decorator) in DECORATORS | {"memoised"}:
                    yield node.name, _called(decorator) == "memoised"
        elif isinstance(node, ast.Assign) and _is_call(node.value, DECORATORS):
            yield ast.unparse(node.targets[0]), False


def _filled(tree: ast.AST) -> Iterator[str]:
    """Names that functions put something into or bind anew."""
    stack = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if inside and isinstance(node, ast.Global):
            yield from node.names
        if inside and isinstance(node, (ast.Subscript, ast.Attribute)) and _fills(node):
            yield ast.unparse(node.value)
        inside = inside or isinstance(node, _FUNCTIONS)
        stack.extend((n, inside) for n in ast.iter_child_nodes(node))


def _fills(e: ast.Subscript | ast.Attribute) -> bool:
    """Whether `e` is `kept[key]` that is assigned, or `kept.add`."""
    return e.attr in FILLING if isinstance(e, ast.Attribute) else isinstance(e.ctx, ast.Store)


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """(target, value, whether it is assigned when the module is loaded)"""
    stack: list[tuple[ast.AST, bool]] = [(n, True) for n in tree.body]
    while stack:
        node, outside = stack.pop()
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield target, node.value, outside
        outside = outside and not isinstance(node, (*_FUNCTIONS, ast.ClassDef))
        stack.extend((n, outside) for field in BLOCKS for n in getattr(node, field, ()))


def _is_kept(value: ast.expr, outside: bool) -> bool:
    """Whether a value is an empty container that outlives a call."""
    if isinstance(value, ast.Call):
        name = _called(value)
        lasting = name.startswith("Weak") or name == "OrderedDict"
        return lasting or (outside and name in CONTAINERS and not value.args)
    empty = isinstance(value, ast.Dict) and not value.keys
    return outside and (empty or (isinstance(value, (ast.List, ast.Set)) and not value.elts))


@cache
def sites() -> dict[tuple[str, str], bool]:
    """Those of the product: (file, name) -> whether `forget` empties it."""
    return {
        (file, name): registered
        for file in PRODUCT
        if not file.startswith("benchmarks/")
        for name, registered in memo_sites((ROOT / file).read_text()).items()
    }


def test_every_memo_is_emptied_or_has_a_reason() -> None:
    listed = [
        (file, name)
        for found in NOT_EMPTIED.values()
        for file, names in found.items()
        for name in names.split()
    ]
    kept = [site for site, registered in sites().items() if not registered]
    assert sorted(kept) == sorted(listed), "say memo(...) or @memoised(), or why not"


def test_memos_of_a_source_are_found() -> None:
    text = """
from weakref import WeakKeyDictionary
A = {}
B: dict[int, int] = memo({}, _guard)
TABLE = {"a": 1}
GROWS = {"a": 1}
NAMES = ["a"]
_now = None
later = cache(print)

@functools.lru_cache(maxsize=3)
def kept(n):
    global _now
    here, weak = {}, 3
    known: WeakKeyDictionary[int, int] = WeakKeyDictionary()
    here[n] = NAMES.index(n)
    GROWS.setdefault(n, n)

@memoised()
def forgotten(n): ...

class C:
    def __init__(self):
        self.own = {}
        self.weak = memo(WeakKeyDictionary())
"""
    assert memo_sites(text) == {
        "A": False, "B": True, "GROWS": False, "_now": False, "later": False, "kept": False,
        "known": False, "forgotten": True, "self.weak": True,
    }  # fmt: skip


def results(n: int) -> list[Any]:
    """What some programs give that use every memo that can be filled without a clock or a disk."""
    x, w = ta.placeholder((n, 40), name="X"), ta.placeholder((40, 6), name="W")
    p = ta.placeholder((n,), dtype="int64", name="P")
    y = ta.topi.nn.softmax(ta.topi.matmul(x, w))
    k = ta.reduce_axis((0, n), name="k")
    picked = ta.compute((n,), lambda i: ta.sum(x[p[k], 0] * 0.1 * x[i, i % 40], axis=k))
    thin = ta.compute((n - 2,), lambda i: x[i, 0] * x[i + 2, 0])
    random = np.random.default_rng(0)
    arrays: list[Any] = [random.random((n, 40), np.float32), random.random((40, 6), np.float32)]
    order = random.permutation(n)
    made = ta.vjp(y, [x, w], ta.topi.exp(y))
    f = ta.build([y, *made], [x, w])
    g = ta.build([picked, *ta.vjp(picked, x)], [x, p])
    matrix = ta.sparse_jacobian(thin, x)
    found = [*f(*arrays), *g(arrays[0], order), matrix(arrays[0]).toarray()]
    found += interpret([y, *made], {x: arrays[0], w: arrays[1]})
    return [*found, str(ta.explain(made))]


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def left() -> list[object]:
    """What memos keep."""
    functions = [clear.__self__ for clear in process._memoised]  # type: ignore[attr-defined]
    return [
        *[kept for kept, _ in process._memos if len(kept)],
        *[f for f in functions if f.cache_info().currsize],
    ]


def test_forget_leaves_every_memo_empty_and_results_as_they_were() -> None:
    first = results(11)
    keeping = left()
    assert any(kept is polyhedral._memo._memo for kept in keeping)
    assert any(kept is passes._memo._memo for kept in keeping)
    forget()
    assert left() == []
    assert same(results(11), first)


def test_each_memo_of_the_sources_is_one_that_forget_empties() -> None:
    missing = [place for place, package in OF_PACKAGES.items() if find_spec(package) is None]
    registered = [
        site
        for site, is_registered in sites().items()
        if is_registered and not site[0].startswith(tuple(missing))
    ]
    modules = [(importlib.import_module(import_name(file)), name) for file, name in registered]
    objects = [getattr(m, name) for m, name in modules if not name.startswith("self.")]
    known = [id(kept) for kept, _ in process._memos]
    known += [id(clear.__self__) for clear in process._memoised]  # type: ignore[attr-defined]
    assert len(objects) >= 20
    assert all(id(found) in known for found in objects)


def test_a_tuned_schedule_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tuning._remembered, "task", {})
    forget()
    assert not tuning._remembered


def test_memos_with_a_guard_are_emptied_while_it_is_held() -> None:
    guard = Guard()
    kept: dict[str, int] = memo({"a": 1}, guard)
    others = threading.Thread(target=forget)
    with guard.lock:
        others.start()
        others.join(0.05)
        assert kept == {"a": 1}
    others.join()
    assert kept == {}


def test_memoised_functions_are_asked_once_until_forget() -> None:
    asked: list[int] = []

    @memoised(2)
    def twice(n: int) -> int:
        asked.append(n)
        return 2 * n

    assert [twice(3), twice(3)] == [6, 6] and asked == [3]
    forget()
    assert twice(3) == 6 and asked == [3, 3]


def test_what_is_made_once_is_one_for_all_threads() -> None:
    together = threading.Barrier(4)

    @once
    def made() -> object:
        together.wait()
        return object()

    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(made) for _ in range(4)]]
    assert len(set(map(id, found))) == 1 and made() is found[0]


@pytest.mark.slow
def test_memos_may_be_emptied_while_other_threads_build() -> None:
    sizes = (9, 12)
    expected = [results(n) for n in sizes]
    done = threading.Event()

    def forgetting() -> None:
        while not done.wait(0.001):
            forget()

    others = threading.Thread(target=forgetting)
    others.start()
    try:
        with ThreadPoolExecutor(len(sizes)) as builders:
            made = [builders.submit(results, n) for _ in range(2) for n in sizes]
            found = [future.result() for future in made]
    finally:
        done.set()
        others.join()
    assert all(map(same, found, [*expected, *expected]))
