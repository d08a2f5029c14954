"""Random trees around values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.random.programs.written import Pair

Form = Any
"""A tree of numbers of leaves."""


def random_form(rng: random.Random, count: int) -> Form:
    """A tree of the leaves 0, 1, ... in order: dicts, lists, tuples, named tuples and None."""
    return _form(rng, list(range(count)))


def _form(rng: random.Random, leaves: Sequence[int]) -> Form:
    if len(leaves) == 1 and rng.random() < 0.8:
        return leaves[0]
    if not leaves:
        return None if rng.random() < 0.5 else ()
    cut = rng.randint(1, len(leaves))
    parts = [_form(rng, leaves[:cut])]
    if leaves[cut:]:
        parts.append(_form(rng, leaves[cut:]))
    kind = rng.choice(("tuple", "list", "dict", "pair"))
    if kind == "dict":
        return dict(zip(("a", "b"), parts, strict=False))
    if kind == "pair":
        return Pair(*parts, *[None] * (2 - len(parts)))
    return tuple(parts) if kind == "tuple" else parts


def packed(form: Form, values: Sequence[Any]) -> Any:
    """The tree with values in place of numbers."""
    if isinstance(form, int):
        return values[form]
    if isinstance(form, dict):
        return {k: packed(f, values) for k, f in form.items()}
    if isinstance(form, Pair):
        return Pair(*[packed(f, values) for f in form])
    if form is None:
        return None
    return type(form)([packed(f, values) for f in form])


def unpacked(form: Form, tree: Any) -> list[Any]:
    """The leaves in order."""
    if isinstance(form, int):
        return [tree]
    if form is None:
        assert tree is None
        return []
    assert type(tree) is type(form)
    if isinstance(form, dict):
        return [leaf for k, f in form.items() for leaf in unpacked(f, tree[k])]
    return [leaf for f, t in zip(form, tree, strict=True) for leaf in unpacked(f, t)]
