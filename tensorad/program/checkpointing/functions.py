"""Checkpoints: functions of whose inside little is stored for derivatives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import captures, ops_between
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.arrays.elementwise import copied_from
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.expr import LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.source import source_line
from tensorad.ir.tensor import (
    Block,
    Constant,
    Control,
    Loop,
    Op,
    Placeholder,
    Saved,
    Tensor,
    births,
    dim_expr,
    outputs,
    saved,
)
from tensorad.program.calls import check_callable, operand
from tensorad.program.data.function_types import written_inside
from tensorad.program.leaf_types import with_values
from tensorad.program.references.frames import check_kept, frame
from tensorad.program.references.joins import left_by
from tensorad.program.references.leaving import give_out
from tensorad.program.trees import flatten, is_leaf, unflatten
from tensorad.program.values import as_tensor
from tensorad.te import compute

Function = Callable[..., Any]
Policy = str | Collection[str] | Callable[[Tensor], bool]
"""What is stored: "nothing", "all", tensors of these names, or those that the function tells."""


def checkpoint(f: Function | None = None, *, policy: Policy = "nothing") -> Function:
    """The function, with values inside that reverse mode computes again; also a decorator.

    Its arguments are stored, what it reads from outside, and what the policy tells; all else that
    derivatives need of its inside is computed a second time where they are computed: the same
    formulas, with the same bits. Values and forward mode are those of `f`.

    Args:
        f: a function of trees that returns a tree.
        policy: "nothing", "all" (as if `f` were called), names of tensors inside (see `keep`), or
            a function of a tensor that tells whether it is stored.
    Raises:
        DefinitionError: there is no such policy, nothing inside has a name that is to be kept,
            or an argument is no tree.
    """
    if f is None:
        return lambda g: checkpoint(g, policy=policy)
    check_callable(f, "what checkpoint is given")
    stored = _policy(policy)
    name = getattr(f, "__name__", type(f).__name__)

    @wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        if policy == "all":
            return f(*args, **options)
        return _call(f, "f" if name == "<lambda>" else name, stored, args, options)

    return call


def keep(x: Any, name: str) -> Tensor:
    """x under a name that policies of `checkpoint` may tell.

    Args:
        x: a tensor, an array or a number.
    Raises:
        DefinitionError: x is a tree of more, or the name is none.
    """
    if not isinstance(name, str) or not name:
        raise DefinitionError(
            f"the name of what is kept must be a string, got {name!r}.",
            hint='write ta.keep(x, "hidden").',
        )
    if not is_leaf(x):
        raise DefinitionError(
            f"keep is given a {type(x).__name__}.", hint="keep each of its tensors under a name."
        )
    t = as_tensor(x, name)
    made: Tensor = compute(t.shape, lambda *at: t(*at), name=name)
    return made


def checkpoint_sequential(fs: Sequence[Function], segments: int, *, last: bool = False) -> Function:
    """The functions one after the other, in segments of which the arguments alone are stored.

    Args:
        fs: the first takes what the result is called with, each other what the one before returns.
        segments: how many; their lengths differ by 1 at most, longer ones first.
        last: whether the last segment is a checkpoint, too: its reverse comes first, so that what
            it computes again would not have been stored for long.
    Raises:
        DefinitionError: there are fewer functions than segments.
    """
    if not isinstance(fs, (list, tuple)) or not fs:
        shown = "an empty one" if fs in ([], ()) else f"a {type(fs).__name__}"
        raise DefinitionError(
            f"checkpoint_sequential takes a list of functions, got {shown}.",
            hint="pass the functions in the order in which they are called.",
        )
    for n, f in enumerate(fs):
        check_callable(f, f"fs[{n}] of checkpoint_sequential")
    if type(segments) is not int or not 1 <= segments <= len(fs):
        raise DefinitionError(
            f"checkpoint_sequential of {len(fs)} functions cannot have {segments!r} segments.",
            hint=f"pass a number from 1 to {len(fs)}.",
        )
    short, more = divmod(len(fs), segments)
    ends = [n * short + min(n, more) for n in range(segments + 1)]
    parts = [_chain(fs[a:b]) for a, b in pairwise(ends)]
    inner = parts if last else parts[:-1]
    return _chain([*map(checkpoint, inner), *parts[len(inner) :]])


def _chain(fs: Sequence[Function]) -> Function:
    def segment(*args: Any) -> Any:
        first, *others = fs
        x = first(*args)
        for f in others:
            x = f(x)
        return x

    return segment


@dataclass(frozen=True)
class _Stored:
    """Which tensors are stored: those of some names, or those that a function tells."""

    names: tuple[str, ...] = ()
    told: Callable[[Tensor], bool] | None = None

    def __call__(self, t: Tensor) -> bool:
        return t.name in self.names if self.told is None else bool(self.told(t))


def _policy(policy: Policy) -> _Stored:
    if isinstance(policy, str) and policy in ("nothing", "all"):
        return _Stored()
    if isinstance(policy, (list, tuple, set, frozenset)):
        if all(isinstance(n, str) for n in policy):
            return _Stored(tuple(policy))
    elif callable(policy):
        return _Stored(told=policy)
    raise DefinitionError(
        f"there is no policy {policy!r} of a checkpoint.",
        hint='pass "nothing", "all", a list of names that ta.keep gives, or a function of a '
        "tensor.",
    )


def _call(
    f: Function, name: str, stored: _Stored, args: Sequence[Any], options: dict[str, Any]
) -> Any:
    where = f"checkpoint of {name} at {source_line()}"
    given = [operand(a, f"argument {n} of {where}") for n, a in enumerate(args)]
    named = {key: operand(a, f"{key} of {where}") for key, a in options.items()}
    return recomputed(lambda: f(*given, **named), name, where, stored)


def recomputed(
    f: Function, name: str, where: str, stored: _Stored | None = None,
    params: Sequence[Tensor] = (), is_inside: Callable[[Op], bool] = lambda op: True,
) -> Any:  # fmt: skip
    """The result of a function of nothing, whose inside is computed again in reverse mode.

    Args:
        params, is_inside: what rests on none of both is computed outside, and stored.
    """
    start = births()
    with tracing(), written_inside(), frame(where) as own:
        flat = with_values(flatten(f(), name), name)
    given = give_out({name: flat.structure}, {name: own}, name)
    check_kept([(flat.structure, name)], "result", where)
    with written_inside(since=start):
        left = left_by(name, own, where, given)
    leaves = [*flat.leaves, *left.leaves[name]]
    paths = [*flat.paths, *[s.path for s in left.slots]]
    results = [as_tensor(v, p) for v, p in zip(leaves, paths, strict=True)]
    if not results:
        return unflatten(flat.structure, ())
    read = [*params, *captures(results, params, is_inside, since=start)]
    kept = [] if stored is None else _kept(results, read, stored, where)
    block = Block(tuple(read), (*results, *kept))
    names = (*paths, *[t.name for t in kept])
    op = Checkpoint(names, tuple(read), (block,), function=name, keeps=len(kept))
    made = outputs(op)[: len(results)]
    left.store(made[len(flat.leaves) :])
    return unflatten(flat.structure, made[: len(flat.leaves)])


def _kept(
    results: Sequence[Tensor], read: Sequence[Tensor], stored: _Stored, where: str
) -> list[Tensor]:
    """What is stored of the inside, for reverse mode."""
    if stored == _Stored():
        return []
    inside: list[tuple[Tensor, _Place | None]] = []
    _enter(inside, results, read, None)
    named = dict.fromkeys([t.name for t, _ in inside])
    missing = [n for n in stored.names if n not in named]
    if missing:
        known = ", ".join(sorted(named)) or "nothing"
        raise DefinitionError(
            f"nothing in the {where} is called {missing[0]}.",
            where=f"computed there: {known}",
            hint=f'name what is to be stored: ta.keep(x, "{missing[0]}").',
        )
    found = [_origin(s) for t, place in inside if stored(t) for s in _seen(t, place)]
    params = dict.fromkeys(read)
    return [t for t in dict.fromkeys(found) if t not in params and _has_shape(t)]


@dataclass(frozen=True, eq=False)
class _Place:
    """A block of an operation, which stands at a place itself."""

    control: Control
    block: int
    around: _Place | None


def _enter(
    found: list[tuple[Tensor, _Place | None]],
    results: Sequence[Tensor],
    given: Sequence[Tensor],
    place: _Place | None,
) -> None:
    """Add the tensors that are computed, in blocks, too, each with its place."""
    for op in ops_between(results, dict.fromkeys(given)):
        if isinstance(op, (Saved, Placeholder, Constant)):
            continue
        if isinstance(op, Control):
            for n, b in enumerate(op.blocks[:1] if isinstance(op, Loop) else op.blocks):
                _enter(found, b.results, b.params, _Place(op, n, place))
        found += [(t, place) for t in outputs(op)]


def _seen(t: Tensor, place: _Place | None) -> list[Tensor]:
    """What a tensor is outside of all blocks; a reversed block reads it or what it copies."""
    seen = [t]
    while place is not None:
        both = dict.fromkeys([s for v in seen for s in (v, _origin(v))])
        seen = [saved(place.control, s, place.block) for s in both]
        place = place.around
    return seen


def _origin(t: Tensor) -> Tensor:
    """What a tensor is a copy of: derivatives read that one."""
    while (source := copied_from(t)) is not None:
        t = source
    return t


def _has_shape(t: Tensor) -> bool:
    """Whether the tensor's shape is known outside of loops."""
    return not any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape)))
