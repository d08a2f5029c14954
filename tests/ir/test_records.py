"""Records and definitions in the IR: verified, interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import DTypeError, InternalError
from tensorad.ir.dtypes import BOOL, FLOAT64, INT64
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    inject,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.reference.records import Record
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Block, Branch, Control, Tensor, outputs
from tests.support.records import List, cons_list, list_of


def branch(condition: Tensor, yes: Tensor, no: Tensor, operands: tuple[Tensor, ...]) -> Tensor:
    """One of two tensors, only this one being computed."""
    blocks = (Block(operands, (no,)), Block(operands, (yes,)))
    return outputs(Branch(("chosen",), (condition, *operands), blocks))[0]


def power() -> Definition:
    """x ** n, by n calls."""
    x, n = stand_ins([Field("x", (), FLOAT64), Field("n", (), INT64)])
    made = Definition("power", (x, n), [Field("y", (), FLOAT64)])
    (before,) = recursion(made, (x, n - 1))
    one = ta.compute((), lambda: ta.const(1.0, "float64"), "one")
    return made.complete([branch(n > 0, x * before, one, (x, n))])


@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_a_definition_calls_itself(n: int) -> None:
    x, k = stand_ins([Field("x", (), FLOAT64), Field("k", (), INT64)])
    (y,) = recursion(power(), (x, k))
    verify([y])
    assert ta.interpret(y, {x: 1.01, k: n}) == pytest.approx(1.01**n, rel=1e-12)


def test_lists() -> None:
    xs, w = stand_ins([Field("xs", (), List), Field("w", (), FLOAT64)])
    total = Definition("total", (xs, w), [Field("sum", (), FLOAT64)])
    head, tail = fields_of(xs, 1)
    (rest,) = recursion(total, (tail, w))
    zero = ta.compute((), lambda: ta.const(0.0, "float64"), "zero")
    total.complete([branch(tag_of(xs), head * w + rest, zero, (xs, w))])
    given, scale = stand_ins([Field("given", (), List), Field("scale", (), FLOAT64)])
    (y,) = recursion(total, (given, scale))
    verify([y])
    assert ta.interpret(y, {given: list_of([1.0, 2.0, 4.0]), scale: 3.0}) == 21.0
    made = cons_list([ta.compute((), lambda: ta.const(2.5, "float64"), "a")])
    (y,) = recursion(total, (made, scale))
    assert ta.interpret(y, {scale: 2.0}) == 5.0


def test_what_gives_outputs_their_shapes_is_made_once() -> None:
    """It is asked for wherever outputs are."""
    xs, x, n = stand_ins([Field("xs", (), List), Field("x", (), FLOAT64), Field("n", (), INT64)])
    for made in (*fields_of(xs, 1), tag_of(xs), inject(List, 0, ()), *recursion(power(), (x, n))):
        op = made.op
        assert isinstance(op, Control) and op.results is op.results
        assert outputs(op)[made.index] is made


def test_records_are_values() -> None:
    assert repr(list_of([1.5])) == "Cons(head=array(1.5), tail=array(Nil(), dtype=object))"
    (xs,) = stand_ins([Field("xs", (), List)])
    found = ta.interpret(xs, {xs: list_of([1.0])}).item()
    assert isinstance(found, Record) and found.tag == 1
    with pytest.raises(DTypeError) as error:
        ta.interpret(xs, {xs: 3.0})
    assert str(error.value).startswith("xs of the data type List was given float.")


def test_the_verifier_knows_fields() -> None:
    x = ta.placeholder((3,), "float64", "x")
    with pytest.raises(InternalError, match="another shape or dtype than the field head"):
        verify([inject(List, 1, (x, inject(List, 0, ())))])
    with pytest.raises(InternalError, match="a tensor that is no record"):
        verify([tag_of(x)])


def test_fields_are_those_of_the_variant() -> None:
    (xs,) = stand_ins([Field("xs", (), List)])
    with pytest.raises(InternalError, match="is read as variant 1"):
        ta.interpret(fields_of(xs, 1)[0], {xs: list_of([])})


def test_types_are_completed_once() -> None:
    made = RecordType("Empty")
    with pytest.raises(InternalError, match="no variants yet"):
        _: Any = made.variants
    made.complete([Variant("Only", (Field("flag", (), BOOL),))])
    with pytest.raises(InternalError, match="variants already"):
        made.complete([])
    assert made != RecordType("Empty") and made.tag("Only") == 0
    assert (
        np.dtype(object) == ta.interpret(inject(made, 0, (topi.full((), True, "bool"),)), {}).dtype
    )


def test_what_is_made_later_is_made_once() -> None:
    asked: list[str] = []

    def variants() -> list[Variant]:
        asked.append("variants")
        return [Variant("Only", ())]

    def results() -> list[Tensor]:
        asked.append("results")
        return [topi.full((), 2.0, "float64")]

    made = RecordType("Later").later(variants)
    called = Definition("two", (), [Field("y", (), FLOAT64)]).later(results)
    assert not asked
    assert made.tag("Only") == 0 == made.tag("Only")
    assert ta.interpret([*recursion(called, ()), *recursion(called, ())], {}) == [2.0, 2.0]
    assert asked == ["variants", "results"]
    with pytest.raises(InternalError, match="complete already"):
        called.complete([])


def test_calls_give_sizes() -> None:
    """A shape that each call has for itself: interpreted, and refused by the verifier."""
    n = local_size("n")
    (x,) = stand_ins([Field("x", (n,), FLOAT64)])
    made = Definition("last", (x,), [Field("y", (), FLOAT64)], sizes=(n,))
    (tail,) = [ta.compute((n - 1,), lambda i: x[i + 1], name="tail")]
    (rest,) = recursion(made, (tail,), sizes=(n - 1,))
    first = ta.compute((), lambda: x[0], name="first")
    last = ta.compute((), lambda: n > 1, name="longer")
    blocks = tuple([Block((x,), (t,)) for t in (first, rest)])
    made.complete(outputs(Branch(("y",), (last, x), blocks)))
    (given,) = stand_ins([Field("given", (4,), FLOAT64)])
    (y,) = recursion(made, (given,), sizes=(int_const(4),))
    verify([y])
    assert ta.interpret(y, {given: np.array([3.0, 1.0, 4.0, 1.5])}) == 1.5
    with pytest.raises(InternalError, match="x has another shape or dtype than given"):
        verify([recursion(made, (given,), sizes=(int_const(5),))[0]])
    with pytest.raises(InternalError, match="a param has a size that no call gives"):
        verify(recursion(Definition("f", (x,), made.types).complete([first]), (x,)))


def test_a_type_is_differentiable_with_its_source() -> None:
    """Also where the source counts as such since its variants were not known."""
    source = RecordType("source")
    assert source.is_differentiable
    derived = RecordType("derived").later(lambda: [Variant("zero", ())], source=source)
    assert derived.variants == (Variant("zero", ()),)
    assert derived.is_differentiable
    around = RecordType("around").complete([Variant("one", (Field("inner", (), derived),))])
    assert around.is_differentiable
    of_numbers = RecordType("numbers").complete([Variant("one", (Field("n", (), INT64),))])
    assert not RecordType("other").later(list, source=of_numbers).is_differentiable
