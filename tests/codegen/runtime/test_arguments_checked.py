"""Arguments of a call: what is taken as it is, what is copied, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.runtime.arguments import (
    Parameter,
    SizeBinding,
    are_disjoint,
    check_output,
    check_overlap,
    layout_matches,
    shares_memory,
    size_number,
    sizes_of,
)
from tensorad.errors import BindError, DTypeError, ShapeError, UserError

N = te.size("n")
X = te.placeholder((N, 3), name="X")
Array = np.ndarray


def array(*shape: int, dtype: str = "f4") -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (array(2, 3), True),
        (array(2, 3)[:, ::-1], False),
        (array(2, 3, dtype=">f4"), False),
        (array(2, 3, dtype="f2"), False),
        ([[1, 2, 3]], False),
    ],
)
def test_arrays_are_made_fit(value: object, same: bool) -> None:
    made = Parameter(X).convert(value)
    assert (made is value) == same
    assert made.flags.c_contiguous
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, np.asarray(value))


REFUSED: list[tuple[type[UserError], Callable[[], object]]] = [
    (DTypeError, lambda: Parameter(X).convert(array(2, 3, dtype="f8"))),
    (ShapeError, lambda: Parameter(X).convert(array(3))),
    (ShapeError, lambda: Parameter(X).check_shape(array(2, 3), {N: 4})),
    (BindError, lambda: SizeBinding([Parameter(X)], [X]).bind([array(2, 3)], {"m": 3})),
    (BindError, lambda: size_number("n", -1)),
    (BindError, lambda: size_number("n", 1.5)),
    (ShapeError, lambda: check_output(X, 0, array(2, 4), (2, 3))),
    (DTypeError, lambda: check_output(X, 0, array(2, 3, dtype="f8"), (2, 3))),
]


@pytest.mark.parametrize(("error", "act"), REFUSED)
def test_what_does_not_fit_is_refused(error: type[UserError], act: Callable[[], object]) -> None:
    with pytest.raises(error):
        act()


def test_sizes_follow_from_shapes() -> None:
    wide = te.placeholder((N * 2, te.size("m")), name="W")
    assert [s.name for s in sizes_of(wide)] == ["n", "m"]
    binding = SizeBinding([Parameter(wide)], [wide])
    found = binding.bind([array(6, 4)], {})
    assert {getattr(s, "name", ""): n for s, n in found.items()} == {"n": 3, "m": 4}
    with pytest.raises(ShapeError):
        binding.bind([array(6, 4)], {"n": 2})
    assert Parameter(wide).mentions(binding.sizes[0])


def test_results_share_no_memory() -> None:
    a = array(12)
    assert shares_memory(a[:6], a[5:])
    assert not shares_memory(a[:6], a[6:])
    check_overlap([("y", a[:6])], [("x", a[6:])])
    with pytest.raises(BindError, match="overlap"):
        check_overlap([("y", a[:6])], [("x", a[5:])])
    assert are_disjoint([0, 10], [10, 20], 1)
    assert not are_disjoint([0, 9], [10, 20], 1)
    assert layout_matches()
