"""Function values as trees: what they capture, and as Python functions where data choose them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import Parameter, Signature
from typing import Any

from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.language.terms import free_names
from tensorad.language.values import Cell, Closure, Derived, Env, Tagged, TopEnv, Value
from tensorad.program.data.closures import Captures, Same
from tensorad.program.trees import register_tree
from tensorad.program.values import as_tensor


def captured_names(f: Closure) -> list[str]:
    """Names of what a function uses from around it, without functions of the program."""
    own = f.function
    found = []
    for name in free_names(own.block, (own.name, *[n for n, _ in own.params])):
        env: Env | None = f.env
        while env is not None and name not in env.values:
            env = env.outer
        if env is not None and env.outer is not None:
            found.append(name)
    return found


def top_of(env: Env) -> TopEnv:
    """The names of the program."""
    at = env
    while at.outer is not None:
        at = at.outer
    assert isinstance(at, TopEnv), "programs are the outermost"
    return at


def _taken_apart(f: Closure) -> tuple[Iterable[Value], object]:
    """What a function value captures, and the rest of it."""
    names = captured_names(f)
    meanings = tuple(sorted(f.env.meanings.items(), key=lambda pair: pair[0]))
    return [f.env[n] for n in names], (f.function, tuple(names), meanings, Same(top_of(f.env)))


def _put_together(meta: Any, children: Sequence[Value]) -> Closure:
    function, names, meanings, top = meta
    own = Env(top.value, dict(zip(names, children, strict=True)), dict(meanings))
    return Closure(function, own)


def _derivative_taken_apart(f: Derived) -> tuple[Iterable[Value], object]:
    return (f.of,), (f.kind, Same(f.top))


def _derivative_put_together(meta: Any, children: Sequence[Value]) -> Derived:
    return Derived(meta[0], children[0], meta[1].value)


class Called(Captures):
    """A function value as a Python function."""

    def __init__(self, value: Closure | Derived) -> None:
        self.value = _settled(value)
        at = self.value
        while isinstance(at, Derived):
            at = at.of
        kind = Parameter.POSITIONAL_ONLY
        is_plain = isinstance(self.value, Closure)
        names = [n for n, _ in self.value.function.params] if isinstance(value, Closure) else []
        params = [Parameter(n, kind) for n in names]
        rest = [] if is_plain else [Parameter("args", Parameter.VAR_POSITIONAL)]
        self.__signature__ = Signature([*params, *rest])
        self.__name__ = at.function.name if isinstance(at, Closure) else "function"

    def __call__(self, *args: Any) -> Any:
        own = self.value
        top = own.top if isinstance(own, Derived) else top_of(own.env)
        assert top is not None and top.machine is not None, "a program is evaluated by a machine"
        return top.machine.called(own, args)

    @property
    def parts(self) -> tuple[object, ...]:
        """What tells it apart, tensors included."""
        return _parts(self.value)


def _parts(value: Value) -> tuple[object, ...]:
    match value:
        case Closure():
            children, meta = _taken_apart(value)
            assert isinstance(meta, tuple), "the code, names, meanings, the program"
            function, names, meanings, top = meta
            known = [part for pair in meanings for part in pair]
            return (Same(function), *names, *known, top, *map(_part, children))
        case Derived():
            return value.kind, _part(value.of)
    return value.tag, tuple(map(_part, value.fields))


def _part(value: Value) -> object:
    if isinstance(value, tuple):
        return tuple(map(_part, value))
    if isinstance(value, (Closure, Derived, Tagged)):
        return _parts(value)
    return Same(value) if isinstance(value, Cell) else value


def _settled(value: Value) -> Any:
    """The value with tensors in the place of formulas."""
    match value:
        case tuple():
            return tuple([_settled(v) for v in value])
        case Closure():
            children, meta = _taken_apart(value)
            return _put_together(meta, [_settled(v) for v in children])
        case Derived():
            return Derived(value.kind, _settled(value.of), value.top)
        case Expr():
            return as_tensor(value, "i")
    return value


def is_chosen(value: object) -> bool:
    """Whether it is a function that data choose, in a program."""
    return isinstance(value, Tensor) and value.is_function


def has_functions(value: Value) -> bool:
    """Whether a function or a tagged value is in it."""
    if isinstance(value, tuple):
        return any(map(has_functions, value))
    return isinstance(value, (Closure, Derived, Tagged))


register_tree(Closure, _taken_apart, _put_together, Called)
register_tree(Derived, _derivative_taken_apart, _derivative_put_together, Called)
