"""Branches, loops and functions of Python in the text of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorad.errors import counted
from tensorad.ir.arrays.foreign import NamedRun, ResultChecks, foreign_call
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import Expr, LocalSize, Size, local_size
from tensorad.ir.tensor import (
    Block,
    Branch,
    Loop,
    Placeholder,
    Replay,
    Shape,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.text.blocks import TypeTree, placeholder_tree, same_type, type_of, type_text
from tensorad.ir.text.controls import Controls, Ends, Given
from tensorad.ir.text.operations import Target
from tensorad.ir.text.program import Operand, Replayed, Tree, forest_leaves, tree_leaves
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps


class Branches(Controls):
    """Reads branches, loops and functions of Python."""

    def branch(self, targets: Sequence[Target]) -> Steps[None]:
        """n (x, p = w): and a block for each value of n."""
        token = self.next
        index, chosen = self.named_value()
        if not isinstance(chosen, Tensor) or chosen.shape or chosen.dtype.is_float:
            self.refuse("a branch is chosen by one integer or bool.", token)
        given: list[Given] = []
        if self.sees("("):
            given = yield self.operands(named=False)
        self.expect(":")
        self.expect_kind("line", "the end of the line")
        operands = [o for o, _ in given]
        cases: list[Ends] = []
        while self.accept("case"):
            at = self.expect_kind("number", "the number of the case")
            if at.text != str(len(cases)):
                self.refuse(f"case {len(cases)} comes next, not {at.text}.", at)
            self.expect(":")
            case = yield self.block(operands, {})
            self.alike_cases(cases, case, at)
            cases.append(case)
        if not cases:
            self.expected("'case'")
        ends = [t for _, t in cases[0][1]]
        params = forest_leaves([o.params for o in operands])
        blocks = tuple([Block(params, forest_leaves([t for _, t in r])) for _, r, _ in cases])
        n_saved = sum([len(s) for *_, s in cases])
        names, inside = self.outputs_of(targets, ends, token, n_saved)
        op = Branch(
            names, (chosen, *forest_leaves([t for _, t in given])), blocks,
            source=self.source(token),
        )  # fmt: skip
        saves, scopes = [s for *_, s in cases], [s for s, *_ in cases]
        yield self.finish(targets, inside, op, operands, saves, scopes, index)

    def alike_cases(self, cases: Sequence[Ends], case: Ends, at: Token) -> None:
        """Refuse a case that results in something of another type than the first."""
        if not cases:
            return
        first, other = ([type_of(t) for _, t in c[1]] for c in (cases[0], case))
        if not same_type(first, other):
            self.refuse(
                f"case 0 yields {_types(first)}, but case {at.text} yields {_types(other)}.", at,
                hint="give all cases results of the same types.",
            )  # fmt: skip

    def loop(self, targets: Sequence[Target]) -> Steps[None]:
        """t in [0, n) times c reverse carry (...) scan (...) fixed (...) while:."""
        token = self.next
        label = self.name("the counter")
        self.expect("in")
        self.expect("[")
        zero = self.expect_kind("number", "0")
        if zero.text != "0":
            self.refuse("a counter begins at 0.", zero)
        self.expect(",")
        trips = yield self.trips()
        self.expect(")")
        count = None
        if self.accept("times"):
            count = self.count()
        reverse = self.accept("reverse")
        groups: list[list[Given]] = []
        for word in ("carry", "scan", "fixed"):
            some: list[Given] = []
            if self.accept(word):
                some = yield self.loop_operands(word, trips)
            groups.append(some)
        sizes = {label: self.loop_size(label, trips)}
        tested, body = yield self.loop_blocks(groups, sizes)
        self.check_carries(groups[0], body, token)
        given = [g for some in groups for g in some]
        operands = [o for o, _ in given]
        _, results, saves = body
        blocks = [_block(operands, [t for _, t in results])]
        scopes, kept = [body[0]], [saves]
        if tested is not None:
            test_operands = [o for some in (groups[0], groups[2]) for o, _ in some]
            blocks.append(_block(test_operands, [t for _, t in tested[1]]))
            scopes.append(tested[0])
            kept.append(tested[2])
        replay, replayed = None, None
        if self.sees("replay") and self.ahead(1).kind == "number":
            replay, replayed = yield self.replay(groups)
        carried = [o.params for o, _ in groups[0]]
        names, inside = self.outputs_of(targets, carried, token, len(saves))
        op = Loop(
            names, forest_leaves([t for _, t in given]), tuple(blocks),
            counter=sizes[label], trips=trips, carries=len(forest_leaves(carried)),
            scanned=len(forest_leaves([t for _, t in groups[1]])),
            count=None if count is None else count[1], reverse=reverse, source=self.source(token),
            replay=replay,
        )  # fmt: skip
        index = None if count is None else count[0]
        yield self.finish(targets, inside, op, operands, kept, scopes, index, None, replayed)

    def replay(self, groups: Sequence[Sequence[Given]]) -> Steps[tuple[Replay, Replayed]]:
        """replay 3 (first, count, s) fixed (w): and the states after so many iterations."""
        self.expect("replay")
        token = self.expect_kind("number", "how many states are stored")
        self.expect("(")
        names = [self.name("the number of an iteration")]
        while self.accept(","):
            names.append(self.name("how many iterations, or a state"))
        self.expect(")")
        states = len(names) - 2
        carried = [t for o, _ in groups[0] for t in tree_leaves(o.params)]
        if not token.text.isdigit() or not 0 < states < len(carried):
            self.refuse(
                "a replay has the number of an iteration, how many iterations, and states, which "
                "are the first carries.",
                token,
            )
        kinds = [(INT64, ()), (INT64, ()), *[(t.dtype, t.shape) for t in carried[:states]]]
        own = [
            Operand(name, name, placeholder_tree(name, kind))
            for name, kind in zip(names, kinds, strict=True)
        ]
        given: list[Given] = []
        if self.accept("fixed"):
            given = yield self.operands(named=False)
        operands = [*own, *[o for o, _ in given]]
        every = [t for some in groups for _, tree in some for t in tree_leaves(tree)]
        fixed: list[int] = []
        for t in forest_leaves([tree for _, tree in given]):
            at = [n for n, other in enumerate(every) if other is t]
            if not at:
                self.refuse(f"{t.name} is no operand of the loop.", token)
            fixed.append(at[-1])
        self.expect(":")
        scope, results, _ = yield self.block(operands, {})
        block = _block(operands, [t for _, t in results])
        if not same_type([type_of(t) for _, t in results], list(kinds[2:])):
            self.refuse("a replay yields the states.", token)
        made = Replay(states, int(token.text), block, tuple(fixed))
        return made, Replayed(tuple(operands), scope)

    def trips(self) -> Steps[Expr]:
        """How many iterations: a formula of sizes, or a name that the loop gives its value."""
        here, token = self.at, self.next
        if not self.is_counted():
            e = yield self.expression()
            return self.fitted(e, INT64, token)
        name = self.name("a name for the number of iterations")
        if self.known.find(name) is not None:
            self.at = here
            self.refuse(f"{name} is defined twice.", token, hint="give it another name.")
        self.known.sizes[name] = size = self.loop_size(name)
        return size

    def loop_size(self, label: str, extent: Expr | None = None) -> LocalSize:
        """A size that a loop gives its value, under its name in the text."""
        size = local_size(label, extent)
        self.labels[size] = label
        return size

    def is_counted(self) -> bool:
        """Whether only the run tells the number of iterations."""
        n, depth = 0, 0
        while self.ahead(n).kind not in ("line", "end"):
            token = self.ahead(n)
            if depth < 0 and token.kind == "name" and token.text in ("times", "while"):
                return True
            if token.kind == "sign":
                depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            n += 1
        return False

    def count(self) -> tuple[str, Tensor]:
        """The tensor that says how many iterations there are."""
        token = self.next
        name, tree = self.named_value()
        if not isinstance(tree, Tensor) or tree.shape or not tree.dtype.is_integer:
            self.refuse("the number of iterations is one integer.", token)
        return name, tree

    def loop_operands(self, word: str, trips: Expr) -> Steps[list[Given]]:
        """Operands of one kind; scanned ones are given by parts."""
        token = self.next
        found: list[Given] = yield self.operands(named=word != "fixed")
        if word != "scan":
            return found
        return [(self.part(o, tree, trips, token), tree) for o, tree in found]

    def part(self, o: Operand, tree: Tree, trips: Expr, token: Token) -> Operand:
        """The same operand with parts at the counter as params."""
        for t in tree_leaves(tree):
            if not t.shape or dim_expr(t.shape[0]) is not trips:
                count = getattr(trips, "label", trips)
                there = "no parts" if not t.shape else f"{t.shape[0]} parts"
                self.refuse(
                    f"{o.name} goes through {t.name}, a part in each iteration; there are {there} "
                    f"and {count} iterations.",
                    token,
                    hint=f"its first extent must be {count}.",
                )
        params = placeholder_tree(o.name or "", _without_first(type_of(tree)))
        return Operand(o.name, o.value, params)

    def loop_blocks(
        self, groups: Sequence[Sequence[Given]], sizes: Mapping[str, Size]
    ) -> Steps[tuple[Ends | None, Ends]]:
        """The test, if there is one, and the body."""
        tested: Ends | None = None
        token = self.next
        has_test = self.accept("while")
        self.expect(":")
        if has_test:
            operands = [o for some in (groups[0], groups[2]) for o, _ in some]
            tested = yield self.block(operands, sizes)
            types = [type_of(t) for _, t in tested[1]]
            if not same_type(types, [(BOOL, ())]):
                self.refuse(f"a test yields one bool[], not {_types(types)}.", token)
            self.expect("do")
            self.expect(":")
        body = yield self.block([o for some in groups for o, _ in some], sizes)
        return tested, body

    def check_carries(self, carries: Sequence[Given], body: Ends, token: Token) -> None:
        """Refuse a body that does not result in the next carries."""
        results = body[1]
        if not carries:
            self.refuse("a loop has at least one carry.", token, hint="carry (s = zero).")
        if len(results) != len(carries):
            self.refuse(
                f"the block yields {counted(len(results), 'value')}; carries: {len(carries)}.",
                token,
            )
        for (o, _), (_, tree) in zip(carries, results, strict=True):
            self.agree(type_of(o.params), tree, f"carry {o.name}", token)

    def foreign_of(self, targets: Sequence[Target]) -> Steps[None]:
        """foreign sort(x): a function of Python, from the table that the text is read with."""
        self.take()
        token = self.expect_kind("name", "the name of a function")
        name = token.text
        if name not in self.foreign:
            self.refuse(
                f"the text calls a function of Python, {name}, which is not given.", token,
                hint=f"pass it beside the text, foreign={{{name!r}: f}}.",
            )  # fmt: skip
        self.expect("(")
        given = yield self.values(")")
        kinds: list[tuple[DType, Shape]] = []
        for target in targets:
            kind = (yield self.type_at(target.type)) if target.type is not None else None
            if not isinstance(kind, tuple):
                self.refuse(f"the type of {target.name} has to be told.", target.token)
            kinds.append(kind)
        names = tuple([t.name for t in targets])
        checks = ResultChecks(names, tuple([np.dtype(str(dtype)) for dtype, _ in kinds]))
        results = [
            outputs(Placeholder(n, shape, dtype))[0]
            for n, (dtype, shape) in zip(names, kinds, strict=True)
        ]
        run = NamedRun(self.foreign[name], name, checks)
        op = foreign_call(name, self.source(token), self.flat(given), names, results, run)
        operands = [Operand(None, n, t) for n, t in given]
        yield self.finish(targets, outputs(op), op, operands, [{}], [], None, name)


def _block(operands: Sequence[Operand], results: Sequence[Tree]) -> Block:
    return Block(forest_leaves([o.params for o in operands]), forest_leaves(results))


def _without_first(of: TypeTree) -> TypeTree:
    if isinstance(of, list):
        return [_without_first(t) for t in of]
    dtype, shape = of
    return dtype, shape[1:]


def _types(types: Sequence[TypeTree]) -> str:
    return ", ".join([type_text(t) for t in types]) or "nothing"
