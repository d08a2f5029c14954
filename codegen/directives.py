"""What a schedule may decide, and what a user or a test decides in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Final, Literal

from tensorad.errors import BuildError
from tensorad.ir.expr import Axis

MOST_ROWS: Final = 32
MOST_VECTORS: Final = 8


@cache
def switches() -> tuple[str, ...]:
    """The decisions that are True, False or open."""
    return tuple([f.name for f in fields(Choices) if str(f.type).split(" | ")[0] == "bool"])


@dataclass(frozen=True)
class Choices:
    """Decisions about the loops of one tensor; None leaves a decision to the analysis.

    The public name is `Schedule`. Results never become wrong by a choice; those that decide in
    which order a float sum is added say so, and then its last bits may differ.
    """

    vector: str | Literal[False] | None = None
    """The vectorised axis, by name; False: none. A vectorised reduce axis reorders its fold."""
    tile: tuple[int, int] | None = None
    """(rows, vectors): copies of the loop body side by side, and registers of lanes in each.
    Where an axis is shorter, or a contraction's sums need more registers than there are, the tile
    is smaller. Several vectors of a reduce axis reorder it."""
    order: tuple[str, ...] | None = None
    """Output axes that become the outer loops, outermost first; the others follow."""
    split: bool | None = None
    """Whether loops are cut where conditions and divisions switch. It may reorder folds."""
    unroll: bool | None = None
    """Whether short reduce axes are written out. It may reorder folds."""
    parallel: bool | None = None
    """Whether the outermost loop runs on several threads."""
    contract: bool | None = None
    """Whether sums of products run as contractions: operands packed, register tiles of `tile`
    rows and vectors. It may reorder sums. Where `vector`, `order`, `split` or `unroll` is given,
    only True makes them contractions."""
    pack: Literal["place", "panel", "relayout", "gaps"] | None = None
    """Where a contraction's vectors come from, if it can be: the operand itself, panels that are
    packed, a copy of the tensor, the operand with what is between its rows."""
    block: int | None = None
    """Steps of the reduce axes that a contraction takes before it goes on to the next tile."""
    fuse: bool | None = None
    """Whether it shares a loop over rows with the tensors it reads or that read it: False never,
    True wherever their indices allow it, if they say so too. No sum is reordered."""

    blocks: bool | None = None
    """Whether long sums are added in blocks, False: not. It reorders them."""
    rows: bool | None = None
    """Whether sums of rows stay in memory while their rows are read as they lie."""
    siblings: bool | None = None
    """Whether it shares a loop with tensors over the same points, False: not. It may reorder
    folds."""
    terms: bool | None = None
    """Whether costly terms that its sums have in common with others' are computed once, False: not.
    It may reorder sums."""
    together: bool | None = None
    """Whether its pieces share loops where they fold over nearly the same points. It may reorder
    sums."""
    borders: bool | None = None
    """Whether thin borders run inside the loops of the piece they surround; by itself where those
    read more than a cache holds."""
    flat: bool | None = None
    """Whether elementwise loops over contiguous axes become one; by itself where rows are short."""
    across: bool | None = None
    """Whether rows that are read across those that are stored are taken in blocks, transposed in
    registers; False: not, True: in narrow strips of rows."""
    passes: bool | None = None
    """Whether passes over a row that follow each other run as one where the second reads what
    the first stores at the same place, False: not. No sum is reordered."""
    streaming: bool | None = None
    """Whether stores pass the caches; by itself where the output is larger than the last one."""

    def __post_init__(self) -> None:
        if self.vector is not None and self.vector is not False:
            _check_name("vector", self.vector)
        if self.order is not None:
            given: object = self.order
            if not isinstance(given, (tuple, list)):
                raise _wrong("order", given, 'name axes in a tuple: order=("i", "j").')
            for name in self.order:
                _check_name("order", name)
            if len(dict.fromkeys(self.order)) < len(self.order):
                raise _wrong("order", given, "name each axis once.")
            object.__setattr__(self, "order", tuple(self.order))
        if self.tile is not None:
            _check_tile(self.tile)
            object.__setattr__(self, "tile", tuple(self.tile))
        if self.pack not in (None, "place", "panel", "relayout", "gaps"):
            raise _wrong("pack", self.pack, 'pass "place", "panel", "relayout" or "gaps".')
        if self.block is not None and (type(self.block) is not int or self.block < 1):
            raise _wrong("block", self.block, "pass a number of steps, 1 or more.")
        for name in switches():
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise _wrong(name, value, "pass True, False, or None to leave it open.")

    def axes(self) -> tuple[str, ...]:
        """The axes that are named."""
        named = () if not isinstance(self.vector, str) else (self.vector,)
        return (*named, *(self.order or ()))

    def made(self) -> dict[str, object]:
        """The decisions that are not left open, by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self.made().items()]
        return f"Schedule({', '.join(parts)})"


