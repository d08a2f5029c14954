"""The functions of a program as records, from the tensors that they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import op_sizes, ops_between
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.expr import Expr, LocalSize, Size
from tensorad.ir.records import Definition, Recursion
from tensorad.ir.tensor import (
    Branch,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Placeholder,
    Replay,
    Saved,
    Scan,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.text import printer
from tensorad.ir.text.names import CallSizes, Names
from tensorad.ir.text.program import (
    Binding,
    Define,
    Field,
    Operand,
    Program,
    ProgramFunction,
    Replayed,
    Run,
    Scope,
    Tree,
    forest_leaves,
    shaped,
    tree_leaves,
)
from tensorad.ir.text.trampoline import Steps, run
from tensorad.ir.visit import op_inputs, placeholders

Signature = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""A function: its parameters, its results."""


Wanted = tuple[str, Sequence[tuple[str, Tree]], Tree]
"""A function to be listed: its name, its parameters, its results."""


def program_of(
    results: Tree,
    params: Sequence[tuple[str, Tree]] | None = None,
    name: str = "main",
) -> Program:
    """A function that returns `results`, after all functions that it calls.

    Args:
        params: names and placeholders; all placeholders behind the results, under their own
            names, unless given.
    """
    roots = tree_leaves(results)
    if params is None:
        params = [(t.name, t) for t in placeholders(roots)]
    return program_of_several([(name, params, results)])


def program_of_several(wanted: Sequence[Wanted], before: Program | None = None) -> Program:
    """Functions, and those that they call.

    Args:
        wanted: of different names.
        before: functions that are there already; they come first.
    """
    roots = forest_leaves([results for _, _, results in wanted])
    given = forest_leaves([tree for _, params, _ in wanted for _, tree in params])
    lister = Lister(saves_behind(roots, given), before)
    for one in wanted:
        lister.function_names.counts.setdefault(one[0], 1)
        lister.wanted[_leaves_of(one)] = one
    for one in wanted:
        run(lister.listed(one))
    return lister.program


def program_text(tensors: Sequence[Tensor], whole: bool) -> str:
    """A program that returns the tensors, called as the first; whole, or the last step alone."""
    params = None
    if not whole:
        inputs = dict.fromkeys([t for root in tensors for t in _before(root.op)])
        params = [(t.name, t) for t in inputs if not t.is_constant]
    results = tensors[0] if len(tensors) == 1 else tuple(tensors)
    return str(program_of(results, params, tensors[0].name)).rstrip("\n")


def _before(op: Op) -> Sequence[Tensor]:
    return op_inputs(op.control) if isinstance(op, Saved) else op_inputs(op)


@dataclass(frozen=True)
class Saves:
    """What is seen of the insides of blocks: by operation and block, and by function."""

    of: dict[tuple[Control, int], dict[Tensor, None]]
    of_function: dict[Signature, dict[Tensor, None]]

    def inside(self, op: Control, n: int) -> tuple[Tensor, ...]:
        """What is seen from outside, of one block of an operation."""
        return tuple(self.of.get((op, n), ()))


def saves_behind(roots: Sequence[Tensor], given: Iterable[Tensor]) -> Saves:
    """All `Saved` of a program, in its blocks, too."""
    found = Saves({}, {})
    seen: dict[Op, None] = {}
    pending: list[tuple[Sequence[Tensor], Iterable[Tensor]]] = [(roots, given)]
    while pending:
        wanted, params = pending.pop()
        for op in ops_between(wanted, dict.fromkeys(params)):
            if op in seen:
                continue
            seen[op] = None
            if isinstance(op, Saved):
                block = op.control.blocks[op.block]
                found.of.setdefault((op.control, op.block), {})[op.inner] = None
                if isinstance(op.control, FunctionCall):
                    own = found.of_function.setdefault(_signature(op.control), {})
                    own[op.inner] = None
                pending.append(((op.inner,), block.params))
            elif isinstance(op, Control) and not isinstance(op, Foreign):
                pending.extend([(b.results, b.params) for b in op.blocks])
                if isinstance(op, Recursion):
                    block = op.definition.block
                    pending.append((block.results, block.params))
    return found


def _signature(op: FunctionCall) -> Signature:
    return op.blocks[0].params, op.blocks[0].results


