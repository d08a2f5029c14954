"""Functions of arrays: traced once for each kind of arguments, compiled, called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Final

from tensorad.building import Lowered, lower
from tensorad.codegen.runtime.memory_report import MemoryUse
from tensorad.errors import BindError, BoundsError, DefinitionError, ShapeError, UserError
from tensorad.ir.arrays.tracing import is_tracing, tracing
from tensorad.ir.dtypes import DType
from tensorad.ir.reference.known import current as current_evaluation
from tensorad.ir.reference.known import is_known
from tensorad.ir.tensor import Block, FunctionCall, Shape, Tensor, outputs
from tensorad.program.call_rules import Derivative, OperatorRule, check_captured
from tensorad.program.calling.arguments import (
    Arguments,
    Caller,
    Extents,
    as_argument,
    as_operands,
    block_key,
    extents,
    has_tensors,
    leaf_dtypes,
    with_function_leaves,
)
from tensorad.program.calling.in_place import Call, CallKind, kind_of, references_of
from tensorad.program.calling.quick import Quick
from tensorad.program.calling.refusals import check_nesting, not_resized
from tensorad.program.calling.resizing import Resizing
from tensorad.program.calls import check_callable
from tensorad.program.compiled_programs import Compiled, Example, Kind
from tensorad.program.leaf_types import function_types, without_functions
from tensorad.program.recursion import (
    Frame,
    Resized,
    called_again,
    frames_of,
    is_valid,
    note_rests,
    rests_on_around,
)
from tensorad.program.traces import (
    Program,
    check_closed,
    check_no_references,
    rests_on_loops,
)
from tensorad.program.values import as_tensor

fresh: Final[ContextVar[tuple[Tensor, ...]]] = ContextVar("fresh", default=())
"""Parameters that only the function that was just called has: it may differentiate by them."""


class Function:
    """A function of trees of arrays; see `function`."""

    def __init__(
        self,
        wrapped: Callable[..., Any],
        static_argnames: Collection[str] = (),
        name: str | None = None,
        is_inline: bool = False,
        returns: Any = None,
        is_fixed: bool = False,
    ) -> None:
        """
        Args:
            is_inline: called with tensors, it writes down what it does where it is called.
            is_fixed: what it reads from outside is the same each time, and functions among its
                arguments are those of their types.
        """
        check_callable(wrapped, "the argument of function")
        update_wrapper(self, wrapped, updated=())
        self.name: str = name or str(getattr(wrapped, "__name__", type(wrapped).__name__))
        self.wrapped = wrapped
        self.static_argnames = tuple(static_argnames)
        self._caller = Caller(wrapped, self.name, static_argnames)
        self._is_inline = is_inline
        self._is_fixed = is_fixed
        self.returns = returns
        """An example of the result, or a function of the arguments that makes one."""
        self._quick = Quick(self._caller.positions, self.static_argnames, self._caller.placed)
        self._kinds: dict[object, Kind] = {}
        self._blocks: dict[object, Program] = {}
        self._of_numbers: dict[CallKind, None] = {}
        """Kinds of calls that are not written down with sizes where calls inside have other
        extents."""
        self._in_callers: set[object] = set()
        """Kinds of calls that have a part in references of their callers."""
        self.derived: dict[object, Any] = {}
        """Its derivatives, by what was asked for."""
        self.rule: Derivative | None = None
        """Its derivative, if that is not its formulas'."""
        self._is_called = False
        """Whether a program calls it."""

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<Function {self.name}{self._caller.signature}>"

    @property
    def is_inline(self) -> bool:
        """Whether a call with tensors writes down what it does where it is called."""
        return self._is_inline

    def with_static(self, names: Sequence[str]) -> Function:
        """The function with more static parameters."""
        static = (*self.static_argnames, *names)
        return Function(self.wrapped, static, self.name, self._is_inline, self.returns)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The result: of arrays NumPy's arrays, of tensors tensors."""
        inside = is_tracing()
        quick = None if inside else self._quick.find(args, options)
        if quick is not None and quick[2] is not None:
            return quick[2](quick[1])
        given = self._caller.bind(args, options)
        if inside or has_tensors(given.leaves):
            return self._inside(given)
        compiled, result = self._run(given)
        if quick is not None:
            self._quick.learn(quick[0], compiled.of_numbers(given.leaves))
        return result

    def give_rule(self, rule: Derivative) -> None:
        """Say what its derivative is, before anything is derived.

        Raises:
            DefinitionError: a program calls it already.
        """
        if self._is_called:
            raise DefinitionError(
                f"a program calls {self.name} already, with the derivative that it had.",
                where=repr(self),
                hint="give the rule before; or make the operator again with ta.function.",
            )
        self.rule = rule

    def trace(self, *args: Any, **options: Any) -> Program:
        """The program that a call with these arguments runs."""
        given = self._caller.bind(args, options)
        if has_tensors(given.leaves):
            program = self._block(given)
            check_no_references(program)
            return program
        return self._compiled(given)[0].program

    def lower(self, *args: Any, **options: Any) -> Lowered:
        """The loops that a call with these arguments runs."""
        program = self.trace(*args, **options)
        return lower(list(program.results), list(program.parameters))

    def memory(self, *args: Any, **options: Any) -> MemoryUse:
        """The bytes that a call with these arguments uses."""
        example = self.example(*args, **options)
        return example.compiled.memory_at(**example.sizes)

    def example(self, *args: Any, **options: Any) -> Example:
        """The program that a call with these arguments runs, with their values.

        Raises:
            BindError: a tensor is among the arguments.
        """
        given = self._caller.bind(args, options)
        for value, path in zip(given.leaves, given.paths, strict=True):
            if has_tensors([value]):
                raise BindError(
                    f"an example of a call of {self.name} has a tensor in it: {path}.",
                    hint="pass arrays and numbers; or call the function with tensors and pass "
                    "the tensors that it returns.",
                )
        compiled, leaves = self._compiled(given)
        return Example(compiled, leaves)

    def _compiled(self, given: Arguments) -> tuple[Compiled, list[Any]]:
        dtypes = leaf_dtypes(given.leaves, given.paths)
        own = extents(given.leaves)
        key = (given.structures, dtypes, tuple(map(len, own)))
        kind = self._kinds.get(key)
        if kind is None:
            kind = Kind(given.paths)
        compiled = kind.known(own) or self._traced_for(kind, given, dtypes, own)
        self._kinds[key] = kind
        triples = zip(given.leaves, given.paths, dtypes, strict=True)
        return compiled, [as_argument(*three) for three in triples]

    def _run(self, given: Arguments) -> tuple[Compiled, Any]:
        """What ran, and its result."""
        compiled, leaves = self._compiled(given)
        try:
            return compiled, compiled(leaves)
        except (BoundsError, ShapeError):
            if compiled.takes(leaves):
                raise
        compiled = self._for_shape(given)
        return compiled, compiled(leaves)

    def _for_shape(self, given: Arguments) -> Compiled:
        """The program for this shape alone, where one with sizes does not take it: slices are cut
        to extents that are numbers, and errors name numbers."""
        dtypes = leaf_dtypes(given.leaves, given.paths)
        own = extents(given.leaves)
        kind = self._kinds[(given.structures, dtypes, tuple(map(len, own)))]
        program = self._traced(given, own, dtypes)
        check_closed(program)
        kind.alone[own] = Compiled(program)
        return kind.alone[own]

    def _traced_for(
        self, kind: Kind, given: Arguments, dtypes: Sequence[DType], own: Extents
    ) -> Compiled:
        """A program for one more shape: with sizes, or where it cannot have them with numbers."""
        shapes = own if kind.is_fixed else kind.shapes.covering(own)
        try:
            program = self._traced(given, shapes, dtypes)
        except (UserError, TypeError):
            if shapes is own:
                raise
            shapes = own
            program = self._traced(given, shapes, dtypes)
            kind.is_fixed = True
        check_closed(program)
        kind.shapes.seen.append(own)
        compiled = Compiled(program)
        kind.made.append((shapes, compiled))
        return compiled

    def _traced(
        self, given: Arguments, shapes: Sequence[Shape], dtypes: Sequence[DType]
    ) -> Program:
        """The program for these shapes. Where calls inside have other extents, these are sizes; if
        it cannot be written down so, there is a program inside for each shape."""
        check_nesting([f.given for f in frames_of(self)[::-1]], self.name, given)
        alike = tuple(dtypes) if self._is_fixed else without_functions(dtypes)
        key = (self, given.structures, alike)
        kind = kind_of(given, self._is_fixed)
        own, refused = Resizing(shapes), None
        while True:
            may_resize = kind not in self._of_numbers
            frame = self._frame(key, given, shapes, dtypes, own, may_resize)
            try:
                made = self._written(frame)
            except Resized as resized:
                if resized.frame is not frame:
                    raise
                own = resized.shapes
                continue
            except (UserError, TypeError) as error:
                if not own.sizes:
                    raise error if refused is None else not_resized(error, refused) from None
                refused = error
            else:
                if made.definition is not None or not own.sizes:
                    return made
            self._of_numbers[kind] = None
            own = Resizing(shapes)

    def _frame(
        self, key: tuple[object, ...], given: Arguments, shapes: Sequence[Shape],
        dtypes: Sequence[DType], own: Resizing, may_resize: bool,
    ) -> Frame:  # fmt: skip
        types = dtypes if self._is_fixed else function_types(given.paths, dtypes)
        frame = Frame(key, self.name, given, types, shapes, own, may_resize)
        if self.returns is not None:
            frame.declare(self._declared(given, frame.params))
        return frame

    def _written(self, frame: Frame) -> Program:
        given = frame.given

        def write(params: Sequence[Tensor]) -> Any:
            token = fresh.set(tuple(params) if self._is_inline else ())
            try:
                return self._caller(given.structures, params)
            finally:
                fresh.reset(token)

        made = frame.written(write)
        return replace(made, arguments=given.structures, rests_on=tuple(frame.rests_on))

    def _declared(self, given: Arguments, params: Sequence[Tensor]) -> Any:
        """An example of the result for these arguments."""
        if not callable(self.returns) or isinstance(self.returns, Tensor):
            return self.returns
        with tracing():
            return self._caller.of(self.returns)(given.structures, params)

    def _block(self, given: Arguments) -> Program:
        """The program for tensors, shared by calls of the same shapes if it reads nothing else."""
        key = block_key(given)
        program = self._blocks.get(key)
        if program is None or not is_valid(program.rests_on):
            _, dtypes, own = key
            program = self._traced(given, own, dtypes)
            is_closed = not program.reads and not rests_on_around(program)
            has_references = program.references or references_of(given)
            if not has_references and (self._is_fixed or is_closed):
                self._blocks[key] = program  # what it reads will be the same tensors next time
        note_rests(program.rests_on)
        return program

    def _recurs(self, given: Arguments) -> tuple[Frame, Arguments] | None:
        """The same function, for arguments of the same kind, that is being written down; and the
        arguments as it takes them."""
        ranks = [len(s) for s in extents(given.leaves)]
        for frame in frames_of(self):
            if not frame.places and frame.shapes.ranks != ranks:
                continue
            own = with_function_leaves(given, frame.places)
            dtypes = leaf_dtypes(own.leaves, own.paths)
            dtypes = dtypes if self._is_fixed else without_functions(dtypes)
            is_alike = frame.key == (self, own.structures, dtypes)
            if is_alike and frame.takes(extents(own.leaves)):
                return frame, own
        return None

    def _in_place(self, given: Arguments, has_numbers: bool = False) -> Any:
        """What the function does, as statements of the program that calls it.

        Args:
            has_numbers: whether numbers stay what they are.
        """
        dtypes = leaf_dtypes(given.leaves, given.paths)
        typed = zip(given.leaves, given.paths, dtypes, strict=True)
        own = fresh.set(())
        try:
            with tracing():
                kept = (bool, int, float) if has_numbers else ()
                leaves = [v if type(v) in kept else as_tensor(v, p, d) for v, p, d in typed]
                return self._caller(given.structures, leaves)
        finally:
            fresh.reset(own)

    def _inside(self, given: Arguments) -> Any:
        """A call of the function, as a part of a program."""
        if self._is_inline or (self._in_callers and block_key(given) in self._in_callers):
            return self._in_place(given)
        evaluation = current_evaluation()
        is_told = self.rule is None and any(map(is_known, given.leaves))
        if evaluation is None or not is_told:
            return self._staying(given)
        if not evaluation.is_spent(self):
            with evaluation.unfolding(self, self.name):
                return self._in_place(given, has_numbers=True)
        try:
            return self._staying(given)
        except UserError as e:
            raise evaluation.spent(self.name, e) from None

    def _staying(self, given: Arguments) -> Any:
        """A call that stays one, unless what it has to do with references keeps it from that."""
        again = self._recurs(given)
        if again is not None:
            return self._called(*again)
        if self.rule is None and references_of(given):
            return self._given_references(given)
        program = self._block(given)
        is_recursive = program.definition is not None
        if self.rule is None and not is_recursive and program.references:
            self._in_callers.add(block_key(given))
            return self._in_place(given)
        if self.rule is None and not is_recursive and rests_on_loops(program):
            return self._in_place(given)  # no other function has counters
        return self._call_of(program, given)

    def _given_references(self, given: Arguments) -> Any:
        """A call with references among its arguments. It is written down where it is, as what is
        kept by what is called would keep references; one that calls itself stays a call."""

        def staying() -> Any:
            program = self._block(given)
            if program.definition is None:
                return self._in_place(given)
            return self._call_of(program, given)

        call = Call(self, self.name, given, self._is_fixed)
        call.check(self._of_numbers)
        return call.written(lambda: self._in_place(given), staying)

    def _called(self, frame: Frame, given: Arguments) -> Any:
        """A call inside of what is being written down."""
        return frame.call(as_operands(given, frame.params))

    def _call_of(self, program: Program, given: Arguments) -> Any:
        """A call of a program."""
        if not program.results:
            return program.tree(())
        operands = as_operands(given, program.parameters)
        self._is_called = True
        if program.definition is not None and self.rule is None:
            return program.tree(called_again(program, operands))
        block = Block((*program.parameters, *program.reads), program.results)
        rule = None
        if self.rule is not None:
            check_captured(self.name, program.reads)
            check_no_references(program)
            arguments = self._caller.by_position(given.structures)
            rule = OperatorRule(self.rule, self.name, arguments, program.structure).rule
        operands += program.reads
        op = FunctionCall(program.paths, tuple(operands), (block,), function=self.name, rule=rule)
        return program.tree(outputs(op))


