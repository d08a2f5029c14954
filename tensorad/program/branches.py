"""Branches: one of several functions runs, chosen by data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.analysis.blocks import captures
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.dtypes import BOOL
from tensorad.ir.reference.known import known
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Block, Branch, Tensor, births, format_shape, outputs
from tensorad.program.calls import check_takes, operand, shape_of
from tensorad.program.data.function_types import is_function, joined, written_inside
from tensorad.program.data.instances import is_value
from tensorad.program.leaf_types import opened
from tensorad.program.recursion import Awaited
from tensorad.program.references.frames import Frame, check_kept, frame
from tensorad.program.references.joins import joined as joined_references
from tensorad.program.references.leaving import give_out
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Flat, flatten, is_leaf, unflatten
from tensorad.program.values import alone, as_tensor, dtype_of, promoted


def cond(
    pred: object, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: object
) -> Any:
    """`true_fn(*operands)` where `pred` is true, otherwise `false_fn(*operands)`; one of them runs.

    Args:
        pred: a 0-d bool: a tensor, a formula without indices, or a number.
        true_fn, false_fn: called once each to write down what they do; they may use tensors from
            outside. Their results are trees of one structure, with equal shapes and dtypes;
            Python numbers take the dtype of the other function's result.
        operands: trees.
    Returns:
        the tree of results, of tensors.
    Raises:
        DefinitionError: the structures of the results differ, or something is no function.
        ShapeError, DTypeError: shapes or dtypes do, or `pred` is no 0-d bool.
    """
    where = f"cond at {source_line()}"
    index = _scalar(pred, where, "condition")
    if index.dtype is not BOOL:
        raise DTypeError(
            f"the condition of {where} has dtype {index.dtype}.",
            hint="a condition is a bool: compare, e.g. x > 0; ta.switch takes an integer.",
        )
    branches = {"true_fn": true_fn, "false_fn": false_fn}
    return branched("cond", where, index, branches, operands, order=("false_fn", "true_fn"))


def switch(index: object, branches: Sequence[Callable[..., Any]], *operands: object) -> Any:
    """`branches[index](*operands)`, the index taken into range; one of them runs.

    Args:
        index: a 0-d integer: a tensor, a formula without indices, or a number.
        branches: see `cond`.
        operands: trees.
    Raises:
        DefinitionError, ShapeError, DTypeError: see `cond`.
    """
    where = f"switch at {source_line()}"
    at = _scalar(index, where, "index")
    if not at.dtype.is_integer:
        raise DTypeError(
            f"the index of {where} has dtype {at.dtype}.",
            hint="pass an integer; ta.cond takes a condition.",
        )
    if not isinstance(branches, (list, tuple)) or not branches:
        raise DefinitionError(
            f"the branches of {where} must be a list of functions, got "
            f"{'an empty one' if branches in ([], ()) else f'a {type(branches).__name__}'}.",
            hint="pass one function for each value of the index, from 0 on.",
        )
    named = {f"branches[{n}]": f for n, f in enumerate(branches)}
    return branched("switch", where, at, named, operands, order=tuple(named))


def _scalar(value: object, where: str, what: str) -> Tensor:
    """The condition or index as a 0-d tensor."""
    if not is_leaf(value):
        raise DefinitionError(
            f"the {what} of {where} is of class {type(value).__name__}.",
            hint="pass a 0-d tensor.",
        )
    made = as_tensor(value, what)
    if made.shape:
        raise ShapeError(
            f"the {what} of {where} has shape {format_shape(made.shape)}.",
            where=f"{made.name} : {made.dtype}",
            hint="one value decides for all: pass a 0-d tensor; ta.select chooses by element.",
        )
    return made


def branched(
    name: str,
    where: str,
    index: Tensor,
    branches: Mapping[str, Callable[..., Any]],
    operands: Sequence[object],
    order: Sequence[str],
) -> Any:
    """The operation of a branch.

    Args:
        name: what results are called; `where` the construct and its line.
        branches: functions by what errors call them; `order` that of the blocks.
    """
    given = [operand(o, f"operand {n} of {where}") for n, o in enumerate(operands)]
    names = [f"operand_{n}" for n in range(len(given))]
    value = known(index)
    if value is not None:
        title = order[min(max(int(value), 0), len(order) - 1)]
        check_takes(branches[title], f"{title} of {where}", names)
        return branches[title](*given)
    for title, function in branches.items():
        check_takes(function, f"{title} of {where}", names)
    since, found, frames = sides(branches, given, name, where)
    found = dict(zip(found, opened(list(found.values()), name), strict=True))
    first, *others = found
    for other in others:
        _check_structures(where, (first, other), found[first], found[other], name)
    with written_inside(since=min(since.values())):
        left = joined_references(frames, where)
        results = _joined(where, found)
    for title, tensors in results.items():
        tensors += [
            as_tensor(v, s.path) for v, s in zip(left.leaves[title], left.slots, strict=True)
        ]
    if len(found) < len(branches):
        return _of_those_known(found)
    made: tuple[Tensor, ...] = ()
    if results[first]:
        paths = [*found[first].paths, *[s.path for s in left.slots]]
        made = outputs(
            _operation(
                index, paths, [results[title] for title in order], [since[title] for title in order]
            )
        )
    own = len(found[first].leaves)
    left.store(made[own:])
    return unflatten(found[first].structure, made[:own])


def _operation(
    index: Tensor, paths: Sequence[str], results: Sequence[Sequence[Tensor]], since: Sequence[int]
) -> Branch:
    """The branch of blocks with these results, each made after a time."""
    read: dict[Tensor, None] = {}
    for tensors, start in zip(results, since, strict=True):
        read.update(dict.fromkeys(captures(tensors, (), lambda op: True, since=start)))
    blocks = tuple([Block(tuple(read), tuple(tensors)) for tensors in results])
    return Branch(tuple(paths), (index, *read), blocks)


def sides(
    branches: Mapping[str, Callable[..., Any]], given: Sequence[object], name: str, where: str
) -> tuple[dict[str, int], dict[str, Flat], dict[str, Frame]]:
    """When each branch began, what it returns, and what it leaves in references; those that await a
    type are left out.

    Raises:
        Awaited: all of them do; of several types the one that is known first, of what is around.
    """
    since: dict[str, int] = {}
    found: dict[str, Flat] = {}
    frames: dict[str, Frame] = {}
    last: Awaited | None = None
    for title, function in branches.items():
        since[title] = births()
        try:
            with tracing(), written_inside(), frame(f"{title} of {where}") as own:
                flat = flatten(function(*given), name)
            found[title], frames[title] = flat, own
        except Awaited as awaited:
            if last is None or awaited.frame.depth < last.frame.depth:
                last = awaited
    if last is not None and not found:
        raise last
    give_out({title: flat.structure for title, flat in found.items()}, frames, name)
    for title, flat in found.items():
        check_kept([(flat.structure, name)], "result", frames[title].owner)
    return since, found, frames


def _of_those_known(found: Mapping[str, Flat]) -> Any:
    """What stands for a result while a branch awaits a type: leaves of the type of the others'."""
    first = next(iter(found.values()))
    columns = zip(*[flat.leaves for flat in found.values()], strict=True)
    leaves = [next((v for v in c if not is_weak(v)), c[0]) for c in columns]
    return unflatten(first.structure, leaves)


