"""Functions that call themselves: what is being written down, and calls of it that stay calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from os.path import basename
from types import CodeType
from typing import Any, Final

from tensorad.errors import DefinitionError, DTypeError, InternalError, LimitError, ShapeError
from tensorad.ir.analysis.blocks import captures, inner_ops, op_sizes, ops_between, tells_trips
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, LocalSize, Size
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Definition, Field, recursion
from tensorad.ir.source import is_own
from tensorad.ir.tensor import Op, Tensor, births, dim_expr
from tensorad.program.calling.arguments import Arguments, extents
from tensorad.program.data.function_types import (
    ANY_FUNCTION,
    FunctionsType,
    inner_functions,
    written_inside,
)
from tensorad.program.leaf_types import LeafTypes, with_leaves, with_values
from tensorad.program.sides import first_difference, side_by_side
from tensorad.program.traces import Program, Round, traced
from tensorad.program.trees import Branching, Flat, flatten, statics, unflatten
from tensorad.program.values import as_tensor, parameter, parameters, weak

MOST_OPEN: Final = 500
"""A function that is called for other and other kinds of arguments is nested no deeper."""
_MOST_ROUNDS: Final = 64
"""A number is promoted twice at the most, and what is captured is known a round later."""
_MOST_COMPOSED: Final = 8
"""A function that is given other functions of the same code each time is nested no deeper."""
_LARGE: Final = 1 << 40
"""No array has this extent."""
_open: Final[ContextVar[tuple[Frame, ...]]] = ContextVar("open", default=())
"""What is being written down, the outermost first."""


class Awaited(Exception):
    """A call whose type is not known yet: nothing can be written down that rests on it."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.name)
        self.frame = frame


