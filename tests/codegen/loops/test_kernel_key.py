"""The key of a kernel: the same for the same machine code, another for each detail of it."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any, get_args

import pytest

from tensorad.codegen.loops.ir import Check, Fold, If, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.kernel_key import kernel_key, local_sizes
from tensorad.codegen.loops.rename_tensors import with_buffers, with_tensors
from tensorad.codegen.loops.scratch import buffer
from tensorad.ir.combiner import Combiner, make_combiner, max_combiner
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64
from tensorad.ir.expr import Axis, Expr, add, axis, const, local_size, mul, read, size_var
from tensorad.ir.tensor import Tensor
from tests.support.statement_samples import T, X, sample

OTHER = buffer("S", (8, 8), INT64)
BOTH = Store((T, OTHER), (X, X), (X, X))
"""Stands before: tensors that are known are told apart by their number."""
KINDS = [k for k in get_args(Stmt) if fields(k)]
TEXTS = ("read", "dimension", "user", "writes", "source")
UNSEEN = {(Check, name) for name in TEXTS} | {(If, "rare")}
"""What machine code does not hold: texts of errors, and what predictions leave out."""


def key_of(*body: Stmt, **others: Any) -> object:
    return kernel_key(Kernel("k", body, (), (), **others))[0]


def changed(value: object) -> object:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 7
        case str():
            return "vector" if value == "serial" else value + "x"
        case Tensor():
            return OTHER
        case Combiner():
            return max_combiner(INT64)
        case Axis():
            return axis(value.name, value.lower, mul(value.upper, X))
        case Expr():
            return mul(value, value)
    assert isinstance(value, tuple)
    return (*value, value[0])


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_field_of_a_statement_is_in_the_key(kind: type) -> None:
    s = sample(kind)
    for f in fields(s):
        other = replace(s, **{f.name: changed(getattr(s, f.name))})
        same = key_of(BOTH, s) == key_of(BOTH, other)
        assert same == ((kind, f.name) in UNSEEN), f.name


def test_a_check_is_known_by_what_it_compares() -> None:
    s = replace(sample(Check), dimension=0, looked_at=None)
    others = [replace(s, read=read(T, (add(X, X), X))), replace(s, looked_at=mul(X, X))]
    assert len({key_of(c) for c in (s, *others)}) == 3
    assert key_of(s) == key_of(replace(s, dimension=1))  # the same index


def test_every_field_of_a_kernel_that_code_depends_on_is_in_the_key() -> None:
    own = {"scratch": (T,), "beside": ((T, OTHER),), "unaliased_with": OTHER}
    keys = [key_of(BOTH, **own)]
    keys += [key_of(BOTH, **{k: v for k, v in own.items() if k != name}) for name in own]
    keys += [key_of(BOTH, **{**own, "scratch": (OTHER,)})]
    assert all(a != b for a, b in combinations(keys, 2))


def test_types_extents_and_numbers_are_told_apart() -> None:
    n, m = size_var("n"), size_var("m")

    def stored(value: Expr, *shape: Any) -> object:
        t = buffer("A", shape, value.dtype)
        return key_of(Store((t,), tuple([const(0, INT64) for _ in shape]), (value,)))

    zero = const(0.0, FLOAT32)
    keys = [stored(zero), stored(const(-0.0, FLOAT32)), stored(const(0.0, FLOAT64))]
    keys += [stored(const(v, FLOAT32)) for v in (1.0, float("nan"), float("inf"))]
    keys += [stored(const(v, INT64)) for v in (0, 1)]
    keys += [stored(zero, *shape) for shape in ((4,), (5,), (n,), (m,), (add(n, m),), (2, 2))]
    assert all(a != b for a, b in combinations(keys, 2))
    indices = [Prefetch(T, (X, const(1, dtype)), 1) for dtype in (INT64, INT32)]
    assert key_of(indices[0]) != key_of(indices[1])


def test_combiners_are_known_by_what_they_compute() -> None:
    kinds = [
        make_combiner("c", lambda x, y: (op(x[0], y[0]),), (const(identity, INT64),), associative=a)
        for op in (add, mul)
        for identity in (0, 1)
        for a in (False, True)
    ]
    folds = [replace(sample(Fold), combiner=c) for c in kinds]
    keys = [key_of(s) for s in folds]
    assert all(a != b for a, b in combinations(keys, 2))
    again = make_combiner("d", lambda x, y: (add(x[0], y[0]),), (const(0, INT64),))
    assert key_of(replace(folds[0], combiner=again)) == keys[0]


def test_names_and_the_same_loops_over_other_tensors_have_one_key() -> None:
    def copy(a: Tensor, b: Tensor, name: str) -> Kernel:
        i = axis(name, 0, 8)
        return Kernel(name, (Store((b,), (i, i), (read(a, (i, i)),)),), (b,), (a,))

    kernel = copy(T, OTHER, "i")
    key, tensors = kernel_key(kernel)
    assert kernel_key(copy(OTHER, T, "j")) == (key, tensors[::-1])
    assert kernel_key(copy(T, T, "i"))[0] != key
    given = with_buffers(kernel, {T: OTHER})
    assert kernel_key(with_tensors(kernel, "l", given)) == (key, tuple([given[t] for t in tensors]))


def test_counters_are_known_by_their_places() -> None:
    t, u = (local_size(n, const(8, INT64)) for n in "tu")

    def stored(a: Expr, b: Expr) -> Kernel:
        return Kernel("k", (Store((T,), (a, b), (X,)),), (T,), ())

    one, other, same = stored(t, u), stored(u, t), stored(u, u)
    assert kernel_key(one) == kernel_key(other)
    assert kernel_key(one)[0] != kernel_key(same)[0]
    assert local_sizes(one) == (t, u) and local_sizes(other) == (u, t)
    assert kernel_key(stored(size_var("t"), u))[0] != kernel_key(one)[0]
