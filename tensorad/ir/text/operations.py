"""Operations on elements in the text of programs, read into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import TRUE, Axis, Const, Expr, axis
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Scan,
    Scatter,
    Shape,
    Tensor,
    Update,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.ir.text.blocks import kept_shape, type_text
from tensorad.ir.text.expressions import Fold
from tensorad.ir.text.program import Define
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps
from tensorad.ir.text.values import Values
from tensorad.ir.visit import uses_any

_SCAN_KINDS: Final = ("after", "before", "last")


@dataclass(frozen=True)
class Target:
    """A name on the left of a statement, and where its type begins."""

    token: Token
    type: int | None

    @property
    def name(self) -> str:
        return self.token.text


def operation_name(targets: Sequence[Target]) -> str:
    """The name of an operation whose outputs are called so: Y of Y.0, Y.1, and C of C.last."""
    name, dot, last = targets[0].name.rpartition(".")
    return name if dot and (last.isdigit() or last in _SCAN_KINDS) else targets[0].name


class Operations(Values):
    """Reads computes, scatters, scans and constants."""

    def define(self, targets: Sequence[Target]) -> Steps[None]:
        """What stands on the right of one operation on elements."""
        types: list[tuple[DType, Shape]] = []
        for target in targets:
            if target.type is None:
                self.refuse(
                    f"{target.name} has no type.", target.token,
                    hint=f"a formula defines elements, write {target.name} : float32[...] = ...",
                )  # fmt: skip
            found = yield self.type_at(target.type)
            if isinstance(found, list):
                self.refuse(f"a formula is no tuple, {type_text(found)}.", target.token)
            types.append(found)
        self.local = {}
        at = self.next
        if self.accept("constant"):
            made: Sequence[Tensor] = [self.constant(targets[0].name, types[0])]
        elif self.accept("scatter"):
            made = yield self.scatter(targets[0], types[0], at)
        elif self.accept("scan"):
            made = yield self.scan(targets, types, at)
        else:
            made = yield self.compute(targets, types, at)
        self.local = {}
        if len(made) != len(targets):
            self.refuse(f"there are {len(targets)} names for {len(made)} tensors.", at)
        for target, wanted, t in zip(targets, types, made, strict=True):
            self.agree(wanted, t, target.name, target.token)
            self.known.add(target.name, t)
        names = tuple([t.name for t in targets])
        self.known.bindings.append(Define(names, tuple(made)))

    def compute(
        self, targets: Sequence[Target], types: Sequence[tuple[DType, Shape]], at: Token
    ) -> Steps[Sequence[Tensor]]:
        """[i, j] formula, formula."""
        shape = types[0][1]
        axes: list[Axis] = []
        if self.accept("["):
            while not self.accept("]"):
                if axes:
                    self.expect(",")
                token = self.expect_kind("name", "an axis")
                if len(axes) == len(shape) or token.text in self.local:
                    self.refuse(f"{targets[0].name} has {len(shape)} axes.", token)
                axes.append(axis(token.text, 0, dim_expr(shape[len(axes)])))
                self.local[token.text] = axes[-1]
        if len(axes) != len(shape):
            self.refuse(
                f"{targets[0].name} has {len(shape)} axes, the formula names {len(axes)}.", at,
                hint=f"write [{', '.join('ijklmnpq'[: len(shape)])}] in front of it.",
            )  # fmt: skip
        yield self.parts()
        bodies: list[Any] = []
        for n in range(len(types)):
            if n:
                self.expect(",")
            token = self.next
            e = yield self.expression()
            if isinstance(e, Fold) and len(types) == len(e.parts) and not n:
                bodies.extend(e.parts)
                break
            bodies.append(self.fitted(e, types[n][0], token))
        for target, (dtype, _), body in zip(targets, types, bodies, strict=True):
            self.fitted(body, dtype, target.token)
        name = operation_name(targets)
        return outputs(Compute(name, tuple(axes), tuple(bodies), self.source(at)))

    def scatter(
        self, target: Target, of: tuple[DType, Shape], at: Token
    ) -> Steps[Sequence[Tensor]]:
        """scatter sum from x over (i in [0, n)) at [p[i]] of v[i] where c."""
        dtype, shape = of
        combiner = self.combiner(self.expect_kind("name", "a combiner"), dtype)
        init = None
        if self.accept("from"):
            token = self.next
            _, init = yield self.value()
            self.agree(of, init, "the start of the scatter", token)
        self.expect("over")
        axes, condition = yield self.axes()
        if condition is not TRUE:
            self.refuse("the condition of a scatter stands behind its value.", at)
        yield self.parts()
        updates = []
        while True:
            self.expect("at")
            indices = yield self.bracketed(INT64)
            if len(indices) != len(shape):
                self.refuse(f"{target.name} has {len(shape)} axes, not {len(indices)}.", at)
            self.expect("of")
            value = yield self.formula(dtype)
            where = TRUE
            if self.accept("where"):
                where = yield self.formula(BOOL)
            updates.append(Update(tuple(indices), value, where))
            if not self.accept(","):
                break
        op = Scatter(
            operation_name([target]), shape, dtype, tuple(axes), tuple(updates), combiner,
            init if isinstance(init, Tensor) else None, self.source(at),
        )  # fmt: skip
        return outputs(op)

    def formula(self, dtype: DType) -> Steps[Expr]:
        """A formula of a dtype."""
        token = self.next
        e = yield self.expression()
        return self.fitted(e, dtype, token)

    def bracketed(self, dtype: DType) -> Steps[list[Expr]]:
        """[i, j]."""
        self.expect("[")
        found: list[Expr] = yield self.listed("]", dtype)
        return found

    def scan(
        self, targets: Sequence[Target], types: Sequence[tuple[DType, Shape]], at: Token
    ) -> Steps[Sequence[Tensor]]:
        """scan sum for (i in [0, 8)) over (j in [0, 10)) at [i, j] of X[i, j] giving after."""
        exclusive, reverse = self.accept("exclusive"), self.accept("reverse")
        combiner = self.combiner(self.expect_kind("name", "a combiner"), types[0][0])
        rows: list[Axis] = []
        if self.accept("for"):
            rows, _ = yield self.axes()
        self.expect("over")
        along, _ = yield self.axes()
        yield self.parts()
        self.expect("at")
        indices = yield self.bracketed(INT64)
        kept: list[Expr] | None = None
        if self.accept("in"):
            kept = yield self.bracketed(INT64)
        self.expect("of")
        sources = yield self.several([e.dtype for e in combiner.rhs])
        start: Sequence[Expr] = combiner.identity
        if self.accept("from"):
            start = yield self.several([e.dtype for e in combiner.lhs])
        condition, cell = TRUE, None
        if self.accept("where"):
            condition = yield self.formula(BOOL)
        if self.accept("cell"):
            cell = yield self.bracketed(INT64)
        kinds = self.scan_kinds(combiner, exclusive)
        shapes = [s for k, (_, s) in zip(kinds, types, strict=False) if k < 2 * combiner.arity]
        scope = along if cell is not None else [*rows, *along]
        shape = shapes[0] if shapes else kept_shape(scope)
        shape = shape if kept is None else tuple(map(dim_of, kept))
        if any(uses_any(dim_expr(n), scope) for n in shape):
            self.refuse(
                "the extents of what the scan keeps are not known.", at,
                hint="write them, at [i, j] in [4, 5] of ...",
            )  # fmt: skip
        if len(indices) != len(shape):
            self.refuse(
                f"the scan keeps states of rank {len(shape)} at {len(indices)} indices.", at,
                hint="give an index for each axis, at [i, j].",
            )  # fmt: skip
        op = Scan(
            operation_name(targets), tuple(rows), tuple(along), tuple(sources), combiner,
            tuple(start), shape, tuple(indices), condition, exclusive, reverse,
            self.source(at), None if cell is None else tuple(cell),
        )  # fmt: skip
        return [outputs(op)[k] for k in kinds]

    def several(self, dtypes: Sequence[DType]) -> Steps[list[Expr]]:
        """Formulas of these dtypes."""
        found: list[Expr] = []
        for n, dtype in enumerate(dtypes):
            if n:
                self.expect(",")
            e = yield self.formula(dtype)
            found.append(e)
        return found

    def scan_kinds(self, combiner: Combiner, exclusive: bool) -> list[int]:
        """giving after, last[1]: which outputs have names."""
        m = combiner.arity
        if not self.accept("giving"):
            return list(range(m))
        found = []
        while True:
            token = self.expect_kind("name", "after, before or last")
            if token.text not in _SCAN_KINDS:
                self.refuse(f"a scan gives after, before and last, not {token.text}.", token)
            kind, n = _SCAN_KINDS.index(token.text), 0
            if m > 1:
                self.expect("[")
                n = int(self.expect_kind("number", "a component").text)
                self.expect("]")
            kind = 1 - kind if exclusive and kind < 2 else kind
            found.append(kind * m + n)
            if not self.accept(","):
                return found

    def constant(self, name: str, of: tuple[DType, Shape]) -> Tensor:
        """[[1.0, 2.0], [3.0, inf]]."""
        dtype, shape = of
        token = self.next
        flat: list[Any] = []
        depth = 0
        while True:
            if self.accept("["):
                depth += 1
            elif self.accept("]"):
                depth -= 1
            elif not self.accept(","):
                flat.append(self.number(dtype))
            if depth == 0:
                break
        extents = [n for n in shape if isinstance(n, int)]
        if len(extents) != len(shape) or len(flat) != np.prod(extents, dtype=int):
            self.refuse(f"{name} is {type_text(of)}, but has {len(flat)} elements.", token)
        return constant_tensor(name, np.array(flat, str(dtype)).reshape(extents), dtype)

    def number(self, dtype: DType) -> object:
        """A number of a dtype."""
        token = self.next
        sign = self.accept("-")
        e = self.literal()
        if sign and e.dtype is not BOOL:
            e = Const(e.dtype, -e.value)
        fitted = self.fitted(e, dtype, token)
        return fitted.value if isinstance(fitted, Const) else None


def constant_tensor(name: str, array: np.ndarray, dtype: DType) -> Tensor:
    """A constant with an array of its own."""
    array.flags.writeable = False
    return outputs(Constant(name, array, dtype))[0]
