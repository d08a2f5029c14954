"""What ONNX says of its operators: counts, attributes and types, and nodes checked against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tensorad.errors import OnnxError
from tensorad.interop.onnx.packages import defs
from tensorad.interop.onnx.structure import KINDS, Node
from tensorad.interop.onnx.values import TYPES, Value
from tensorad.topi.arguments import shown

OLDEST: Final = 13
"""The first version of ONNX's operators that is imported whole."""
_VARIADIC: Final = 2


class Signature(NamedTuple):
    """An operator in one version.

    Attributes:
        since: the version that gave it this meaning.
        inputs: a type for each, "T" or "tensor(int64)"; `variadic`: whether the last one stands
            for any number.
        fewest, most: numbers of inputs; `fewest_out`, `most_out`: of outputs.
        attributes: kind, and whether it has to be there, by name.
        types: for each "T" the types it stands for.
        has_body: whether it is a function of other operators.
    """

    since: int
    inputs: tuple[str, ...]
    variadic: bool
    homogeneous: bool
    fewest: int
    most: int
    fewest_out: int
    most_out: int
    attributes: Mapping[str, tuple[int, bool]]
    types: Mapping[str, frozenset[str]]
    schema: Any


class Schemas:
    """The operators of a model's versions."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        self.versions = versions
        self._found: dict[tuple[str, str], Signature | None] = {}

    def of(self, node: Node) -> Signature | None:
        """What an operator is; None if ONNX has none of the name."""
        key = (node.domain, node.operator)
        if key not in self._found:
            self._found[key] = self._signature(node.domain, node.operator)
        return self._found[key]

    def _signature(self, domain: str, operator: str) -> Signature | None:
        version = self.versions.get(domain)
        newest = int(defs.onnx_opset_version())
        if version is None or not 1 <= version <= newest or not defs.has(operator, domain):
            return None
        try:
            schema = defs.get_schema(operator, version, domain)
        except defs.SchemaError:
            return None
        return None if schema.deprecated else _read(schema)

    def is_older(self, node: Node, own: Signature) -> bool:
        """Whether the operator meant something else before version 13."""
        version = self.versions.get(node.domain, 0)
        if node.domain or version >= OLDEST:
            return False
        later = defs.get_schema(node.operator, OLDEST, "")
        is_wider = not later.deprecated and _is_wider(later, own.schema)
        return later.since_version != own.since and not is_wider


def _is_wider(later: Any, schema: Any) -> bool:
    """Whether a version only adds types, and attributes that may be left out."""
    ports = [
        [(p.type_str, p.option, p.is_homogeneous) for p in (*s.inputs, *s.outputs)]
        for s in (later, schema)
    ]
    known = schema.attributes
    same = all(
        name in later.attributes
        and later.attributes[name].type == a.type
        and later.attributes[name].default_value == a.default_value
        for name, a in known.items()
    )
    new = [a for name, a in later.attributes.items() if name not in known]
    return ports[0] == ports[1] and same and not any(a.required for a in new)


def _read(schema: Any) -> Signature:
    variadic = bool(schema.inputs) and int(schema.inputs[-1].option.value) == _VARIADIC
    return Signature(
        schema.since_version,
        tuple([i.type_str for i in schema.inputs]),
        variadic,
        variadic and schema.inputs[-1].is_homogeneous,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        {n: (int(a.type.value), a.required) for n, a in schema.attributes.items()},
        {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints},
        schema,
    )


def check_node(node: Node, own: Signature) -> None:
    """A node has as many inputs and outputs, and such attributes, as its operator takes.

    Raises:
        OnnxError: otherwise.
    """
    for what, count, fewest, most in (
        ("inputs", len(node.inputs), own.fewest, own.most),
        ("outputs", len(node.outputs), own.fewest_out, own.most_out),
    ):
        if not fewest <= count <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            wanted = wanted if most < 2**31 - 1 else f"{fewest} or more"
            raise OnnxError(f"it takes {wanted} {what}, not {count}.")
    for name, a in node.attributes.items():
        if name not in own.attributes:
            raise OnnxError(f"it has no attribute {shown(name)} in version {own.since}.")
        wanted_kind = own.attributes[name][0]
        if a.kind != wanted_kind:
            raise OnnxError(
                f"attribute {shown(name)} must be {KINDS.get(wanted_kind, wanted_kind)}, "
                f"not {KINDS.get(a.kind, a.kind)}."
            )
    for name, (_, required) in own.attributes.items():
        if required and name not in node.attributes:
            raise OnnxError(f"it needs the attribute {shown(name)}.")


def check_types(own: Signature, values: Sequence[Value | None]) -> None:
    """Values have the types that an operator takes.

    Raises:
        OnnxError: otherwise, or an input that has to be there is not.
    """
    bound: dict[str, str] = {}
    last = len(own.inputs) - 1
    for n, value in enumerate(values):
        if value is None:
            if n < own.fewest:
                raise OnnxError(f"it needs its input {n}.")
            continue
        kind = own.inputs[min(n, last)]
        given = TYPES[value.dtype]
        if kind not in own.types:
            if kind != given:
                raise OnnxError(f"input {n} must be {kind}, not {given}.")
            continue
        if given not in own.types[kind]:
            raise OnnxError(f"input {n} must not be {given} in version {own.since}.")
        if n >= last and own.variadic and not own.homogeneous:
            continue
        if bound.setdefault(kind, given) != given:
            raise OnnxError(f"input {n} must be {bound[kind]} like another input, not {given}.")
