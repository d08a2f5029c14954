"""Functions that call themselves: what is being written down, and calls of it that stay calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import captures, inner_ops, op_sizes, ops_between, tells_trips
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, LocalSize, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Definition, Field, Recursion, recursion
from tensorad.ir.tensor import Op, Shape, Tensor, births, dim_expr
from tensorad.program.calling.arguments import Arguments, Extents, extents
from tensorad.program.calling.refusals import (
    check_leaves,
    check_structure,
    endless,
    ever_more_kinds,
    without_type,
)
from tensorad.program.calling.resizing import Resizing
from tensorad.program.data.function_types import (
    MOST_CODES,
    FunctionsType,
    codes,
    inner_functions,
    written_inside,
)
from tensorad.program.data.rounds import Rounds
from tensorad.program.leaf_types import LeafTypes, with_leaves, with_values
from tensorad.program.references.frames import Frame as Part
from tensorad.program.references.frames import check_apart, check_kept
from tensorad.program.references.frames import frame as part
from tensorad.program.references.slots import Slots
from tensorad.program.traces import Program, Round, traced
from tensorad.program.trees import Flat, flatten, statics, unflatten
from tensorad.program.values import as_tensor, dtype_of, parameters, weak

_MOST_ROUNDS: Final = 64
"""That find no function of other code, of which a program has so many. A number is promoted twice
at the most, and what is captured is known a round later; functions are of more kinds in each round
where each captures the one before, taken apart."""
_open: Final[ContextVar[tuple[Frame, ...]]] = ContextVar("open", default=())
"""What is being written down, the outermost first."""


class Awaited(Exception):
    """A call whose type is not known yet: nothing can be written down that rests on it."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.name)
        self.frame = frame


class Resized(Exception):
    """A call with other extents: its function is to be written down with sizes in their place."""

    def __init__(self, frame: Frame, shapes: Resizing) -> None:
        super().__init__(frame.name)
        self.frame = frame
        self.shapes = shapes


