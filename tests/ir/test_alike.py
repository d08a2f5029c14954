"""Forms: operations share one exactly if they compute the same of what is in their places."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from threading import Thread
from weakref import ref

import numpy as np
import pytest

from tensorad import te
from tensorad.ir.analysis.alike import (
    Form,
    Formula,
    Numbering,
    as_itself,
    as_operand,
    form_of,
)
from tensorad.ir.expr import Expr, axis
from tensorad.ir.tensor import Compute, Placeholder, Scan, Scatter, Tensor

TABLE = te.const(np.array([2, 0, 1]), "int64")
OTHER = te.const(np.array([0, 0, 2]), "int64")
LARGEST = te.comm_reducer(lambda a, b: te.maximum(a, b), lambda d: te.const(-9, d), name="largest")
Inputs = Sequence[Tensor]


def of(t: Tensor | tuple[Tensor, ...]) -> Formula:
    op = (t if isinstance(t, Tensor) else t[0]).op
    assert isinstance(op, (Compute, Scatter, Scan))
    return op


def inputs(dtype: str = "float64", n: object = 3) -> Inputs:
    return [te.placeholder((n, n), dtype, name=name) for name in "ABC"]


def read_at(index: Callable[[Expr], Expr]) -> Callable[[Inputs], Tensor]:
    return lambda x: te.compute((2,), lambda i: x[0][index(i), 0])


def total(
    x: Inputs, fold: Callable[..., Expr] = te.sum, extent: int = 3, **options: object
) -> Tensor:
    k = te.reduce_axis(extent, name="k")
    where = options.get("where")
    more = {} if where is None else {"where": where(k)}  # type: ignore[operator]
    return te.compute((2,), lambda i: fold(x[0][i, k] * x[1][k, i], axis=k, **more))


def added(x: Inputs, indices: object = TABLE, init: bool = True, **options: object) -> Tensor:
    start = te.compute((3,), lambda i: x[0][i, i]) if init else None
    update = lambda k: (indices[k], x[1][k, 0])  # type: ignore[index]  # noqa: E731
    return te.scatter((3,), (3,), update, init=start, **options)  # type: ignore[arg-type]


def running(x: Inputs, **options: bool) -> Tensor:
    found = te.scan(x[0], 0, "sum", **options)
    return found if isinstance(found, Tensor) else found[0]


PAIRS: dict[str, tuple[Callable[[Inputs], Tensor], Callable[[Inputs], Tensor]]] = {
    "one tensor twice, two tensors": (
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * x[0][0, i]),
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * x[1][0, i]),
    ),
    "other places of two tensors": (
        lambda x: te.compute((3,), lambda i: x[0][i, 0] + x[1][i, 0] * x[0][0, i]),
        lambda x: te.compute((3,), lambda i: x[0][i, 0] + x[1][i, 0] * x[1][0, i]),
    ),
    "indices": (read_at(lambda i: i), read_at(lambda i: i + 1)),
    "constant indices": (
        read_at(lambda i: te.const(0, "int64")),
        read_at(lambda i: te.const(1, "int64")),
    ),
    "extents": (
        lambda x: te.compute((3,), lambda i: x[0][i, 0]),
        lambda x: te.compute((2,), lambda i: x[0][i, 0]),
    ),
    "axes": (
        lambda x: te.compute((3, 3), lambda i, j: x[0][i, j]),
        lambda x: te.compute((3, 3), lambda i, j: x[0][j, i]),
    ),
    "numbers": (
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * 0.0),
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * -0.0),
    ),
    "guards": (
        lambda x: te.compute((3,), lambda i: te.select(i > 0, x[0][i, 0], 0.0)),
        lambda x: te.compute((3,), lambda i: te.select(i > 1, x[0][i, 0], 0.0)),
    ),
    "extents of folds": (total, lambda x: total(x, extent=2)),
    "conditions of folds": (total, lambda x: total(x, where=lambda k: k > 0)),
    "combiners": (lambda x: total(x, te.max), lambda x: total(x, LARGEST)),
    "known integers": (
        lambda x: te.compute((3,), lambda i: x[0][TABLE[i], 0]),
        lambda x: te.compute((3,), lambda i: x[0][OTHER[i], 0]),
    ),
    "known numbers": (
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * te.const(np.ones(3))[i]),
        lambda x: te.compute((3,), lambda i: x[0][i, 0] * te.const(np.ones(3))[i]),
    ),
    "where points go": (added, lambda x: added(x, OTHER)),
    "where scatters start": (added, lambda x: added(x, init=False)),
    "what scatters combine": (added, lambda x: added(x, combine="max")),
    "inclusive, exclusive": (running, lambda x: running(x, exclusive=True)),
    "forwards, backwards": (running, lambda x: running(x, reverse=True)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_other_formulas_have_other_forms(name: str) -> None:
    first, second = PAIRS[name]
    one, other = form_of(of(first(inputs())))[0], form_of(of(second(inputs())))[0]
    assert one is not other


@pytest.mark.parametrize("name", [n for n in PAIRS if n != "known numbers"])
def test_equal_formulas_of_other_tensors_have_one_form(name: str) -> None:
    for make in PAIRS[name]:
        (one, mine), (other, yours) = (form_of(of(make(inputs()))) for _ in range(2))
        assert one is other
        assert [t.name for t in mine] == [t.name for t in yours]
        same = [a is b for a, b in zip(mine, yours, strict=True)]
        assert same == [t is TABLE or t is OTHER for t in mine]


@pytest.mark.parametrize("change", [{"dtype": "float32"}, {"n": 4}, {"n": te.size("n")}])
def test_dtypes_shapes_and_sizes_of_what_is_read_belong_to_the_form(
    change: dict[str, object],
) -> None:
    first, second = (form_of(of(read_at(lambda i: i)(x))) for x in (inputs(), inputs(**change)))  # type: ignore[arg-type]
    assert first[0] is not second[0]


def test_integers_that_are_read_belong_to_the_form() -> None:
    def gathered(i: Tensor, x: Tensor) -> Formula:
        return of(te.compute((3,), lambda k: x[i[k], 0]))

    (x, y, _), (i, j) = inputs(), [te.placeholder((3,), "int64", name=n) for n in "ij"]
    assert form_of(gathered(i, x))[0] is form_of(gathered(i, y))[0]
    assert form_of(gathered(i, x))[0] is not form_of(gathered(j, x))[0]


def test_a_form_lasts_as_long_as_its_operations() -> None:
    gc.collect()

    def made() -> ref[Form]:
        a, b = read_at(lambda i: i)(inputs()), read_at(lambda i: i)(inputs())
        form, tensors = form_of(of(a))
        assert form_of(of(b))[0] is form and isinstance(tensors[0].op, Placeholder)
        return ref(form)

    left = made()
    gc.collect()
    assert left() is None


def test_threads_find_the_same_forms() -> None:
    ops = [[of(total(inputs(n=n + 3))) for n in range(40)] for _ in range(4)]
    found: list[list[Form]] = [[] for _ in ops]
    threads = [
        Thread(target=lambda n=n: found[n].extend([form_of(op)[0] for op in ops[n]]))  # type: ignore[misc]
        for n in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(own == found[0] for own in found) and len(set(found[0])) == 40


def test_keys_tell_names_of_axes_and_tensors_apart_if_asked() -> None:
    x, y = inputs()[:2]

    def key(t: Tensor, name: str, **options: bool) -> object:
        i = axis(name, 0, 3)
        numbering = Numbering(as_itself if options.pop("same", False) else as_operand, **options)
        return numbering.key(*numbering.expressions((t[i, 0],)))

    assert key(x, "i") == key(y, "i") != key(x, "j")
    assert key(x, "i", named=False) == key(x, "j", named=False)
    assert key(x, "i", same=True) == key(x, "i", same=True) != key(y, "i", same=True)


def test_numbering_goes_on_from_what_is_numbered() -> None:
    """Many roots over one graph cost what the graph has; deep ones need no recursion."""
    x = inputs()[0]
    i = axis("i", 0, 3)
    roots: list[Expr] = [x[i, 0]]
    for _ in range(20_000):
        roots.append(roots[-1] * roots[-1])
    numbering = Numbering()
    names = [numbering.expressions((r,))[0] for r in roots]
    assert len(set(names)) == len(roots)
    assert len(numbering.parts) < len(roots) + 10
