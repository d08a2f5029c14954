"""Models loaded: their inputs, sizes, initialisers and functions, and the graph walked through."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensorad import te
from tensorad.errors import OnnxError
from tensorad.interop.onnx.arrays import array_of
from tensorad.interop.onnx.files import model_of
from tensorad.interop.onnx.importing import Foreign, Function, Importer, Scope, function_of
from tensorad.interop.onnx.models import Imported
from tensorad.interop.onnx.packages import defs
from tensorad.interop.onnx.schemas import Schemas
from tensorad.interop.onnx.structure import check_name, check_order, live, nodes_of, shown_name
from tensorad.interop.onnx.values import (
    Known,
    Parameter,
    as_tensor,
    check_extents,
    dtype_of,
    name_of_code,
)
from tensorad.ir.dtypes import DType
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.topi.arguments import as_integer, shown

_NO_TENSOR: Final = {"sequence_type": "a sequence", "map_type": "a map",
                     "optional_type": "an optional value", "sparse_tensor_type": "a sparse tensor",
                     "opaque_type": "an opaque value"}  # fmt: skip


def load(
    source: object,
    *,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, object] | None = None,
    external_data: str | os.PathLike[str] | None = None,
) -> Imported:
    """An ONNX model as tensors of its inputs and parameters.

    Initialisers of floats are parameters, arguments of calls that have a value already; integers,
    booleans and what nodes of type Constant hold are constants. Extents that the file names, or
    leaves open, are symbolic sizes; whatever depends on shapes alone is computed while importing.

    Args:
        source: a path, the bytes of a file, or a `ModelProto`.
        sizes: {name: number} for named extents that are known; one that has no name is called by
            its input and axis, "x_0".
        constants: {input: array} for inputs whose value decides about shapes.
        external_data: the folder whose files may be read for data that lie outside of the model;
            None: none is read.
    Raises:
        OnnxError: the model is malformed, or nodes are not imported: all of them are named.
    """
    loader = _Loader(*model_of(source), sizes or {}, constants or {}, external_data)
    try:
        return loader.loaded()
    except UnicodeDecodeError as error:
        raise OnnxError(f"{loader.what} has a name that is no text (UTF-8).") from error
    except MemoryError as error:
        raise OnnxError(f"there is no memory for {loader.what}.") from error


class _Loader:
    """One model on its way."""

    def __init__(
        self,
        model: Any,
        what: str,
        sizes: Mapping[str, int],
        constants: Mapping[str, object],
        external_data: str | os.PathLike[str] | None,
    ) -> None:
        self.model = model
        self.graph = model.graph
        self.what = what
        self.folder = None if external_data is None else os.fspath(external_data)
        self.sizes = _checked_sizes(sizes)
        self.constants = constants
        self._sized: set[str] = set()
        self._names: set[str] = set()
        self._size_names: dict[str, str] = {}

    def loaded(self) -> Imported:
        """The model as tensors."""
        versions = self._versions()
        schemas = Schemas(versions)
        functions = self._functions(versions)
        entries = self._entries()
        nodes = nodes_of(self.graph.node)
        check_order(nodes, entries, self.what)
        wanted = self._outputs(entries, {name for node in nodes for name in node.outputs})
        nodes = live(nodes, wanted)
        first = Importer(functions, self.folder)
        first.look(nodes, schemas)
        first.report(self.what)
        while True:
            scope: Scope = ChainMap(dict(entries))
            importer = Importer(functions, self.folder)
            importer.run(nodes, scope, schemas)
            self._note_foreign(importer, scope, wanted)
            importer.report(self.what)
            outputs = {name: as_tensor(scope[name]) for name in wanted}  # type: ignore[arg-type]  # reported
            parameters = [p for p in entries.values() if isinstance(p, Parameter)]
            both = [p for p in parameters if p.is_used and p.is_fixed]
            if not both:
                break
            entries.update({p.name: Known(p.array) for p in both})
        inputs = {n: entries[n] for n in self._inputs if isinstance(entries[n], Tensor)}
        used = [p for p in parameters if p.is_used]
        return Imported(inputs, used, outputs)  # type: ignore[arg-type]  # tensors: asked for

    def _note_foreign(self, importer: Importer, scope: Scope, wanted: list[str]) -> None:
        for name in wanted:
            found = scope[name]
            if isinstance(found, Foreign) and not importer.problems:
                raise OnnxError(
                    f"the output {shown(name)} of {self.what} is {found.kind}.",
                    hint="convert the model to float32 and int64.",
                )

    def _versions(self) -> dict[str, int]:
        versions: dict[str, int] = {}
        for o in self.model.opset_import:
            domain = "" if o.domain == "ai.onnx" else check_name("an import", o.domain)
            if versions.setdefault(domain, o.version) != o.version:
                raise OnnxError(f"{self.what} imports two versions of {shown(domain)}.")
        newest = int(defs.onnx_opset_version())
        if not 1 <= versions.get("", newest) <= newest:
            raise OnnxError(
                f"{self.what} needs version {versions['']} of ONNX's operators.",
                where=f"the package onnx that is installed has versions 1 to {newest}",
                hint="install a newer onnx.",
            )
        return versions

    def _functions(self, versions: Mapping[str, int]) -> dict[tuple[str, str, str], Function]:
        found: dict[tuple[str, str, str], Function] = {}
        for proto in self.model.functions:
            domain = "" if proto.domain == "ai.onnx" else check_name("a function", proto.domain)
            overload = check_name("a function", getattr(proto, "overload", ""))
            key = (domain, proto.name, overload)
            name = shown(shown_name(check_name("a function", proto.name)))
            if key in found:
                raise OnnxError(f"{self.what} has two functions {name}.")
            formal = [*proto.input]
            if len(set(formal)) < len(formal) or "" in formal:
                raise OnnxError(f"the inputs of function {name} have no names of their own.")
            found[key] = function_of(proto, name, versions)
        return found

    def _entries(self) -> dict[str, Tensor | Known | Parameter | Foreign]:
        """Inputs and initialisers by name."""
        entries: dict[str, Tensor | Known | Parameter | Foreign] = {}
        if len(self.graph.sparse_initializer):
            raise OnnxError(f"{self.what} has sparse initialisers, which are not imported.")
        for proto in self.graph.initializer:
            name = self._fresh(proto.name, entries, "initialiser")
            entries[name] = self._initialiser(name, proto)
        self._inputs: list[str] = []
        seen: set[str] = set()
        for info in self.graph.input:
            name = check_name("an input", info.name)
            if name in seen or not name:
                raise OnnxError(f"{self.what} has two inputs {shown(shown_name(name))}.")
            seen.add(name)
            if name not in entries:
                self._inputs.append(name)
                entries[name] = self._input(name, info)
        unknown = [n for n in self.constants if n not in self._inputs]
        if unknown:
            raise OnnxError(
                f"constants has {shown(unknown[0])}, which is no input.",
                where=f"inputs: {', '.join(map(shown_name, self._inputs[:20]))}",
                hint="give values of inputs by their names.",
            )
        unnamed = [n for n in self.sizes if n not in self._sized]
        if unnamed:
            raise OnnxError(
                f"sizes has {shown(unnamed[0])}, which is the name of no extent.",
                where=f"names: {', '.join(sorted(self._sized)[:20]) or 'none'}",
                hint="take the names that the model's inputs have.",
            )
        return entries

    def _fresh(self, name: str, entries: Mapping[str, object], kind: str) -> str:
        check_name(f"an {kind}", name)
        if name in entries or not name:
            raise OnnxError(f"{self.what} has two {kind}s {shown(shown_name(name))}.")
        return name

    def _initialiser(self, name: str, proto: Any) -> Known | Parameter | Foreign:
        try:
            dtype = dtype_of(proto.data_type)
        except OnnxError:
            return Foreign(name_of_code(proto.data_type))
        array = array_of(proto, f"initialiser {shown(shown_name(name))}", self.folder)
        if not dtype.is_float:
            return Known(array, dtype)
        return Parameter(name, array, self._placeholder(name, array.shape, dtype))

    def _input(self, name: str, info: Any) -> Tensor | Known | Foreign:
        what = f"input {shown(shown_name(name))}"
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            return Foreign(_NO_TENSOR.get(kind, "something without a type"))
        own = info.type.tensor_type
        try:
            dtype = dtype_of(own.elem_type)
        except OnnxError:
            return Foreign(name_of_code(own.elem_type))
        if not own.HasField("shape"):
            raise OnnxError(
                f"{what} has no shape.", hint="save the model with the ranks of inputs."
            )
        shape = tuple([self._extent(name, d, n) for d, n in enumerate(own.shape.dim)])
        check_extents(what, shape)
        if name in self.constants:
            return _constant(what, self.constants[name], shape, dtype)
        return self._placeholder(name, shape, dtype)

    def _extent(self, name: str, d: int, dim: Any) -> Dim:
        kind = dim.WhichOneof("value")
        if kind == "dim_value":
            return int(dim.dim_value)
        text = dim.dim_param if kind == "dim_param" and dim.dim_param else f"{name}_{d}"
        called = self._size_name(check_name(f"an extent of {shown(shown_name(name))}", text))
        self._sized.update((text, called))
        number = self.sizes.get(text, self.sizes.get(called))
        return te.size(called) if number is None else number

    def _size_name(self, text: str) -> str:
        """The size that stands for a named extent: for each name another one."""
        if text not in self._size_names:
            self._size_names[text] = _free(_identifier(text), set(self._size_names.values()))
        return self._size_names[text]

    def _placeholder(self, name: str, shape: tuple[Dim, ...], dtype: DType) -> Tensor:
        called = _free(_identifier(name), self._names)
        self._names.add(called)
        made: Tensor = te.placeholder(shape, str(dtype), name=called)
        return made

    def _outputs(self, entries: Mapping[str, object], made: set[str]) -> list[str]:
        names = [check_name("an output", o.name) for o in self.graph.output]
        if not names:
            raise OnnxError(f"{self.what} has no outputs.")
        for n, name in enumerate(names):
            if name in names[:n]:
                raise OnnxError(f"{self.what} has two outputs {shown(shown_name(name))}.")
            if name not in entries and name not in made:
                raise OnnxError(
                    f"nothing makes the output {shown(shown_name(name))} of {self.what}."
                )
        return names


def _identifier(name: str) -> str:
    """A name as one of Python, which tensors and sizes have."""
    plain = re.sub(r"\W", "_", name[:60], flags=re.ASCII)
    return plain if plain.isidentifier() else f"_{plain}"


def _free(name: str, taken: set[str]) -> str:
    """A name, with a number behind it where it is taken."""
    called, n = name, 1
    while called in taken:
        n += 1
        called = f"{name}_{n}"
    return called


def _checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    checked: dict[str, int] = {}
    for name, number in sizes.items():
        n = as_integer(number)
        if n is None or n < 0:
            raise OnnxError(
                f"size {shown(name)} must be an integer >= 0, got {shown(number)}.",
                hint='write sizes={"batch": 4}.',
            )
        checked[name] = n
    return checked


def _constant(what: str, value: object, shape: tuple[Dim, ...], dtype: DType) -> Known:
    """The value of an input that is told."""
    array = np.asarray(value)
    fits = len(array.shape) == len(shape) and all(
        not isinstance(n, int) or n == m for n, m in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != np.dtype(str(dtype)):
        raise OnnxError(
            f"{what} is {dtype} {format_shape(shape)}, but its constant is {array.dtype} "
            f"{array.shape}.",
            hint="give an array as the model takes it.",
        )
    return Known(array.copy(), dtype)
