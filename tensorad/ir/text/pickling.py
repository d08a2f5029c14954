"""Pickles of expressions and tensors: what was one object is one object again.

A node is pickled as the list of everything that it is made of, operands first, so that formulas
and programs of any depth are pickled without recursion. An entry of the list is remembered by the
pickler like any object: nodes that are pickled together share what they have in common. Loading
makes new operations and axes, and interns all other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final
from weakref import WeakValueDictionary

from tensorad.errors import DefinitionError, InternalError
from tensorad.ir import leaves, nodes, references
from tensorad.ir import tensor as tensors
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.combiner import BY_NAME, Combiner
from tensorad.ir.elementary.table import FUNCTIONS
from tensorad.ir.functions import Function, is_stop, stop_function
from tensorad.ir.leaves import bound_axes, reduce_axes
from tensorad.ir.node import Node, reduced_node

_OPERATIONS: Final = (
    Combiner,
    tensors.Placeholder,
    tensors.Constant,
    tensors.Compute,
    tensors.Update,
    tensors.Scatter,
    tensors.Scan,
    tensors.Block,
    tensors.Replay,
    tensors.FunctionCall,
    Checkpoint,
    Foreign,
    tensors.Branch,
    tensors.Loop,
    tensors.Saved,
)
_NODES: Final = (
    nodes.Const,
    nodes.Axis,
    nodes.Size,
    nodes.LocalSize,
    nodes.Param,
    references.Read,
    nodes.Call,
    references.Apply,
    nodes.Select,
    nodes.Cast,
    references.Reduce,
    tensors.Tensor,
)
_CLASSES: Final[dict[str, Any]] = {c.__name__: c for c in (Function, *_OPERATIONS, *_NODES)}
_CONTROLS: Final = ("FunctionCall", "Checkpoint", "Foreign", "Branch", "Loop")
_Thing = Node | Combiner | Function | tensors.Op | tensors.Update | tensors.Block | tensors.Replay


class _Entry:
    """An object in the list of a pickle."""

    __slots__ = ("__weakref__", "thing")

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __reduce__(self) -> tuple[Any, ...]:
        thing = self.thing
        if isinstance(thing, Function) and not is_stop(thing):
            value, partials = thing.partials()  # they may use the function
            return _made, _description(thing), _entries((value, partials))
        return _made, _description(thing)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.thing.asked.append(_things(state))


_known: WeakValueDictionary[int, _Entry] = WeakValueDictionary()
"""Entries by what they hold: a pickler that has seen one keeps it alive."""


def reduced(root: Node) -> tuple[Any, ...]:
    """What pickle wants of a node: how to make it, and of what."""
    order: dict[_Thing, None] = {}
    _add(root, order)
    return _restored, (tuple([_entry(thing) for thing in order]),)


def _restored(entries: tuple[_Entry, ...]) -> Any:
    return entries[-1].thing


def _entry(thing: _Thing) -> _Entry:
    found = _known.get(id(thing))
    if found is None:
        found = _known[id(thing)] = _Entry(thing)
    return found


def _add(root: _Thing, order: dict[_Thing, None]) -> None:
    """Everything under the root, operands first, axes and parameters in the order of creation."""
    seen: dict[_Thing, None] = {root: None}
    stack = [root]
    while stack:
        for part in _parts(_fields(stack.pop())):
            if part not in seen:
                seen[part] = None
                stack.append(part)
    serial = [e for e in seen if isinstance(e, (nodes.Axis, nodes.Param))]
    for start in (*sorted(serial, key=lambda e: e.serial), root):
        stack = [start]
        while stack:
            missing = [p for p in _parts(_fields(stack[-1])) if p not in order]
            stack.extend(missing)
            if not missing:
                order[stack.pop()] = None


def _parts(value: object) -> Iterable[_Thing]:
    """The things in a field."""
    if isinstance(value, tuple):
        for v in value:
            yield from _parts(v)
    elif isinstance(value, (Node, Function, *_OPERATIONS)):
        yield value


def _fields(thing: _Thing) -> tuple[Any, ...]:
    if isinstance(thing, Node):
        names: tuple[str, ...] = type(thing).__match_args__
        return tuple([getattr(thing, f) for f in names])
    if isinstance(thing, Function):
        return () if is_stop(thing) else (thing.name, thing.params, thing.result)
    if isinstance(thing, Combiner) and _is_built_in(thing):
        return ()
    return tuple([getattr(thing, f.name) for f in fields(thing) if f.init])


def _is_built_in(thing: Combiner) -> bool:
    return thing.name in BY_NAME and thing is BY_NAME[thing.name](thing.identity[0].dtype)


def _description(thing: _Thing) -> tuple[Any, ...]:
    """(kind, fields): what `_made` takes."""
    match thing:
        case nodes.Axis():
            use = (thing.serial in reduce_axes, thing.serial in bound_axes)
            return "Axis", *_entries(_fields(thing)[:-1]), use
        case nodes.Param():
            return "Param", *_fields(thing)[:-1]
        case Function() if is_stop(thing):
            return "stop", thing.result.dtype, thing.name
        case Combiner() if _is_built_in(thing):
            return "built in", thing.name, thing.identity[0].dtype
    return type(thing).__name__, *_entries(_fields(thing))


def _entries(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_entries(v) for v in value])
    return _entry(value) if isinstance(value, (Node, Function, *_OPERATIONS)) else value


def _things(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_things(v) for v in value])
    return value.thing if isinstance(value, _Entry) else value


def _made(kind: str, *given: Any) -> _Entry:
    return _entry(_thing(kind, *_things(given)))


def _thing(kind: str, *given: Any) -> _Thing:
    """The object that is described; axes and parameters are new ones."""
    match kind:
        case "Axis":
            return _axis(*given)
        case "Param":
            given = (*given, leaves.new_serial())
        case "LocalSize":
            return leaves.local_size(*given[2:])
        case "Saved":
            return tensors.saved(*given).op
        case "stop":
            return stop_function(*given)
        case "built in":
            name, dtype = given
            return BY_NAME[name](dtype)
        case "Function":
            given = (*given, _remembered)
        case "Call" if given[1] not in nodes.OPERATIONS and given[1] not in FUNCTIONS:
            raise DefinitionError(
                f"there is no function {given[1]} where this is loaded.",
                hint="add it by te.elementary_function before, as where it was pickled.",
            )
        case "Constant":
            given[1].flags.writeable = False
    made: _Thing
    if kind in _CONTROLS:
        names = [f.name for f in fields(_CLASSES[kind]) if f.init]
        made = _CLASSES[kind](**dict(zip(names, given, strict=True)))
    else:
        made = _CLASSES[kind](*given)
    return made


def _axis(*given: Any) -> nodes.Axis:
    *own, (is_reduce, is_bound) = given
    made: nodes.Axis = _CLASSES["Axis"](*own, leaves.new_serial())
    if is_reduce:
        reduce_axes[made.serial] = made
    if is_bound:
        bound_axes[made.serial] = made
    return made


def _remembered(*_: object) -> Any:
    raise InternalError("the partial derivatives of a function were not loaded with it")


reduced_node.fill(reduced)
