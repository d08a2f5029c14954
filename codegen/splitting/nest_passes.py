"""What is done to the nest of a compute before it is planned: a list of passes over its pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tensorad.codegen.loops.forms import alone, loops_differ
from tensorad.codegen.loops.printer import format_kernel
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.nest.argreduce import start_selections
from tensorad.codegen.nest.ir import Nest, share_loops, simplify_nest
from tensorad.codegen.nest.serial_loops import serial_kernel
from tensorad.codegen.splitting.constant_tables import write_tables
from tensorad.codegen.splitting.index_sets import (
    has_switches,
    is_small,
    split_conditions,
    split_divisions,
    split_phases,
)
from tensorad.codegen.splitting.quotient_borders import cut_quotients
from tensorad.passes import Form, Pass, run_passes


@dataclass(frozen=True, eq=False)
class Pieces:
    """A nest, and the nests that store its elements in its place.

    Attributes:
        whole: the nest, simplified.
        parts: in order; none where an output axis is empty.
        switched: whether something switches along an axis, and axes may be cut there.
    """

    whole: Nest
    parts: tuple[Nest, ...]
    switched: bool = True


NestPass = Pass[bool, Pieces]
"""Told whether axes may be cut."""


def pieces_of(nest: Nest, may_cut: bool = True) -> tuple[Nest, ...]:
    """The nest after all passes; nothing where an output axis is empty."""
    return run_nest_passes(NEST_PASSES, Pieces(nest, (nest,)), may_cut).parts


def run_nest_passes(passes: tuple[NestPass, ...], pieces: Pieces, may_cut: bool = True) -> Pieces:
    """The pieces after some passes."""
    return run_passes(passes, may_cut, pieces, NEST)


def _simplified(may_cut: bool, pieces: Pieces) -> Pieces:
    simple = simplify_nest(pieces.whole)
    if simple is None:
        return replace(pieces, parts=())
    return Pieces(simple, (simple,), may_cut and has_switches(simple))


def _cut(split: Callable[[Nest, Nest], list[Nest]]) -> Callable[[bool, Pieces], Pieces]:
    """A split, told the whole, of every piece that is worth it."""

    def run(may_cut: bool, pieces: Pieces) -> Pieces:
        if not pieces.switched:
            return pieces
        whole = pieces.whole
        made = [[q] if is_small(q, whole) else split(q, whole) for q in pieces.parts]
        return _with_parts(pieces, tuple([part for found in made for part in found]))

    return run


def _cut_alone(split: Callable[[Nest], list[Nest]]) -> Callable[[bool, Pieces], Pieces]:
    return _cut(lambda piece, whole: split(piece))


def _each(change: Callable[[Nest], Nest]) -> Callable[[bool, Pieces], Pieces]:
    def run(may_cut: bool, pieces: Pieces) -> Pieces:
        return _with_parts(pieces, tuple([change(q) for q in pieces.parts]))

    return run


def _phases(may_cut: bool, pieces: Pieces) -> Pieces:
    return _with_parts(pieces, tuple([p for q in pieces.parts for p in split_phases(q)]))


def _with_parts(pieces: Pieces, parts: tuple[Nest, ...]) -> Pieces:
    same = len(parts) == len(pieces.parts)
    if same and all(a is b for a, b in zip(parts, pieces.parts, strict=True)):
        return pieces
    return replace(pieces, parts=parts)


SIMPLIFY: Final[NestPass] = Pass(
    "simplify_nest", _simplified, "first: cuts take simplified nests", required=True
)
SPLIT_DIVISIONS: Final[NestPass] = Pass(
    "split_divisions",
    _cut_alone(split_divisions),
    "before conditions: a quotient hides where they switch",
)
SPLIT_READ_DIVISIONS: Final[NestPass] = Pass(
    "split_read_divisions",
    _cut_alone(partial(split_divisions, bounds=False)),
    "before divisions in bounds: those may be of a window that is one contraction as it stands",
)
SPLIT_PHASES: Final[NestPass] = Pass(
    "split_phases", _phases, "after divisions, which leave the phases of strides as axes"
)
SPLIT_CONDITIONS: Final[NestPass] = Pass(
    "split_conditions", _cut(split_conditions), "after divisions; it makes the most pieces"
)
NEST_PASSES: Final[tuple[NestPass, ...]] = (
    SIMPLIFY,
    Pass("write_tables", _cut_alone(write_tables), "before all cuts: they see numbers then"),
    Pass("cut_quotients", _cut_alone(cut_quotients), "next: an axis that is split stays split"),
    SPLIT_DIVISIONS,
    SPLIT_CONDITIONS,
    Pass("share_loops", _each(share_loops), "after cuts, which make bounds of folds equal"),
    Pass("start_selections", _each(start_selections), "last: it takes whole reduce axes"),
)


def _show(may_cut: bool, pieces: Pieces) -> str:
    return format_kernel(serial_kernel(pieces.parts)) if pieces.parts else "nothing"


def _verify(may_cut: bool, pieces: Pieces) -> None:
    if pieces.parts:
        verify_loops(alone(serial_kernel(pieces.parts)))


def _compare(may_cut: bool, before: Pieces, after: Pieces) -> str:
    if not after.parts or not before.parts:
        return "" if len(after.parts) == len(before.parts) else _emptied(before)
    want, have = alone(serial_kernel(before.parts)), alone(serial_kernel(after.parts))
    return loops_differ(want, have)


def _emptied(before: Pieces) -> str:
    empty = any(a.extent == 0 for a in before.whole.axes)
    return "" if empty else "nothing is stored"


NEST: Final[Form[bool, Pieces]] = Form(_show, _verify, _compare)
