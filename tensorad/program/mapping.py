"""A function of the leaves of trees that have one structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.program.calls import check_callable
from tensorad.program.sides import first_difference, side_by_side
from tensorad.program.trees import flatten, unflatten


def tree_map(function: Callable[..., Any], tree: object, *others: object) -> Any:
    """The tree of `function(leaf, ...)`, with one leaf of each tree.

    Args:
        function: what becomes of a leaf, and of those at its place in the other trees; called with
            arrays, numbers or tensors as they are, in the order of `flatten`.
        tree: what `ta.function` takes: dicts, lists, tuples, dataclasses, ...
        others: trees of the same structure.
    Returns:
        a tree of the structure of `tree`; results may be anything.
    Raises:
        DefinitionError: the structures differ, or a part is of a class that is no tree.
    """
    check_callable(function, "the function of tree_map")
    trees = (tree, *others)
    return mapped(function, {f"tree {n}": t for n, t in enumerate(trees, 1)}, "tree_map", "tree")


def mapped(function: Callable[..., Any], trees: Mapping[str, object], owner: str, root: str) -> Any:
    """`tree_map` of trees by their names.

    Args:
        owner: whose arguments they are, for errors.
        root: what paths begin with there.
    """
    flat = {name: flatten(tree, name) for name, tree in trees.items()}
    (name, first), *rest = flat.items()
    for other, found in rest:
        path = first_difference(first, found, root)
        if path is not None:
            raise DefinitionError(
                f"{name} and {other} of {owner} differ in their structure, first at {path}.",
                where=side_by_side((name, other), first, found, root),
                hint="pass trees with the same containers and keys.",
            )
    columns = [found.leaves for found in flat.values()]
    return unflatten(first.structure, [function(*parts) for parts in zip(*columns, strict=True)])
