"""The arguments of a call: bound to parameters, taken apart, told apart by kind and by shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.dtypes import FLOAT32, DType
from tensorad.ir.expr import Expr, size_var
from tensorad.ir.tensor import Dim, Shape, Tensor
from tensorad.program.calls import bound_call, shape_of, signature_of
from tensorad.program.data.instances import as_instances, is_open
from tensorad.program.leaf_types import with_leaves
from tensorad.program.trees import (
    Branching,
    Flat,
    Structure,
    flatten,
    n_leaves,
    static,
    statics,
    unflatten,
)
from tensorad.program.values import alone, as_tensor, check_dtype, dtype_of, is_number

_LARGEST: Final = float(np.finfo(np.float32).max) * (1 + 2**-25)
"""What is above rounds to infinity in float32."""
Extents = tuple[tuple[Dim, ...], ...]
"""The shape of each leaf."""


class Arguments(NamedTuple):
    """The arguments of one call."""

    leaves: list[Any]
    paths: list[str]
    structures: tuple[tuple[str, Structure], ...]
    """By parameter, in order; equal for calls that are traced alike."""


class Caller:
    """How a function is called with leaves in place of its arguments."""

    def __init__(self, function: Callable[..., Any], name: str, fixed: Collection[str]) -> None:
        """`fixed`: the parameters that are static."""
        self.function = function
        self.name = name
        self.fixed = tuple(fixed)
        self.signature = signature_of(function)
        unknown = [p for p in self.fixed if p not in self.signature.parameters]
        if unknown:
            known = ", ".join(self.signature.parameters)
            raise DefinitionError(
                f"{name} has no parameter {unknown[0]}.",
                where=f"static_argnames={self.fixed!r}",
                hint=f"its parameters are {known}.",
            )

    @property
    def placed(self) -> list[bool]:
        """Whether each parameter that is passed by position is static; last, whether further
        arguments are."""
        every = self.signature.parameters.values()
        by_position = [p for p in every if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
        rest = [p for p in every if p.kind is inspect.Parameter.VAR_POSITIONAL]
        return [
            *[p.name in self.fixed for p in by_position],
            any(p.name in self.fixed for p in rest),
        ]

    @property
    def positions(self) -> dict[str, int]:
        """The parameters that arguments may name, in order; none if there may be any names."""
        every = self.signature.parameters.values()
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in every):
            return {}
        return {p.name: n for n, p in enumerate(every) if p.kind in named}

    def bind(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Arguments:
        """The arguments taken apart.

        Raises:
            BindError: they do not fit the parameters.
            DefinitionError: one is no tree, or a static one cannot be hashed.
            DTypeError: there are no tensors of a leaf's dtype.
        """
        bound = bound_call(self.name, self.signature, args, options)
        leaves: list[Any] = []
        paths: list[str] = []
        structures: list[tuple[str, Structure]] = []
        for name, value in bound.arguments.items():
            if name in self.fixed:
                structures.append((name, static(value)))
                continue
            flat = flatten(value, name)
            leaves += flat.leaves
            paths += flat.paths
            structures.append((name, flat.structure))
        made = Arguments(leaves, paths, tuple(structures))
        try:
            hash(made.structures)
        except TypeError:
            raise _unhashable(self.name, made.structures) from None
        return made

    def by_position(
        self, structures: Sequence[tuple[str, Structure]]
    ) -> tuple[tuple[str, Structure], ...]:
        """Arguments one by one, those of `*args` too."""
        found: list[tuple[str, Structure]] = []
        for name, s in structures:
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL and isinstance(s, Branching):
                found += [(name + k, c) for k, c in zip(s.keys, s.children, strict=True)]
            else:
                found.append((name, s))
        return tuple(found)

    def __call__(
        self, structures: Sequence[tuple[str, Structure]], leaves: Sequence[object]
    ) -> Any:
        """The function's result for arguments of these structures with these leaves."""
        rest = iter(leaves)
        arguments = {name: unflatten(s, rest) for name, s in structures}
        bound = inspect.BoundArguments(self.signature, arguments)
        return self.function(*bound.args, **bound.kwargs)

    def of(self, function: Callable[..., Any]) -> Caller:
        """How another function of the same arguments is called."""
        made = copy(self)
        made.function = function
        return made


def _unhashable(name: str, structures: Sequence[tuple[str, Structure]]) -> DefinitionError:
    for parameter, structure in structures:
        for path, value in statics(structure, parameter):
            try:
                hash(value)
            except TypeError:
                return DefinitionError(
                    f"the static argument {path} of {name} cannot be hashed: it is a "
                    f"{type(value).__name__}.",
                    where=f"{path} = {value!r}",
                    hint="calls are told apart by the values of static arguments: pass a tuple, a "
                    "string, a number or a frozen dataclass.",
                )
    parameter = next(p for p, s in structures if isinstance(s, Branching))
    return DefinitionError(
        f"what a tree of {name} has beside its children cannot be hashed.",
        where=parameter,
        hint="let the flatten of ta.register_tree return tuples.",
    )


