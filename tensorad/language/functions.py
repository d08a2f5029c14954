"""Functions of programs, to be called: with arrays compiled, with tensors as parts of a trace."""

from __future__ import annotations

import inspect
from typing import Any

from tensorad.errors import BindError, DefinitionError, counted, functions_hint
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.language import terms
from tensorad.language.evaluate import evaluated
from tensorad.language.residual.data import from_outside, shown
from tensorad.language.residual.first_order import check_first_order, check_no_function
from tensorad.language.terms import Program, free_names
from tensorad.language.values import Value
from tensorad.program.calling.arguments import has_tensors
from tensorad.program.functions import Function
from tensorad.program.traces import Program as Trace
from tensorad.program.trees import flatten


class LanguageFunction:
    """A function of a program: takes and returns arrays, numbers and tuples of them.

    It is a function like one that is written in Python: of tensors it writes down what it does, so
    `ta.function`, `ta.grad` and the others take it.

    Attributes:
        program: that it belongs to; `name`: of the function.
    """

    def __init__(self, program: Program, name: str) -> None:
        if name not in program.functions:
            raise DefinitionError(
                f"the program has no function {name}.",
                hint=functions_hint(program.functions),
            )
        self.program = program
        self.name = self.__name__ = name
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params = [inspect.Parameter(n, kind) for n, _ in program.functions[name].params]
        self.__signature__ = inspect.Signature(params)

        def on_tensors(*args: Any, **options: Any) -> Value:
            return self._on_tensors(*args, **options)

        on_tensors.__signature__ = self.__signature__  # type: ignore[attr-defined]  # for inspect
        self._compiled = Function(on_tensors, name=name)

    def __repr__(self) -> str:
        return f"<LanguageFunction {self.name}{self.__signature__}>"

    def __str__(self) -> str:
        return str(self.used)

    @property
    def used(self) -> Program:
        """The function with those that it calls."""
        wanted, found = [self.name], dict.fromkeys([self.name])
        while wanted:
            f = self.program.functions[wanted.pop()]
            names = [n for n in free_names(f.block) if n in self.program.functions]
            wanted += [n for n in names if n not in found]
            found.update(dict.fromkeys(names))
        own = {n: f for n, f in self.program.functions.items() if n in found}
        return Program(own, self.program.sums)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The result: of arrays NumPy's arrays, of tensors tensors.

        Raises:
            BindError: the arguments are not those of the parameters.
            UserError: a term is applied to what it does not take; the error has its line.
            LimitError: a recursion does not end when the program is written down.
        """
        if is_tracing():
            return self._on_tensors(*args, **options)
        sums = self.program.data
        for a in (*args, *options.values()):
            check_no_function(a)
        given = [from_outside(a, sums) for a in args]
        named = {n: from_outside(v, sums) for n, v in options.items()}
        if has_tensors(flatten((given, named)).leaves):
            return self._on_tensors(*args, **options)
        return shown(self._compiled(*given, **named), sums)

    def trace(self, *args: Any) -> Trace:
        """The program of tensors that a call with these arguments runs."""
        return self._compiled.trace(*[from_outside(a, self.program.data) for a in args])

    def _on_tensors(self, *args: Any, **options: Any) -> Value:
        try:
            bound = self.__signature__.bind(*args, **options)
        except TypeError as e:
            raise BindError(
                f"{self.name} takes {counted(len(self.__signature__.parameters), 'argument')}: "
                f"{e}.",
                where=f"{self.name}{self.__signature__}",
                hint="call it as it is defined.",
            ) from None
        made = evaluated(self.program, self.name, tuple(bound.arguments.values()))
        check_first_order(self.name, made)
        return made


def function_of(program: Program, name: str) -> LanguageFunction:
    """A function of the program.

    Raises:
        DefinitionError: it has none of this name.
    """
    return LanguageFunction(program, name)


terms.callable_of.fill(function_of)
