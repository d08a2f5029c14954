"""Applying functions that data choose: a branch by which function it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tensorad.ir import array_methods
from tensorad.ir.arrays.tracing import is_tracing, standing_in
from tensorad.ir.records import fields_of, tag_of
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Block, FunctionCall, Tensor, outputs
from tensorad.program.branches import branched
from tensorad.program.calls import bound_call, check_callable, signature_of
from tensorad.program.data.function_types import (
    Chosen,
    FunctionsType,
    function_name,
    joined,
)
from tensorad.program.data.instances import Instance, as_chosen
from tensorad.program.functions import Function
from tensorad.program.references.frames import frame
from tensorad.program.references.joins import Joined, left_by
from tensorad.program.traces import traced
from tensorad.program.trees import Fixed, flatten, unflatten
from tensorad.program.values import as_tensor, is_number, parameters


def fn(function: Any) -> Any:
    """A Python function as a value of a program, where an argument must be one.

    Functions that branches return, and those that go round in loops, are such values by
    themselves. An argument of a `ta.function` is part of what is traced, unless it is given so:
    then a call with another function is one of the same kind, as recursion needs.

    Args:
        function: of trees, called with positional arguments; or a value of a data type that holds
            functions, whose alternative data are to choose.
    Returns:
        what is called like it; outside of programs, the function itself.
    Raises:
        DefinitionError: it is no function.
    """
    is_data = isinstance(function, Instance) and function.record_type.holds_functions
    if not is_data:
        check_callable(function, "the argument of fn")
    if not is_tracing() or isinstance(function, Tensor):
        return function
    own = as_chosen.call(function) if is_data else function
    return joined([own], function_name(own))[0]


def apply(handle: Tensor, args: tuple[Any, ...]) -> Any:
    """The result of a function that data choose."""
    own = handle.dtype
    assert isinstance(own, FunctionsType), "functions have such types"
    if own.data is not None:
        raise own.no_number(handle.name)
    own.settle_applied()
    if own.applied is None:
        where = f"the call of {handle.name} at {source_line()}"
        own.applied = Function(partial(_applied, own, where), (), handle.name, is_fixed=True)
    return own.applied(handle, *args)


def _applied(own: FunctionsType, where: str, function: Tensor, *args: Any) -> Any:
    chosen = enumerate(own.chosen)
    sides = {c.name: partial(body, c, n, where, function, args) for n, c in chosen}
    if len(sides) == 1:
        return next(iter(sides.values()))()
    name = function.name
    return branched(name, where, tag_of(function), sides, (), order=tuple(sides))


def body(c: Chosen, n: int, where: str, function: Tensor, args: Sequence[Any]) -> Any:
    """What one of the functions does, its fields in the place of what it captures.

    What it leaves in references are results of the call.
    """
    bound_call(c.name, signature_of(c.function), args, {})
    flat = flatten(tuple([Fixed(a) if is_number(a) else a for a in args]), "args")
    tensors = [as_tensor(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
    shapes, dtypes = [t.shape for t in tensors], [t.dtype for t in tensors]
    params = parameters(flat.paths, shapes, dtypes, c.name)

    left: list[Joined] = []
    numbers: dict[str, Any] = {}

    def written(given: Sequence[Tensor]) -> Any:
        with frame(c.name) as own:
            result = c.function(*unflatten(flat.structure, given[: len(params)]))
        left.append(left_by(c.name, own, where))
        both = result, left[0].leaves[c.name]
        leaves = flatten(both, c.name)
        pairs = zip(leaves.leaves, leaves.paths, strict=True)
        numbers.update({p: v for v, p in pairs if is_number(v)})
        return both

    with standing_in(c.tensors):
        program = traced(c.name, written, (*params, *c.tensors), is_closed=True)
    if not program.results:
        return program.tree(())[0]
    given = (*tensors, *fields_of(function, n), *program.reads)
    block = Block((*program.parameters, *program.reads), program.results)
    op = FunctionCall(program.paths, given, (block,), function=c.name)
    given_back = zip(outputs(op), program.paths, strict=True)
    result, held = program.tree([numbers.get(p, t) for t, p in given_back])
    left[0].store(held)
    return result


array_methods.apply.fill(apply)
