"""Cells of recurrent networks: one step of time."""

from __future__ import annotations

from tensorad import te
from tensorad.errors import ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.checks import check_equal, check_tensor
from tensorad.topi.definition import define
from tensorad.topi.nn.linear import dense


def lstm_cell(
    x: Tensor,
    hidden: Tensor,
    cell: Tensor,
    w_input: Tensor,
    w_hidden: Tensor,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory -> (hidden, cell) (Hochreiter and Schmidhuber 1997).

    Args:
        x: shape (batch, features).
        hidden, cell: shape (batch, units).
        w_input: shape (4*units, features), gates in the order input, forget, cell, output.
        w_hidden: shape (4*units, units).
        bias: shape (4*units,).
    Raises:
        ShapeError: the extents do not fit.
    """
    hidden = check_tensor("lstm_cell", "hidden", hidden, 2)
    cell = check_tensor("lstm_cell", "cell", cell, 2)
    gates = _gates("lstm_cell", 4, x, hidden, w_input, w_hidden, bias)
    units = hidden.shape[1]
    check_equal("lstm_cell", f"the units of {hidden.name} and {cell.name}", units, cell.shape[1])

    def gate(n: int, i: Expr, j: Expr) -> Expr:
        return gates[i, j + n * dim_expr(units)]

    def remember(i: Expr, j: Expr) -> Expr:
        kept = te.sigmoid(gate(1, i, j)) * cell[i, j]
        return kept + te.sigmoid(gate(0, i, j)) * te.tanh(gate(2, i, j))

    memory: Tensor = te.compute(cell.shape, remember, name="cell")
    output: Tensor = te.compute(
        hidden.shape,
        lambda i, j: te.sigmoid(gate(3, i, j)) * te.tanh(memory[i, j]),
        name="hidden",
    )
    return output, memory


def rnn_cell(
    x: Tensor, hidden: Tensor, w_input: Tensor, w_hidden: Tensor, bias: Tensor | None = None
) -> Tensor:
    """tanh(x w_input' + hidden w_hidden' + bias), one step of an Elman network.

    Args:
        x: shape (batch, features).
        hidden: shape (batch, units).
        w_input, w_hidden: shapes (units, features) and (units, units).
        bias: shape (units,).
    """
    sums = _gates("rnn_cell", 1, x, hidden, w_input, w_hidden, bias)
    return define(sums.shape, lambda i, j: te.tanh(sums[i, j]), "hidden")


def _gates(
    operator: str,
    count: int,
    x: Tensor,
    hidden: Tensor,
    w_input: Tensor,
    w_hidden: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """x w_input' + hidden w_hidden' + bias, shape (batch, count*units)."""
    x = check_tensor(operator, "x", x, 2)
    hidden = check_tensor(operator, "hidden", hidden, 2)
    check_equal(operator, f"the batches of {x.name} and {hidden.name}", x.shape[0], hidden.shape[0])
    units = dim_of(dim_expr(hidden.shape[1]) * count)
    w_input = check_tensor(operator, "w_input", w_input, 2)
    w_hidden = check_tensor(operator, "w_hidden", w_hidden, 2)
    for w in (w_input, w_hidden):
        if isinstance(units, int) and w.shape[0] != units:
            raise ShapeError(
                f"{operator}: {w.name} {format_shape(w.shape)} must have {units} rows for "
                f"{hidden.shape[1]} units.",
                hint=f"{count} gates are stacked along the first axis." if count > 1 else "",
            )
    return dense(x, w_input, bias) + dense(hidden, w_hidden)
