"""Lists, trees and other data of several kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tests.support.programs.higher.kit import F64, I64, Cases, Kit

DATA = Cases()


@ta.variant
class List:
    """Numbers, one after the other."""

    class Nil:
        """No more."""

    class Cons:
        """One before others."""

        head: "float64"  # type: ignore[name-defined]  # noqa: F821, UP037  # a dtype
        tail: "List"  # noqa: UP037  # defined here


Tree: Any = ta.variant(
    "Tree",
    Leaf={"value": "float64[2]"},
    Node={"left": "Tree", "right": "Tree", "rate": ("float64", {"bias": "float64[2]"})},
)
Rose: Any = ta.variant("Rose", Bud={}, Branch={"value": "float64", "rest": "Forest"})
Forest: Any = ta.variant("Forest", Empty={}, More={"first": "Rose", "rest": "Forest"})
Shape: Any = ta.variant(
    "Shape", Circle={"r": "float64"}, Box={"w": "float64", "h": "float64"}, Point={}
)
Nil: Any = List.Nil
Cons: Any = List.Cons


def listed(*values: float) -> Any:
    made = Nil()
    for v in reversed(values):
        made = Cons(F64(v), made)
    return made


def tree(depth: int, start: float = 1.0) -> Any:
    if not depth:
        return Tree.Leaf(np.array([start, -start]))
    rate = (F64(0.5 + start), {"bias": np.array([0.1, start])})
    return Tree.Node(tree(depth - 1, start + 1), tree(depth - 1, start / 2), rate)


XS = listed(1.0, 2.5, -4.0)


@DATA.run((XS,), (Nil(),))
def total(k: Kit) -> Any:
    @k.function
    def f(xs: Any) -> Any:
        return ta.match(xs, {Nil: lambda: 0.0, Cons: lambda h, t: h + f(t)})

    return f


@DATA.run((XS,))
def length(k: Kit) -> Any:
    @k.function
    def f(xs: Any, so_far: Any) -> Any:
        return ta.match(xs, {"Cons": lambda h, t: f(t, so_far + 1), "Nil": lambda: so_far})

    return lambda xs: f(xs, 0)


@DATA.run((XS, F64(3.0)))
def mapped(k: Kit) -> Any:
    @k.function
    def f(g: Any, xs: Any) -> Any:
        return ta.match(xs, lambda: Nil(), lambda h, t: Cons(g(h), f(g, t)))

    return lambda xs, a: f(lambda x: x * a + 1, xs)


@DATA.run((XS,))
def reversed_list(k: Kit) -> Any:
    @k.function
    def f(xs: Any, done: Any) -> Any:
        return ta.match(xs, lambda: done, lambda h, t: f(t, Cons(h, done)))

    return lambda xs: f(xs, Nil())


@DATA.run((XS, listed(7.0)))
def appended(k: Kit) -> Any:
    @k.function
    def f(xs: Any, ys: Any) -> Any:
        return ta.match(xs, lambda: ys, lambda h, t: Cons(h, f(t, ys)))

    return f


@DATA.run((XS,))
def filtered(k: Kit) -> Any:
    @k.function
    def f(xs: Any) -> Any:
        def one(h: Any, t: Any) -> Any:
            rest = f(t)
            return k.cond(h > 0, lambda: Cons(h, rest), lambda: rest)

        return ta.match(xs, lambda: Nil(), one)

    return f


@DATA.run((XS, listed(3.0, 5.0)))
def zipped(k: Kit) -> Any:
    @k.function
    def f(xs: Any, ys: Any) -> Any:
        def both(h: Any, t: Any) -> Any:
            return ta.match(ys, lambda: Nil(), lambda g, s: Cons(h * g, f(t, s)))

        return ta.match(xs, lambda: Nil(), both)

    return f


@DATA.run((XS,))
def folds(k: Kit) -> Any:
    @k.function
    def right(g: Any, xs: Any, end: Any) -> Any:
        return ta.match(xs, lambda: end, lambda h, t: g(h, right(g, t, end)))

    @k.function
    def left(g: Any, xs: Any, so_far: Any) -> Any:
        return ta.match(xs, lambda: so_far, lambda h, t: left(g, t, g(so_far, h)))

    def program(xs: Any) -> Any:
        start = k.number(0.5)
        return right(lambda h, s: h - s, xs, start), left(lambda s, h: s / 2 + h, xs, start)

    return program


@DATA.run((I64(5),), (I64(0),))
def made_by_recursion(k: Kit) -> Any:
    @k.function
    def f(n: Any) -> Any:
        return k.cond(n < 1, lambda: Nil(), lambda: Cons(k.number(n * n), f(n - 1)))

    return f


@DATA.run((I64(5), XS))
def made_in_a_loop(k: Kit) -> Any:
    return lambda n, xs: k.for_loop(0, n, lambda i, ys: Cons(k.number(i), ys), xs)


@DATA.run((XS,))
def taken_apart_in_a_loop(k: Kit) -> Any:
    def program(xs: Any) -> Any:
        def is_left(c: Any) -> Any:
            return ta.match(c[0], lambda: False, lambda h, t: True)

        def step(c: Any) -> Any:
            return ta.match(c[0], lambda: c, lambda h, t: (t, c[1] * 2 + h))

        return k.while_loop(is_left, step, (xs, k.number(0.0)))

    return program


@DATA.run((listed(3.0, -1.0, 2.0, 0.5),))
def insertion_sort(k: Kit) -> Any:
    @k.function
    def insert(x: Any, xs: Any) -> Any:
        def compared(h: Any, t: Any) -> Any:
            return k.cond(x < h, lambda: Cons(x, xs), lambda: Cons(h, insert(x, t)))

        return ta.match(xs, lambda: Cons(x, Nil()), compared)

    @k.function
    def sort(xs: Any) -> Any:
        return ta.match(xs, lambda: Nil(), lambda h, t: insert(h, sort(t)))

    return sort


@DATA.run((tree(3), np.array([[1.0, 0.5], [-0.25, 2.0]])))
def tree_net(k: Kit) -> Any:
    @k.function
    def f(t: Any, w: Any) -> Any:
        def node(left: Any, right: Any, rate: Any) -> Any:
            return ta.topi.tanh(w @ (f(left, w) + f(right, w)) * rate[0] + rate[1]["bias"])

        return ta.match(t, {Tree.Leaf: lambda v: v * 1.0, Tree.Node: node})

    def plain(t: Any, w: Any) -> Any:
        if isinstance(t, Tree.Leaf):
            return t.value
        return np.tanh(w @ (plain(t.left, w) + plain(t.right, w)) * t.rate[0] + t.rate[1]["bias"])

    return plain if k.function is not ta.function else f


@DATA.run((tree(2),))
def depth_and_mirror(k: Kit) -> Any:
    @k.function
    def depth(t: Any) -> Any:
        def node(left: Any, right: Any, rate: Any) -> Any:
            a, b = depth(left), depth(right)
            return k.cond(a > b, lambda: a, lambda: b) + 1

        return ta.match(t, lambda v: 0, node)

    @k.function
    def mirror(t: Any) -> Any:
        return ta.match(
            t, lambda v: Tree.Leaf(v), lambda a, b, rate: Tree.Node(mirror(b), mirror(a), rate)
        )

    return lambda t: (depth(t), mirror(t))


@DATA.run((tree(2), listed()))
def flattened_tree(k: Kit) -> Any:
    @k.function
    def f(t: Any, after: Any) -> Any:
        return ta.match(t, lambda v: Cons(v[0], after), lambda a, b, r: f(a, f(b, after)))

    return f


@DATA.run((Rose.Branch(2.0, Forest.More(Rose.Branch(3.0, Forest.Empty()), Forest.Empty())),))
def two_types_in_turn(k: Kit) -> Any:
    @k.function
    def rose(r: Any) -> Any:
        return ta.match(r, lambda: 0.0, lambda v, rest: v + 2 * forest(rest))

    @k.function
    def forest(f: Any) -> Any:
        return ta.match(f, lambda: 1.0, lambda first, rest: rose(first) * forest(rest))

    return rose


@DATA.run(*[(s,) for s in (Shape.Circle(2.0), Shape.Box(2.0, 3.0), Shape.Point())])
def areas(k: Kit) -> Any:
    sides = {
        Shape.Point: lambda: 0.0,
        Shape.Box: lambda w, h: w * h,
        Shape.Circle: lambda r: 3.0 * r * r,
    }
    return lambda s: ta.match(s, sides)


@DATA.run((F64(1.5), I64(1)), (F64(1.5), I64(2)))
def chosen_by_a_branch(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        sides = [lambda: Shape.Point(), lambda: Shape.Circle(x), lambda: Shape.Box(x, x + 1)]
        s = k.switch(n, sides)
        return s, ta.match(s, lambda r: r, lambda w, h: w - h, lambda: 0.0)

    return program
