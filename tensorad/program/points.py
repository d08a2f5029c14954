"""A function at a point, as tensors: arguments to differentiate by, results, checks of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.errors import BindError, DefinitionError, DTypeError, GradError, ShapeError
from tensorad.ir.analysis.blocks import captures
from tensorad.ir.arrays.elementwise import copy_of, same_dim
from tensorad.ir.dtypes import DType
from tensorad.ir.records import is_record, same_record
from tensorad.ir.tensor import Tensor, births, format_shape
from tensorad.program.calling.directions import direction, like_value
from tensorad.program.calls import bound_call, signature_of
from tensorad.program.data.instances import Instance
from tensorad.program.functions import Function, fresh
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Branching, Fixed, Flat, Leaf, Structure, flatten, unflatten
from tensorad.program.values import as_tensor, dtype_of
from tensorad.simplify.control.nested_branches import without_deep_branches
from tensorad.simplify.control.nested_calls import without_deep_calls

Argnums = int | Sequence[int]


class Target(NamedTuple):
    """A function that is differentiated."""

    function: Callable[..., Any]
    name: str
    parameters: Sequence[str]
    """Names of its positional parameters; others are args[3]."""
    static: Sequence[str] = ()
    """Those of them that are static."""

    def path(self, n: int) -> str:
        return self.parameters[n] if n < len(self.parameters) else f"args[{n}]"

    def moving(self, count: int) -> list[int]:
        """Which of `count` arguments are not static."""
        return [n for n in range(count) if self.path(n) not in self.static]

    def marked(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments as a tree in which static ones have no leaves."""
        moving = self.moving(len(args))
        return tuple([v if n in moving else Fixed(v) for n, v in enumerate(args)])


class Point:
    """The function's result at some arguments, and the leaves to differentiate by.

    Attributes:
        wanted: the arguments to differentiate by; `argnums` their positions among `count`.
        result: the result; `aux` what it returns beside.
    """

    def __init__(
        self,
        target: Target,
        args: Sequence[Any],
        options: Mapping[str, Any],
        argnums: Sequence[int],
        title: str,
        *,
        has_aux: bool = False,
        strict: bool = True,
        is_by: Callable[[DType], bool] = has_gradient,
    ) -> None:
        """
        Args:
            strict: integers among the arguments to differentiate by are an error.
            is_by: the dtypes of leaves to differentiate by.
        """
        self.target, self.title = target, title
        self.is_by = is_by
        self.argnums, self.count = tuple(argnums), len(args)
        own = dict.fromkeys(fresh.get())
        token, start = fresh.set(()), births()
        try:
            given = list(args)
            self.wanted: list[Flat] = []
            for n in argnums:
                flat = flatten(given[n], target.path(n))
                if strict:
                    check_floats(title, target, flat, target.path(n))
                pairs = zip(flat.leaves, flat.paths, strict=True)
                leaves = [_own(v, path, own) for v, path in pairs]
                self.wanted.append(flat._replace(leaves=leaves))
                given[n] = unflatten(flat.structure, leaves)
            bound_call(target.name, signature_of(target.function), given, options)
            made = target.function(*given, **options)
        finally:
            fresh.reset(token)
        self.aux: Any = None
        if has_aux:
            if not isinstance(made, tuple) or len(made) != 2:
                raise DefinitionError(
                    f"{target.name} must return a pair (result, aux), got {type(made).__name__}.",
                    where=f"{title} of {target.name} with has_aux=True",
                    hint="return both, or leave out has_aux.",
                )
            made, self.aux = made
        flat = flatten(made, target.name)
        pairs = zip(flat.leaves, flat.paths, strict=True)
        self.result = flat._replace(leaves=[as_tensor(v, path) for v, path in pairs])
        self._write_out(start)

    def _write_out(self, start: int) -> None:
        """Of what was written since `start`: calls that are nested deep are what they compute, and
        branches that are stand beside each other."""
        wanted = [t for flat in self.wanted for t in flat.leaves]
        results = self.result.leaves
        reads = captures(results, wanted, lambda op: True, since=start)
        given = [*wanted, *reads]
        opened = without_deep_branches(without_deep_calls(results, given), given)
        self.result = self.result._replace(leaves=opened)

    @property
    def leaves(self) -> list[Tensor]:
        """All leaves to differentiate by: floats, and values of data types with floats."""
        return [t for flat in self.wanted for t in flat.leaves if self.is_by(t.dtype)]

    def like_wanted(self, values: Sequence[object]) -> list[Any]:
        """Trees like the wanted arguments, of a value for each of `leaves`; None for integers."""
        rest = iter(values)
        return [
            unflatten(
                f.structure,
                [like_value(t, next(rest)) if self.is_by(t.dtype) else None for t in f.leaves],
            )
            for f in self.wanted
        ]

    def by_argument(self, values: Sequence[object]) -> tuple[Any, ...]:
        """The same for each argument; None for those that are not wanted."""
        found = dict(zip(self.argnums, self.like_wanted(values), strict=True))
        return tuple([found.get(n) for n in range(self.count)])

    @property
    def arguments(self) -> Flat:
        """The wanted arguments, each at its position."""
        trees = [unflatten(f.structure, f.leaves) for f in self.wanted]
        found = dict(zip(self.argnums, trees, strict=True))
        return flatten(tuple([found.get(n) for n in range(self.count)]), "arguments")

    def scalar(self) -> Tensor:
        """The result, if it is one 0-d float.

        Raises:
            ShapeError: it is something else.
        """
        name = self.target.name
        leaves = self.result.leaves
        hint = "sum it; return what else is wanted as aux, with has_aux=True; ta.vjp takes "
        hint += "results of any structure, ta.jacobian of any shape."
        if len(leaves) == 1 and self.result.paths[0] == name and not leaves[0].shape:
            y: Tensor = leaves[0]
            if y.dtype.is_float:
                return y
            if not is_record(y.dtype):
                hint = "integers and booleans have no derivative: convert with .astype('float32')."
        shown = [f"{p}: {leaf_text(t)}" for p, t in zip(self.result.paths, leaves, strict=True)]
        raise ShapeError(
            f"{self.title} needs a function whose result is one float without axes, but {name} "
            f"returns {'no array' if not leaves else ', '.join(shown[:8])}.",
            where=f"{self.title} of {name}",
            hint=hint,
        )


