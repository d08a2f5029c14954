"""`partial_eval`: a function some of whose arguments are known, and what becomes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorad.errors import DefinitionError, UserError
from tensorad.ir.reference.forms import TENSORS
from tensorad.ir.reference.known import MOST_ITERATIONS, MOST_UNFOLDINGS, Evaluation, evaluating
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.listing import Lister, saves_behind
from tensorad.ir.text.program import Program, forest_leaves
from tensorad.ir.text.trampoline import run
from tensorad.language.functions import LanguageFunction
from tensorad.passes import Pass, run_passes
from tensorad.process import deep_calls
from tensorad.program.calls import check_callable, signature_of
from tensorad.program.functions import Function
from tensorad.program.modules import as_wanted
from tensorad.program.points import plain
from tensorad.program.traces import Program as Trace
from tensorad.simplify.control.levels import outer_first
from tensorad.simplify.control.unused import drop_unused

Results = Sequence[Tensor]


@dataclass(frozen=True)
class Steps:
    """What becomes of a function: three programs, which print.

    Attributes:
        before: as it is written: a text as it stands, a Python function written down; in words if
            that takes evaluation, as of a recursion.
        evaluated: operators in order, nothing else: calls, function values and references are
            gone, branches by known values are chosen, loops of few known iterations written out.
            What is made and not used still stands there.
        result: without what no result rests on.
    """

    before: object
    evaluated: Program
    result: Program

    def __str__(self) -> str:
        titles = ("before", "after evaluation", "after dead code")
        texts = (self.before, self.evaluated, self.result)
        return "\n".join(
            [f"# {t}\n{str(p).rstrip()}\n" for t, p in zip(titles, texts, strict=True)]
        )


class PartiallyEvaluated(Function):
    """A function of the arguments that are left; see `partial_eval`."""

    def __init__(
        self, whole: Callable[..., Any], static: Mapping[str, Any], iterations: int, budget: int
    ) -> None:
        self.whole = whole
        self.static = dict(static)
        self._limits = (iterations, budget)
        own = signature_of(whole)
        left = [p for n, p in own.parameters.items() if n not in static]
        self._left = own.replace(parameters=left)
        self._order = list(own.parameters)
        super().__init__(self._wrapped(True), name=getattr(whole, "__name__", "function"))

    def _wrapped(self, is_evaluated: bool, evaluation: Evaluation | None = None) -> Any:
        def specialised(*args: Any, **options: Any) -> Any:
            bound = self._left.bind(*args, **options)
            whole = inspect.BoundArguments(signature_of(self.whole), bound.arguments)
            whole.arguments.update(self.static)
            order = {n: whole.arguments[n] for n in self._order if n in whole.arguments}
            whole.arguments = order
            if not is_evaluated:
                return self.whole(*whole.args, **whole.kwargs)
            with evaluating(evaluation or Evaluation(*self._limits)):
                return self.whole(*whole.args, **whole.kwargs)

        specialised.__name__ = getattr(self.whole, "__name__", "function")
        specialised.__signature__ = self._left  # type: ignore[attr-defined]  # what inspect reads
        return specialised

    def steps(self, *args: Any, **options: Any) -> Steps:
        """What becomes of a call with arguments like these: arrays or tensors."""
        evaluation = Evaluation(*self._limits)
        trace = Function(self._wrapped(True, evaluation), name=self.name).trace(*args, **options)
        before = self._before(args, options)
        return Steps(before, listed(trace, evaluation.made), listed(without_dead_code(trace)))

    def _before(self, args: Sequence[Any], options: Mapping[str, Any]) -> object:
        """The function as it is written; in words if it can be written down by evaluation alone."""
        if isinstance(self.whole, LanguageFunction):
            return self.whole.used
        try:
            return Function(self._wrapped(False), name=self.name).trace(*args, **options)
        except UserError as e:
            first = str(e).split("\n")[0]
            return f"{self.name} is a program only where it is evaluated; by itself: {first}"


def partial_eval(
    f: Callable[..., Any],
    static: Mapping[str, Any] | None = None,
    *,
    iterations: int = MOST_ITERATIONS,
    budget: int = MOST_UNFOLDINGS,
) -> PartiallyEvaluated:
    """The function with some arguments known, evaluated as far as they tell.

    Args:
        f: a `ta.function` or any function of trees, or one of a text, `ta.language.parse(t)["f"]`.
        static: values by parameter: numbers, arrays and trees of them, anything.
        iterations: loops with at most so many known iterations are written out.
        budget: how often one function of a text is unfolded at most.
    Returns:
        a function of the other parameters; its `steps(...)` shows what becomes of it.
    Raises:
        DefinitionError: `f` has no such parameter.
        LimitError: in a call: a function of a text is unfolded too often; the error has its name.
    """
    check_callable(f, "the first argument of partial_eval")
    whole = plain(f)
    names = list(signature_of(whole).parameters)
    for name in static or {}:
        if name not in names:
            raise DefinitionError(
                f"{getattr(f, '__name__', 'the function')} has no parameter {name}.",
                where=f"partial_eval(..., static={{{name!r}: ...}})",
                hint=f"it has {', '.join(names)}." if names else "it has none.",
            )
    return PartiallyEvaluated(whole, static or {}, iterations, budget)


def _unused(given: Results, results: Results) -> Results:
    found = outer_first(results, given, drop_unused)
    while not all(a is b for a, b in zip(found, results, strict=True)):
        results, found = found, outer_first(found, given, drop_unused)
    return results


PASSES: Final[tuple[Pass[Results, Results], ...]] = (
    Pass("dead_code", _unused, "after evaluation, which leaves what it makes"),
)


def without_dead_code(trace: Trace) -> Trace:
    """The same results without what they do not rest on: bindings, and parts of branches and loops.

    A trace has no effects: what it reads and writes of references is known when it is made.
    """
    with deep_calls.changed():
        results = run_passes(PASSES, trace.parameters, trace.results, TENSORS)
    return replace(trace, results=tuple(results))


def listed(trace: Trace, made: Sequence[Tensor] = ()) -> Program:
    """The trace binding by binding, with tensors that its results do not rest on."""
    name, params, results = as_wanted(trace)
    given = forest_leaves([tree for _, tree in params])
    extra = list(dict.fromkeys(made))
    lister = Lister(saves_behind([*trace.results, *extra], given))
    run(lister.function(name, params, results, extra, is_named=True))
    return lister.program
