"""Derivatives that users give for functions of trees: in one direction or both (`custom_rule`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.program.call_rules import Asked, Derivative, Moving
from tensorad.program.calls import check_callable
from tensorad.program.functions import Function

Anything = Callable[..., Any]


@dataclass(frozen=True)
class SavingVjp:
    """vjp(save(*args, out), cotangent, *args)."""

    vjp: Anything
    save: Anything | None

    def __call__(self, asked: Asked) -> Any:
        call = asked.call
        saved = call.result if self.save is None else self.save(*call.every, call.result)
        return self.vjp(saved, asked.gradient, *call.every)


@dataclass(frozen=True)
class AlongTangents:
    """jvp(primals, tangents)."""

    jvp: Anything

    def __call__(self, moving: Moving) -> Any:
        return self.jvp(moving.call.every, moving.tangents)


def custom_rule(
    *, vjp: Anything | None = None, jvp: Anything | None = None, save: Anything | None = None
) -> Callable[[Anything], Function]:
    """A decorator: a function whose derivative is given, in place of that of its formulas.

        @ta.custom_rule(vjp=lambda out, cotangent, x: [cotangent * out])
        def exp(x):
            return ta.exp(x)

    One direction is enough for both modes and for any order: both are linear maps, the missing
    one is the given one transposed, and a rule consists of formulas, which are differentiated
    themselves. It holds wherever a program calls the function, in branches and loops too.

    Args:
        vjp: (saved, cotangent, *args) -> a list (or tuple) with the adjoint of each argument, a
            tree like it; `ta.no_grad` or None where nothing flows, and in the places of static
            arguments. The cotangent is a tree like the result, None at integers.
        jvp: (primals, tangents) -> the tangent of the result, a tree like it; `ta.no_grad` or None
            where nothing moves. Both are tuples with a tree for each argument; the tangent is 0
            where an argument does not move, None at integers and for static arguments.
        save: (*args, result) -> `saved`, any tree: what vjp needs of the forward run; left out it
            is the result. It is a formula like others: whether loops store it or compute it again
            is decided where everything is.
        All of them get arguments by position, as the call has them.
    Returns:
        a decorator, from a function of trees (or a `ta.function`, which stays as it is) to a
        `Function`. It reads nothing but its arguments.
    Raises:
        DefinitionError: neither direction is given, something given is no function, or `save` has
            no vjp.
        GradError, ShapeError, DTypeError: when the derivative is asked for: a rule returns
            something that is not like the arguments, or like the result; one that has to be
            transposed is not linear.
    Source: the decorators `custom_vjp` and `custom_jvp` of JAX; `deriv_handler` of nGraph for
        composites.
    """
    derivative = _derivative(vjp, jvp, save)

    def decorate(wrapped: Anything) -> Function:
        check_callable(wrapped, "what custom_rule decorates")
        own = wrapped if isinstance(wrapped, Function) else None
        made = Function(
            own.wrapped if own else wrapped,
            own.static_argnames if own else (),
            own.name if own else None,
        )
        made.give_rule(derivative)
        return made

    return decorate


def _derivative(vjp: Anything | None, jvp: Anything | None, save: Anything | None) -> Derivative:
    for name, rule in (("vjp", vjp), ("jvp", jvp), ("save", save)):
        if rule is not None:
            check_callable(rule, f"{name} of custom_rule")
    if vjp is None and (jvp is None or save is not None):
        what = "neither vjp nor jvp" if jvp is None else "save, but no vjp"
        raise DefinitionError(
            f"custom_rule is given {what}.",
            hint="write @ta.custom_rule(vjp=...) or (jvp=...); the other direction follows.",
        )
    return Derivative(
        None if vjp is None else SavingVjp(vjp, save),
        None if jvp is None else AlongTangents(jvp),
        counts_static=True,
    )