class Frame:
    """A function that is being written down for one kind of arguments.

    Attributes:
        key: tells what is written down.
        given: its arguments; `params` stand for their leaves.
        type: of its result, once it is known.
        captured: tensors from outside that every call is given.
        rests_on: functions around that are called.
    """

    def __init__(
        self, key: tuple[object, ...], name: str, given: Arguments, params: list[Tensor]
    ) -> None:
        self.key = key
        self.name = name
        self.given = given
        self.params = params
        self.type: LeafTypes | None = None
        self.is_declared = False
        self.captured: tuple[Tensor, ...] = ()
        self.round = Round(None)
        self.is_called = False
        self.rests_on: dict[Round, None] = {}
        self._results: list[Tensor] = []
        self._n_functions: list[int] = []
        self._start = 0

    def declare(self, tree: object) -> None:
        """Say what type the result has."""
        self.type = LeafTypes(flatten(tree, self.name), self.name)
        self.is_declared = True

    def written(self, write: Callable[[Sequence[Tensor]], Any]) -> Program:
        """The program, written down until the types of results are those of calls inside.

        Raises:
            DefinitionError: what a call gives cannot be known.
            ShapeError, DTypeError: a result is of another type than calls inside.
        """
        for _ in range(_MOST_ROUNDS):
            self._begin()
            around = not _open.get()
            own = written_inside(self.params, is_outermost=around)
            with _opened(self), weak(self._numbers()), own:
                program, result = self._once(write)
                if not self.is_called and not self.is_declared:
                    return program if around else self._with_values(result, program)
                if self._is_settled(result, program):
                    return self._completed(program)
        raise InternalError(f"the result of {self.name} has no type")

    @property
    def _functions(self) -> list[FunctionsType]:
        """Types of parameters that are functions."""
        return [t.dtype for t in self.params if isinstance(t.dtype, FunctionsType)]

    def _begin(self) -> None:
        self._n_functions = [len(t.chosen) for t in self._functions]
        self.is_called, self.rests_on, self.round = False, {}, Round(None)
        if self.type is not None:
            kinds = zip(self.type.flat.paths, self.type.shapes, self.type.dtypes, strict=True)
            own = [Field(*three) for three in kinds]
            self.round = Round(Definition(self.name, (*self.params, *self.captured), own))

    def _numbers(self) -> list[tuple[Definition, int]]:
        """The results of calls that stand for Python numbers."""
        definition = self.round.definition
        if self.type is None or definition is None:
            return []
        pairs = [(definition, n) for n in range(len(self.type.own))]
        return [pair for pair in pairs if self.type.is_number(pair[1])]

    def _once(self, write: Callable[[Sequence[Tensor]], Any]) -> tuple[Program, Flat]:
        kept: list[Flat] = []

        def noted(params: Sequence[Tensor]) -> Any:
            result = write(params)
            kept.append(flatten(result, self.name))
            return result

        self._start = births()
        try:
            program = traced(self.name, noted, self.params)
        except Awaited as awaited:
            if awaited.frame is self:
                raise self._without_type() from None
            raise
        except RecursionError as error:
            if len(_open.get()) > 1:
                raise
            raise _endless(self.name, error) from None
        return program, kept[0]

    def _without_type(self) -> DefinitionError:
        return DefinitionError(
            f"{self.name} calls itself before it is known what it returns.",
            where=f"{self.name}({', '.join(self.given.paths)})",
            hint="let a branch of ta.cond, ta.switch or ta.match return without calling it, or "
            "say what it returns: ta.function(returns=...) takes an example, or a function of the "
            "arguments.",
        )

    def _is_settled(self, result: Flat, program: Program) -> bool:
        """Whether types and captured tensors are those that calls inside had."""
        if self.type is None:
            self.type = LeafTypes(self._opened(result), self.name)
            return False
        before = self.type.n_functions
        result = self._opened(result)
        result, is_new = self.type.meet(result)
        self._check_structure(result)
        if is_new or self.type.join(result.leaves) or self.type.promote(result.leaves):
            return False
        self._check_leaves(result)
        self._results = self.type.tensors(result.leaves)
        if self.type.n_functions > before or self._n_functions != [
            len(t.chosen) for t in self._functions
        ]:
            return False
        if not self.is_called:
            return True
        reads = self._captured(program)
        same = dict.fromkeys(reads) == dict.fromkeys(self.captured)
        self.captured = self.captured if same else reads
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

    def _wanted(self) -> Flat:
        assert self.type is not None, "what is compared is known"
        own = self.type
        return Flat(list(own.parameters(self.name)), own.flat.paths, own.flat.structure)

    def _titles(self) -> tuple[str, str]:
        return ("declared" if self.is_declared else "its calls", "returned")

    def _check_structure(self, result: Flat) -> None:
        wanted = self._wanted()
        path = first_difference(wanted, result, self.name)
        if path is not None:
            raise DefinitionError(
                f"{self.name} returns another structure than "
                f"{'was declared' if self.is_declared else 'its calls of itself'}, first at "
                f"{path}.",
                where=side_by_side(self._titles(), wanted, result, self.name),
                hint="return a tree of one structure in each call.",
            )

    def _check_leaves(self, result: Flat) -> None:
        assert self.type is not None, "the structure was compared"
        for n, value in enumerate(result.leaves):
            if self.type.same_shape(n, value) and self.type.takes(n, value):
                continue
            of_shape = not self.type.same_shape(n, value)
            kind = ShapeError if of_shape else DTypeError
            raise kind(
                f"{self.name} returns another {'shape' if of_shape else 'dtype'} than "
                f"{'was declared' if self.is_declared else 'its calls of itself'} at "
                f"{self.type.flat.paths[n]}.",
                where=side_by_side(self._titles(), self._wanted(), result, self.name),
                hint="a function that calls itself returns one type: "
                + ("broadcast or reshape." if of_shape else "convert with .astype(dtype)."),
            )

    def _captured(self, program: Program) -> tuple[Tensor, ...]:
        """What calls are given beside the arguments: what is read, and what has its sizes.

        Raises:
            DefinitionError: the counter of a loop around is used, or a size that no tensor has.
        """
        own = (*self.params, *program.reads)
        ops = ops_between(program.results, dict.fromkeys(own))
        told = dict.fromkeys([o.trips for o in (*ops, *inner_ops(ops)) if tells_trips(o)])
        used = _used_sizes(ops, program.results)
        known = dict.fromkeys([n for t in own for n in t.shape if isinstance(n, Expr)])
        found = list(program.reads)
        for size in used:
            if isinstance(size, LocalSize) and size not in told:
                raise DefinitionError(
                    f"{self.name} calls itself, and uses {size.label}, which belongs to a loop "
                    "around it.",
                    where=f"{self.name}({', '.join(self.given.paths)})",
                    hint=f"make {size.label} an argument.",
                )
            if size not in known and size not in told:
                found.append(_with_extent(size, self.name))
                known[size] = None
        self._check_extents(program)
        return tuple(dict.fromkeys(found))

    def _check_extents(self, program: Program) -> None:
        for t, path in zip(program.results, program.paths, strict=True):
            if any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape))):
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
        for t in self._functions:
            t.is_open = False
        results = self._results
        if not self.is_called or not results:
            return replace(program, results=tuple(results))
        definition.complete(results)
        self.round.is_complete = True
        types = [p.dtype for p in self.params], [p.shape for p in self.params]
        params = parameters(self.given.paths, types[1], types[0], self.name)
        calls = recursion(definition, (*params, *self.captured))
        return replace(
            program, parameters=tuple(params), results=calls, reads=self.captured,
            definition=definition,
        )  # fmt: skip

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
        structure = self.type.flat.structure
        if not self.type.own:
            return unflatten(structure, ())
        return unflatten(structure, recursion(definition, (*leaves, *self.captured)))