def _own(value: object, path: str, own: Mapping[Tensor, None]) -> Tensor:
    """The leaf as a tensor that nothing else reads: derivatives by it are by the argument alone."""
    t = as_tensor(value, path)
    if t in own:
        return t
    return same_record(t, path) if is_record(t.dtype) else copy_of(t, path)


def check_floats(title: str, target: Target, flat: Flat, name: str) -> None:
    """The leaves of the argument of this name are floats, or values of data types with some;
    in such values may be anything.

    Raises:
        DTypeError: one is an integer or boolean, or a value that has no float.
        GradError: there are none.
    """
    own = zip(flat.leaves, flat.paths, _are_in_values(flat.structure), strict=True)
    found = False
    for value, path, is_in_value in own:
        t = as_tensor(value, path)
        found |= has_gradient(t.dtype)
        if is_in_value or has_gradient(t.dtype):
            continue
        if is_record(t.dtype):
            raise DTypeError(
                f"{title} cannot differentiate {target.name} by {path} of the data type {t.dtype}, "
                "whose values have no floats.",
                where=f"{path} : {leaf_text(t)}",
                hint="choose another argument with argnums.",
            )
        raise DTypeError(
            f"{title} cannot differentiate {target.name} by {path} of dtype {t.dtype}: "
            "integers and booleans have no derivative.",
            where=f"{path} : {leaf_text(t)}",
            hint="pass it as a float, or as an argument that argnums leaves out.",
        )
    if not found:
        raise GradError(
            f"{title} has nothing to differentiate {target.name} by.",
            where=f"{name}, an argument without {'floats' if flat.leaves else 'arrays'}",
            hint="choose another argument with argnums.",
        )


def _are_in_values(structure: Structure) -> list[bool]:
    """Whether each leaf is inside of a value of a data type that is a container."""
    found: list[bool] = []
    stack = [(structure, False)]
    while stack:
        at, is_inside = stack.pop()
        if isinstance(at, Branching):
            is_inside |= issubclass(at.kind, Instance)
            stack += [(child, is_inside) for child in at.children[::-1]]
        elif isinstance(at, Leaf):
            found.append(is_inside)
    return found


def check_arrays(title: str, target: Target, flats: Sequence[Flat]) -> None:
    """What derivatives are of and by are arrays, so that there is an array for each two.

    Raises:
        GradError: one is a value of a data type.
    """
    for flat in flats:
        for path, value in zip(flat.paths, flat.leaves, strict=True):
            dtype = dtype_of(value)
            if is_record(dtype):
                raise GradError(
                    f"{title} of {target.name} has no array for {path}, a value of the data type "
                    f"{dtype}.",
                    where=f"{path} : {dtype}",
                    hint="ta.grad and ta.vjp return values like it; ta.jvp and ta.hvp take one as "
                    "a direction.",
                )