class Frame:
    """A function that is being written down for one kind of arguments.

    Attributes:
        key: tells what is written down; `depth`: inside of how many others.
        given: its arguments, of these `extents`; `params` stand for their leaves, `places` are the
            paths of functions among them.
        shapes: what the params have; sizes where extents differ from call to call.
        may_resize: whether it may be written down again with more sizes.
        type: of its result, once it is known.
        kept: what it writes in references of outside: every call is given the leaves, and gives
            them back; `held` stand for them.
        captured: tensors from outside that every call is given.
        around: sizes that loops, or calls, around the function give, and every call is given.
        rests_on: functions around that are called.
    """

    def __init__(
        self, key: tuple[object, ...], name: str, given: Arguments, dtypes: Sequence[DType],
        extents: Sequence[Shape], shapes: Resizing, may_resize: bool,
    ) -> None:  # fmt: skip
        self.key = key
        self.depth = len(_open.get())
        self.name = name
        self.given = given
        self._dtypes = dtypes
        pairs = zip(given.paths, dtypes, strict=True)
        self.places = [path for path, t in pairs if t.is_function]
        self.extents = tuple(extents)
        self.shapes = shapes
        self.params = self._parameters(shapes.shapes)
        self.may_resize = may_resize
        self.type: LeafTypes | None = None
        self.is_declared = False
        self.kept = Slots(name, has_own_types=True)
        self.held: list[Tensor] = []
        self.captured: tuple[Tensor, ...] = ()
        self.around: tuple[LocalSize, ...] = ()
        self.round = Round(None)
        self.is_called = False
        self.rests_on: dict[Round, None] = {}
        self._results: list[Tensor] = []
        self._n_functions: list[int] = []
        self._adds_functions = False  # alone, in the last round
        self._start = 0

    def _parameters(self, shapes: Sequence[Shape]) -> list[Tensor]:
        return parameters(self.given.paths, shapes, self._dtypes, self.name)

    def declare(self, tree: object) -> None:
        """Say what type the result has."""
        self.type = LeafTypes(flatten(tree, self.name), self.name)
        self.is_declared = True

    def written(self, write: Callable[[Sequence[Tensor]], Any]) -> Program:
        """The program, written down until the types of results are those of calls inside.

        Raises:
            DefinitionError: what a call gives cannot be known.
            LimitError: each time there are more kinds of functions.
            ShapeError, DTypeError: a result is of another type than calls inside.
        """
        rounds, n, more, known = Rounds.of(self.key[0]), 0, _MOST_ROUNDS, set[object]()
        while more:
            if n and not self._adds_functions:
                rounds.forget()
            self._begin()
            around = not _open.get()
            own = written_inside(self.params, is_outermost=around)
            with _opened(self), weak(self._numbers()), own:
                with rounds.again():
                    program, result, left = self._once(write)
                if not self.is_called and not self.is_declared:
                    return program if around else self._with_values(result, program)
                if self._is_settled(result, program, left):
                    return self._completed(program)
            found = codes([t for _, t in self._leaves_with_functions()])
            more -= len(known) >= MOST_CODES or found <= known
            known |= found
            n += 1
        leaves = self._leaves_with_functions() if self._adds_functions else []
        raise ever_more_kinds(self.name, leaves)

    def _leaves_with_functions(self) -> list[tuple[str, FunctionsType]]:
        """Arguments, parts of the result and of references that are functions: paths and types."""
        found = list(zip(self.given.paths, self._dtypes, strict=True))
        for t in (self.type, self.kept):
            found += zip(t.flat.paths, t.dtypes, strict=True) if t is not None else ()
        return [(path, t) for path, t in found if isinstance(t, FunctionsType)]

    @property
    def _functions(self) -> list[FunctionsType]:
        """Types of parameters that are functions."""
        return [t for t in self._dtypes if isinstance(t, FunctionsType)]

    def _begin(self) -> None:
        """A round begins, with parameters of its own: functions of others capture others."""
        self.params = self._parameters(self.shapes.shapes)
        self._n_functions = [len(t.chosen) for t in self._functions]
        self.held = self.kept.parameters(self.name)
        self._adds_functions = False
        self.kept.now()  # functions of outside are among those that data choose
        self.is_called, self.rests_on, self.round = False, {}, Round(None)
        if self.type is not None:
            own = [
                Field(*three)
                for t in (self.type, self.kept)
                for three in zip(t.flat.paths, t.shapes, t.dtypes, strict=True)
            ]
            params = (*self.params, *self.held, *self.captured)
            sizes = (*self.shapes.sizes, *self.around)
            self.round = Round(Definition(self.name, params, own, sizes=sizes))

    def _numbers(self) -> list[Tensor | tuple[Definition, int]]:
        """Parameters, and results of calls, that stand for Python numbers."""
        definition = self.round.definition
        if self.type is None or definition is None:
            return []
        pairs = [(t, n) for t in (self.type, self.kept) for n in range(len(t.own))]
        calls = [(definition, at) for at, (t, n) in enumerate(pairs) if t.is_number(n)]
        return [*self.kept.numbers(self.held), *calls]

    def _once(self, write: Callable[[Sequence[Tensor]], Any]) -> tuple[Program, Flat, Part]:
        kept: list[tuple[Flat, Part]] = []

        def noted(params: Sequence[Tensor]) -> Any:
            with part(self.name) as own:
                for cell, held in self.kept.held(self.held).items():
                    own.hold(cell, held)
                result = write(self.params)
            kept.append((flatten(result, self.name), own))
            return result

        self._start = births()
        try:
            program = traced(self.name, noted, (*self.params, *self.held))
        except Awaited as awaited:
            if awaited.frame is self:
                raise without_type(self.name, self.given.paths) from None
            raise
        except RecursionError as error:
            if len(_open.get()) > 1:
                raise
            raise endless(self.name, error) from None
        return program, *kept[0]

    def _is_settled(self, result: Flat, program: Program, left: Part) -> bool:
        """Whether types, references and captured tensors are those that calls inside had."""
        if self.is_called:
            check_kept([(result.structure, self.name)], "result", self.name)
            types = [*self._functions, *self.kept.dtypes, *(self.type.dtypes if self.type else ())]
            check_apart([*types, *map(dtype_of, result.leaves)], left, self.name)
        if self.type is None:
            self.type = LeafTypes(self._opened(result), self.name)
            return False
        before = self.type.n_functions + self.kept.n_chosen
        result = self._opened(result)
        result, is_new = self.type.meet(result)
        check_structure(self.name, self.type, result, self.is_declared)
        if is_new or self.type.join(result.leaves) or self.type.promote(result.leaves):
            return False
        if self.is_called and not self.kept.find(left, self.held):
            return False
        check_leaves(self.name, self.type, result, self.is_declared)
        self._results = self.type.tensors(result.leaves)
        self._results += self.kept.tensors(self.kept.values)
        if self.type.n_functions + self.kept.n_chosen > before or self._n_functions != [
            len(t.chosen) for t in self._functions
        ]:
            self._adds_functions = True
            return False
        if not self.is_called:
            return True
        own = (*self.params, *self.held)
        read = captures(self._results, own, lambda op: True, since=self._start)
        reads, around = self._captured(replace(program, reads=tuple(read)))
        same = dict.fromkeys(reads) == dict.fromkeys(self.captured)
        same = same and dict.fromkeys(around) == dict.fromkeys(self.around)
        if not same:
            self.captured, self.around = reads, around
        return same

    def _opened(self, result: Flat) -> Flat:
        """The result with leaves where functions capture what a call computes."""
        places = inner_functions(dict(statics(result.structure, self.name)))
        return with_leaves(result, self.name, places) if places else result

    def _with_values(self, result: Flat, program: Program) -> Program:
        """The program, functions among its results being values with what they capture."""
        flat = with_values(result, self.name)
        if flat is result:
            return program
        results = [as_tensor(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
        reads = captures(results, self.params, lambda op: True, since=self._start)
        return replace(
            program, results=tuple(results), paths=tuple(flat.paths), structure=flat.structure,
            reads=tuple(reads),
        )  # fmt: skip

    def _captured(self, program: Program) -> tuple[tuple[Tensor, ...], tuple[LocalSize, ...]]:
        """What calls are given beside the arguments: what is read, what has its sizes, and the
        sizes that only loops or calls around tell.

        Raises:
            DefinitionError: a size is used that no tensor has.
        """
        own = (*self.params, *self.held, *program.reads)
        ops = ops_between(self._results, dict.fromkeys(own))
        told = dict.fromkeys([o.trips for o in (*ops, *inner_ops(ops)) if tells_trips(o)])
        own_sizes: dict[Expr, None] = {**told, **dict.fromkeys(self.shapes.sizes)}
        used = dict.fromkeys(_used_sizes(ops, (*self._results, *own)))
        known = dict.fromkeys([n for t in own for n in t.shape if isinstance(n, Expr)])
        found = list(program.reads)
        around: dict[LocalSize, None] = {}
        for size in used:
            if isinstance(size, LocalSize):
                around.update({} if size in own_sizes else {size: None})
            elif size not in known:
                found.append(_with_extent(size, self.name))
                known[size] = None
        self._check_extents(program, told)
        return tuple(dict.fromkeys(found)), tuple(around)

    def _check_extents(self, program: Program, told: Collection[Expr]) -> None:
        for t, path in zip(program.results, program.paths, strict=True):
            if any(s in told for s in sizes_in(*map(dim_expr, t.shape))):
                raise DefinitionError(
                    f"{path} has a row for each iteration of a loop, and only its run tells how "
                    "many.",
                    where=f"{t.name} : {t.dtype}, of {self.name}",
                    hint="a function that calls itself returns one type: return what is computed "
                    "of all rows.",
                )

    def _completed(self, program: Program) -> Program:
        """The program: a call of the definition, if there is a call inside."""
        definition = self.round.definition
        assert self.type is not None and definition is not None, "both are known"
        self.type.close()
        self.kept.close()
        given = [v.dtype for v in self.given.leaves if isinstance(v, Tensor)]
        for t in self._functions:
            if t not in given:  # that of a loop around takes further functions
                t.is_open = False
        if not self.is_called or not self._results:  # calls without results do nothing outside
            own = definition if self.is_called else None
            return replace(program, results=tuple(self._results), definition=own)
        definition.complete(self._results)
        self.round.is_complete = True
        params = self._parameters(self.extents)
        sizes = self._sizes(self.extents)
        calls = recursion(definition, (*params, *self.kept.now(), *self.captured), sizes=sizes)
        return replace(
            program, parameters=tuple(params), results=calls, reads=self.captured,
            definition=definition, kept=self.kept,
        )  # fmt: skip

    def takes(self, given: Extents) -> bool:
        """Whether a call with arguments of these extents is a call of what is written down.

        Raises:
            Resized: it is to be written down again, so that it is.
        """
        if self.shapes.values(given) is not None:
            return True
        if self.may_resize and [len(s) for s in given] == self.shapes.ranks:
            raise Resized(self, self.shapes.widened(given, self.given.paths))
        return False

    def _sizes(self, given: Extents) -> list[Expr]:
        """The values of sizes in a call with arguments of these extents."""
        own = self.shapes.values(given)
        assert own is not None, "the call is one of this function"
        return [*own.values(), *self.around]

    def call(self, leaves: Sequence[Tensor]) -> Any:
        """The result of a call inside.

        Raises:
            Awaited: its type is not known yet.
        """
        self.is_called = True
        note_rests([self.round])
        definition = self.round.definition
        if definition is None or self.type is None:
            raise Awaited(self)
        structure, count = self.type.flat.structure, len(self.type.own)
        if not definition.types:
            return unflatten(structure, ())
        operands = (*leaves, *self.kept.now(), *self.captured)
        made = recursion(definition, operands, sizes=self._sizes(extents(leaves)))
        self.kept.store(made[count:])
        return unflatten(structure, made[:count])


def _used_sizes(ops: Sequence[Op], tensors: Sequence[Tensor]) -> list[Size]:
    """The sizes in operations, and in the shapes of some tensors."""
    found = dict.fromkeys([s for op in ops for s in op_sizes(op)])
    shapes = [dim_expr(n) for t in tensors for n in t.shape]
    return list({**found, **dict.fromkeys(sizes_in(*shapes))})


def called_again(program: Program, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of a function that calls itself, on other operands of the same shapes."""
    first = program.results[0].op
    assert isinstance(first, Recursion), "its results are those of its definition"
    assert program.kept is not None, "it has a definition"
    held = program.kept.now()
    made = recursion(first.definition, (*operands, *held, *program.reads), sizes=first.sizes)
    count = len(program.paths)
    program.kept.store(made[count:])
    return made[:count]


def rests_on_around(program: Program) -> bool:
    """Whether a function that calls itself uses sizes that loops, or calls, around it give, other
    than extents of its arguments."""
    first = program.results[0].op if program.definition is not None and program.results else None
    own = sizes_in(*[dim_expr(n) for t in program.parameters for n in t.shape])
    used = sizes_in(*first.sizes) if isinstance(first, Recursion) else ()
    return any(isinstance(s, LocalSize) and s not in own for s in used)


def _with_extent(size: Size, name: str) -> Tensor:
    """A parameter of a function around that has the extent."""
    for frame in _open.get():
        for t in frame.params:
            if size in t.shape:
                return t
    raise DefinitionError(
        f"{name} calls itself, and uses the size {size}, which is an extent of none of its "
        "arguments.",
        where=f"{name} with {size}",
        hint=f"pass an array with the extent {size}, or {size} as a number.",
    )


@contextmanager
def _opened(frame: Frame) -> Iterator[None]:
    token = _open.set((*_open.get(), frame))
    try:
        yield
    finally:
        _open.reset(token)


def what_is_traced() -> object:
    """The same object as long as the same function is traced, for the same kind of arguments."""
    return _open.get()


def frames_of(function: object) -> list[Frame]:
    """Where a function is being written down, the innermost first."""
    return [f for f in reversed(_open.get()) if f.key[0] is function]


def note_rests(rests: Sequence[Round]) -> None:
    """What is being written down rests on functions around it."""
    around = _open.get()
    for one in rests:
        at = [n for n, f in enumerate(around) if f.round is one]
        for f in around[at[-1] + 1 :] if at else ():
            f.rests_on[one] = None


def is_valid(rests: Sequence[Round]) -> bool:
    """Whether what rests on these may be used: they are complete, or still being written."""
    now = [f.round for f in _open.get()]
    return all(r.is_complete or (r.definition is not None and r in now) for r in rests)