def is_weak(value: object) -> bool:
    """Whether a leaf takes the dtype of what it meets."""
    return not is_function(value) and dtype_of(value).is_weak


def _check_structures(
    where: str, titles: tuple[str, str], one: Flat, other: Flat, name: str
) -> None:
    path = first_difference(one, other, name)
    if path is not None:
        raise DefinitionError(
            f"the branches of {where} return different structures: they differ at {path}.",
            where=side_by_side(titles, one, other, name),
            hint="return trees of one structure; where one branch has nothing to say, zeros.",
        )


def _joined(where: str, found: dict[str, Flat]) -> dict[str, list[Tensor]]:
    """The results as tensors, of one shape and dtype per leaf."""
    first, *others = found
    made: dict[str, list[Tensor]] = {title: [] for title in found}
    for n, path in enumerate(found[first].paths):
        leaves = {title: flat.leaves[n] for title, flat in found.items()}
        if all(map(is_function, leaves.values())):
            for title, t in zip(leaves, joined(list(leaves.values()), path), strict=True):
                made[title].append(t)
            continue
        dtype = promoted([dtype_of(v) for v in leaves.values()])
        for other in others:
            pair = (leaves[first], leaves[other])
            if not _same_shape(*pair):
                hint = "broadcast or reshape one of them."
                raise _unlike(ShapeError, "shapes", where, path, (first, other), pair, hint)
            if dtype is None and promoted(map(dtype_of, pair)) is None:
                hint = "convert one with .astype(dtype)."
                if any(map(is_value, pair)):
                    hint = "return values of one data type."
                raise _unlike(DTypeError, "dtypes", where, path, (first, other), pair, hint)
        for title, value in leaves.items():
            made[title].append(as_tensor(value, path, None if dtype is None else alone(dtype)))
    return made


def _unlike(
    kind: type[UserError], what: str, where: str, path: str, titles: tuple[str, str],
    leaves: tuple[object, object], hint: str,
) -> UserError:  # fmt: skip
    shown = [f"{t}: {leaf_text(v)}" for t, v in zip(titles, leaves, strict=True)]
    return kind(
        f"the branches of {where} return different {what} at {path}.",
        where=", ".join(shown),
        hint=hint,
    )


def _same_shape(a: object, b: object) -> bool:
    one, other = shape_of(a), shape_of(b)
    return len(one) == len(other) and all(map(same_dim, one, other))
