"""A graph walked through, node by node: each output becomes a tensor, or is known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.errors import OnnxError, UserError, counted
from tensorad.interop.onnx.arrays import array_of
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators import HANDLERS, REFUSED
from tensorad.interop.onnx.packages import onnx
from tensorad.interop.onnx.schemas import OLDEST, Schemas, Signature, check_node, check_types
from tensorad.interop.onnx.structure import (
    MAX_DEPTH,
    MAX_NODES,
    Attribute,
    Node,
    check_name,
    check_order,
    length_of,
    live,
    nodes_of,
    resolved,
    shown_name,
)
from tensorad.interop.onnx.values import (
    CODE_OF,
    Known,
    Parameter,
    Value,
    check_extents,
)
from tensorad.ir.tensor import Tensor
from tensorad.topi.arguments import shown

MAX_FOLDED_TOTAL: Final = 2**25
"""Elements of all arrays together that are computed while importing."""
MAX_EXPANDED: Final = 2**21
"""Nodes, names and attributes of the bodies of functions, once for each call."""
_LISTED: Final = 20
"""Problems that one error lists."""
_BY_HAND: Final = "write these parts with tensorad.topi, or by formulas."
_CONVERT: Final = "convert the model to float32 and int64."


class Function(NamedTuple):
    """A function of the model, or of ONNX.

    Attributes:
        name: for errors; `inputs`, `outputs`: formal names; `nodes`: its body.
        defaults: attributes that a call may leave out; `schemas`: operators of its versions.
        length: nodes, names and attributes that a call goes through.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: Sequence[Node]
    defaults: Mapping[str, Attribute]
    schemas: Schemas
    length: int


@dataclass(frozen=True)
class Problem:
    """Why a node is not imported."""

    node: Node
    what: str
    hint: str | None = None


class Foreign:
    """Stands for what is not imported.

    Attributes:
        kind: a type of which there are no tensors here; "": what a node that is not imported
            would make.
    """

    def __init__(self, kind: str = "") -> None:
        self.kind = kind


_MISSING: Final = Foreign()
Scope = ChainMap[str, Value | Foreign | None]


