"""topi's products of tensors against NumPy, with their gradients and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.checking import gradcheck
from tensorad.counting import work
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(7)


def tensor(*shape: int, name: str = "T") -> tuple[Tensor, np.ndarray]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 2)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((5, 3, 4), (4, 2)),
        ((5, 1, 3, 4), (2, 4, 3)),
        ((0, 4), (4, 2)),
        ((3, 0), (0, 2)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    (a, x), (b, y) = tensor(*left, name="A"), tensor(*right, name="B")
    for product in (topi.matmul(a, b), a @ b):
        np.testing.assert_allclose(interpret(product, {a: x, b: y}), x @ y, atol=1e-12)
    if 0 not in left:
        gradcheck(product, [a, b])


def test_batch_matmul_takes_the_second_operand_transposed() -> None:
    (a, x), (b, y) = tensor(2, 3, 4), tensor(2, 5, 4)
    product = topi.batch_matmul(a, b)
    expected = np.einsum("nik,njk->nij", x, y)
    np.testing.assert_allclose(interpret(product, {a: x, b: y}), expected, atol=1e-12)
    gradcheck(product, [a, b])


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([1, 0], [0, 1]), ([-1], [-2])])
def test_tensordot(axes: int | tuple[list[int], list[int]]) -> None:
    (a, x), (b, y) = tensor(3, 3), tensor(3, 3)
    product = topi.tensordot(a, b, axes)
    expected = np.tensordot(x, y, axes)
    np.testing.assert_allclose(interpret(product, {a: x, b: y}), expected, atol=1e-12)
    gradcheck(product, [a, b])


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ik,kj->ij", [(2, 3), (3, 4)]),
        ("ik,kj", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("kb,ak", [(3, 4), (2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("bij,bjk,kl->bil", [(2, 2, 3), (2, 3, 2), (2, 3)]),
        (" i j , j -> i ", [(2, 3), (3,)]),
        (",i->i", [(), (3,)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...ij,j...", [(2, 1, 2, 3), (3, 2, 2)]),
        ("i...,i...->...", [(3, 2), (3, 1)]),
    ],
)
def test_einsum(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    made = [tensor(*s, name=f"T{n}") for n, s in enumerate(shapes)]
    tensors, arrays = [t for t, _ in made], [a for _, a in made]
    y = topi.einsum(subscripts, *tensors)
    expected = np.einsum(subscripts, *arrays)
    np.testing.assert_allclose(interpret(y, dict(made)), expected, atol=1e-12)
    gradcheck(y, tensors)


ALGEBRAS = [
    # reducer, combination, the same over an array of all elements
    (te.max, lambda a, b: a + b, lambda a, b: (a + b).max(1)),
    (te.min, lambda a, b: te.maximum(a, b), lambda a, b: np.maximum(a, b).min(1)),
    (te.logsumexp, lambda a, b: a + b, lambda a, b: np.log(np.exp(a + b).sum(1))),
    (te.sum, lambda a, b: te.abs(a - b), lambda a, b: abs(a - b).sum(1)),
    (te.prod, lambda a, b: 1.0 + a * b, lambda a, b: (1 + a * b).prod(1)),
]


@pytest.mark.parametrize("n", range(len(ALGEBRAS)))
def test_einsum_in_another_algebra(n: int) -> None:
    reducer, combine, expected = ALGEBRAS[n]
    (a, av), (b, bv) = tensor(3, 4, name="A"), tensor(4, 2, name="B")
    y = topi.einsum("ik,kj->ij", a, b, reduce=reducer, combine=combine)
    value = interpret(y, {a: av, b: bv})
    np.testing.assert_allclose(value, expected(av[:, :, None], bv[None]), atol=1e-12)
    gradcheck(y, [a, b], arrays={a: av, b: bv})


def test_another_algebra_stores_no_tensor_over_all_letters() -> None:
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    y = topi.einsum("ik,kj->ij", a, b, reduce=te.max, combine=lambda x, y: x + y)
    assert work(y).elements == 64
    (da,) = vjp(y, [a], te.placeholder((8, 8), name="H"))
    assert work(da).elements <= 4 * 64


def test_a_combination_without_a_letter_to_reduce() -> None:
    (a, av), (b, bv) = tensor(3, name="A"), tensor(2, name="B")
    y = topi.einsum("i,j->ij", a, b, reduce=te.max, combine=te.minimum)
    np.testing.assert_allclose(interpret(y, {a: av, b: bv}), np.minimum(av[:, None], bv))


def test_products_with_sizes() -> None:
    n = te.size("n")
    a = te.placeholder((3, n), "float64", name="A")
    gram = topi.einsum("ik,jk->ij", a, a)
    for length in (0, 1, 4):
        x = rng.random((3, length))
        np.testing.assert_allclose(interpret(gram, {a: x}), x @ x.T, atol=1e-12)


CASES = Refusals()
A = te.placeholder((3, 4), name="A")
B = te.placeholder((3, 4), name="B")


@CASES.refused(
    ShapeError,
    "@ contracts axes of different extents 4 and 3.",
    "  in: A (3, 4) @ B (3, 4)",
    "  hint: transpose one operand.",
)
def extents_that_do_not_contract() -> None:
    topi.matmul(A, B)


@CASES.refused(
    ShapeError,
    "batch_matmul: a must have 3 axes, but A has shape (3, 4).",
    "  hint: reshape or expand_dims it first.",
)
def batches_of_vectors() -> None:
    topi.batch_matmul(A, B)


@CASES.refused(
    ShapeError,
    "tensordot: axis 1 of A and axis 0 of B differ: 4 and 3.",
    "  hint: change the shape of one of them.",
)
def paired_axes_of_different_extents() -> None:
    topi.tensordot(A, B, 1)


@CASES.refused(
    DefinitionError,
    "tensordot: cannot pair the axes ([0], [0, 1]) of A and B.",
    "  hint: list as many axes of one as of the other.",
)
def unpaired_axes() -> None:
    topi.tensordot(A, B, ([0], [0, 1]))


@CASES.refused(
    DefinitionError,
    "einsum: 'ijk' does not name the 2 axes of A.",
    "  in: ijk->i",
    "  hint: use one letter per axis, and ... for axes that are not named.",
)
def too_many_letters() -> None:
    topi.einsum("ijk->i", A)


@CASES.refused(
    ShapeError,
    "einsum: 'k' in 'ik,kj->ij' stands for extents 4 and 3.",
    "  in: A (3, 4), B (3, 4)",
    "  hint: give axes of different extents different letters.",
)
def one_letter_for_two_extents() -> None:
    topi.einsum("ik,kj->ij", A, B)


@CASES.refused(
    DefinitionError,
    "einsum: 'ij,jk' names 2 operands, 1 was given.",
    "  hint: give one tensor for each comma-separated term.",
)
def too_few_operands() -> None:
    topi.einsum("ij,jk", A)


@CASES.refused(
    DefinitionError,
    "einsum: the output 'i' has no ... for the axes that are not named.",
    "  in: ...i->i",
    "  hint: write ... in the output, too, or name the axes to sum over them.",
)
def an_output_without_dots() -> None:
    topi.einsum("...i->i", A)


@CASES.refused(
    DefinitionError,
    "einsum: the output 'iz' repeats a letter or has one that no operand has.",
    "  in: ij->iz",
    "  hint: an output letter names an axis of an operand, once.",
)
def an_unknown_output_letter() -> None:
    topi.einsum("ij->iz", A)


@CASES.refused(
    DefinitionError,
    "einsum: combine cannot be called with 2 scalars, one for each operand.",
    "  hint: e.g. combine=lambda a, b: a + b.",
)
def a_combination_of_one_operand() -> None:
    topi.einsum("ij,ij->i", A, B, combine=lambda a: a)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
