"""Bad programs: views of what references hold."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import BoundsError, DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
X = np.ones((2, 3))
kept: list[Any] = []


def run(f: Any, *args: Any) -> Any:
    return ta.function(f)(*args)


@CASES.refused(
    BoundsError,
    "index 7 is outside of axis 1 of r, whose extent is 3.",
    "  in: r with shape (2, 3)",
    "  hint: use an index from -3 to 2.",
)
def out_of_range() -> None:
    ta.ref(X, "r").at[0, 7].set(1.0)


@CASES.refused(
    BoundsError,
    "index 5 is outside of axis 0 of r, whose extent is 2.",
    "  in: r with shape (2, 2)",
    "  hint: use an index from -2 to 1.",
)
def out_of_range_of_a_view() -> None:
    ta.ref(X, "r").at.T[1:][5].get()


@CASES.refused(
    BoundsError,
    "r_set is written at index 3 of axis 0, which has extent 3.",
    "  in: r_set[i] in r_set at HERE, in iteration 3 of the loop at HERE",
    "  hint: the index comes from sizes and counters of this call: correct it, or clamp it in "
    "the formula with minimum and maximum.",
)
def counter_out_of_range() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        ta.for_loop(0, 4, lambda i, c: (r.at[i].set(0.0), c)[1], None)
        return r.get()

    run(f, V)


@CASES.refused(
    BoundsError,
    "r_set is written at index 5 of axis 0, which has extent 3.",
    "  in: r_set[k[]] in r_set at HERE",
    "  hint: the index comes from the data of this call: correct it, or clamp it in the formula"
    " with minimum and maximum.",
)
def data_out_of_range() -> None:
    def f(x: Any, k: Any) -> Any:
        r = ta.ref(x, "r")
        r.at[k].set(0.0)
        return r.get()

    run(f, V, 5)


@CASES.refused(
    DefinitionError,
    "the index of a view of r names 0 several times.",
    "  in: r with shape (3,)",
    "  hint: a view shows each element once: leave out what is repeated; where values are to be"
    " added up, r.set(r.get().at[index].add(values)).",
)
def twice() -> None:
    ta.ref(V, "r").at[[0, 2, 0]].set(1.0)


@CASES.refused(
    DefinitionError,
    "the index of a view of r names 0, 2 several times.",
    "  in: r with shape (2, 3)",
    "  hint: a view shows each element once: leave out what is repeated; where values are to be"
    " added up, r.set(r.get().at[index].add(values)).",
)
def twice2() -> None:
    ta.ref(X, "r").at[[0, 1, 0], [2, 1, 2]]


@CASES.refused(
    DefinitionError,
    "the index of a view of r is a tensor: it may name an element several times.",
    "  in: r with shape (3,)",
    "  hint: a view shows each element once: index with numbers; or write all of it, "
    "r.set(r.get().at[index].set(value)).",
)
def index_tensor() -> None:
    run(lambda x, k: ta.ref(x, "r").at[k].get(), V, np.array([0, 1]))


@CASES.refused(
    DefinitionError,
    "a view of r cannot show an element several times, as broadcast_to does.",
    "  hint: what is set there would not be told: broadcast what is got, r.get().",
)
def broadcast() -> None:
    ta.ref(V, "r").at.broadcast_to((2, 3))


@CASES.refused(
    DefinitionError,
    "index 0 of r is a boolean mask: how many elements it selects depends on its values.",
    "  in: r with shape (3,)",
    "  hint: choose elements with ta.select(mask, x, other), which keeps the shape, or give the"
    " positions: np.nonzero(mask) of an array.",
)
def mask() -> None:
    ta.ref(V, "r").at[V > 0]


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE has no field 'b'.",
    "  in: dict with ['w']",
    "  hint: a view of a tree is of one of its fields; then of its elements.",
)
def no_field() -> None:
    ta.ref({"w": V}, "r").at["b"]


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is no array: it has no elements.",
    "  hint: choose a field first: a view of elements is of one array.",
)
def tree_elements() -> None:
    ta.ref({"w": V}, "r").at.reshape(-1)


@CASES.refused(
    DefinitionError,
    "['f'] of the reference r made at HERE is no array: it has no elements.",
    "  hint: choose a field first: a view of elements is of one array.",
)
def func_elements() -> None:
    ta.ref({"f": len}, "r").at["f"][0]


@CASES.refused(
    ShapeError,
    "r.at[...].set: values of shape (2,) do not broadcast to the selected (3,).",
    "  in: r with shape (2, 3)",
    "  hint: trailing axes must be equal or 1; reshape the values first.",
)
def values_that_do_not_fit() -> None:
    ta.ref(X, "r").at[0].set(np.ones(2))


@CASES.refused(
    DTypeError,
    "r.at[...].set: values of float32 do not fit into r of int64.",
    "  hint: convert one of them: value.astype('int64'), or the tensor.",
)
def values_dtype() -> None:
    ta.ref(np.arange(3), "r").at[0].set(0.5)


@CASES.refused(
    ShapeError,
    "reshape: r of shape (2, 3) has 6 elements, the new shape (4,) has 4.",
    "  hint: keep the number of elements; one extent may be -1.",
)
def reshape() -> None:
    ta.ref(X, "r").at.reshape(4)


@CASES.refused(
    DefinitionError,
    "transpose: axes (0, 0) are no permutation of the 2 axes of r.",
    "  hint: name every axis once, e.g. (1, 0).",
)
def perm() -> None:
    ta.ref(X, "r").at.transpose(0, 0)


@CASES.refused(
    ShapeError,
    "diagonal: r has no two axes 0 and 1.",
    "  in: r with shape (3,)",
    "  hint: name two axes.",
)
def diag() -> None:
    ta.ref(V, "r").at.diagonal()


@CASES.refused(
    ShapeError,
    "diagonal: how long diagonal 1 of r is depends on sizes.",
    "  in: r with shape (n, m)",
    "  hint: both axes have one extent, and the offset is 0, where extents are sizes.",
)
def diag_sizes() -> None:
    def f(x: Any) -> Any:
        return ta.ref(x, "r").at.diagonal(1).get()

    g = ta.function(f)
    x = ta.placeholder((ta.size("n"), ta.size("m")), "float64", "x")
    g(x)


@CASES.refused(
    ShapeError,
    "r['w'].at[...].set: values of shape (2,) do not broadcast to the selected (3,).",
    "  in: r['w'] with shape (3,)",
    "  hint: trailing axes must be equal or 1; reshape the values first.",
)
def field_structure() -> None:
    ta.ref({"w": V, "b": 1.0}, "r").at["w"].set(V[:2])


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is written with another structure at r['w'][0].",
    "  in:            held          written",
    "      r['w'][0]  float64 (3,)  -",
    "      r['w'][1]  float64 (3,)  -",
    "      r['w']     -             float64 (3,)",
    "  hint: a reference holds trees of one structure: make another one for what is another tree.",
)
def field_tree() -> None:
    ta.ref({"w": (V, V), "b": 1.0}, "r").at["w"].set(V)


@CASES.refused(
    DefinitionError,
    "the reference r made at HERE is written with another structure at r['w'].",
    "  in:         held          written",
    "      r['w']  float64 (3,)  -",
    "      r       -             float64 (3,)",
    "  hint: a reference holds trees of one structure: make another one for what is another tree.",
)
def add_structure() -> None:
    ta.ref({"w": V}, "r").add(V)


@CASES.refused(
    DefinitionError,
    "a view of the reference r made at HERE has no truth value: it is a place, not what it shows.",
    "  hint: its get() is what it shows now.",
)
def view_truth() -> None:
    run(lambda x: x if ta.ref(x, "r").at[0] else -x, V)