def with_function_leaves(given: Arguments, places: Collection[str]) -> Arguments:
    """The arguments with leaves at these paths, where functions are parts of their structures."""
    if not places:
        return given
    rest = iter(given.leaves)
    leaves: list[Any] = []
    paths: list[str] = []
    structures: list[tuple[str, Structure]] = []
    for name, structure in given.structures:
        own = Flat([next(rest) for _ in range(n_leaves(structure))], [], structure)
        flat = with_leaves(own, name, places)
        leaves += flat.leaves
        paths += flat.paths
        structures.append((name, flat.structure))
    return Arguments(leaves, paths, tuple(structures))


def leaf_dtypes(leaves: Sequence[object], paths: Sequence[str]) -> tuple[DType, ...]:
    """The dtypes of parameters for these leaves. A Python float has as many bits as the widest
    float beside it.

    Raises:
        DTypeError: there are no tensors of a leaf's dtype.
    """
    for value, path in zip(leaves, paths, strict=True):
        check_dtype(value, path)
    own = [dtype_of(v) for v in leaves]
    floats = [d for d in own if d.is_float and not d.is_weak]
    widest = max(floats, key=lambda d: d.bits, default=FLOAT32)
    return tuple([widest if d.is_weak and d.is_float else alone(d) for d in own])


def as_argument(value: Any, path: str, dtype: DType) -> Any:
    """A leaf as compiled functions take it.

    Raises:
        DTypeError: a number is too large.
    """
    if not is_number(value) or not (dtype.is_float or (dtype.is_integer and type(value) is int)):
        return value  # others are checked as arrays are
    if dtype.is_float and dtype.bits == 32 and _LARGEST < abs(value) < inf:
        raise _too_large(value, path, dtype)
    try:
        return np.asarray(value, str(dtype))
    except OverflowError:
        raise _too_large(value, path, dtype) from None


def as_result(value: Any) -> Any:
    """A result of the interpreter as callers get it: of records, the values."""
    return as_instances(value)


def _too_large(value: float, path: str, dtype: DType) -> DTypeError:
    return DTypeError(
        f"{path} = {value} does not fit into {dtype}.",
        hint="pass an array of a dtype that holds it.",
    )


def extents(leaves: Sequence[Any]) -> Extents:
    """The shapes of the leaves."""
    return tuple([shape_of(v) for v in leaves])


def block_key(
    given: Arguments,
) -> tuple[tuple[tuple[str, Structure], ...], tuple[DType, ...], Extents]:
    """What calls with tensors differ in that are other programs."""
    return given.structures, leaf_dtypes(given.leaves, given.paths), extents(given.leaves)


def as_operands(given: Arguments, params: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of arguments as tensors of the dtypes of parameters."""
    triples = zip(given.leaves, given.paths, params, strict=True)
    return [as_tensor(v, path, p.dtype) for v, path, p in triples]


def has_tensors(leaves: Sequence[object]) -> bool:
    """Whether a leaf has no value yet."""
    return any(isinstance(v, (Tensor, Expr)) or is_open(v) for v in leaves)


class Shapes:
    """The shapes that arguments of one kind had, and shapes that cover them all."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.seen: list[Extents] = []

    def covering(self, given: Extents) -> tuple[Shape, ...]:
        """Shapes that hold for these, too: extents that differed are sizes, one size for
        those that were equal each time."""
        every = [*self.seen, given]
        names: dict[tuple[Dim, ...], Dim] = {}
        made: list[Shape] = []
        for n, path in enumerate(self.paths):
            shape: list[Dim] = []
            for d in range(len(given[n])):
                values = tuple([s[n][d] for s in every])
                if len(set(values)) > 1:
                    shape.append(names.setdefault(values, size_var(size_name(path, d))))
                else:
                    shape.append(values[0])
            made.append(tuple(shape))
        return tuple(made) if names else given


def covers(shapes: Sequence[Shape], given: Extents) -> bool:
    """Whether arguments with these extents fit the shapes."""
    known: dict[Expr, Dim] = {}
    for shape, own in zip(shapes, given, strict=True):
        for extent, n in zip(shape, own, strict=True):
            if isinstance(extent, Expr):
                if known.setdefault(extent, n) != n:
                    return False
            elif extent != n:
                return False
    return True


def size_name(path: str, d: int) -> str:
    """ "params['w'][0]", 1 -> "params_w_0_1": sizes are keywords of calls."""
    text = "".join([c if c.isalnum() else " " for c in path])
    return "_".join([*text.split(), str(d)])
