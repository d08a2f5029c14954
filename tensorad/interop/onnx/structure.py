"""Graphs as plain data: nodes with their attributes, names, and the order they run in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tensorad.errors import OnnxError
from tensorad.topi.arguments import shown

MAX_NODES: Final = 50_000
"""Nodes of a model, those of its functions and branches included."""
MAX_NAME: Final = 4096
"""Characters of a name."""
MAX_DEPTH: Final = 32
"""Levels of graphs inside of each other, and of functions that call functions."""
_FIELDS: Final = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors",
    10: "graphs", 11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
KINDS: Final = {1: "FLOAT", 2: "INT", 3: "STRING", 4: "TENSOR", 5: "GRAPH", 6: "FLOATS", 7: "INTS",
                8: "STRINGS", 9: "TENSORS", 10: "GRAPHS"}  # fmt: skip
"""Kinds of attributes, as ONNX calls them."""


@dataclass(frozen=True)
class Attribute:
    """A setting of a node.

    Attributes:
        kind: one of `KINDS`.
        value: integers, floats and strings of Python, or what the file holds.
        reference: the attribute of the enclosing function that it is, if it is one.
        proto: what the file holds.
    """

    kind: int
    value: Any
    reference: str
    proto: Any = field(repr=False)


@dataclass(frozen=True)
class Node:
    """One operation of a graph."""

    operator: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    position: int
    proto: Any = field(repr=False)

    def __str__(self) -> str:
        called = f"{self.name!r}" if self.name else f"{self.position}"
        kind = f"{self.domain}.{self.operator}" if self.domain else self.operator
        return f"node {shown_name(called)} ({shown_name(kind)})"

    def bodies(self) -> Iterator[Any]:
        """The graphs among its attributes."""
        for a in self.attributes.values():
            if a.reference:
                continue
            if a.kind == 5:
                yield a.value
            elif a.kind == 10:
                yield from a.value


def shown_name(text: str) -> str:
    """A name as an error shows it: one short line."""
    line = "".join([c if c.isprintable() else "?" for c in text[:80]])
    return line if len(text) <= 80 else f"{line}..."


def check_name(what: str, name: object) -> str:
    """A name of a model.

    Raises:
        OnnxError: it is too long, or no text.
    """
    if not isinstance(name, str):  # protobuf gives bytes that are no UTF-8 as they are
        raise OnnxError(f"{what} has a name that is no text (UTF-8).")
    if len(name) > MAX_NAME:
        raise OnnxError(
            f"{what} has a name of {len(name)} characters.",
            where=shown_name(name),
            hint=f"names have at most {MAX_NAME}.",
        )
    return name


def nodes_of(protos: Sequence[Any]) -> list[Node]:
    """The nodes of a graph or function.

    Raises:
        OnnxError: there are too many, a name is too long, or an attribute is malformed.
    """
    if len(protos) > MAX_NODES:
        raise OnnxError(
            f"a graph has {len(protos):,} nodes, more than {MAX_NODES:,}.",
            hint="cut the model into several.",
        )
    return [_node(position, proto) for position, proto in enumerate(protos)]


def _node(position: int, proto: Any) -> Node:
    what = f"node {position}"
    operator = check_name(what, proto.op_type)
    domain = check_name(what, proto.domain)
    name = check_name(what, proto.name)
    if not operator:
        raise OnnxError(f"{what} has no operator.", where=shown_name(name))
    inputs = tuple([check_name(f"an input of {what}", n) for n in proto.input])
    outputs = tuple([check_name(f"an output of {what}", n) for n in proto.output])
    attributes: dict[str, Attribute] = {}
    for a in proto.attribute:
        key = check_name(f"an attribute of {what}", a.name)
        if not key or key in attributes:
            raise OnnxError(
                f"attribute {shown(key)} stands twice, or without a name.",
                where=f"{what} ({shown_name(operator)})",
            )
        attributes[key] = _attribute(f"{what} ({shown_name(operator)})", key, a)
    overload = check_name(what, getattr(proto, "overload", ""))
    own = "" if domain == "ai.onnx" else domain
    return Node(operator, own, overload, name, inputs, outputs, attributes, position, proto)


def _attribute(what: str, name: str, proto: Any) -> Attribute:
    if proto.ref_attr_name:
        return Attribute(proto.type, None, check_name(what, proto.ref_attr_name), proto)
    wanted = _FIELDS.get(proto.type)
    if wanted is None:
        raise OnnxError(f"attribute {shown(name)} has the unknown type {proto.type}.", where=what)
    value = getattr(proto, wanted)
    if proto.type in (4, 5, 11, 13) and not proto.HasField(wanted):
        raise OnnxError(f"attribute {shown(name)} has no value.", where=what)
    if proto.type == 3:
        value = _text(what, name, value)
    elif proto.type == 8:
        value = [_text(what, name, s) for s in value]
    elif proto.type > 5:
        value = list(value)
    return Attribute(proto.type, value, "", proto)


def _text(what: str, name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise OnnxError(f"attribute {shown(name)} is no text.", where=what) from error


def resolved(nodes: Sequence[Node], given: Mapping[str, Attribute]) -> list[Node]:
    """Nodes of a function with those attributes that a call gives it."""
    result = []
    for node in nodes:
        if any(a.reference for a in node.attributes.values()):
            own = {
                name: given[a.reference] if a.reference else a
                for name, a in node.attributes.items()
                if not a.reference or a.reference in given
            }
            node = replace(node, attributes=own)
        result.append(node)
    return result


def live(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes that outputs depend on, in their order."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs) - {""}:
            kept.append(node)
            wanted.update(node.inputs)
            for body in node.bodies():
                wanted.update(names_read(body))
    return kept[::-1]


def names_read(body: Any) -> set[str]:
    """Names that a graph, and those inside of it, may read from around it."""
    found: set[str] = set()
    left = [(body, 0)]
    while left:
        graph, depth = left.pop()
        if depth > MAX_DEPTH:
            raise OnnxError(f"graphs lie more than {MAX_DEPTH} deep inside of each other.")
        found.update([o.name for o in graph.output])
        for node in graph.node:
            found.update(node.input)
            for a in node.attribute:
                if a.type == 5:
                    left.append((a.g, depth + 1))
                elif a.type == 10:
                    left += [(g, depth + 1) for g in a.graphs]
    return found


def length_of(body: Any) -> int:
    """Nodes, names and attributes of a function, and of the graphs inside of it."""
    total, left = len(body.input) + len(body.output), [body]
    while left:
        for node in left.pop().node:
            total += 1 + len(node.input) + len(node.output)
            for a in node.attribute:
                total += 1 + len(a.ints) + len(a.floats) + len(a.strings)
                left += [*([a.g] if a.type == 5 else ()), *(a.graphs if a.type == 10 else ())]
    return total


def check_order(nodes: Sequence[Node], known: Mapping[str, object] | set[str], what: str) -> None:
    """Each name is made once, and before it is read.

    Raises:
        OnnxError: otherwise.
    """
    made: dict[str, Node] = {}
    for node in nodes:
        for name in node.outputs:
            if name and (name in made or name in known):
                before = str(made[name]) if name in made else "an input or initialiser"
                raise OnnxError(
                    f"{shown(name)} is made twice.",
                    where=f"{before} and {node} of {what}",
                    hint="every name of a graph stands for one value.",
                )
            made[name] = node
    done: set[str] = {""}
    for node in nodes:
        for name in node.inputs:
            if name not in done and name not in known:
                raise _unmade(name, node, made.get(name), what)
        done.update(node.outputs)


def _unmade(name: str, node: Node, later: Node | None, what: str) -> OnnxError:
    if later is None:
        return OnnxError(
            f"{shown(name)} is read, but nothing makes it: no input, initialiser or node.",
            where=f"{node} of {what}",
            hint="the file is damaged, or was cut out of a larger model.",
        )
    return OnnxError(
        f"{shown(name)} is read before it is made.",
        where=f"{node} of {what}, before {later}",
        hint="nodes stand in the order they run in, and in no circle.",
    )
