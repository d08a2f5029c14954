"""Products of matrices and of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.arrays.elementwise import broadcast_shapes, same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define


def matmul(call: Call) -> Value:
    """NumPy's matmul."""
    return topi.matmul(call.tensor(0), call.tensor(1))


def gemm(call: Call) -> Value:
    """alpha * A @ B + beta * C, A and B transposed where told."""
    a, b = call.tensor(0), call.tensor(1)
    if a.ndim != 2 or b.ndim != 2:
        raise OnnxError(f"{format_shape(a.shape)} and {format_shape(b.shape)} are no matrices.")
    turned_a, turned_b = call.flag("transA", False), call.flag("transB", False)
    rows, inner = a.shape[::-1] if turned_a else a.shape
    other, columns = b.shape[::-1] if turned_b else b.shape
    if not same_dim(inner, other):
        raise OnnxError(f"{format_shape(a.shape)} and {format_shape(b.shape)} do not fit.")
    k = te.reduce_axis(inner, name="k")

    def body(i: Expr, j: Expr) -> Expr:
        left = a[k, i] if turned_a else a[i, k]
        right = b[j, k] if turned_b else b[k, j]
        return te.sum(left * right, axis=k)

    made = _scaled(define((rows, columns), body, "gemm"), call.number("alpha", 1.0))
    if not call.has(2):
        return made
    c = call.tensor(2)
    if len(broadcast_shapes("Gemm", made.shape, c.shape)) > 2:
        raise OnnxError(f"its input 2 {format_shape(c.shape)} does not broadcast to a matrix.")
    return topi.add(made, _scaled(c, call.number("beta", 1.0)))


def _scaled(x: Tensor, by: float) -> Tensor:
    if by == 1:
        return x
    return x * by if x.dtype.is_float else (x * by).astype(x.dtype)


def einsum(call: Call) -> Value:
    """A sum of products, by the names of axes."""
    equation = call.word("equation", "")
    return topi.einsum(equation, *call.tensors())


HANDLERS: Final[Mapping[str, Handler]] = {"MatMul": matmul, "Gemm": gemm, "Einsum": einsum}
