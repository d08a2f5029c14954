"""Products of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as fold
from inspect import signature
from operator import mul
from typing import Final

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.arrays.elementwise import matmul as broadcast_matmul
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Dim, Tensor, format_shape
from tensorad.topi.arguments import as_integer, as_integers, as_listed, check_flag, shown
from tensorad.topi.checks import check_equal, check_tensor, normalize_axis
from tensorad.topi.definition import define

_OTHERS: Final = "..."
"""What stands for axes without letters."""


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's a @ b: vectors, matrices, batches of matrices.

    Raises:
        ShapeError: a 0-d operand, or contracted extents that differ.
    """
    return broadcast_matmul(check_tensor("matmul", "a", a), check_tensor("matmul", "b", b))


def batch_matmul(a: Tensor, b: Tensor) -> Tensor:
    """out[n, i, j] = sum_k a[n, i, k] * b[n, j, k]."""
    a = check_tensor("batch_matmul", "a", a, 3)
    b = check_tensor("batch_matmul", "b", b, 3)
    check_equal("batch_matmul", f"the batches of {a.name} and {b.name}", a.shape[0], b.shape[0])
    check_equal("batch_matmul", f"the last axes of {a.name} and {b.name}", a.shape[2], b.shape[2])
    k = te.reduce_axis(a.shape[2], name="k")
    return define(
        (a.shape[0], a.shape[1], b.shape[1]),
        lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k),
        "batch_matmul",
    )