def check_directions(point: Point, mode: str | None) -> None:
    """A Jacobian has as many rows or columns as is known where it is written down.

    Args:
        mode: "forward": columns are counted, also by values of data types.
    Raises:
        GradError: how many there are is not known.
    """
    title = f"{point.title} of {point.target.name}"
    every = [pair for f in point.wanted for pair in zip(f.paths, f.leaves, strict=True)]
    values = [(path, x) for path, x in every if is_record(x.dtype) and point.is_by(x.dtype)]
    if not values:
        return
    path, x = values[0]
    if mode == "forward":
        raise GradError(
            f"{title} has no direction for each float of {path}, a value of the data type "
            f"{x.dtype}: data say how many it has.",
            where=f"{path} : {leaf_text(x)}",
            hint="ta.jvp and ta.hvp take a value as one direction; ta.jacrev has a row for each "
            "element of the result.",
        )
    for of, y in zip(point.result.paths, point.result.leaves, strict=True):
        if y.dtype.is_float and not all(isinstance(n, int) for n in y.shape):
            raise GradError(
                f"{title} by {path}, a value of the data type {x.dtype}, has fields of the shape "
                f"of {of}, {format_shape(y.shape)}, which is not known where it is written down.",
                where=f"{of} : {leaf_text(y)}",
                hint="extents of fields are numbers: give the arguments shapes in numbers, or use "
                "ta.vjp with one cotangent.",
            )


def check_argnums(argnums: object, title: str) -> tuple[int, ...]:
    """Positions of arguments as a tuple.

    Raises:
        GradError: something else, or a position twice.
    """
    found = tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)
    is_fine = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in found)
    if not is_fine or not found or len(set(found)) < len(found):
        raise GradError(
            f"argnums of {title} must be positions of arguments, got {argnums!r}.",
            where=title,
            hint="pass 0 for the first argument, or a tuple of different ones.",
        )
    return found


def check_positions(target: Target, argnums: Sequence[int], count: int, title: str) -> None:
    """There are arguments at the positions, and none is static."""
    static = [target.path(n) for n in argnums if target.path(n) in target.static]
    if static:
        raise GradError(
            f"{title} cannot differentiate {target.name} by {static[0]}, which is static.",
            where=f"{title} of {target.name}, argnums={tuple(argnums)!r}",
            hint="a static argument is a part of the program: leave it out of static_argnames, or "
            "of argnums.",
        )
    if max(argnums) >= count:
        raise BindError(
            f"{title} differentiates {target.name} by argument {max(argnums)}, but the call has "
            f"{count} positional ones.",
            where=f"{title} of {target.name}, argnums={tuple(argnums)!r}",
            hint="arguments to differentiate by are passed by position.",
        )


def like(
    flat: Flat, tree: object, title: str, kind: str, target: Target, name: str
) -> list[Tensor | None]:
    """The leaves of a tree of cotangents or tangents, one for each leaf; None for integers.

    Args:
        flat: what they belong to.
        kind: "cotangent" or "tangent".
        name: how errors call the tree.
    Raises:
        DefinitionError: the tree has another structure.
        ShapeError, DTypeError: a leaf has another shape, or is no float.
    """
    given = flatten(tree, name)
    floats = [has_gradient(t.dtype) for t in flat.leaves]
    holes = [0.0 if f else None for f in floats]
    masked = flatten(unflatten(flat.structure, holes), name)
    if given.structure == masked.structure:
        rest = iter(zip(given.leaves, given.paths, strict=True))
        pairs = [next(rest) if f else None for f in floats]
    elif given.structure == flat.structure:
        every = zip(given.leaves, given.paths, floats, strict=True)
        pairs = [(v, p) if f else None for v, p, f in every]
    else:
        wanted = Flat(flat.leaves, given.paths, flat.structure)
        path = first_difference(wanted, given, name)
        titles = ("wanted", "given")
        raise DefinitionError(
            f"the {kind} of {title} of {target.name} has another structure at {path}.",
            where=side_by_side(titles, wanted, given, name),
            hint=f"a {kind} is a tree like the one it belongs to; None stands for integers.",
        )
    made: list[Tensor | None] = []
    for t, pair in zip(flat.leaves, pairs, strict=True):
        made.append(None if pair is None else _fitted(t, *pair, kind, f"{title} of {target.name}"))
    return made


def _fitted(t: Tensor, value: object, path: str, kind: str, where: str) -> Tensor:
    subject = f"{kind} of {where}" if path == kind else f"{kind} {path} of {where}"
    if is_record(t.dtype):
        return direction(t, value, path, subject)
    c = as_tensor(value, path)
    if len(c.shape) != t.ndim or not all(map(same_dim, c.shape, t.shape)):
        raise ShapeError(
            f"the {subject} has shape {format_shape(c.shape)}, but what it belongs "
            f"to has shape {format_shape(t.shape)}.",
            where=f"{path} : {leaf_text(c)}",
            hint=f"a {kind} has the shape of its array.",
        )
    if not c.dtype.is_float and not isinstance(value, int):
        raise DTypeError(
            f"the {subject} has dtype {c.dtype}; it must be a float.",
            where=f"{path} : {leaf_text(c)}",
            hint="convert it to float32 or float64.",
        )
    return as_tensor(value, path, t.dtype)


def plain(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function that the user wrote, whose derivative is traced whole; one with a rule stays."""
    return f.wrapped if isinstance(f, Function) and f.rule is None else f
