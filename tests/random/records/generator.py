"""Small random programs of records and definitions, in the nodes of the IR.

A program has a pool of tensors, to which operations are added: numbers, rows of numbers, handles of
three data types. What a block or a definition has is a pool of its own, of its params.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

import tensorad as ta
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT64, DType
from tensorad.ir.expr import local_size, size_var
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    inject,
    is_record,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Block, Branch, Loop, Shape, Tensor, outputs, saved
from tests.support.records import List

Type = tuple[Shape, DType]
N: Final = size_var("n")
NUMBER, COUNT, ROW = ((), FLOAT64), ((), INT64), ((N,), FLOAT64)
Tree: Final = RecordType("Tree")
Tree.complete(
    [
        Variant("Leaf", (Field("row", (N,), FLOAT64), Field("k", (), INT64))),
        Variant(
            "Node", (Field("left", (), Tree), Field("w", (), FLOAT64), Field("right", (), Tree))
        ),
        Variant("Tagged", (Field("of", (), Tree), Field("wide", (20,), FLOAT32))),
    ]
)
Function: Final = RecordType("Function")
Function.complete(
    [
        Variant("Scaled", (Field("by", (), FLOAT64),)),
        Variant("Shifted", (Field("by", (), FLOAT64), Field("row", (N,), FLOAT64))),
        Variant("Composed", (Field("first", (), Function), Field("then", (), Function))),
        Variant("Chosen", (Field("list", (), List), Field("tree", (), Tree))),
        Variant("Same", ()),
    ]
)
TYPES: Final[tuple[Type, ...]] = (
    NUMBER, NUMBER, COUNT, ROW, ((), List), ((), Tree), ((), Function),
)  # fmt: skip
WIDE: Final = ((20,), FLOAT32)
RECORDS: Final = (List, Tree, Function)


class Program(NamedTuple):
    """Tensors to compute, and what they are computed from."""

    outputs: list[Tensor]
    inputs: list[Tensor]
    seed: int


def random_record_program(seed: int) -> Program:
    """A program of numbers, records and definitions."""
    made = _Generator(random.Random(seed))
    types = [NUMBER, COUNT, ROW, ((), List), ((), Tree), ((), Function)]
    inputs = [*_params([t for t in types if t is ROW or made.rng.random() < 0.8])]
    made.definitions = [made.declared(n) for n in range(made.rng.randint(1, 3))]
    for d in made.definitions:
        made.define(d)
    pool = made.pool(inputs, made.rng.randint(3, 8), depth=2, fuel=None)
    wanted = made.rng.sample(pool, min(len(pool), made.rng.randint(1, 4)))
    return Program(list(dict.fromkeys([*wanted, pool[-1]])), inputs, seed)


def random_values(program: Program) -> dict[Tensor, object]:
    """Values for the inputs."""
    rng = np.random.default_rng(program.seed)
    n = int(rng.integers(1, 5))
    return {t: random_value(t.shape, t.dtype, n, rng, 3) for t in program.inputs}


def random_value(
    shape: Shape, dtype: DType, n: int, rng: np.random.Generator, depth: int
) -> object:
    """A value, n being the extent of rows, and records nested so deep at the most."""
    if not isinstance(dtype, RecordType):
        extents = [n if d is N else int(d) for d in shape]
        if dtype.is_float:
            return rng.uniform(-1, 1, extents).astype(str(dtype))
        return rng.integers(0, 4, extents)
    variants = dtype.variants
    flat = [k for k, v in enumerate(variants) if not any(is_record(f.dtype) for f in v.fields)]
    tag = int(rng.choice(flat if not depth else range(len(variants))))
    fields = [
        random_value(f.shape, f.dtype, n, rng, max(0, depth - 1)) for f in variants[tag].fields
    ]
    return Record(
        dtype, tag, tuple([handle(v) if isinstance(v, Record) else np.asarray(v) for v in fields])
    )


def _params(types: Sequence[Type]) -> tuple[Tensor, ...]:
    return stand_ins([Field(f"p{n}", shape, dtype) for n, (shape, dtype) in enumerate(types)])


def _type(t: Tensor) -> Type:
    return t.shape, t.dtype


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions: list[Definition] = []

    def pool(
        self, given: Sequence[Tensor], steps: int, depth: int, fuel: Tensor | None
    ) -> list[Tensor]:
        """Tensors made of some; definitions are called with less fuel, or from outside."""
        found = list(given)
        for _ in range(steps):
            found += self.step(found, depth, fuel)
        return found

    def step(self, pool: Sequence[Tensor], depth: int, fuel: Tensor | None) -> Sequence[Tensor]:
        ways: list[Callable[[], Sequence[Tensor]]] = [
            lambda: [self.formula(pool)],
            lambda: [self.record(pool, self.rng.choice(RECORDS))],
            lambda: [self.record(pool, self.rng.choice(RECORDS))],
        ]
        if depth:
            ways += [
                lambda: self.branch(pool, depth, fuel),
                lambda: self.match(pool, depth, fuel),
                lambda: self.match(pool, depth, fuel),
                lambda: self.loop(pool, depth, fuel),
            ]
        if self.definitions and fuel is None:
            ways += [lambda: self.call(pool, fuel)] * 2
        return self.rng.choice(ways)()

    def some(self, pool: Sequence[Tensor], wanted: Type) -> Tensor:
        """A tensor of a type; a new one if there is none."""
        shape, dtype = wanted
        found = [t for t in pool if t.dtype is dtype and t.shape == shape]
        if found and self.rng.random() < 0.9:
            return self.rng.choice(found)
        if isinstance(dtype, RecordType):
            return self.record(pool, dtype, flat=True)
        number = self.rng.choice([0, 1, 2, -1]) if dtype is INT64 else self.rng.uniform(-1, 1)
        return ta.compute(shape, lambda *axes: ta.const(number, dtype), name="c")

    def formula(self, pool: Sequence[Tensor]) -> Tensor:
        wanted = self.rng.choice((NUMBER, COUNT, ROW, WIDE))
        a, b = self.some(pool, wanted), self.some(pool, wanted)
        if wanted is COUNT:
            return self.rng.choice([lambda: a + b, lambda: a - b, lambda: (a * b) % 5])()
        if wanted is NUMBER and self.rng.random() < 0.4:
            row = self.some(pool, ROW)
            k = ta.reduce_axis((0, N), name="k")
            return ta.compute((), lambda: ta.sum(row[k], axis=k) * a(), name="total")
        x = self.some(pool, NUMBER)
        if wanted is ROW and self.rng.random() < 0.5:
            return ta.compute((N,), lambda i: a[i] * x() + ta.sin(b[N - 1 - i]), name="row")
        return self.rng.choice([lambda: a + b, lambda: a * b, lambda: ta.tanh(a) - b])()

    def record(self, pool: Sequence[Tensor], dtype: RecordType, flat: bool = False) -> Tensor:
        variants = [
            (n, v)
            for n, v in enumerate(dtype.variants)
            if not flat or not any(is_record(f.dtype) for f in v.fields)
        ]
        n, variant = self.rng.choice(variants)
        fields = [self.some(pool, (f.shape, f.dtype)) for f in variant.fields]
        return inject(dtype, n, fields)

    def block(
        self, operands: Sequence[Tensor], results: Sequence[Type], depth: int, fuel: Tensor | None,
        more: Callable[[Sequence[Tensor]], Sequence[Tensor]] = lambda params: (),
    ) -> Block:  # fmt: skip
        """A block over params for the operands."""
        params = _params([_type(t) for t in operands])
        inner = None if fuel is None else dict(zip(operands, params, strict=True)).get(fuel)
        found = self.pool([*params, *more(params)], self.rng.randint(0, 3), depth - 1, inner)
        if inner is not None and self.definitions and self.rng.random() < 0.5:
            found += self.call(found, inner)
        return Block(params, tuple([self.some(found[::-1], t) for t in results]))

    def operands(self, pool: Sequence[Tensor], fuel: Tensor | None) -> list[Tensor]:
        chosen = self.rng.sample([*pool], min(len(pool), self.rng.randint(1, 4)))
        return list(dict.fromkeys([*chosen, *([] if fuel is None else [fuel])]))

    def types(self) -> list[Type]:
        return [self.rng.choice(TYPES) for _ in range(self.rng.randint(1, 2))]

    def branch(self, pool: Sequence[Tensor], depth: int, fuel: Tensor | None) -> Sequence[Tensor]:
        results = self.types()
        operands = self.operands(pool, fuel)
        blocks = [self.block(operands, results, depth, fuel) for _ in range(2)]
        return outputs(_branch(self.some(pool, NUMBER) > 0, operands, blocks, results))

    def match(self, pool: Sequence[Tensor], depth: int, fuel: Tensor | None) -> Sequence[Tensor]:
        """A branch by the tag of a record; a value of one block may be looked at outside."""
        dtype = self.rng.choice(RECORDS)
        of = self.some(pool, ((), dtype))
        results = self.types()
        operands = [of, *[t for t in self.operands(pool, fuel) if t is not of]]
        blocks = [
            self.block(operands, results, depth, fuel, lambda params, n=n: fields_of(params[0], n))
            for n in range(len(dtype.variants))
        ]
        return outputs(_branch(tag_of(of), operands, blocks, results))

    def loop(self, pool: Sequence[Tensor], depth: int, fuel: Tensor | None) -> Sequence[Tensor]:
        types = self.types()
        carries = [self.some(pool, t) for t in types]
        fixed = [t for t in self.operands(pool, fuel) if t not in dict.fromkeys(carries)]
        body = self.block([*carries, *fixed], types, depth, fuel)
        count = self.some(pool, COUNT) % 3
        trips = local_size("n")
        names = tuple([f"r{k}" for k in range(len(types))])
        op = Loop(
            names, (*carries, *fixed), (body,), counter=local_size("t", trips), trips=trips,
            carries=len(carries), count=count, reverse=self.rng.random() < 0.3,
        )  # fmt: skip
        inner = self.rng.choice([*body.params, *body.results])
        return outputs(op) if self.rng.random() < 0.6 else [*outputs(op), self.looked_at(op, inner)]

    def looked_at(self, op: Loop, inner: Tensor) -> Tensor:
        """A number that depends on what a tensor was in all iterations, from the last to the
        first, as the reverse of a derivative goes."""
        rows = saved(op, inner)
        c, row = _params([NUMBER, _type(inner)])
        if isinstance(inner.dtype, RecordType):
            part = tag_of(row).astype("float64")
        elif inner.ndim:
            k = ta.reduce_axis((0, inner.shape[0]), name="k")
            part = ta.compute((), lambda: ta.sum(row[k], axis=k), name="part").astype("float64")
        else:
            part = row.astype("float64")
        zero = ta.compute((), lambda: ta.const(0.0, "float64"), name="zero")
        back = Loop(
            ("back",), (zero, rows), (Block((c, row), (c * 0.5 + part,)),),
            counter=local_size("u", op.trips), trips=op.trips, carries=1, scanned=1, reverse=True,
        )  # fmt: skip
        return outputs(back)[0]

    def declared(self, number: int) -> Definition:
        types = [COUNT, *[self.rng.choice(TYPES) for _ in range(self.rng.randint(1, 3))]]
        shaped = any(dtype is not INT64 and shape for shape, dtype in types)
        params = _params(types if shaped else [*types, ROW])
        results = [Field(f"y{k}", *t) for k, t in enumerate(self.types())]
        return Definition(f"f{number}", params, results)

    def define(self, d: Definition) -> None:
        """With fuel left it may call others; without it calls nothing."""
        fuel, results = d.params[0], [(f.shape, f.dtype) for f in d.types]
        operands = list(d.params)
        more = self.block(operands, results, 2, fuel)
        called, self.definitions = self.definitions, []
        ends = self.block(operands, results, 2, None)
        self.definitions = called
        d.complete(outputs(_branch(fuel > 0, operands, [ends, more], results)))

    def call(self, pool: Sequence[Tensor], fuel: Tensor | None) -> Sequence[Tensor]:
        d = self.rng.choice(self.definitions)
        left = self.some(pool, COUNT) % 3 if fuel is None else fuel - 1
        rest = [self.some(pool, _type(p)) for p in d.params[1:]]
        return recursion(d, (left, *rest))


def _branch(
    index: Tensor, operands: Sequence[Tensor], blocks: Sequence[Block], results: Sequence[Type]
) -> Branch:
    names = tuple([f"r{k}" for k in range(len(results))])
    return Branch(names, (index, *operands), tuple(blocks))
