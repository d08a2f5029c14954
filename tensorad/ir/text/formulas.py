"""Formulas as the text of programs has them: what is written is read back as the same formula."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tensorad.ir.combiner import (
    BY_NAME,
    Combiner,
    all_combiner,
    any_combiner,
    arg_combiner,
)
from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import (
    COMPARISONS,
    LOGICAL,
    ONE,
    TESTS,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    LocalSize,
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.functions import STOPS, Function, is_stop
from tensorad.ir.order import REDUCE, sizes_in
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.text.names import Names
from tensorad.ir.text.printer import ATOM, ExprWriter, Item, listed, number_text, shared_parts
from tensorad.ir.text.tokens import BETWEEN, quoted
from tensorad.ir.visit import free_leaves, postorder

ARG: Final = {"argmax": "maximum", "argmin": "minimum"}
_NEGATION: Final = 7


def built_in(name: str, dtype: DType) -> Combiner | None:
    """The combiner that is called so everywhere."""
    if name in ("any", "all"):
        return any_combiner() if name == "any" else all_combiner()
    if name in ARG:
        return arg_combiner(ARG[name], dtype)
    return BY_NAME[name](dtype) if name in BY_NAME else None


def is_built_in(c: Combiner) -> bool:
    """Whether a text need not say what it computes."""
    return c is built_in(c.name, c.identity[0].dtype)


class Definitions:
    """Names of combiners and scalar functions that a program uses, in the order of use."""

    def __init__(self) -> None:
        self.names = Names([*BY_NAME, *ARG, "any", "all", *STOPS, *BETWEEN])
        self.known: dict[Combiner | Function, str] = {}

    def __call__(self, thing: Combiner | Function) -> str:
        if isinstance(thing, Function) and is_stop(thing):
            return thing.name
        if isinstance(thing, Combiner) and is_built_in(thing):
            return thing.name
        if thing not in self.known:
            self.known[thing] = self.names.unique(thing.name)
        return quoted(self.known[thing])


class ProgramWriter(ExprWriter):
    """Writes the formulas of one statement.

    Args:
        tensors: names of what is read.
        sizes: names of sizes that are called otherwise than they are.
        definitions: names of combiners and functions.
    """

    def __init__(
        self,
        tensors: Mapping[Tensor, str],
        sizes: Mapping[Size, str],
        definitions: Definitions,
    ) -> None:
        super().__init__(lambda t: quoted(tensors[t]))
        self.tensors = tensors
        self.sizes = sizes
        self.definitions = definitions
        self.hoisted: dict[Expr, None] = {}

    def formulas(self, roots: Sequence[Expr], axes: Sequence[Axis]) -> tuple[str, list[str]]:
        """`{parts that are used several times} ` or nothing, and the texts of the roots."""
        order = postorder(*[b for a in axes for b in (a.lower, a.upper, a.step)], *roots)
        for e in order:
            if isinstance(e, Read):
                self.names.counts.setdefault(self.tensors[e.tensor], 1)
            elif isinstance(e, Size):
                self.names.counts.setdefault(self.size_name(e), 1)
        self.declare(axes)
        self.declare([leaf for e in order for leaf in (e.axes if isinstance(e, Reduce) else (e,))])
        parts = _named_parts(roots, order)
        lines = []
        for a in _bound_before(order, parts):
            lines.append(self.range_text(a))
            self.hoisted[a] = None
        for e in parts:
            text = self.text(e)
            self.shared[e] = self.names.unique(f"t{len(self.shared)}")
            lines.append(f"{self.shared[e]} = {text}")
        prefix = f"{{{'; '.join(lines)}}} " if lines else ""
        return prefix, [self.text(r) for r in roots]

    def extents(self, t: Tensor) -> str:
        """The extents of a tensor, with commas between them."""
        return ", ".join([self.text(dim_expr(n)) for n in t.shape])

    def sizes_given(self, sizes: Iterable[LocalSize]) -> str:
        """at [x_0, t < n]: the sizes that calls give; below what, if that is known there."""
        texts: list[str] = []
        known: dict[Expr, None] = {}
        for s in sizes:
            end = s.extent
            local = [] if end is None else [e for e in sizes_in(end) if isinstance(e, LocalSize)]
            is_below = end is not None and all(e in known for e in local)
            below = f" < {self.text(end)}" if end is not None and is_below else ""
            texts.append(self.text(s) + below)
            known[s] = None
        return f" at [{', '.join(texts)}]" if texts else ""

    def size_name(self, e: Size) -> str:
        """What the text calls a size."""
        return self.sizes.get(e, e.name)

    def node(self, e: Expr) -> tuple[list[Item], int]:
        """The parts of one node and how strongly it binds."""
        match e:
            case Axis() | Param():
                return [quoted(self.leaves[e])], ATOM
            case Size():
                return [quoted(self.size_name(e))], ATOM
            case Read() if not e.indices:
                return [self.tensor_name(e.tensor)], ATOM
            case Reduce():
                return self.reduction(e), 0
            case Apply():
                return [f"{self.definitions(e.function)}(", *listed(e.args), ")"], ATOM
            case Cast():
                return [f"{e.dtype}(", *_told(e.value, 0), ")"], ATOM
            case Call(op="neg", args=(Const() as c,)) if not number_text(c).startswith("-"):
                return ["-(", (c, 0), ")"], _NEGATION
            case Call() if e.op in COMPARISONS or e.op in TESTS:
                items, strength = super().node(e)
                if not has_dtype(e.args):
                    first = next(n for n, i in enumerate(items) if not isinstance(i, str))
                    items[first : first + 1] = _told(e.args[0], 0)
                return items, strength
        return super().node(e)

    def reduction(self, e: Reduce) -> list[Item]:
        """sum over (k in [0, 10), where k < i) of X[i, k], argmax[1] over (...) of (X[i], i)."""
        several = e.combiner.arity > 1
        component = f"[{e.index}]" if several else ""
        return [f"{self.definitions(e.combiner)}{component}", *self.fold(e)]

    def fold(self, e: Reduce) -> list[Item]:
        """A reduction behind the name of its combiner."""
        items: list[Item] = [" over ("]
        for n, a in enumerate(e.axes):
            items.extend([", "] if n else [])
            items.extend([quoted(self.leaves[a])] if a in self.hoisted else self.range_of(a))
        if e.condition is not TRUE:
            items.extend([", where " if e.axes else "where ", (e.condition, 0)])
        items.append(") of ")
        if e.combiner.arity == 1:
            return [*items, (e.sources[0], 0)]
        if not is_built_in(e.combiner):
            return [*items, "(", *listed(e.sources), ")"]
        return [*items, "(", *_told(e.sources[0], 0), ", ", *listed(e.sources[1:]), ")"]

    def range_of(self, a: Axis) -> list[Item]:
        """k in [0, n) step 2."""
        items: list[Item] = [f"{quoted(self.leaves[a])} in [", (a.lower, 0), ", ", (a.upper, 0)]
        items.append(")")
        items.extend([] if a.step is ONE else [" step ", (a.step, 0)])
        return items

    def range_text(self, a: Axis) -> str:
        """The text of `range_of`."""
        return self.joined(self.range_of(a))

    def ranges(self, axes: Sequence[Axis]) -> str:
        """(i in [0, 3), j in [0, n))."""
        return f"({', '.join([self.range_text(a) for a in axes])})"

    def joined(self, items: Sequence[Item]) -> str:
        """The text of parts."""
        return "".join([i if isinstance(i, str) else self.text(i[0]) for i in items])


def has_dtype(roots: Iterable[Expr]) -> bool:
    """Whether the text of one of these operands, all of one dtype, shows which one it is.

    Numbers take the dtype of what they stand beside.
    """
    stack = list(roots)
    seen: dict[Expr, None] = {}
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen[e] = None
        match e:
            case Const():
                shows = e.dtype is BOOL
            case Call():
                shows = e.op in COMPARISONS or e.op in LOGICAL or e.op in TESTS
                stack.extend(reversed(e.args))
            case Select():
                shows = False
                stack += [e.orelse, e.then]
            case Reduce():
                shows = not is_built_in(e.combiner)
                stack.append(e.sources[0] if e.index == 0 else TRUE)
            case Apply() if is_stop(e.function):
                shows = False
                stack.append(e.args[0])
            case _:
                shows = True
        if shows:
            return True
    return False


def _told(e: Expr, least: int) -> list[Item]:
    """An operand whose dtype nothing beside it shows."""
    return [(e, least)] if has_dtype((e,)) else ["(", (e, 0), f" as {e.dtype})"]


def _named_parts(roots: Sequence[Expr], order: Sequence[Expr]) -> list[Expr]:
    """What is written once, in post-order: folds used several times, and what pays."""
    worth = dict.fromkeys(shared_parts(roots, order))
    if any(e.kinds & REDUCE for e in roots):
        uses: dict[Expr, int] = {}
        for used in (*[c for e in order for c in e.below], *roots):
            uses[used] = uses.get(used, 0) + 1
        worth.update({e: None for e in order if e.kinds & REDUCE and uses.get(e, 0) > 1})
    return [e for e in order if e in worth]


def _bound_before(order: Sequence[Expr], parts: Sequence[Expr]) -> list[Axis]:
    """Axes of folds that named parts use, or components of one fold share; bounds come first."""
    uses: dict[Expr, int] = {}
    for a in [a for e in order if isinstance(e, Reduce) for a in e.axes]:
        uses[a] = uses.get(a, 0) + 1
    wanted = [a for a in uses if uses[a] > 1]
    wanted += [e for e in free_leaves(*parts) if e in uses]
    found: dict[Expr, None] = {}
    stack = wanted[::-1]
    while stack:
        missing = _axes_of_bounds(stack[-1], uses, found)
        stack.extend(missing)
        if not missing:
            found[stack.pop()] = None
    return [a for a in found if isinstance(a, Axis)]


def _axes_of_bounds(a: Expr, bound: Mapping[Expr, int], found: Mapping[Expr, None]) -> list[Expr]:
    if not isinstance(a, Axis):
        return []
    return [e for e in free_leaves(a.lower, a.upper, a.step) if e in bound and e not in found]