class Importer:
    """Walks through a model's graph.

    Attributes:
        problems: nodes that are not imported; what depends on them is left out.
    """

    def __init__(
        self, functions: Mapping[tuple[str, str, str], Function], folder: str | None
    ) -> None:
        self.functions = functions
        self.problems: list[Problem] = []
        self._folder = folder
        self._given: Mapping[str, Attribute] | None = None
        self._expanded = 0
        self._end: OnnxError | None = None
        self._steps = 0
        self._folded = 0

    def run(self, nodes: Sequence[Node], scope: Scope, schemas: Schemas, depth: int = 0) -> None:
        """Give the outputs of nodes their values in `scope`.

        Raises:
            OnnxError: there are too many nodes, or too much is computed while importing.
        """
        if depth > MAX_DEPTH:
            raise self._ended(
                f"functions and branches lie more than {MAX_DEPTH} deep inside of each other.",
                hint="a function must not call itself.",
            )
        for node in nodes:
            self._steps += 1
            if self._steps > MAX_NODES:
                raise self._ended(
                    f"the model has more than {MAX_NODES:,} nodes, those of functions included.",
                    hint="cut it into several models.",
                )
            given = [scope[name] if name else None for name in node.inputs]
            values = [v for v in given if not isinstance(v, Foreign)]
            results: Sequence[Value | Foreign] = ()
            if len(values) == len(given):
                results = self._results(node, values, scope, schemas, depth)
            else:
                results = self._foreign(node, given)
            for n, name in enumerate(node.outputs):
                if name:
                    scope[name] = results[n] if n < len(results) else _MISSING

    def _ended(self, what: str, hint: str) -> OnnxError:
        """What ends the import, whichever node it came from."""
        self._end = OnnxError(what, hint=hint)
        return self._end

    def _foreign(self, node: Node, given: Sequence[Value | Foreign | None]) -> Sequence[Foreign]:
        """The outputs of a node that reads what is not imported."""
        kinds = [v.kind for v in given if isinstance(v, Foreign) and v.kind]
        if not kinds:
            return ()
        self.problems.append(
            Problem(node, f"it reads {kinds[0]}, of which there is no arithmetic here.", _CONVERT)
        )
        casts = node.operator in ("Cast", "CastLike")
        return () if casts else [Foreign(kinds[0])] * len(node.outputs)

    def _results(
        self,
        node: Node,
        values: Sequence[Value | None],
        scope: Scope,
        schemas: Schemas,
        depth: int,
    ) -> Sequence[Value | Foreign]:
        """The outputs of a node; none if it is not imported."""
        function = self.functions.get((node.domain, node.operator, node.overload))
        try:
            _check_settled(node)
            if function is not None:
                return self._called(node, function, values, depth)
            own = signature_of(node, schemas)
            check_types(own, values)
            if node.operator == "If":
                return self._branched(node, values, scope, schemas, depth)
            handler = HANDLERS.get(node.operator)
            if handler is None:
                return self._called(node, _body_of(node, own, values, schemas), values, depth)
            made = _made(handler, Call(node, own.since, values, self._folder))
            self._check(node, made)
        except UserError as error:
            if error is self._end:
                raise
            self.problems.append(_problem(node, error))
            return ()
        return made

    def _check(self, node: Node, made: Sequence[Value]) -> None:
        for n, name in enumerate(node.outputs):
            if name and n >= len(made):
                raise OnnxError(f"its output {n} is not imported.")
        for value in made:
            if isinstance(value, Known):
                if value.array.base is None and node.operator != "Constant":
                    self._folded += value.array.size
            else:
                check_extents("its output", value.shape)
        if self._folded > MAX_FOLDED_TOTAL:
            raise self._ended(
                f"more than {MAX_FOLDED_TOTAL:,} elements would be computed while importing.",
                hint="the model computes large arrays of constants alone: store them in it.",
            )

    def _called(
        self, node: Node, function: Function, values: Sequence[Value | None], depth: int
    ) -> Sequence[Value | Foreign]:
        """The outputs of a function's body."""
        if len(values) > len(function.inputs) or len(node.outputs) > len(function.outputs):
            raise OnnxError(
                f"function {function.name} has {counted(len(function.inputs), 'input')} and "
                f"{counted(len(function.outputs), 'output')}."
            )
        absent: list[Value | None] = [None] * (len(function.inputs) - len(values))
        scope: Scope = ChainMap(dict(zip(function.inputs, [*values, *absent], strict=True)))
        self._expanded += function.length
        if self._expanded > MAX_EXPANDED:
            raise self._ended(
                f"calls of functions stand for more than {MAX_EXPANDED:,} nodes and names.",
                hint="cut the model into several.",
            )
        given = {**function.defaults, **node.attributes}
        body = resolved(function.nodes, given)
        check_order(body, scope, f"function {function.name}")
        wanted = [o for o, name in zip(function.outputs, node.outputs, strict=False) if name]
        self._known_names(wanted, body, scope, f"function {function.name}")
        around, self._given = self._given, given
        try:
            self.run(live(body, wanted), scope, function.schemas, depth + 1)
        finally:
            self._given = around
        return [_result(scope.get(o, _MISSING)) for o in function.outputs]

    def _branched(
        self,
        node: Node,
        values: Sequence[Value | None],
        scope: Scope,
        schemas: Schemas,
        depth: int,
    ) -> Sequence[Value | Foreign]:
        """The outputs of that branch of an If which a known condition chooses."""
        condition = Call(node, 0, values).numbers(0)
        if condition.size != 1:
            raise OnnxError("its condition must be one element.")
        body = node.attributes["then_branch" if condition.item() else "else_branch"].value
        if body.input or len(body.output) != len(node.outputs):
            raise OnnxError(f"its branch must have no inputs and {len(node.outputs)} outputs.")
        inner = scope.new_child()
        for proto in body.initializer:
            name = check_name("an initialiser", proto.name)
            inner[name] = Known(array_of(proto, f"initialiser {shown(name)}", self._folder))
        nodes = nodes_of(body.node)
        if self._given is not None:
            nodes = resolved(nodes, self._given)
        check_order(nodes, inner, f"a branch of {node}")
        wanted = [check_name("an output", o.name) for o in body.output]
        self._known_names(wanted, nodes, inner, f"a branch of {node}")
        self.run(live(nodes, wanted), inner, schemas, depth + 1)
        return [_result(inner[o]) for o in wanted]

    def _known_names(
        self, wanted: Sequence[str], nodes: Sequence[Node], scope: Scope, what: str
    ) -> None:
        made = {name for node in nodes for name in node.outputs}
        for name in wanted:
            if name not in made and name not in scope:
                raise OnnxError(f"nothing makes the output {shown(name)} of {what}.")

    def look(self, nodes: Sequence[Node], schemas: Schemas) -> None:
        """Find nodes whose operators are not imported, whatever they are given."""
        for node in nodes:
            if (node.domain, node.operator, node.overload) in self.functions:
                continue
            try:
                own = signature_of(node, schemas)
                if node.operator != "If" and node.operator not in HANDLERS:
                    check_has_body(own)
            except OnnxError as error:
                self.problems.append(_problem(node, error))

    def report(self, what: str) -> None:
        """Name all nodes that are not imported.

        Raises:
            OnnxError: there are some.
        """
        if self.problems:
            raise refusal(self.problems, what)


def _problem(node: Node, error: UserError) -> Problem:
    what, _, hint = str(error).partition("\n  hint: ")
    return Problem(node, what.split("\n")[0], hint or None)


def _check_settled(node: Node) -> None:
    """All attributes have values."""
    for name, a in node.attributes.items():
        if a.reference:
            raise OnnxError(
                f"attribute {shown(name)} is that of a function, {shown(a.reference)}, "
                "but the node is in none.",
                hint="the file is damaged, or was cut out of a function.",
            )