def tensordot(a: Tensor, b: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum over pairs of axes: the last n of a with the first n of b, or as listed.

    Raises:
        ShapeError: paired extents differ.
    """
    a = check_tensor("tensordot", "a", a)
    b = check_tensor("tensordot", "b", b)
    left, right = _paired_axes(a, b, axes)
    for d, e in zip(left, right, strict=True):
        check_equal("tensordot", f"axis {d} of {a.name} and axis {e} of {b.name}",
                    a.shape[d], b.shape[e])  # fmt: skip
    rows = [d for d in range(a.ndim) if d not in left]
    columns = [d for d in range(b.ndim) if d not in right]
    inner = [te.reduce_axis(a.shape[d], name=f"k{n}") for n, d in enumerate(left)]

    def body(*i: Expr) -> Expr:
        at_a = dict(zip(rows, i[: len(rows)], strict=True)) | dict(zip(left, inner, strict=True))
        at_b = dict(zip(columns, i[len(rows) :], strict=True))
        at_b |= dict(zip(right, inner, strict=True))
        product = (
            a[tuple(at_a[d] for d in range(a.ndim))] * b[tuple(at_b[d] for d in range(b.ndim))]
        )
        return te.sum(product, axis=inner) if inner else product

    shape = (*[a.shape[d] for d in rows], *[b.shape[d] for d in columns])
    return define(shape, body, "tensordot")


def _paired_axes(a: Tensor, b: Tensor, axes: object) -> tuple[list[int], list[int]]:
    """The axes of a and of b that `tensordot` sums over."""
    count, lists = as_integer(axes), [as_integers(n) for n in as_listed(axes) or ()]
    if count is not None and 0 <= count <= min(a.ndim, b.ndim):
        return list(range(a.ndim - count, a.ndim)), list(range(count))
    if len(lists) == 2 and lists[0] is not None and lists[1] is not None:
        left = [normalize_axis("tensordot", d, a.ndim) for d in lists[0]]
        right = [normalize_axis("tensordot", d, b.ndim) for d in lists[1]]
        if len(left) == len(right) == len(set(left)) == len(set(right)):
            return left, right
    raise DefinitionError(
        f"tensordot: cannot pair the axes {shown(axes)} of {a.name} and {b.name}.",
        hint="list as many axes of one as of the other.",
    )


def einsum(
    subscripts: str,
    *operands: Tensor,
    reduce: Callable[..., Expr] = te.sum,
    combine: Callable[..., Expr] | None = None,
    optimize: bool = True,
) -> Tensor:
    """NumPy's einsum with letters, e.g. einsum("ik,kj->ij", a, b), in any algebra.

    Dots stand for axes that are not named, as in einsum("...ii->...i", a): those of operands are
    broadcast against each other. Without "->" the output has the letters that occur once, in
    alphabetic order, behind axes without letters. Operands are joined in the order that takes the
    fewest iterations (of those, the one with the smallest
    intermediates), optimal for up to eight; letters that the output lacks are reduced as soon as
    no other operand has them. Two operands without such letters of their own are joined in one
    pass, the letters in the order of their first occurrence. Sizes count as 16. No tensor over
    all letters is stored. `ta.explain` shows the order.

    Args:
        reduce: a reducer, called as reduce(element, axis=axes): te.max, te.logsumexp, a
            comm_reducer, ...
        combine: one scalar per operand -> the element; the product by default. With
            reduce=te.max and combine=lambda a, b: a + b this is the max-plus product.
        optimize: False for one pass over all letters, which any other reducer than te.sum (of
            products), te.max and te.min (of sums, or each other) takes anyway.
    Raises:
        DefinitionError: malformed subscripts, or combine does not take one scalar per operand.
        ShapeError: one letter stands for different extents.
    """
    tensors = [check_tensor("einsum", f"operand {n}", t) for n, t in enumerate(operands)]
    terms, output = _parse(subscripts, tensors)
    extents = _extents(subscripts, terms, tensors)
    if isinstance(reduce, Tensor) or not callable(reduce):
        raise DefinitionError(
            f"einsum: reduce must be a reducer, got {reduce!r}.",
            hint="e.g. ta.sum, ta.max, ta.logsumexp or a comm_reducer.",
        )
    if combine is not None:
        _check_combine(combine, len(tensors))
    summed = [c for c in extents if c not in output]

    def body(*i: Expr) -> Expr:
        axes: dict[str, Expr] = dict(zip(output, i, strict=True))
        inner: list[Axis] = [te.reduce_axis(extents[c], name=c) for c in summed]
        axes |= dict(zip(summed, inner, strict=True))
        factors: list[Expr] = [
            t[tuple(_index(axes[c], c, n, extents) for c, n in zip(term, t.shape, strict=True))]
            for term, t in zip(terms, tensors, strict=True)
        ]
        element = fold(mul, factors) if combine is None else combine(*factors)
        return reduce(element, axis=inner) if inner else element

    shape = tuple(extents[c] for c in output)
    ordered = check_flag("einsum", "optimize", optimize)
    made: Tensor = te.compute(shape, body, name="einsum", optimize=ordered)
    return made


def _index(axis: Expr, name: str, extent: Dim, extents: Mapping[str, Dim]) -> Expr | int:
    """The index of an axis: 0 where an axis without a letter is repeated."""
    return axis if name.isalpha() or same_dim(extent, extents[name]) else 0


def _extents(subscripts: str, terms: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Dim]:
    """The extent that each letter stands for."""
    extents: dict[str, Dim] = {}
    for term, t in zip(terms, tensors, strict=True):
        for letter, n in zip(term, t.shape, strict=True):
            known = extents.setdefault(letter, n)
            if not letter.isalpha() and same_dim(known, 1):
                extents[letter] = n
            elif not same_dim(known, n) and (letter.isalpha() or not same_dim(n, 1)):
                raise ShapeError(
                    f"einsum: {letter!r} in {subscripts!r} stands for extents "
                    f"{extents[letter]} and {n}.",
                    where=", ".join(f"{o.name} {format_shape(o.shape)}" for o in tensors),
                    hint="give axes of different extents different letters.",
                )
    return extents


def _check_combine(combine: Callable[..., Expr], count: int) -> None:
    if not callable(combine):
        raise DefinitionError(
            f"einsum: combine must be a function, got {combine!r}.",
            hint="e.g. combine=lambda a, b: a + b.",
        )
    try:
        signature(combine).bind(*range(count))
    except TypeError:
        raise DefinitionError(
            f"einsum: combine cannot be called with {count} scalars, one for each operand.",
            hint="e.g. combine=lambda a, b: a + b.",
        ) from None
    except ValueError:  # a builtin without a signature: the call itself will tell
        return


def _unnamed(
    terms: Sequence[str], named: Sequence[str], operands: Sequence[Tensor]
) -> tuple[str, list[str]]:
    """Digits for the axes that dots stand for, and the terms with these: the last axis is 0."""
    counts = [t.ndim - len(own) for own, t in zip(named, operands, strict=True)]
    digits = "".join([chr(ord("0") + n) for n in range(max(counts, default=0))][::-1])
    pairs = zip(terms, counts, strict=True)
    return digits, [term.replace(_OTHERS, digits[len(digits) - n :], 1) for term, n in pairs]


def _parse(subscripts: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    if not isinstance(subscripts, str):
        raise DefinitionError(
            f"einsum: the subscripts must be a string, got {type(subscripts).__name__}.",
            hint='write einsum("ik,kj->ij", A, B).',
        )
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = left.split(",")
    if not operands or len(terms) != len(operands):
        raise DefinitionError(
            f"einsum: {subscripts!r} names {len(terms)} operands, {len(operands)} "
            f"{'was' if len(operands) == 1 else 'were'} given.",
            hint="give one tensor for each comma-separated term.",
        )
    named = [term.replace(_OTHERS, "", 1) for term in terms]
    for term, letters, t in zip(terms, named, operands, strict=True):
        fits = len(letters) <= t.ndim if _OTHERS in term else len(letters) == t.ndim
        if not (letters.isalpha() or not letters) or not fits:
            raise DefinitionError(
                f"einsum: {term!r} does not name the {t.ndim} axes of {t.name}.",
                where=subscripts,
                hint="use one letter per axis, and ... for axes that are not named.",
            )
    others, terms = _unnamed(terms, named, operands)
    used = "".join(named)
    if not arrow:
        output = _OTHERS + "".join(sorted(c for c in set(used) if used.count(c) == 1))
    elif others and _OTHERS not in output:
        raise DefinitionError(
            f"einsum: the output {output!r} has no ... for the axes that are not named.",
            where=subscripts,
            hint="write ... in the output, too, or name the axes to sum over them.",
        )
    output = output.replace(_OTHERS, others, 1)
    if len(set(output)) < len(output) or not set(output) <= set("".join(terms)):
        raise DefinitionError(
            f"einsum: the output {output!r} repeats a letter or has one that no operand has.",
            where=subscripts,
            hint="an output letter names an axis of an operand, once.",
        )
    return terms, output
