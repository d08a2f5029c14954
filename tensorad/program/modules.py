"""Modules: functions by name, as programs that are printed, called, and differentiated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.errors import BindError, DefinitionError, ShapeError, counted, functions_hint
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Block, FunctionCall, Placeholder, Tensor, outputs
from tensorad.ir.text import program as text
from tensorad.ir.text.listing import Wanted, program_of_several
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import ProgramFunction, Tree, forest_leaves, tree_leaves
from tensorad.program.calling.arguments import (
    as_argument,
    as_result,
    extents,
    has_tensors,
    leaf_dtypes,
)
from tensorad.program.functions import Function
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.traces import Program, check_closed
from tensorad.program.trees import (
    Branching,
    Flat,
    Leaf,
    Static,
    Structure,
    flatten,
    unflatten,
)
from tensorad.program.values import as_tensor


class ModuleFunction:
    """A function of a module: called with arrays it runs machine code, with tensors it is a part
    of their program.

    Attributes:
        record: its bindings, one by one.
        arguments: the structure of each parameter; `result`: of what it returns.
    """

    def __init__(
        self, record: ProgramFunction, arguments: Sequence[Structure], result: Structure
    ) -> None:
        self.record = record
        self.arguments = tuple(arguments)
        self.result = result
        self._compiled: CompiledFunction | None = None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def __name__(self) -> str:
        return self.record.name

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_ONLY
        names = [n if n.isidentifier() else "_" for n, _ in self.record.params]
        unique = [n if names.count(n) == 1 else f"{n}_{k}" for k, n in enumerate(names)]
        return inspect.Signature([inspect.Parameter(n, kind) for n in unique])

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """A placeholder for each leaf of the arguments."""
        return forest_leaves([tree for _, tree in self.record.params])

    @property
    def results(self) -> tuple[Tensor, ...]:
        """A tensor for each leaf of the result."""
        return forest_leaves([self.record.results])

    def __str__(self) -> str:
        return str(self.record)

    def __repr__(self) -> str:
        return f"<ModuleFunction {self.name}({', '.join([n for n, _ in self.record.params])})>"

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The result: of arrays NumPy's arrays, of tensors tensors.

        Raises:
            BindError: another number of arguments, or one is passed by name.
            DefinitionError: one has another structure than its parameter.
            ShapeError, DTypeError: an array does not fit.
        """
        leaves, paths = self._leaves(args, options)
        if has_tensors(leaves):
            return self._inside(leaves, paths)
        if not self.results:
            return unflatten(self.result, ())
        if self._compiled is None:
            self._compiled = build(list(self.results), list(self.parameters), self.name)
        typed = zip(leaves, paths, self.parameters, strict=True)
        found = self._compiled(*[as_argument(v, path, t.dtype) for v, path, t in typed])
        several = [found] if len(self.results) == 1 else found
        return unflatten(self.result, [as_result(v) for v in several])

    def _leaves(
        self, args: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[list[Any], list[str]]:
        names = [n for n, _ in self.record.params]
        if options:
            raise BindError(
                f"{self.name} takes its arguments by position, got {', '.join(options)} by name.",
                where=f"{self.name}({', '.join(names)})",
                hint="call it with a value for each parameter, by position.",
            )
        if len(args) != len(names):
            raise BindError(
                f"{self.name} takes {counted(len(names), 'argument')}, got {len(args)}.",
                where=f"{self.name}({', '.join(names)})",
                hint="call it with a value for each parameter, by position.",
            )
        leaves: list[Any] = []
        paths: list[str] = []
        for value, (name, tree), structure in zip(
            args, self.record.params, self.arguments, strict=True
        ):
            given = flatten(value, name)
            if given.structure != structure:
                wanted = Flat(tree_leaves(tree), given.paths, structure)
                raise DefinitionError(
                    f"argument {name} of {self.name} has another structure at "
                    f"{first_difference(wanted, given, name)}.",
                    where=side_by_side(("wanted", "given"), wanted, given, name),
                    hint="an argument is a tree like its parameter.",
                )
            leaves += given.leaves
            paths += given.paths
        return leaves, paths

    def _inside(self, leaves: Sequence[Any], paths: Sequence[str]) -> Any:
        """A call of the function, as a part of a program."""
        operands = []
        for value, path, p in zip(leaves, paths, self.parameters, strict=True):
            t = as_tensor(value, path, p.dtype)
            if t.ndim != p.ndim or not all(map(same_dim, t.shape, p.shape)):
                raise ShapeError(
                    f"{path} of {self.name} is {leaf_text(p)}, but gets {leaf_text(t)}.",
                    where=f"a call of {self.name} with tensors",
                    hint="functions of modules have the shapes that they were made with.",
                )
            operands.append(t)
        if not self.results:
            return unflatten(self.result, ())
        block = Block(self.parameters, self.results)
        names = tuple([t.name for t in self.results])
        op = FunctionCall(names, tuple(operands), (block,), function=self.name)
        return unflatten(self.result, outputs(op))


@dataclass(frozen=True, eq=False)
class Module:
    """Functions by name; see `module`. It prints as the text that it is read from.

    Attributes:
        program: all functions, each after those that it calls.
        functions: by name.
    """

    program: text.Program
    functions: Mapping[str, ModuleFunction]

    def __getitem__(self, name: str) -> ModuleFunction:
        if name not in self.functions:
            raise DefinitionError(
                f"the module has no function {name}.",
                hint=functions_hint(self.functions),
            )
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def __str__(self) -> str:
        return str(self.program)

    def __repr__(self) -> str:
        return f"<Module {', '.join(self.functions)}>"

    def _repr_html_(self) -> str:
        return self.program._repr_html_()


def module(
    *functions: Function | Program | text.Program | Module | str | Callable[..., Any],
    constants: Mapping[str, object] | None = None,
    foreign: Mapping[str, Callable[..., Any]] | None = None,
) -> Module:
    """Functions by name, with everything that they call, as one program.

    Args:
        functions: each is
            a `ta.function`, or any callable, whose parameters have defaults: an array, a number
            or a tree of them is an example, `ta.placeholder((5, 5))` tells shape and dtype;
            what `f.trace(x, y)` returns, for arguments like these;
            the text of a program, or what `parse_program` returns;
            another module.
        constants: arrays by name, for large constants, whose elements are not in texts.
        foreign: functions of Python by name, which texts call: from arrays to an array, or a tuple
            of several.
    Returns:
        a `Module`: `m["f"]` is a function to be called, `print(m)` the program's text, which
        `ta.module(str(m))` reads. It never changes.
    Raises:
        DefinitionError: two functions or constants have one name, a parameter has no default,
            a function needs a tensor that is no parameter, or no text has a constant so called.
        ProgramTextError: a text is no program.
    Source: "Reverse Mode Automatic Differentiation in Relax" (2023), section 1.
    """
    known: dict[str, ModuleFunction] = {}
    named: dict[str, Tensor] = {}
    traces: dict[str, Program] = {}
    for given in functions:
        if isinstance(given, (str, text.Program, Module)):
            made = _as_module(given, constants, foreign)
            _add(known, made.functions, "functions")
            _add(named, made.program.constants, "constants")
            continue
        if not isinstance(given, Program) and (isinstance(given, Tensor) or not callable(given)):
            raise DefinitionError(
                f"module takes functions, traces, texts and other modules, got "
                f"{type(given).__name__}.",
                hint="write ta.module(f), with f a ta.function or any callable.",
            )
        trace = given if isinstance(given, Program) else _trace(given)
        check_closed(trace)
        _add(traces, {trace.name: trace}, "functions")
    _add(dict(known), traces, "functions")
    _check_used(constants or {}, named)
    before = text.Program(tuple([f.record for f in known.values()]), named)
    wanted = [as_wanted(t) for t in traces.values()]
    whole = program_of_several(wanted, before) if wanted else before
    own: dict[str, ModuleFunction] = {}
    for f in whole.functions:
        if f.name in traces:
            t = traces[f.name]
            arguments = [s for _, s in t.arguments if not isinstance(s, Static)]
            known[f.name] = ModuleFunction(f, arguments, t.structure)
        own[f.name] = known.get(f.name) or of_record(f)
    return Module(whole, MappingProxyType(own))


def of_record(f: ProgramFunction) -> ModuleFunction:
    """A function of tuples and tensors."""
    return ModuleFunction(
        f, [flatten(tree).structure for _, tree in f.params], flatten(f.results).structure
    )


def _as_module(
    given: str | text.Program | Module,
    constants: Mapping[str, object] | None,
    foreign: Mapping[str, Callable[..., Any]] | None,
) -> Module:
    if isinstance(given, Module):
        return given
    p = parse_program(given, constants, foreign) if isinstance(given, str) else given
    return Module(p, MappingProxyType({f.name: of_record(f) for f in p.functions}))


def _check_used(constants: Mapping[str, object], named: Mapping[str, Tensor]) -> None:
    for name in constants:
        if name not in named:
            raise DefinitionError(
                f"no text has a constant called {name}.",
                where="ta.module(..., constants=...)",
                hint=f"they are called {', '.join(named)}." if named else "leave it out.",
            )


def _add(known: dict[str, Any], new: Mapping[str, Any], what: str) -> None:
    for name, value in new.items():
        if known.setdefault(name, value) is not value:
            raise DefinitionError(
                f"there are two {what} called {name}.", hint="give one of them another name."
            )


def _trace(given: Function | Callable[..., Any]) -> Program:
    """A function written down at the defaults of its parameters."""
    f = given if isinstance(given, Function) else Function(given)
    examples: dict[str, Any] = {}
    for p in inspect.signature(f.wrapped).parameters.values():
        if p.default is p.empty:
            raise DefinitionError(
                f"parameter {p.name} of {f.name} has no default that tells its shape and dtype.",
                where=f"{f.name}{inspect.signature(f.wrapped)}",
                hint=f"write {p.name}=ta.placeholder((5, 5)), an example array, or pass "
                f"{f.name}.trace(...) to ta.module.",
            )
        examples[p.name] = p.default if p.name in f.static_argnames else _typed(p.default, p.name)
    return f.trace(**examples)


def _typed(example: object, name: str) -> Any:
    """The tree with placeholders like its leaves."""
    flat = flatten(example, name)
    dtypes = leaf_dtypes(flat.leaves, flat.paths)
    typed = zip(flat.paths, extents(flat.leaves), dtypes, strict=True)
    return unflatten(flat.structure, [outputs(Placeholder(*three))[0] for three in typed])


def as_wanted(t: Program) -> Wanted:
    """The function with trees as tuples."""
    rest = iter(t.parameters)
    params = [(n, _tuples(s, rest)) for n, s in t.arguments if not isinstance(s, Static)]
    return t.name, params, _tuples(t.structure, iter(t.results))


def _tuples(structure: Structure, leaves: Iterator[Tensor]) -> Tree:
    match structure:
        case Leaf():
            return next(leaves)
        case Branching():
            return tuple([_tuples(s, leaves) for s in structure.children])
    return ()