def _result(value: Value | Foreign | None) -> Value | Foreign:
    return _MISSING if value is None else value


def _made(handler: Callable[[Call], Value | Sequence[Value]], call: Call) -> Sequence[Value]:
    try:
        with np.errstate(all="ignore"):
            made = handler(call)
    except (OverflowError, MemoryError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise OnnxError(f"its values do not fit: {' '.join(str(error).split())[:200]}") from error
    return [made] if isinstance(made, (Tensor, Known, Parameter)) else list(made)


def signature_of(node: Node, schemas: Schemas) -> Signature:
    """What a node's operator is; it fits the node.

    Raises:
        OnnxError: there is none, or it does not fit.
    """
    if node.domain not in schemas.versions:
        raise OnnxError(
            f"the domain {shown(shown_name(node.domain))} is none of those that the model imports."
        )
    if node.domain:
        raise OnnxError(
            f"operators of the domain {shown(shown_name(node.domain))} are not known.",
            hint=_BY_HAND,
        )
    if node.operator in REFUSED:
        raise OnnxError(REFUSED[node.operator], hint=_BY_HAND)
    own = schemas.of(node)
    if own is None:
        version = schemas.versions[node.domain]
        raise OnnxError(f"ONNX has no such operator in version {version}.")
    if schemas.is_older(node, own):
        raise OnnxError(
            f"its version {own.since} is older than those that are imported.",
            hint=f"convert the model to version {OLDEST} or later (onnx.version_converter).",
        )
    check_node(node, own)
    return own


def _body_of(
    node: Node, own: Signature, values: Sequence[Value | None], schemas: Schemas
) -> Function:
    """The function of other operators that ONNX defines an operator as."""
    check_has_body(own)
    schema = own.schema
    proto = schema.function_body if schema.has_function else _body_in_context(node, own, values)
    made = function_of(proto, f"{node.operator} of ONNX", schemas.versions)
    set_by_itself = [a.default_value for a in schema.attributes.values() if a.default_value.type]
    return made._replace(defaults={**_attributes(set_by_itself), **made.defaults})


def check_has_body(own: Signature) -> None:
    """An operator that is no tensor formula here is at least a function of others.

    Raises:
        OnnxError: it is not.
    """
    if not (own.schema.has_function or own.schema.has_context_dependent_function):
        raise OnnxError("the operator is not imported.", hint=_BY_HAND)


def _body_in_context(node: Node, own: Signature, values: Sequence[Value | None]) -> Any:
    """The function that an operator is for values of these types and extents."""
    plain = onnx.NodeProto()
    plain.CopyFrom(node.proto)
    del plain.attribute[:]
    for name, a in node.attributes.items():  # those of the file may stand for a function's
        plain.attribute.add().CopyFrom(a.proto)
        plain.attribute[-1].name = name
    types = [b"" if v is None else _type_of(v).SerializeToString() for v in values]
    bytes_of = own.schema.get_context_dependent_function(plain.SerializeToString(), types)
    proto = onnx.FunctionProto()
    proto.ParseFromString(bytes_of)
    return proto


def _type_of(value: Value) -> Any:
    """The type of a value, as the file would tell it."""
    proto = onnx.TypeProto()
    proto.tensor_type.elem_type = CODE_OF[value.dtype]
    for n in value.shape:
        dim = proto.tensor_type.shape.dim.add()
        if isinstance(n, int):
            dim.dim_value = n
        else:
            dim.dim_param = str(n)
    return proto


def function_of(proto: Any, name: str, versions: Mapping[str, int]) -> Function:
    """A function as plain data."""
    own = {
        check_name("an import", o.domain) if o.domain != "ai.onnx" else "": o.version
        for o in proto.opset_import
    }
    return Function(
        name,
        tuple([check_name(f"an input of {name}", n) for n in proto.input]),
        tuple([check_name(f"an output of {name}", n) for n in proto.output]),
        nodes_of(proto.node),
        _attributes(proto.attribute_proto),
        Schemas({**versions, **own}),
        length_of(proto),
    )


def _attributes(protos: Iterable[Any]) -> Mapping[str, Attribute]:
    """Attributes by name, which no node has."""
    holder = onnx.NodeProto(op_type="Holder")
    holder.attribute.extend(protos)
    return nodes_of([holder])[0].attributes


def refusal(problems: Sequence[Problem], what: str) -> OnnxError:
    """One error that names all nodes."""
    lines = [f"{p.node}: {p.what}" for p in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"and {counted(len(problems) - _LISTED, 'node')} more")
    hints = list(dict.fromkeys([p.hint for p in problems if p.hint]))
    return OnnxError(
        f"{counted(len(problems), 'node')} of {what} cannot be imported.",
        where="\n      ".join(lines),
        hint=hints[0] if hints else None,
    )
