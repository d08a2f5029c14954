"""Calls, branches and loops in the text of programs, and the statements of blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tensorad.errors import counted
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, LocalSize, Size
from tensorad.ir.records import (
    Definition,
    Fields,
    Inject,
    RecordType,
    Recursion,
    Tag,
    at_sizes,
)
from tensorad.ir.tensor import (
    Block,
    Control,
    FunctionCall,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.text.blocks import (
    Known,
    TypeTree,
    another,
    leaf_names,
    placeholder_tree,
    type_of,
)
from tensorad.ir.text.operations import Operations, Target
from tensorad.ir.text.program import (
    Bind,
    Operand,
    Replayed,
    Run,
    Scope,
    Tree,
    forest_leaves,
)
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps
from tensorad.ir.text.values import Value

_CALLS: Final = ("call", "checkpoint", "recompute")
Given = tuple[Operand, Tree]
"""What a block gets, and the value outside."""
Ends = tuple[Scope, list[Value], dict[str, Tensor]]
"""A block's record, what it results in, and what is seen of it from outside."""


class Controls(Operations):
    """Reads blocks.

    Attributes:
        definitions: by name; what they do may be read later.
        foreign: functions of Python, by name.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.definitions: dict[str, Definition] = {}
        self.foreign: Mapping[str, Callable[..., Any]] = {}
        self.of_calls: dict[str, LocalSize] = {}
        """Sizes that calls of definitions give, by names of the whole text."""

    def statements(self) -> Steps[None]:
        """All lines of a block up to the one that ends it."""
        while self.next.kind not in ("dedent", "end") and self.next.text not in (
            "yield", "return",
        ):  # fmt: skip
            yield self.statement()

    def statement(self) -> Steps[None]:
        """names = what they mean."""
        targets: list[Target] = []
        while True:
            token = self.expect_kind("name", "a statement")
            if token.text in self.known.values or token.text in [t.name for t in targets]:
                self.refuse(f"{token.text} is defined twice.", token, hint="give it another name.")
            targets.append(Target(token, self.skip_type() if self.accept(":") else None))
            if not self.accept(","):
                break
        self.expect("=")
        if self.accept("branch"):
            yield self.branch(targets)
        elif self.accept("loop"):
            yield self.loop(targets)
        elif self.next.text in _CALLS and self.next.kind == "word":
            word = self.next.text
            self.expect(word)
            yield self.call_of(targets, word)
            self.end_of_line()
        elif self.sees("foreign") and self.ahead(1).kind == "name":
            yield self.foreign_of(targets)
            self.end_of_line()
        elif self.is_of_records():
            yield self.of_records(targets)
            self.end_of_line()
        elif self.is_value(targets):
            yield self.bind(targets[0])
            self.end_of_line()
        else:
            yield self.define(targets)
            self.end_of_line()

    def end_of_line(self) -> None:
        """Go on to the next line."""
        self.expect_kind("line", "the end of the line")

    def is_value(self, targets: Sequence[Target]) -> bool:
        """Whether a value follows: a tuple, a field, another name, a call; no formula."""
        if len(targets) > 1:
            return False
        if targets[0].type is None:
            return not any(map(self.sees, ("scatter", "scan", "constant", "[", "{")))
        if self.tokens[targets[0].type].text == "(" or self.is_call():
            return True
        return self.is_place()

    def is_call(self) -> bool:
        """Whether a function of tensors is called; those of formulas go first."""
        name = self.next.text
        is_known = self.next.kind == "name" and name in self.program
        return is_known and self.ahead(1).text == "(" and not self.is_scalar_function(name)

    def is_of_records(self) -> bool:
        """Whether a record is made or read, or a definition called: a word before a name."""
        words = ("make", "tag", "fields", "recur")
        return any(map(self.sees, words)) and self.ahead(1).kind == "name"

    def of_records(self, targets: Sequence[Target]) -> Steps[None]:
        """make Cons(h, t), tag l, fields Cons of l, recur f(x)."""
        token, word = self.next, self.take().text
        names = tuple([t.name for t in targets])
        source = self.source(token)
        made: Control
        if word == "make":
            wanted = (yield self.type_at(targets[0].type)) if targets[0].type is not None else ()
            dtype = wanted[0] if isinstance(wanted, tuple) and wanted else None
            if not isinstance(dtype, RecordType):
                self.refuse("a record is made of a data type, x : List = make ...", token)
            tag = self.variant(dtype)
            self.expect("(")
            given = yield self.values(")")
            kinds = [(f.dtype, f.shape) for f in dtype.variants[tag].fields]
            self.fitting(kinds, given, token)
            made = Inject(names, self.flat(given), (), source=source, dtype=dtype, tag=tag)
        elif word == "recur":
            d = self.definitions.get(self.next.text)
            if d is None:
                self.refuse(f"undefined definition {self.next.text}.")
            self.take()
            sizes = yield self.size_values(len(d.sizes))
            self.expect("(")
            given = yield self.values(")")
            shapes = [at_sizes(t.shape, d.sizes, sizes) for t in d.params]
            self.fitting(
                [(t.dtype, s) for t, s in zip(d.params, shapes, strict=True)], given, token
            )
            made = Recursion(
                names, self.flat(given), (), source=source, definition=d, sizes=tuple(sizes)
            )
        else:
            made, given = self.read_record(word, names, source)
        if len(names) != len(made.results):
            called = f"{counted(len(names), 'name')} for {counted(len(made.results), 'result')}."
            self.refuse(called, token)
        function = made.definition.name if isinstance(made, Recursion) else None
        operands = [Operand(None, n, t) for n, t in given]
        yield self.finish(targets, outputs(made), made, operands, [], [], None, function)

    def size_values(self, count: int) -> Steps[list[Expr]]:
        """at [n//2]: what a call gives the sizes of a definition."""
        token = self.next
        found: list[Expr] = []
        while self.accept("," if found else "at"):
            if not found:
                self.expect("[")
            at = self.next
            e = yield self.expression()
            found.append(self.fitted(e, INT64, at))
        if found:
            self.expect("]")
        if len(found) != count:
            self.refuse(f"{counted(len(found), 'value')} for {counted(count, 'size')}.", token)
        return found

    def read_record(
        self, word: str, names: tuple[str, ...], source: str
    ) -> tuple[Control, list[Value]]:
        """tag l, or fields Cons of l."""
        at = self.at
        if word == "fields":
            self.name("an alternative")
            self.expect("of")
        token = self.next
        name, tree = self.named_value()
        if not isinstance(tree, Tensor) or not isinstance(tree.dtype, RecordType):
            self.refuse(f"{token.text} is of no data type.", token)
        if word == "tag":
            return Tag(names, (tree,), (), source=source), [(name, tree)]
        end, self.at = self.at, at
        tag = self.variant(tree.dtype)
        self.at = end
        return Fields(names, (tree,), (), source=source, tag=tag), [(name, tree)]

    def variant(self, of: RecordType) -> int:
        """The name of an alternative."""
        token = self.expect_kind("name", "an alternative")
        names = [v.name for v in of.variants]
        if token.text not in names:
            self.refuse(
                f"{token.text} is no alternative of {of}.", token, hint=f"it is {', '.join(names)}."
            )
        return names.index(token.text)

    def fitting(self, kinds: Sequence[TypeTree], given: Sequence[Value], token: Token) -> None:
        """Refuse values of other types."""
        if len(kinds) != len(given):
            self.refuse(f"{counted(len(kinds), 'value')} are taken, got {len(given)}.", token)
        for kind, (name, tree) in zip(kinds, given, strict=True):
            self.agree(kind, tree, str(name), token)

    def flat(self, given: Sequence[Value]) -> tuple[Tensor, ...]:
        """The tensors of values."""
        return forest_leaves([tree for _, tree in given])

    def is_place(self) -> bool:
        """Whether the line is a name, or a field of a tuple, c[1][0].

        A name of a number is a formula, since formulas of numbers have no axes to tell them.
        """
        known = self.known.find(self.next.text) if self.next.kind == "name" else None
        is_tuple, n = isinstance(known, tuple), 1
        while isinstance(known, tuple) and self.ahead(n).text == "[":
            index = self.ahead(n + 1).text
            is_there = index.isdigit() and int(index) < len(known)
            known = known[int(index)] if is_there else ()  # the reader of fields refuses it
            n += 3
        has_axes = is_tuple or (isinstance(known, Tensor) and known.ndim > 0)
        return has_axes and self.ahead(n).kind == "line"

    def bind(self, target: Target) -> Steps[None]:
        """A tuple, a field, or another name for a value."""
        token = self.next
        is_call = token.kind == "name" and self.ahead(1).text == "("
        if is_call and token.text not in self.program:
            self.refuse(
                f"undefined function {token.text}.", token,
                hint="functions are defined above those that call them; a formula needs a type, "
                f"{target.name} : float32[...] = ...",
            )  # fmt: skip
        if is_call:
            yield self.call_of([target])
            return
        if token.kind == "name":
            names, tree = self.named_value(target.name)
        else:
            names, tree = yield self.value()
        if target.type is not None:
            wanted = yield self.type_at(target.type)
            self.agree(wanted, tree, target.name, target.token)
        if names != target.name:
            tree = another(target.name, tree, self.source(token))
            self.known.bindings.append(Bind(target.name, names, tree))
        self.known.add(target.name, tree)

    def nested_call(self) -> Steps[Value]:
        """A call inside of a value: a binding of its own."""
        self.accept("call")
        token = self.next
        name = self.fresh.unique(token.text)
        yield self.call_of([Target(token._replace(text=name), None)])
        return name, self.known.values[name]

    def call_of(self, targets: Sequence[Target], word: str = "call") -> Steps[None]:
        """f(x, y) keep 1 save h."""
        token = self.expect_kind("name", "the name of a function")
        if token.text not in self.program:
            self.refuse(
                f"undefined function {token.text}.", token,
                hint="functions are defined above those that call them.",
            )  # fmt: skip
        f = self.program[token.text]
        self.expect("(")
        given = yield self.values(")")
        if len(given) != len(f.params):
            self.refuse(
                f"{f.name} takes {counted(len(f.params), 'value')}, got {len(given)}.", token,
                hint=f"it has the parameters {', '.join([n for n, _ in f.params])}.",
            )  # fmt: skip
        for (_, tree), (name, param) in zip(given, f.params, strict=True):
            self.agree(type_of(param), tree, f"parameter {name} of {f.name}", token)
        params = forest_leaves([tree for _, tree in f.params])
        results = forest_leaves([f.results])
        several = isinstance(f.results, tuple) and len(targets) > 1
        keeps = self.keeps(len(results)) if word == "checkpoint" else 0
        saves = self.saves(f.tensors)
        ends = f.results if several and isinstance(f.results, tuple) else (f.results,)
        names, trees = self.outputs_of(targets, ends, token, len(saves))
        bound = names, forest_leaves([tree for _, tree in given]), (Block(params, results),)
        source, again = self.source(token), word == "recompute"
        op = FunctionCall(*bound, source=source, function=f.name)
        if word != "call":
            op = Checkpoint(*bound, source=source, function=f.name, keeps=keeps, again=again)
        operands = [Operand(None, n, t) for n, t in given]
        yield self.finish(targets, trees, op, operands, [saves], [], None, f.name)

    def keeps(self, results: int) -> int:
        """keep 1: how many results of a checkpoint are stored for its reverse."""
        if not self.accept("keep"):
            return 0
        token = self.expect_kind("number", "how many results are kept")
        if not token.text.isdigit() or int(token.text) > results:
            self.refuse(f"there are {counted(results, 'result')} to keep.", token)
        return int(token.text)

    def saves(self, values: Mapping[str, Tree]) -> dict[str, Tensor]:
        """save h, g: tensors of a block that are seen from outside."""
        found: dict[str, Tensor] = {}
        if not self.accept("save"):
            return found
        while True:
            token = self.expect_kind("name", "a name of the block")
            tree = values.get(token.text)
            if not isinstance(tree, Tensor):
                self.refuse(f"{token.text} is no tensor of the block.", token)
            found[token.text] = tree
            if not self.accept(","):
                return found

    def outputs_of(
        self, targets: Sequence[Target], ends: Sequence[Tree], token: Token, saves: int
    ) -> tuple[tuple[str, ...], list[Tree]]:
        """Names of an operation's outputs, and the values under the names of a statement."""
        n = len(targets) - saves
        if n != len(ends) and n != 1:
            self.refuse(
                f"there are {len(targets)} names, but {counted(len(ends), 'result')} and {saves} "
                "saved.",
                token,
            )
        trees: list[Tree] = list(ends) if n == len(ends) else [tuple(ends)]
        pairs = zip(targets, trees, strict=False)
        return tuple([name for t, tree in pairs for name in leaf_names(t.name, tree)]), trees

    def finish(
        self, targets: Sequence[Target], inside: Sequence[Tree], op: Control,
        operands: Sequence[Operand], saves: Sequence[Mapping[str, Tensor]],
        scopes: Sequence[Scope], index: str | None, function: str | None = None,
        replay: Replayed | None = None,
    ) -> Steps[None]:  # fmt: skip
        """Bind the outputs of an operation, and what is saved of its inside."""
        made = iter(outputs(op))
        trees: list[Tree] = [like(tree, made) for tree in inside]
        for n, some in enumerate(saves):
            trees += [saved(op, t, n) for t in some.values()]
        for target, tree in zip(targets, trees, strict=True):
            if target.type is not None:
                wanted = yield self.type_at(target.type)
                self.agree(wanted, tree, target.name, target.token)
        for target, tree in zip(targets, trees, strict=True):
            self.known.add(target.name, tree)
        names = tuple([t.name for t in targets])
        kept = tuple([tuple(some) for some in saves])
        run = Run(
            names, tuple(trees), op, tuple(operands), kept, tuple(scopes), index, function, replay
        )
        self.known.bindings.append(run)

    def operands(self, named: bool) -> Steps[list[Given]]:
        """(s = zero, w): what a block gets; without `named`, also values under their own names."""
        found: list[Given] = []
        self.expect("(")
        while not self.accept(")"):
            if found:
                self.expect(",")
            token = self.next
            name = None
            if self.ahead(1).text == "=" or named:
                name = self.name("the name inside of the block")
                self.expect("=")
            value, tree = yield self.value()
            if name is None and not isinstance(value, str):
                self.refuse("a tuple needs a name inside of the block.", token)
            params = tree if name is None else placeholder_tree(name, type_of(tree))
            found.append((Operand(name, value, params), tree))
        return found

    def block(self, operands: Sequence[Operand], sizes: Mapping[str, Size]) -> Steps[Ends]:
        """The lines of a block, indented."""
        self.expect_kind("line", "the end of the line")
        self.expect_kind("indent", "an indented block")
        outer, self.known = self.known, Known(self.known, sizes=dict(sizes))
        for o in operands:
            name = o.value if o.name is None else o.name
            self.known.add(name if isinstance(name, str) else "", o.params)
        yield self.statements()
        self.expect("yield")
        results: list[Value] = []
        while True:
            value = yield self.value()
            results.append(value)
            if not self.accept(","):
                break
        self.end_of_line()
        saves = self.saves(self.known.values)
        if saves:
            self.end_of_line()
        self.expect_kind("dedent", "the end of the block")
        scope = self.known.scope([n for n, _ in results])
        self.known = outer
        return scope, results, saves

    @abstractmethod
    def foreign_of(self, targets: Sequence[Target]) -> Steps[None]:
        """A branch, whose word has been read.

        Abstract: a file above reads blocks of each kind.
        """

    @abstractmethod
    def branch(self, targets: Sequence[Target]) -> Steps[None]:
        """A branch, whose word has been read.

        Abstract: a file above reads blocks of each kind.
        """

    @abstractmethod
    def loop(self, targets: Sequence[Target]) -> Steps[None]:
        """A loop, whose word has been read.

        Abstract: as `branch`.
        """


def like(tree: Tree, made: Iterator[Tensor]) -> Tree:
    """The structure of a value with other tensors."""
    return next(made) if isinstance(tree, Tensor) else tuple([like(t, made) for t in tree])