REORDERING: Final = (
    "vector",
    "split",
    "unroll",
    "contract",
    "blocks",
    "siblings",
    "terms",
    "together",
)
"""Decisions that may change in which order sums are added: measurements never try them.

A tile may as well, where a reduce axis is vectorised. Measurements try tiles, and keep none
with which a bit of a result is another.
"""
Schedule = Choices
"""The public name: what users write."""
OPEN: Final = Choices()
"""Everything is left to the analysis."""
Given = Choices | Mapping[str, Choices] | None
"""What a user passes: choices for all tensors, or for some by their names."""


@dataclass(frozen=True)
class Schedules:
    """The choices of a program."""

    everywhere: Choices = OPEN
    named: Mapping[str, Choices] = field(default_factory=dict)

    def of(self, *names: str) -> Choices:
        """The choices for the first of the names that has some of its own."""
        return next((self.named[n] for n in names if n in self.named), self.everywhere)

    def check(self, axes: Mapping[str, Iterable[str]], own: Mapping[str, Iterable[str]]) -> None:
        """Refuse names that are not in the program, and an order of axes that are no output's.

        Args:
            axes: the tensors that have loops, each with the names of its axes.
            own: the same without axes that are folded over.
        Raises:
            BuildError: a tensor or an axis does not exist, or cannot be ordered.
        """
        for name in self.named:
            if name not in axes:
                raise BuildError(
                    f"the schedule names the tensor {name!r}, which no loop computes.",
                    where=f"schedule={{{name!r}: {self.named[name]}}}",
                    hint=f"tensors with loops are {_listed(axes)}.",
                )
            _check_axes(self.named[name], axes[name], own[name], f"of {name} ")
        every, outer = [[a for found in kind.values() for a in found] for kind in (axes, own)]
        _check_axes(self.everywhere, every, outer, "")


def schedules(given: Given | Schedules) -> Schedules:
    """What a user passed, in one form.

    Raises:
        BuildError: it is neither a Schedule nor a mapping from names to Schedules.
    """
    if given is None:
        return Schedules()
    if isinstance(given, Schedules):
        return given
    if isinstance(given, Choices):
        return Schedules(given)
    if not isinstance(given, Mapping):
        raise _not_a_schedule(given)
    for name, choices in given.items():
        if not isinstance(name, str) or not isinstance(choices, Choices):
            raise _not_a_schedule(given)
    return Schedules(OPEN, dict(given))


def is_part(a: Axis, name: str | bool | None) -> bool:
    """Whether an axis of a piece is the one of this name, or walks inside its blocks."""
    return isinstance(name, str) and a.name in (name, f"{name}i")


def preferred(
    candidates: list[tuple[int, Axis]], name: str | bool | None
) -> list[tuple[int, Axis]]:
    """The numbered candidates that are the named axis, or all of them."""
    return [c for c in candidates if is_part(c[1], name)] or candidates


def may_vectorise(choices: Choices, a: Axis) -> bool:
    """Whether the axis may be vectorised as far as the choices go."""
    return choices.vector is None or is_part(a, choices.vector)


def reordered(
    order: Sequence[Axis], vector: Axis | None, names: Sequence[str] | None
) -> tuple[Axis, ...]:
    """The named axes outermost; the vectorised axis stays where it is."""
    others = [a for a in order if a is not vector]
    first = [a for n in names or () for a in others if is_part(a, n) or a.name == f"{n}o"]
    moved = list(dict.fromkeys([*first, *others]))
    if vector is not None and len(others) < len(order):
        place = next(n for n, a in enumerate(order) if a is vector)
        moved.insert(place, vector)
    return tuple(moved)


def _check_axes(choices: Choices, axes: Iterable[str], own: Iterable[str], whose: str) -> None:
    known, movable = dict.fromkeys(axes), dict.fromkeys(own)
    for name in choices.axes():
        if name not in known:
            raise BuildError(
                f"the schedule {whose}names the axis {name!r}, which no loop has.",
                where=repr(choices),
                hint=f"its axes are {_listed(known)}." if known else "it has no axes.",
            )
    for name in choices.order or ():
        if name not in movable:
            raise BuildError(
                f"the schedule {whose}orders the axis {name!r}, which is folded over.",
                where=repr(choices),
                hint=f"the axes that can be ordered are {_listed(movable) or 'none'}.",
            )


def _check_name(what: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise _wrong(what, value, "pass the name of an axis.")


def _check_tile(value: object) -> None:
    hint = f"pass (rows, vectors), at most ({MOST_ROWS}, {MOST_VECTORS}): tile=(4, 2)."
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise _wrong("tile", value, hint)
    for number, most in zip(value, (MOST_ROWS, MOST_VECTORS), strict=True):
        if type(number) is not int or not 1 <= number <= most:
            raise _wrong("tile", value, hint)


def _wrong(what: str, value: object, hint: str) -> BuildError:
    return BuildError(f"{value!r} is no {what} of a schedule.", where="Schedule", hint=hint)


def _not_a_schedule(value: object) -> BuildError:
    return BuildError(
        f"{value!r} is not a schedule.",
        where="schedule=",
        hint='pass ta.Schedule(...), or a dictionary such as {"Y": ta.Schedule(...)}.',
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
