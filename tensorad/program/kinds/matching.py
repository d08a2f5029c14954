"""Taking values of data types apart, by alternatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tensorad.errors import DefinitionError, DTypeError, counted
from tensorad.ir.records import RecordType, fields_of, tag_of
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Tensor
from tensorad.program.branches import branched
from tensorad.program.calls import check_takes
from tensorad.program.data.function_types import data_of
from tensorad.program.data.instances import Instance
from tensorad.program.kinds.choosing import each_known
from tensorad.program.kinds.variants import Alternative, DataType, data_type
from tensorad.program.sides import leaf_text
from tensorad.program.trees import is_leaf

Arm = Callable[..., Any]


def match(value: object, *arms: Arm | Mapping[Any, Arm]) -> Any:
    """The result of the function for the alternative that a value of a data type is.

    Args:
        value: an alternative, or what stands for one in a program.
        arms: a dict with a function for each alternative, by its class or its name; or the
            functions in the order of the alternatives. Each is called with the fields. As with
            `ta.cond`, those of a program return trees of one structure, shapes and dtypes.
    Returns:
        what the function returns.
    Raises:
        DefinitionError: an alternative has no function or two; the structures of results differ.
        ShapeError, DTypeError: their shapes or dtypes do; `value` is of no data type.
    """
    where = f"match at {source_line()}"
    record_type = _record_type(value, where)
    own = data_type(record_type)
    functions = _by_alternative(own, arms, where)
    for a, f in zip(own.resolved(), functions, strict=True):
        check_takes(f, f"{a.name} of {where}", list(a.trees))
    if isinstance(value, Tensor) and data_of(value) is not None:
        return each_known(value, where, partial(_of_known, functions))
    if isinstance(value, Instance):
        return _of_known(functions, value)
    assert isinstance(value, Tensor), "there are no other values"
    pairs = zip(own.alternatives, functions, strict=True)
    sides = {a.name: partial(_arm, value, n, a, f) for n, (a, f) in enumerate(pairs)}
    return branched("match", where, tag_of(value), sides, (), order=tuple(sides))


def _of_known(functions: Sequence[Arm], value: Instance) -> Any:
    """What the function does for a value whose alternative is known."""
    return functions[value.tag](*[getattr(value, n) for n in value.field_names])


def _arm(value: Tensor, n: int, a: Alternative, function: Arm) -> Any:
    return function(*a.grouped(fields_of(value, n)))


def _record_type(value: object, where: str) -> RecordType:
    if isinstance(value, Instance):
        return value.record_type
    if (chosen := data_of(value)) is not None:
        return chosen
    if isinstance(value, Tensor) and isinstance(value.dtype, RecordType):
        return value.dtype
    shown = leaf_text(value) if is_leaf(value) else f"a {type(value).__name__}"
    raise DTypeError(
        f"the value of {where} is of no data type: {shown}.",
        hint="ta.match takes what an alternative of a ta.variant makes; ta.cond and ta.switch "
        "choose by conditions and numbers.",
    )


def _stands_for(key: object, a: Alternative) -> bool:
    """Whether a key of the functions names an alternative; classes also stand for those of
    gradients."""
    return key == a.name or (isinstance(key, type) and key in a.kind.__mro__[:2])


def _by_alternative(
    own: DataType, arms: Sequence[Arm | Mapping[Any, Arm]], where: str
) -> list[Arm]:
    """The functions in the order of the alternatives."""
    every = own.resolved()
    names = ", ".join([a.name for a in every])
    if len(arms) != 1 or not isinstance(arms[0], Mapping):
        if len(arms) != len(every):
            raise DefinitionError(
                f"{where} has {counted(len(arms), 'function')}, but {own.name} has "
                f"{counted(len(every), 'alternative')}.",
                where=f"{own.name} is {names}",
                hint="pass a function for each, in this order, or a dict by alternative.",
            )
        return list(arms)  # type: ignore[arg-type]  # what is no function is refused later
    found: dict[int, Arm] = {}
    for key, function in arms[0].items():
        at = [n for n, a in enumerate(every) if _stands_for(key, a)]
        if not at:
            raise DefinitionError(
                f"{where} has a function for {getattr(key, '__name__', repr(key))}, which is no "
                f"alternative of {own.name}.",
                where=f"{own.name} is {names}",
                hint="name the alternatives by their classes.",
            )
        if at[0] in found:
            raise DefinitionError(
                f"{where} has two functions for {every[at[0]].name}.",
                where=f"{own.name} is {names}",
                hint="leave one of them out.",
            )
        found[at[0]] = function
    missing = [a.name for n, a in enumerate(every) if n not in found]
    if missing:
        raise DefinitionError(
            f"{where} has no function for {', '.join(missing)}.",
            where=f"{own.name} is {names}",
            hint="a value may be any alternative: add one for each.",
        )
    return [found[n] for n in range(len(every))]
