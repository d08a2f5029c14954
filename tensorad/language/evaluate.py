"""The partial evaluator: programs run on tensors of a trace, numbers, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.errors import DTypeError, GradError, ShapeError
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import Const, Expr
from tensorad.ir.records import tag_of
from tensorad.ir.reference.known import Evaluation, current, evaluating, known
from tensorad.ir.tensor import Compute, Shape, Tensor, outputs
from tensorad.language.formulas import tensors_of
from tensorad.language.machine import Machine, one_or_all
from tensorad.language.operators import applied, arrays_made, folded
from tensorad.language.residual.calls import Calls
from tensorad.language.residual.cells import State, TracedCell, fitted, held_by, traced_cell
from tensorad.language.residual.chosen import Called, has_functions, is_chosen
from tensorad.language.residual.kinds import alike, data_of, is_data
from tensorad.language.terms import (
    Binding,
    Formula,
    Function,
    If,
    Loop,
    Match,
    Name,
    Operator,
    Program,
)
from tensorad.language.types import (
    FunctionText,
    Meaning,
    NamedText,
    TensorText,
    TypeText,
    dtype_named,
)
from tensorad.language.values import (
    Cell,
    Closure,
    Derived,
    Env,
    Tagged,
    Value,
    adjoints,
    leaves,
    mapped,
    with_floats,
)
from tensorad.program.branches import branched, cond
from tensorad.program.calls import shape_of
from tensorad.program.data.instances import Instance
from tensorad.program.forms import jvp, value_and_grad
from tensorad.program.kinds.references import Chosen
from tensorad.program.loops import for_loop, is_written_out, while_loop
from tensorad.program.references import frames
from tensorad.program.trees import Fixed, unflatten
from tensorad.program.values import alone, as_tensor, dtype_of, is_number


def evaluated(program: Program, name: str, args: Sequence[Value]) -> Value:
    """The result of a function of tensors; within a trace.

    Raises:
        UserError: a term is applied to what it does not take; the error has its line.
        LimitError: a function is unfolded too often.
    """
    with evaluating(current()) as evaluation:
        run = Evaluator(program, evaluation)
        return run.apply(run.function(name), tuple([data_of(a, program.data) for a in args]))


class Evaluator(Machine[Any]):
    """Values are numbers, formulas of counters, and tensors."""

    references = (Cell, Chosen)

    def __init__(self, program: Program, evaluation: Evaluation) -> None:
        super().__init__(program)
        self.evaluation = evaluation
        self.depth = 0
        self.made_cells: list[TracedCell] = []
        self.stays = Calls(self)

    # calls

    def apply(self, function: Value, args: tuple[Value, ...]) -> Value:
        """A call: unfolded, or one that stays.

        Raises:
            LimitError: the function was unfolded too often.
        """
        f = self.callable(function)
        if isinstance(f, Tensor):
            given = [Fixed(a) if type(a) is float else a for a in args]
            return self.joined(lambda: f(*given))
        return self.stays.apply(f, args) if isinstance(f, Closure) else super().apply(f, args)

    def called(self, function: Value, args: tuple[Value, ...]) -> Value:
        """A call of a function that data chose, inside of the branch that tells which it is."""
        self.depth += 1
        try:
            return self.apply(function, args)
        finally:
            self.depth -= 1

    def unfolded(self, f: Closure, args: tuple[Value, ...]) -> Value:
        """The result of a call, written down where it is called."""
        with self.evaluation.unfolding(f.function, f.function.name):
            return super().apply(f, args)

    def is_spent(self, code: Function) -> bool:
        """Whether a function was unfolded as often as it may be."""
        return self.evaluation.is_spent(code)

    def state(self) -> State:
        """What references hold, and what was counted so far."""
        held = {cell: cell.held for cell in self.made_cells}
        return State(held, replace(self.effects), len(self.evaluation.made))

    def restore(self, state: State) -> None:
        """Go back to a state."""
        del self.made_cells[len(state.held) :]
        for cell, held in state.held.items():
            cell.held = held
        self.effects = state.effects
        del self.evaluation.made[state.made :]

    def held_in(self, state: State, cell: Cell) -> Value:
        """What a reference held in a state."""
        held = state.held[traced_cell(cell)]
        return unflatten(held.structure, held.leaves)

    def cells(self, name: str, line: int, count: int) -> list[TracedCell]:
        """References that hold nothing so far."""
        made = [TracedCell(name, line, held_by(name, ())) for _ in range(count)]
        self.made_cells += made
        return made

    def fill(self, cell: TracedCell, content: Value) -> None:
        """Let such a reference hold something first."""
        cell.held = held_by(cell.name, content)

    # values

    def tagged(self, tag: str, fields: tuple[Value, ...]) -> Tagged:
        """A value with a tag, which may be a record where data choose it."""
        made: Tagged = self.program.data.tagged(tag, fields)
        return made

    def callable(self, value: Value) -> Value:
        """A function value; one that data choose is a tensor."""
        if isinstance(value, Called):
            return value.value
        return value if is_chosen(value) else super().callable(value)

    def leaf(self, value: Value, title: str) -> Any:
        """A tensor or a number.

        Raises:
            DTypeError: it is something else.
        """
        if is_chosen(value) or is_data(value) or isinstance(value, (Called, Chosen, Instance)):
            raise DTypeError(
                f"{title} takes tensors and numbers, got {self.shown(value)}.",
                hint="call a function, or match a value of a sum.",
            )
        return super().leaf(value, title)

    def shown(self, value: Value) -> str:
        """What a value is, for errors."""
        if is_chosen(value) or isinstance(value, Called):
            return "a function that data choose"
        if isinstance(value, Chosen):
            return "a reference that data choose"
        if is_data(value):
            return f"a value of {self.program.data.sum_of(value.dtype) or value.dtype}"
        return super().shown(value)

    def fitted(self, t: TypeText, value: Value, meanings: dict[str, Any]) -> tuple[Value] | None:
        """Functions and tags that data choose by their types."""
        if is_chosen(value):
            return (value,) if isinstance(t, (FunctionText, NamedText)) else None
        if is_data(value):
            own = self.program.data.sum_of(value.dtype)
            is_other = isinstance(t, NamedText) and t.name in self.program.sums
            fits = isinstance(t, NamedText) and (not is_other or t.name == own)
            return (value,) if fits else None
        return super().fitted(t, value, meanings)

    def match(self, value: Value, term: Match, env: Env, b: Binding) -> Value:
        """The case of a tag that is known; otherwise a branch of all cases."""
        sums = self.program.data
        if isinstance(value, Instance):
            value = sums.value(value)
        if not is_data(value):
            return super().match(value, term, env, b)
        tags = sums.names(value.dtype)
        for tag in tags:
            self.case_of(term, tag)

        def case(n: int) -> Callable[[], Value]:
            return lambda: Machine.match(self, sums.opened(value, n), term, env, b)

        sides = {tag: case(n) for n, tag in enumerate(tags)}
        return self.joined(
            lambda: branched("match", "match", tag_of(value), sides, (), order=tuple(tags))
        )

    def kept(self, made: Any) -> Any:
        """What was made, remembered; numbers where they are known."""
        if isinstance(made, tuple):
            return tuple([self.kept(t) for t in made])
        if isinstance(made, Tensor):
            if not made.shape and made.dtype in (BOOL, INT64):
                value = known(made)
                if value is not None:
                    return bool(value) if made.dtype is BOOL else int(value)
            if not self.depth:
                self.evaluation.made.append(made)
        return made

    def type_of(self, value: Any) -> tuple[DType, Shape]:
        """Dtype and shape of a leaf."""
        return alone(dtype_of(value)), shape_of(value)

    def as_declared(self, t: TensorText, value: Value, meanings: dict[str, Any]) -> Any:
        """Numbers stay numbers where they have the dtype alone."""
        if not is_number(value):
            return value
        wanted, own = dtype_named(t.dtype, meanings), alone(dtype_of(value))
        if wanted is None or wanted is own or (own.is_float and not wanted.is_float):
            return value
        return as_tensor(value, "number", wanted)

    def formula(self, term: Formula, env: Env, b: Binding) -> tuple[Value, ...]:
        """The tensors of a formula; whole numbers are written into it."""
        meanings: dict[str, Meaning] = dict(env.meanings)
        tensors: dict[str, Tensor] = {}
        for n in term.reads:
            value = self.leaf(self.atom(Name(n), env), "a formula")
            if isinstance(value, Expr) or (is_number(value) and isinstance(value, int)):
                meanings[n] = value
            else:
                tensors[n] = as_tensor(value, n)
        made: tuple[Value, ...] = self.kept(tensors_of(term, tensors, meanings, b.line))
        return made

    def operator(self, term: Operator, args: Sequence[Any], b: Binding) -> Value:
        """What an operator makes."""
        if all(is_number(a) or isinstance(a, bool) for a in args):
            number = folded(term.name, args)
            if number is not None:
                return number
        options = dict(term.options)
        given = [as_tensor(a, "i") if isinstance(a, Expr) else a for a in args]
        made = arrays_made(lambda some: applied(term.name, some, options), given)
        return self.kept(_called(made, b))

    def new_cell(self, name: str, line: int, content: Value) -> Value:
        """A new reference of the trace."""
        made = TracedCell(name, line, held_by(name, content))
        self.made_cells.append(made)
        return made

    def read(self, cell: Cell | Chosen) -> Value:
        """What it holds here."""
        if isinstance(cell, Chosen):
            return self.joined(partial(cell.each, self.read))
        held = frames.read(traced_cell(cell))
        return unflatten(held.structure, held.leaves)

    def write(self, cell: Cell | Chosen, content: Value) -> None:
        """Let it hold something else from here on."""
        if isinstance(cell, Chosen):
            self.joined(partial(cell.each, lambda c: self.write(c, content)))
            return
        own = traced_cell(cell)
        frames.write(own, fitted(cell.name, frames.read(own), held_by(cell.name, content)))

    def branch(self, condition: Any, term: If, env: Env, b: Binding) -> Value:
        """The block that a known condition chooses; otherwise both, joined."""
        dtype, shape = self.type_of(condition)
        if dtype is not BOOL or shape:
            raise DTypeError(
                f"if takes a bool[], got {self.shown(condition)}.", hint="compare, x > 0.0."
            )
        value = known(condition)
        if value is not None:
            return self.block(term.then if value else term.orelse, Env(env, {}))
        arms = [lambda own=own: self.block(own, Env(env, {})) for own in (term.then, term.orelse)]
        return self.joined(lambda: cond(condition, *arms))

    def joined(self, run: Callable[[], Value]) -> Value:
        """What comes out of a branch or a loop."""
        self.depth += 1
        try:
            made = run()
        finally:
            self.depth -= 1
        return mapped(made, self.kept)

    def loop(self, term: Loop, env: Env, b: Binding) -> Value:
        """Few known iterations one after the other; otherwise a loop."""
        names = [n for n, _ in term.carries]
        start = self.atoms([a for _, a in term.carries], env)

        def own(carry: Value, counter: Any) -> Env:
            values = dict(zip(names, carry, strict=True))
            if term.counter is not None:
                values[term.counter] = counter.value if isinstance(counter, Const) else counter
            return Env(env, values)

        def body(counter: Any, carry: Value) -> Value:
            made = self.block(term.body, own(carry, counter))
            return (made,) if len(names) == 1 else made

        test = term.test
        if test is not None:
            return one_or_all(self.repeated(
                lambda carry: self.block(test, own(carry, None)), lambda c: body(None, c), start
            ))  # fmt: skip
        trips = self.leaf(self.atom(term.trips, env), "loop") if term.trips is not None else 0
        count = known(trips)
        is_out = count is not None and (
            is_written_out(int(count))
            or (has_functions(start) and int(count) <= self.evaluation.budget)
        )
        if is_out:
            carry: Value = start
            for n in range(int(count)):
                carry = body(n, carry)
            return one_or_all(carry)
        return one_or_all(self.joined(lambda: for_loop(0, trips, body, start)))

    def repeated(
        self, test: Callable[[Value], Value], body: Callable[[Value], Value], carry: Value
    ) -> Value:
        """Iterations whose tests are known, then a loop of the rest."""
        n = 0
        while is_written_out(n + 1):
            value = known(test(carry))
            if value is None:
                break
            if not value:
                return carry
            carry = body(carry)
            n += 1
        return self.joined(lambda: while_loop(test, body, carry))

    def derivative(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """By the derivatives of functions: adjoints are values like the arguments."""
        if f.kind == "jvp":
            return self.pushed(f, args)
        flat = [as_tensor(v, "x") for v in leaves(args) if self.is_float(v)]

        def run(*some: Tensor) -> Tensor:
            y = self.apply(f.of, with_floats(args, some, self.is_float))
            if (
                is_chosen(y)
                or is_data(y)
                or isinstance(y, (tuple, Closure, Derived, Cell, Tagged))
                or shape_of(y)
            ):
                raise ShapeError(
                    f"{f.kind} takes a function whose result is one float without axes, got "
                    f"{self.shown(y)}.",
                    hint="sum it, sum(y).",
                )
            return as_tensor(y, "y")

        if flat:
            y, found = value_and_grad(run, argnums=tuple(range(len(flat))))(*flat)
        else:
            y, found = run(), ()
        gradient = one_or_all(adjoints(args, self.kept(tuple(found)), self.is_float))
        return gradient if f.kind == "grad" else (self.kept(y), gradient)

    def pushed(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """jvp(f)(x, dx): the value, and the tangent."""
        if len(args) % 2:
            raise GradError(
                "the function that jvp makes takes a tangent for each argument.",
                hint="write jvp(f)(x, dx).",
            )
        own, along = args[: len(args) // 2], args[len(args) // 2 :]
        own, along = alike(own, along)
        flat = [as_tensor(v, "x") for v in leaves(own) if self.is_float(v)]
        given = [v for v in leaves(along) if self.is_float(v)]
        if len(given) != len(flat):
            raise GradError(
                f"jvp takes a tangent for each float of the arguments, {len(flat)}, got "
                f"{len(given)}.",
                hint="a tangent is a value like its argument, with a float for each float.",
            )
        tangents = [
            as_tensor(v, "dx", None if is_data(t) else t.dtype)
            for v, t in zip(given, flat, strict=True)
        ]
        result: list[Value] = []

        def run(*some: Tensor) -> tuple[Tensor, ...]:
            result.append(self.apply(f.of, with_floats(own, some, self.is_float)))
            return tuple([as_tensor(v, "y") for v in leaves(result[-1])])

        run.__name__ = f.of.function.name if isinstance(f.of, Closure) else f.of.kind
        ys, dys = jvp(run, tuple(flat), tuple(tangents))
        rest, moved = iter(self.kept(ys)), iter(self.kept(dys))
        y = mapped(result[-1], lambda v: next(rest))
        return y, mapped(y, lambda v: _tangent(v, next(moved)), ())

    def is_float(self, v: Any) -> bool:
        """Whether derivatives flow to a leaf: a float, or a value with floats of any tag."""
        return has_gradient(dtype_of(v))


def _called(made: Any, b: Binding) -> Any:
    """What an operator makes, by the name that the text gives it."""
    if b.is_named and len(b.names) == 1 and isinstance(made, Tensor):
        op = made.op
        if isinstance(op, Compute) and len(op.bodies) == 1:
            return outputs(replace(op, name=b.names[0]))[0]
    return made


def _tangent(y: Any, tangent: Any) -> Any:
    """The tangent of a leaf: () of what has none."""
    return () if tangent is None or is_chosen(y) else tangent