@dataclass
class Own:
    """What the blocks of one function have in common."""

    names: Names
    sizes: dict[Size, str] = field(default_factory=dict)
    called: Mapping[Tensor, str] = field(default_factory=dict)
    """Names for tensors in place of their own."""

    def local(self, size: Expr) -> None:
        """Give a loop's own size a name."""
        if isinstance(size, LocalSize) and size not in self.sizes:
            self.sizes[size] = self.names.unique(size.label)

    def name(self, tensors: Sequence[Tensor], known: dict[Tensor, str]) -> tuple[str, ...]:
        """New names for tensors."""
        for t in tensors:
            known[t] = self.names.unique(self.called.get(t, t.name))
        return tuple([known[t] for t in tensors])


class Lister:
    """Lists functions.

    Attributes:
        functions: by name, each after those that it calls.
        wanted: functions that have their names already, whether they are listed or not.
        versions: of functions by their names, those that have more of their inside.
        constants: all, by name.
    """

    def __init__(self, saves: Saves, before: Program | None = None) -> None:
        """`before`: functions that are there already."""
        self.saves = saves
        self.functions: dict[str, ProgramFunction] = {}
        self.by_signature: dict[Signature, ProgramFunction] = {}
        self.versions: dict[str, ProgramFunction] = {}
        self.wanted: dict[Signature, Wanted] = {}
        self.function_names = Names()
        self.definitions: dict[Definition, str] = {}
        self.sizes = CallSizes()
        self.constants: dict[str, Tensor] = {}
        self.constant_names: dict[Tensor, str] = {}
        self.global_names = Names()
        if before is not None:
            self.functions.update({f.name: f for f in before.functions})
            own = [f for f in before.functions if f.definition is None]
            self.by_signature.update({signature_of(f): f for f in own})
            self.definitions.update(
                {f.definition: f.name for f in before.functions if f.definition}
            )
            self.function_names = Names([f.name for f in before.functions])
            self.constants.update(before.constants)
            self.constant_names.update({t: name for name, t in before.constants.items()})
            self.global_names = Names(before.constants)

    @property
    def program(self) -> Program:
        """All functions."""
        return Program(tuple(self.functions.values()), self.constants)

    def listed(self, one: Wanted) -> Steps[ProgramFunction]:
        """A function under its name."""
        if one[0] not in self.functions:
            yield self.function(*one, is_named=True)
        return self.functions[one[0]]

    def function(
        self, name: str, params: Sequence[tuple[str, Tree]], results: Tree,
        extra: Sequence[Tensor] = (), is_named: bool = False, definition: Definition | None = None,
    ) -> Steps[ProgramFunction]:  # fmt: skip
        """List a function of these results and of what is seen of its inside.

        Args:
            is_named: the name is free, and is this function's.
            definition: what it defines.
        """
        own = Own(Names())
        given = forest_leaves([t for _, t in params])
        roots = tree_leaves(results)
        of_calls = () if definition is None else definition.sizes
        self.sizes.add(of_calls)
        ops = [*ops_between((*roots, *extra), dict.fromkeys(given)), *[t.op for t in given]]
        for size in (*[s for op in ops for s in op_sizes(op)], *of_calls):
            called_size = self.sizes(size)
            if called_size is not None:
                own.sizes[size] = called_size
                own.names.counts.setdefault(called_size, 1)
        fields: list[Binding] = []
        names: dict[Tensor, str] = {}
        called = [(own.names.unique(n), tree) for n, tree in params]
        for n, tree in called:
            name_fields(n, tree, own.names, names, fields)
        scope = yield self.scope(own, names, roots, extra, fields)
        scope = Scope(scope.bindings, (shaped(results, iter(scope.results)),), scope.names)
        unique = name if is_named else self.function_names.unique(name)
        made = ProgramFunction(unique, tuple(called), results, scope, own.sizes, definition)
        self.functions[unique] = made
        if definition is None:
            self.by_signature[signature_of(made)] = made
        return made

    def scope(
        self, own: Own, names: dict[Tensor, str], results: Sequence[Tensor],
        extra: Sequence[Tensor], bindings: Sequence[Binding] = (),
    ) -> Steps[Scope]:  # fmt: skip
        """The bindings behind some tensors; `names` has those that are given."""
        listed = list(bindings)
        ops = ops_between((*results, *extra), names)
        used = dict.fromkeys([*results, *extra, *[t for op in ops for t in op_inputs(op)]])
        for op in ops:
            match op:
                case Constant():
                    self.constant(outputs(op)[0])
                case Saved():
                    pass
                case Control():
                    binding = yield self.control(own, names, op)
                    listed.append(binding)
                case Placeholder():
                    raise InternalError(f"placeholder {op.name} is not given to the block")
                case _:
                    is_scan = isinstance(op, Scan)
                    tensors = tuple([t for t in outputs(op) if t in used or not is_scan])
                    called = own.name(tensors, names)
                    listed.append(Define(called, tensors))
        ends = tuple([self.name(t, names) for t in results])
        return Scope(tuple(listed), ends, names)

    def name(self, t: Tensor, names: Mapping[Tensor, str]) -> str:
        """What a tensor in reach is called."""
        return self.constant(t) if t.is_constant and t not in names else names[t]

    def constant(self, t: Tensor) -> str:
        """The name of a constant."""
        if t not in self.constant_names:
            self.constant_names[t] = name = self.global_names.unique(t.name)
            self.constants[name] = t
        return self.constant_names[t]

    def control(self, own: Own, names: dict[Tensor, str], op: Control) -> Steps[Binding]:
        """A call, a branch or a loop, and what is seen of its inside."""
        saves = [self.saves.inside(op, n) for n in range(len(op.blocks))]
        tensors = (*outputs(op), *[saved(op, t, n) for n, some in enumerate(saves) for t in some])
        called = own.name(tensors, names)
        if isinstance(op, Foreign):
            given = [self.name(t, names) for t in op.operands]
            inside = [Operand(None, n, t) for n, t in zip(given, op.operands, strict=True)]
            return Run(called, tensors, op, tuple(inside), ((),), (), None, op.function)
        if not op.blocks:
            own_name = ""
            if isinstance(op, Recursion):
                own_name = yield self.definition(op.definition)
            inside = [Operand(None, self.name(t, names), t) for t in op.operands]
            return Run(called, tensors, op, tuple(inside), (), (), None, own_name)
        if isinstance(op, FunctionCall):
            callee = yield self.callee(op)
            given = [self.name(t, names) for t in op.operands]
            inside = [Operand(None, n, t) for n, t in zip(given, op.operands, strict=True)]
            seen = tuple([self.name(t, callee.scope.names) for t in saves[0]])
            return Run(called, tensors, op, tuple(inside), (seen,), (), None, callee.name)
        first = op.operands[0] if isinstance(op, Branch) else None
        if isinstance(op, Loop):
            own.local(op.trips)
            own.local(op.counter)
            first = op.count
        inside = self.operands(own, names, op)
        scopes = []
        for n, block in enumerate(op.blocks):
            is_test = isinstance(op, Loop) and n == 1
            own_operands = test_operands(op, inside) if is_test else inside
            pairs = zip(block.params, own_operands, strict=True)
            at = {p: name_tree_root(o) for p, o in pairs}
            scope = yield self.scope(own, at, block.results, saves[n])
            scopes.append(scope)
        seen_by = [
            tuple([self.name(t, s.names) for t in some])
            for some, s in zip(saves, scopes, strict=True)
        ]
        index = None if first is None else self.name(first, names)
        replay = None
        if isinstance(op, Loop) and op.replay is not None:
            replay = yield self.replayed(own, names, op, op.replay)
        kept = tuple(seen_by)
        return Run(called, tensors, op, tuple(inside), kept, tuple(scopes), index, None, replay)

    def replayed(
        self, own: Own, names: dict[Tensor, str], op: Loop, replay: Replay
    ) -> Steps[Replayed]:
        """The block that computes carries again."""
        block, moving = replay.advance, replay.states + 2
        found: list[Operand] = []
        for p in block.params[:moving]:
            name = own.names.unique(p.name)
            found.append(Operand(name, name, p))
        for k, p in zip(replay.fixed, block.params[moving:], strict=True):
            t = op.operands[k]
            found.append(Operand(None if p is t else own.names.unique(p.name),
                                 self.name(t, names), p))  # fmt: skip
        at = {o.params: name_tree_root(o) for o in found if isinstance(o.params, Tensor)}
        scope = yield self.scope(own, at, block.results, ())
        return Replayed(tuple(found), scope)

    def operands(self, own: Own, names: dict[Tensor, str], op: Control) -> list[Operand]:
        """What blocks of a branch or loop are given; captured values keep their names."""
        given = op.operands[1:] if isinstance(op, Branch) else op.operands
        moving = op.carries + op.scanned if isinstance(op, Loop) else 0
        found = []
        for n, (t, p) in enumerate(zip(given, op.blocks[0].params, strict=True)):
            captured = n >= moving and p is t
            name = None if captured else own.names.unique(p.name)
            found.append(Operand(name, self.name(t, names), p))
        return found

    def definition(self, d: Definition) -> Steps[str]:
        """The name of a definition, which is listed where it is met first."""
        if d not in self.definitions:
            self.definitions[d] = self.function_names.unique(d.name)
            params = [(t.name, t) for t in d.params]
            results = d.block.results
            tree: Tree = results if len(results) > 1 else results[0]
            yield self.function(self.definitions[d], params, tree, (), True, d)
        return self.definitions[d]

    def callee(self, op: FunctionCall) -> Steps[ProgramFunction]:
        """The function that is called."""
        key = _signature(op)
        known = self.by_signature.get(key)
        if known is None and key in self.wanted:
            known = yield self.listed(self.wanted[key])
        if known is not None and _is_flat(known):
            made: ProgramFunction = yield self.version(known, key)
            return made
        params = [(t.name, t) for t in op.blocks[0].params]
        results: Tree = op.results if len(op.results) > 1 else op.results[0]
        extra = tuple(self.saves.of_function.get(key, ()))
        made = yield self.function(op.function, params, results, extra)
        return made

    def version(self, f: ProgramFunction, key: Signature) -> Steps[ProgramFunction]:
        """The function, or one like it that has all that is seen of its inside."""
        extra = tuple(self.saves.of_function.get(key, ()))
        if all(t in f.scope.names for t in extra):
            return f
        if f.name not in self.versions:
            made = yield self.function(f.name, f.params, f.results, extra)
            self.versions[f.name] = made
        return self.versions[f.name]


