"""Where a source keeps results beyond a call: containers and decorators that live with a module."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

CONTAINERS = {
    "WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "OrderedDict", "Counter", "defaultdict",
    "deque", "dict", "list", "local", "set",
}  # fmt: skip
DECORATORS = {"cache", "lru_cache"}
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
    filled = set(_filled(tree))
    for name, value, outside in _assigned(tree):
        registered = _is_call(value, {"memo"})
        if registered or _is_kept(value, outside) or (outside and name in filled):
            found[name] = registered
    return found


def _called(e: ast.expr) -> str:
    """The last name of what is called or used as a decorator."""
    inner = e.func if isinstance(e, ast.Call) else e
    inner = inner.value if isinstance(inner, ast.Subscript) else inner
    return ast.unparse(inner).split(".")[-1]


def _is_call(e: ast.expr, names: Container[str]) -> bool:
    return isinstance(e, ast.Call) and _called(e) in names


def _decorated(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if _called(decorator) in DECORATORS | {"memoised"}:
                    yield node.name, _called(decorator) == "memoised"
        elif isinstance(node, ast.Assign) and _is_call(node.value, DECORATORS):
            yield ast.unparse(node.targets[0]), False


def _filled(tree: ast.AST) -> Iterator[str]:
    """Names that functions put something into or bind anew."""
    for function in ast.walk(tree):
        for node in ast.walk(function) if isinstance(function, _FUNCTIONS) else ():
            if isinstance(node, ast.Global):
                yield from node.names
            if isinstance(node, (ast.Subscript, ast.Attribute)) and _fills(node):
                yield ast.unparse(node.value)


def _fills(e: ast.Subscript | ast.Attribute) -> bool:
    """Whether `e` is `kept[key]` that is assigned, or `kept.add`."""
    return e.attr in FILLING if isinstance(e, ast.Attribute) else isinstance(e.ctx, ast.Store)


def _assigned(tree: ast.AST, outside: bool = True) -> Iterator[tuple[str, ast.expr, bool]]:
    """(name, value, whether it is assigned when the module is loaded)"""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), node.value, outside
        yield from _assigned(node, outside and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)))


def _is_kept(value: ast.expr, outside: bool) -> bool:
    """Whether a value is an empty container that outlives a call."""
    if isinstance(value, ast.Call):
        name = _called(value)
        lasting = name.startswith("Weak") or name == "OrderedDict"
        return lasting or (outside and name in CONTAINERS and not value.args)
    empty = isinstance(value, ast.Dict) and not value.keys
    return outside and (empty or (isinstance(value, (ast.List, ast.Set)) and not value.elts))
