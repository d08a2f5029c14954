"""How a matrix is made at given sizes: straight from integer sets, or compressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.arguments import check_output
from tensorad.compiled import CompiledFunction
from tensorad.errors import BindError
from tensorad.ir.analysis.sizes import elements_at
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Reduce
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.ir.visit import op_expressions, postorder, topological_ops
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine
from tensorad.sparse.compressed import Compressed
from tensorad.sparse.direct import Direct
from tensorad.sparse.paths import Irregular

TERMS_PER_ENTRY = 8
"""Products an entry may sum on average before compression is considered."""


class Plan:
    """A matrix at fixed sizes; `image` has the copy of each tensor for these sizes."""

    def __init__(
        self, made: Direct | Compressed, dtype: DType, image: Mapping[Tensor, Tensor]
    ) -> None:
        self.made = made
        self.shape = made.shape
        self.dtype = dtype
        self.image = image
        self._fills: dict[tuple[Tensor, ...], CompiledFunction] = {}

    def settle(self) -> Direct | Compressed:
        """The way that is used; compression where isl finds no loops over the entries."""
        if isinstance(self.made, Direct) and not self._fills:
            try:
                for r in self.made.rows:
                    _ = r.tree
            except (Irregular, BudgetExceeded) as problem:
                self.made = Compressed(self.made.outputs, self.made.wrt, str(problem))
        return self.made

    def nnz(self) -> int:
        """The number of entries, if data does not decide it."""
        if isinstance(self.made, Direct):
            return self.made.nnz
        return len(self.pattern({})[1])

    def pattern(self, given: Mapping[Tensor, Array]) -> tuple[Array, Array]:
        """(indptr, indices)."""
        made = self.settle()
        if isinstance(made, Direct):
            return made.pattern()
        values = self._values(given)
        for t in made.pattern_inputs:
            if t not in values:
                raise BindError(
                    f"the pattern depends on the data of {t.name}.",
                    where=made.reason,
                    hint="pass the arrays of a call: J.pattern(*arrays).",
                )
        return made.pattern(values)

    def values(
        self, inputs: Sequence[Tensor], given: Mapping[Tensor, Array], out: Array | None
    ) -> Array:
        """The values of all entries, for the arrays given."""
        compiled = self.compiled(inputs)
        if compiled is not None:
            found: Array = compiled(*[given[t] for t in inputs], out=out)
            return found
        assert isinstance(self.made, Compressed)  # it has no one function
        nnz = len(self.pattern(given)[1])
        target = np.empty(nnz, str(self.dtype)) if out is None else self._checked(out, nnz)
        own = [self.image.get(t, t) for t in inputs]
        self.made.fill(own, self._values(given), self.dtype, target)
        return target

    def compiled(self, inputs: Sequence[Tensor]) -> CompiledFunction | None:
        """The values as one function of the inputs, where one pass over the entries does it."""
        made = self.settle()
        if not isinstance(made, Direct):
            return None
        key = tuple(inputs)
        if key not in self._fills:
            own = [self.image.get(t, t) for t in inputs]
            self._fills[key] = made.fill(own)
        return self._fills[key]

    def _checked(self, out: object, nnz: int) -> Array:
        data = outputs(Placeholder("data", (nnz,), self.dtype))[0]
        return check_output(data, 0, out, (nnz,))

    def _values(self, given: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
        return {self.image.get(t, t): a for t, a in given.items()}


def plan_of(
    ys: Sequence[Tensor], wrt: Sequence[Tensor], dtype: DType, image: Mapping[Tensor, Tensor]
) -> Plan:
    """The cheaper way that applies."""
    try:
        direct = Direct(ys, wrt, dtype)
        terms = sum(r.terms() for r in direct.rows)
    except (Irregular, NotAffine, BudgetExceeded) as problem:
        return Plan(Compressed(ys, wrt, str(problem)), dtype, image)
    if terms > TERMS_PER_ENTRY * direct.nnz and terms > _compressed_cost(direct, ys):
        return Plan(Compressed(ys, wrt, "its entries are long sums"), dtype, image)
    return Plan(direct, dtype, image)


def _compressed_cost(direct: Direct, ys: Sequence[Tensor]) -> int:
    """The points of the derivatives along as many directions as a row has entries."""
    rows = max(1, direct.shape[0])
    directions = -(-direct.nnz // rows)
    points = 0
    for op in topological_ops(ys):
        reduced = [
            prod(1 if a.extent is None else a.extent for a in e.axes)
            for e in postorder(*op_expressions(op))
            if isinstance(e, Reduce)
        ]
        elements = sum(elements_at(t.shape, {}) for t in outputs(op))
        points += elements * (1 + sum(reduced))
    return 2 * directions * points
