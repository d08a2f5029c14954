"""What is said of functions that call themselves without end, without sizes, or with results of
several types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from os.path import basename
from types import CodeType
from typing import Final

from tensorad.errors import (
    DefinitionError,
    DTypeError,
    InternalError,
    LimitError,
    NoValueError,
    ShapeError,
    UserError,
)
from tensorad.ir.source import is_own
from tensorad.program.calling.arguments import Arguments, extents
from tensorad.program.data.function_types import FunctionsType
from tensorad.program.leaf_types import LeafTypes
from tensorad.program.references.frames import Cell
from tensorad.program.sides import first_difference, side_by_side
from tensorad.program.trees import Branching, Flat, statics

MOST_OPEN: Final = 500
"""A function that is called for other and other kinds of arguments is nested no deeper."""
_MOST_COMPOSED: Final = 8
"""A function that is given other functions of the same code each time is nested no deeper."""
_LARGE: Final = 1 << 40
"""No array has this extent."""


def check_nesting(own: Sequence[Arguments], name: str, given: Arguments) -> None:
    """A function is not called for ever other arguments.

    Args:
        own: those of its calls that are being written down, the outermost first.
    Raises:
        LimitError: it is nested too deep in itself.
    """
    is_large = any(isinstance(n, int) and n > _LARGE for s in extents(given.leaves) for n in s)
    kind = _by_code(given)
    ranks = _ranks(given)
    composed = [f for f in own if _ranks(f) == ranks and _by_code(f) == kind]
    if len(own) < MOST_OPEN and len(composed) < _MOST_COMPOSED and not (own and is_large):
        return
    before, now = _signature(own[-1]), _signature(given)
    raise LimitError(
        f"{name} calls itself {len(own)} times, each time with arguments of another kind.",
        where=side_by_side(("a call", "the call inside"), before, now, ""),
        hint="a call of the same kind stays a call: let shapes, dtypes and static arguments be "
        "the same in each (functions are, given as ta.fn(f)); a count that is static ends the "
        "calls by a Python if.",
    )


def _ranks(given: Arguments) -> list[int]:
    return [len(s) for s in extents(given.leaves)]


def _by_code(given: Arguments) -> object:
    """What tells arguments apart, functions by their code alone."""
    shapes = [[n if isinstance(n, int) else id(n) for n in s] for s in extents(given.leaves)]
    found: list[object] = [shapes]
    for name, structure in given.structures:
        for path, value in statics(structure, name):
            found.append((path, getattr(value, "__code__", value)))
    return found


def not_resized(error: Exception, refused: Exception) -> Exception:
    """What to say where a function can neither have sizes for extents that differ from call to
    call nor be written down for each shape."""
    needs_numbers = isinstance(refused, NoValueError) or not isinstance(refused, UserError)
    if not needs_numbers:
        return refused
    if not isinstance(error, LimitError):
        return error
    text, why = str(error).partition("\n  hint: ")[0], str(refused).splitlines()[0]
    return LimitError(
        text,
        hint="extents that differ are sizes of one function if ta.cond asks for them, and no "
        f"Python if, but here: {why}",
    )


def endless(name: str, error: RecursionError) -> DefinitionError:
    """What to say of a Python function that calls itself without end."""
    codes: list[CodeType] = []
    at = error.__traceback__
    while at is not None:
        codes.append(at.tb_frame.f_code)
        at = at.tb_next
    users = Counter([c for c in codes if not is_own(c.co_filename)])
    code = users.most_common(1)[0][0]
    return DefinitionError(
        f"{name} calls functions without end while it is written down.",
        where=f"{code.co_name} at {basename(code.co_filename)}:{code.co_firstlineno}",
        hint="a Python function that calls itself under a branch of ta.cond is written down again "
        "in each call: decorate it with @ta.function, so that its calls stay calls.",
    )


def made_anew(name: str, given: Arguments, cell: Cell) -> DefinitionError:
    """What to say of a function that makes a reference for each call of itself."""
    return DefinitionError(
        f"{name} calls itself, and gives each call {cell.described}, which the call around makes "
        "anew.",
        where=f"{name}({', '.join([parameter for parameter, _ in given.structures])})",
        hint=f"let the calls use one reference, made outside of {name}; or give them what "
        f"{cell.name} holds, and let them return what it is to hold.",
    )


def too_many(name: str, count: int, cells: Sequence[Cell]) -> LimitError:
    """What to say of a function that is given references in too many ways."""
    shown = ", ".join(dict.fromkeys([c.described for c in cells]))
    return LimitError(
        f"{name} calls itself with other and other references among its arguments: it is written "
        f"down for each way to give them, {count:,} times so far.",
        where=shown,
        hint="let calls inside be given the same references at the same places; or let the "
        "function use those around it, and give it a number that tells which is meant.",
    )


def _signature(given: Arguments) -> Flat:
    names = tuple([name for name, _ in given.structures])
    children = tuple([s for _, s in given.structures])
    return Flat(given.leaves, given.paths, Branching(dict, names, names, children))


def without_type(name: str, paths: Sequence[str]) -> DefinitionError:
    """What is wrong with a function none of whose results is known before it calls itself."""
    return DefinitionError(
        f"{name} calls itself before it is known what it returns.",
        where=f"{name}({', '.join(paths)})",
        hint="let a branch of ta.cond, ta.switch or ta.match return without calling it, or "
        "say what it returns: ta.function(returns=...) takes an example, or a function of the "
        "arguments.",
    )


def check_structure(name: str, own: LeafTypes, result: Flat, is_declared: bool) -> None:
    """A function that calls itself returns the structure that its calls have, or that was declared.

    Raises:
        DefinitionError: another one.
    """
    wanted = _wanted(name, own)
    path = first_difference(wanted, result, name)
    if path is not None:
        raise DefinitionError(
            f"{name} returns another structure than {_source(is_declared)}, first at {path}.",
            where=side_by_side(_titles(is_declared), wanted, result, name),
            hint="return a tree of one structure in each call.",
        )


def check_leaves(name: str, own: LeafTypes, result: Flat, is_declared: bool) -> None:
    """The same, of shapes and dtypes.

    Raises:
        ShapeError, DTypeError: another one.
    """
    for n, value in enumerate(result.leaves):
        if own.same_shape(n, value) and own.takes(n, value):
            continue
        of_shape = not own.same_shape(n, value)
        kind = ShapeError if of_shape else DTypeError
        raise kind(
            f"{name} returns another {'shape' if of_shape else 'dtype'} than "
            f"{_source(is_declared)} at {own.flat.paths[n]}.",
            where=side_by_side(_titles(is_declared), _wanted(name, own), result, name),
            hint="a function that calls itself returns one type: "
            + ("broadcast or reshape." if of_shape else "convert with .astype(dtype)."),
        )


def _wanted(name: str, own: LeafTypes) -> Flat:
    return Flat(list(own.parameters(name)), own.flat.paths, own.flat.structure)


def _source(is_declared: bool) -> str:
    return "was declared" if is_declared else "its calls of itself"


def _titles(is_declared: bool) -> tuple[str, str]:
    return ("declared" if is_declared else "its calls", "returned")


def ever_more_kinds(
    name: str, leaves: Sequence[tuple[str, FunctionsType]]
) -> LimitError | InternalError:
    """What to say where each time that a function is written down finds other functions.

    Args:
        leaves: what its calls are given, and give, that are functions: paths and types.
    """
    if not leaves:
        return InternalError(f"the result of {name} has no type")
    most = max([len(t.chosen) for _, t in leaves])
    return LimitError(
        f"{name} calls itself, and functions that its calls are given, or give, are of more kinds "
        f"each time that it is written down, {most} so far.",
        where=", ".join(dict.fromkeys([path for path, t in leaves if len(t.chosen) == most])),
        hint="let a function, or a value with functions in it, have the one of the call around in "
        "it as it is given, not as parts of parts of it; and let numbers that differ be tensors.",
    )