def _is_flat(f: ProgramFunction) -> bool:
    """Whether calls pass tensors, and get a tuple of them or one."""
    results = f.results if isinstance(f.results, tuple) else (f.results,)
    return all(isinstance(t, Tensor) for t in (*[tree for _, tree in f.params], *results))


def signature_of(f: ProgramFunction) -> Signature:
    """What tells functions apart."""
    return _leaves_of((f.name, f.params, f.results))


def _leaves_of(one: Wanted) -> Signature:
    _, params, results = one
    return forest_leaves([tree for _, tree in params]), forest_leaves([results])


def test_operands(op: Control, operands: Sequence[Operand]) -> list[Operand]:
    """Those that a loop's test is given: all but scanned ones."""
    if not isinstance(op, Loop):
        raise InternalError(f"{type(op).__name__} has no test")
    found, at = [], 0
    for o in operands:
        if not op.carries <= at < op.carries + op.scanned:
            found.append(o)
        at += len(tree_leaves(o.params))
    return found


def name_tree_root(o: Operand) -> str:
    """What a block calls an operand that is a tensor."""
    name = o.value if o.name is None else o.name
    if not isinstance(name, str):
        raise InternalError("an operand that is a tuple has no one name")
    return name


def name_fields(
    name: str, tree: Tree, names: Names, known: dict[Tensor, str], bindings: list[Binding]
) -> None:
    """Names for the parts of a tuple, by a binding for each."""
    stack = [(name, tree)]
    while stack:
        whole, part = stack.pop()
        if isinstance(part, Tensor):
            known[part] = whole
            continue
        fields = [(names.unique(f"{whole}_{n}"), t) for n, t in enumerate(part)]
        bindings += [Field(f, whole, n, t) for n, (f, t) in enumerate(fields)]
        stack.extend(reversed(fields))


printer.program_text.fill(program_text)