def function(
    wrapped: Callable[..., Any] | None = None,
    *,
    static_argnames: Collection[str] | str = (),
    returns: Any = None,
) -> Any:
    """A compiled function of arrays, numbers and trees of them; also a decorator.

    It is called once for each structure, dtypes and ranks of its arguments, with tensors in their
    place, to write down what it does; calls then run machine code. Called with tensors it is a
    part of their program. When a second shape of an argument arrives, the extents that differ
    become symbolic sizes. A function that is called by itself for arguments of the same kind, under
    a branch, is recursive.

    Args:
        wrapped: a function of trees that returns a tree; see `register_tree` for what trees are.
            A `Function`, such as `ta.grad(f)`, is one already.
            Strings, callables and enums among its arguments are static: each value is traced.
        static_argnames: names of parameters that are static, too.
        returns: what a recursive function returns, where no branch tells it: a tree of tensors,
            arrays and numbers like the result, or a function of the arguments that returns one.
    Returns:
        a `Function`, of arrays NumPy's arrays; `trace`, `lower` and `memory` show what calls do.
    Raises:
        DefinitionError: a static argument cannot be hashed, an argument is no tree, or the
            result needs a tensor that is no argument; a call of itself has no known type.
        LimitError: it is called by itself for other and other kinds of arguments.
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if wrapped is None:
        return lambda f: function(f, static_argnames=names, returns=returns)
    if not isinstance(wrapped, Function):
        return Function(wrapped, names, returns=returns)
    more = [n for n in names if n not in wrapped.static_argnames]
    return wrapped.with_static(more) if more else wrapped


jit: Final = function