def _used_sizes(ops: Sequence[Op], results: Sequence[Tensor]) -> list[Size]:
    """The sizes in operations, and in the shapes of results."""
    found = dict.fromkeys([s for op in ops for s in op_sizes(op)])
    shapes = [dim_expr(n) for t in results for n in t.shape]
    found.update(dict.fromkeys([s for s in sizes_in(*shapes) if not isinstance(s, LocalSize)]))
    return list(found)


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


def function_types(paths: Sequence[str], dtypes: Sequence[DType]) -> list[DType]:
    """The dtypes of parameters, functions being of types to which others may be added."""
    found: list[DType] = []
    for path, dtype in zip(paths, dtypes, strict=True):
        own = dtype
        if isinstance(dtype, FunctionsType):
            own = FunctionsType(path)
            own.tensor_of(parameter(path, (), dtype, path))
        found.append(own)
    return found


def without_functions(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    """The dtypes, functions being alike."""
    return tuple([ANY_FUNCTION if d.is_function else d for d in dtypes])


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


def check_nesting(function: object, name: str, given: Arguments) -> None:
    """A function is not called for ever other arguments.

    Raises:
        LimitError: it is nested too deep in itself.
    """
    own = frames_of(function)[::-1]
    is_large = any(isinstance(n, int) and n > _LARGE for s in extents(given.leaves) for n in s)
    kind = _by_code(given)
    composed = [f for f in own if _by_code(f.given) == kind]
    if len(own) < MOST_OPEN and len(composed) < _MOST_COMPOSED and not (own and is_large):
        return
    before, now = _signature(own[-1].given), _signature(given)
    raise LimitError(
        f"{name} calls itself {len(own)} times, each time with arguments of another kind.",
        where=side_by_side(("a call", "the call inside"), before, now, ""),
        hint="a call of the same kind stays a call: let shapes, dtypes and static arguments be "
        "the same in each (functions are, given as ta.fn(f)); a count that is static ends the "
        "calls by a Python if.",
    )


def _by_code(given: Arguments) -> object:
    """What tells arguments apart, functions by their code alone."""
    found: list[object] = [extents(given.leaves)]
    for name, structure in given.structures:
        for path, value in statics(structure, name):
            found.append((path, getattr(value, "__code__", value)))
    return found


def _endless(name: str, error: RecursionError) -> DefinitionError:
    """What to say of a Python function that calls itself without end."""
    codes: list[CodeType] = []
    at = error.__traceback__
    while at is not None:
        codes.append(at.tb_frame.f_code)
        at = at.tb_next
    users = Counter([c for c in codes if not is_own(c.co_filename)])
    code = users.most_common(1)[0][0]
    return DefinitionError(
        f"{name} calls functions without end while it is written down.",
        where=f"{code.co_name} at {basename(code.co_filename)}:{code.co_firstlineno}",
        hint="a Python function that calls itself under a branch of ta.cond is written down again "
        "in each call: decorate it with @ta.function, so that its calls stay calls.",
    )


def _signature(given: Arguments) -> Flat:
    names = tuple([name for name, _ in given.structures])
    children = tuple([s for _, s in given.structures])
    return Flat(given.leaves, given.paths, Branching(dict, names, names, children))
