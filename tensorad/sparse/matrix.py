"""`sparse_jacobian` and `sparse_hessian`: what users hold, call and look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorad.autodiff.checks import check_output, check_wrt
from tensorad.autodiff.reverse import vjp
from tensorad.building import check_inputs
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.arguments import Parameter, SizeBinding
from tensorad.compiled import CompiledFunction
from tensorad.errors import BindError, GradError, ShapeError
from tensorad.ir.analysis.blocks import has_blocks, op_sizes
from tensorad.ir.arrays.arguments import check_arrays, check_tensors
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, LocalSize, Size, add, int_const, mul
from tensorad.ir.hooks import Hook
from tensorad.ir.leaves import size_var
from tensorad.ir.tensor import Control, Dim, Saved, Tensor, dim_expr, dim_of, format_shape
from tensorad.ir.visit import placeholders, substitute, topological_ops
from tensorad.sparse.plan import Plan, plan_of
from tensorad.sparse.scipy_bridge import csr_array
from tensorad.sparse.sizes import sizes_of, with_sizes

Tensors = Tensor | Sequence[Tensor]
KEPT_PLANS: Final = 8
"""Bindings of symbolic sizes whose patterns and loops are kept."""


class SparseJacobian:
    """d Y / d X as a sparse matrix: its pattern, and functions that fill in values.

    Rows are the elements of Y, columns those of X, both in row-major order; several Y (X) stand
    below (beside) each other. The pattern holds exactly the entries that some formula can make
    nonzero, sorted; only where indices come from data or are not affine it is found at run time.

    Attributes:
        outputs, wrt: the tensors Y and X.
        inputs: the placeholders behind Y in the order of their first use: the arguments of a call.
        dtype: of the values.
    """

    def __init__(
        self, outputs: Sequence[Tensor], wrt: Sequence[Tensor], sizes: Mapping[Expr, int]
    ) -> None:
        self.outputs = tuple(outputs)
        self.wrt = tuple(wrt)
        self.inputs = tuple(placeholders(self.outputs))
        self.dtype: DType = max((y.dtype for y in outputs), key=lambda d: d.bits)
        self._given = dict(sizes)
        self._plans: dict[tuple[int, ...], Plan] = {}
        self._call: SparseFunction | None = None
        self._program_sizes: list[Expr] = [*sizes_of((*outputs, *wrt))]
        self._sizes = [s for s in sizes_of((*outputs, *wrt)) if s not in sizes]
        if has_blocks(self.outputs):
            _check_sizes(self.outputs, self._program_sizes)

    def __repr__(self) -> str:
        y, x = (", ".join([t.name for t in ts]) for ts in (self.outputs, self.wrt))
        rows, columns = self.shape
        return f"<SparseJacobian d {y} / d {x}: {rows} x {columns}>"

    @property
    def shape(self) -> tuple[Dim, Dim]:
        """(elements of Y, elements of X)."""
        return self._elements(self.outputs), self._elements(self.wrt)

    def _elements(self, tensors: Sequence[Tensor]) -> Dim:
        numbers: dict[Expr, Expr] = {s: int_const(n) for s, n in self._given.items()}
        total: Expr = dim_expr(0)
        for t in tensors:
            product: Expr = dim_expr(1)
            for n in t.shape:
                product = mul(product, substitute(dim_expr(n), numbers))
            total = add(total, product)
        return dim_of(total)

    def at(self, **sizes: int) -> SparseJacobian:
        """The same matrix with numbers for symbolic sizes."""
        known: dict[Expr, int] = {size_var(name): n for name, n in sizes.items()}
        for s in known:
            if not any(s is t for t in self._sizes):
                names = ", ".join([t.name for t in self._sizes]) or "none"
                raise BindError(
                    f"unknown size {s}.", hint=f"the sizes without a number are: {names}."
                )
        return SparseJacobian(self.outputs, self.wrt, {**self._given, **known})

    @property
    def nnz(self) -> int:
        """The number of entries, counted without making them.

        Raises:
            BindError: it depends on symbolic sizes, or on the data of a call.
        """
        return self._plan(self._known_sizes("nnz")).nnz()

    def pattern(self, *arrays: object, **sizes: object) -> tuple[Array, Array]:
        """(indptr, indices) of the CSR form, computed once; not to be written to.

        `arrays` are needed only where indices come from data.
        """
        if not arrays and not sizes:
            return self._plan(self._known_sizes("pattern")).pattern({})
        return self._default().pattern(*arrays, **sizes)

    def build(self, inputs: Sequence[Tensor] | Tensor) -> SparseFunction:
        """A function of `inputs` (any tensors of the program), as `ta.build` makes them.

        Raises:
            BuildError: an input is no tensor, or two are the same or have one name.
        """
        return SparseFunction(self, check_inputs(inputs))

    def __call__(self, *arrays: object, out: Array | None = None, **sizes: object) -> Any:
        """The matrix at these values of `inputs`: see `SparseFunction`."""
        return self._default()(*arrays, out=out, **sizes)

    def values(self, *arrays: object, out: Array | None = None, **sizes: object) -> Array:
        """The data of the CSR form alone: see `SparseFunction.values`."""
        return self._default().values(*arrays, out=out, **sizes)

    def evaluate(self, arrays: Mapping[Tensor, object], **sizes: object) -> Any:
        """Build and run once: the matrix where the given tensors have these values."""
        given = check_arrays(arrays, "evaluate")
        return self.build(list(given))(*given.values(), out=None, **sizes)

    def _default(self) -> SparseFunction:
        if self._call is None:
            self._call = SparseFunction(self, self.inputs)
        return self._call

    def _known_sizes(self, what: str) -> dict[Expr, int]:
        if self._sizes:
            names = ", ".join([s.name for s in self._sizes])
            example = ", ".join([f"{s.name}=100" for s in self._sizes])
            raise BindError(
                f"{what} depends on the symbolic sizes {names}.",
                where=repr(self),
                hint=f"ask for numbers first: J.at({example}).{what}",
            )
        return dict(self._given)

    def _plan(self, sizes: Mapping[Expr, int]) -> Plan:
        known = {**self._given, **sizes}
        own = {s: known[s] for s in self._program_sizes}
        key = tuple(own.values())
        if key not in self._plans:
            image = with_sizes((*self.outputs, *self.wrt), own)
            outputs, wrt = ([image[t] for t in ts] for ts in (self.outputs, self.wrt))
            self._plans[key] = plan_of(outputs, wrt, self.dtype, image)
            if len(self._plans) > KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
        return self._plans[key]

    def _repr_html_(self) -> str:
        return as_html.call(self)


class SparseFunction:
    """A sparse matrix as a function of arrays; compiled at the first call for given sizes."""

    def __init__(self, matrix: SparseJacobian, inputs: Sequence[Tensor]) -> None:
        self.matrix = matrix
        self.inputs = tuple(inputs)
        self._parameters = [Parameter(t) for t in inputs]
        sized = [*matrix.outputs, *matrix.wrt, *inputs]
        self._binding = SizeBinding(self._parameters, sized, sizes_of(sized))
        self._fixed: CompiledFunction | None = None

    def __repr__(self) -> str:
        names = ", ".join([t.name for t in self.inputs])
        return f"<SparseFunction ({names}) -> {self.matrix!r}>"

    def __call__(self, *arrays: object, out: Array | None = None, **sizes: object) -> Any:
        """The matrix as a `scipy.sparse.csr_array`.

        Args:
            out: the array of values to write to; the result shares it. All results share one
                pattern: do not write to its index arrays.
            sizes: symbolic sizes that no argument carries.
        Raises:
            MissingPackageError: scipy is not installed.
        """
        plan, given = self._bind(arrays, sizes)
        indptr, indices = plan.pattern(given)
        data = plan.values(self.inputs, given, out)
        return csr_array(data, indices, indptr, plan.shape)

    def values(self, *arrays: object, out: Array | None = None, **sizes: object) -> Array:
        """The values of all entries in the order of the pattern, written to `out` if given."""
        if self._fixed is not None and not sizes:
            found: Array = self._fixed(*arrays, out=out)
            return found
        plan, given = self._bind(arrays, sizes)
        if not self._binding.sizes:
            self._fixed = plan.compiled(self.inputs)
        return plan.values(self.inputs, given, out)

    def pattern(self, *arrays: object, **sizes: object) -> tuple[Array, Array]:
        """(indptr, indices) at these arguments."""
        plan, given = self._bind(arrays, sizes)
        return plan.pattern(given)

    def _bind(
        self, arrays: Sequence[object], sizes: Mapping[str, object]
    ) -> tuple[Plan, dict[Tensor, Array]]:
        if len(arrays) != len(self._parameters):
            names = ", ".join([p.name for p in self._parameters])
            raise BindError(
                f"the call passes {len(arrays)} of {len(self._parameters)} arrays.",
                where=f"({names}) -> {self.matrix!r}",
                hint="pass one array per input, in this order.",
            )
        converted = [p.convert(a) for p, a in zip(self._parameters, arrays, strict=True)]
        known = {s.name: n for s, n in self.matrix._given.items() if isinstance(s, Size)}
        bound = self._binding.bind(converted, {**known, **sizes})
        return self.matrix._plan(bound), dict(zip(self.inputs, converted, strict=True))


def sparse_jacobian(y: Tensors, x: Tensors) -> SparseJacobian:
    """d Y / d X as a sparse matrix, flattened row-major.

    Args:
        y: a float tensor of any shape, or several (their rows follow each other).
        x: the tensor to differentiate by, input or intermediate, or several (columns follow).
    Raises:
        GradError, DTypeError: something is no float tensor.
        ShapeError: the program has loops, and symbolic sizes.
    """
    outputs = check_tensors(y, "sparse_jacobian")
    if not outputs:
        raise GradError("there are no outputs.", hint="pass a tensor or a list of tensors.")
    for t in outputs:
        check_output(t)
    return SparseJacobian(outputs, check_wrt(x), {})


def _check_sizes(ys: Sequence[Tensor], sizes: Sequence[Expr]) -> None:
    """Programs with blocks have shapes in numbers, and formulas that know theirs beforehand."""
    formulas = [op for op in topological_ops(ys) if not isinstance(op, (Control, Saved))]
    local = [s for op in formulas for s in op_sizes(op) if isinstance(s, LocalSize)]
    for s in (*sizes, *local):
        raise ShapeError(
            f"sparse derivatives through loops need shapes in numbers, but {s} is a size.",
            where=", ".join([f"{t.name} : {t.dtype} {format_shape(t.shape)}" for t in ys]),
            hint="give the placeholders numbers, or use jacobian, vjp or jvp.",
        )


def sparse_hessian(y: Tensor, x: Tensors) -> SparseJacobian:
    """d2 y / d X d X of a 0-d y as a sparse matrix; for several X the whole block matrix.

    Raises:
        ShapeError: y has axes.
    """
    check_output(y)
    wrt = check_wrt(x)
    if y.shape:
        raise ShapeError(
            f"sparse_hessian needs a 0-d tensor, but {y.name} has shape {format_shape(y.shape)}.",
            hint="sum it first, e.g. compute((), lambda: ta.sum(Y[k], axis=k)).",
        )
    return sparse_jacobian(vjp(y, wrt), wrt)


as_html: Final[Hook[[SparseJacobian], str]] = Hook("tensorad.display.sparsity")
