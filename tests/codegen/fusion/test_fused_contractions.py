"""Contractions in loops over rows: what is made there, what is packed how often, equal bits."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, LoopProgram, Stmt, Store
from tensorad.codegen.loops.scratch import scratch_bytes
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.reference.interpret import interpret
from tests.codegen.fusion.test_fusion import Made, arrays_of, lowered, matrix, results
from tests.random.generators import campaign
from tests.support.loops.loop_traffic import traffic
from tests.support.machines import described


def attention(b: int, n: int, d: int, m: int | None = None) -> Made:
    """softmax(q k) v; n queries, m keys."""
    keys = n if m is None else m
    q, k, v = matrix("q", b, n, d), matrix("k", b, keys, d), matrix("v", b, keys, d)
    e, t = te.reduce_axis(d, name="e"), te.reduce_axis(keys, name="t")
    scores = te.compute(
        (b, n, keys), lambda s, i, j: te.sum(q[s, i, e] * k[s, j, e], axis=e) * 0.2, "scores"
    )
    p = topi.nn.softmax(scores)
    y = te.compute((b, n, d), lambda s, i, c: te.sum(p[s, i, t] * v[s, t, c], axis=t), "Y")
    return [y], [q, k, v]


def attention_gradients(b: int, n: int, d: int) -> Made:
    (y,), inputs = attention(b, n, d)
    h = te.placeholder(y.shape, name="H")
    return [y, *vjp(y, inputs, h)], [*inputs, h]


def stores_of(body: tuple[Stmt, ...]) -> list[str]:
    return [t.name for s in statements(body) if isinstance(s, Store) for t in s.tensors]


@pytest.mark.parametrize("n", [128, 150])  # 150: two blocks and a rest
def test_products_and_what_is_between_share_their_rows(n: int) -> None:
    made = attention(8, n, 24)
    program, apart = lowered(made), lowered(made, fuse=False)
    assert len(program.kernels) == 1 and len(apart.kernels) == 7
    moved = traffic(program)
    assert moved.read + moved.written == sum(bytes_of(t, {}) for t in (*made[0], *made[1]))
    assert moved.temporaries == 0
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, apart, arrays)


def test_keys_are_packed_once_for_all_blocks_of_rows() -> None:
    (kernel,) = lowered(attention(4, 256, 32)).kernels
    (outer,) = kernel.body
    assert isinstance(outer, For) and outer.axis.extent == 4
    *packing, rows = outer.body
    assert set(stores_of(tuple(packing))) == {"panel"}
    assert isinstance(rows, For) and rows.axis.extent == 256 // 64
    assert "panel" not in stores_of(rows.body) and "Y" in stores_of(rows.body)


@described()
def test_sums_over_rows_wait_outside_of_the_loop_over_blocks() -> None:
    """dk and dv sum over all rows of a head; the rest of the gradient runs 64 rows at a time."""
    made = attention_gradients(16, 256, 32)
    program, apart = lowered(made), lowered(made, fuse=False)
    (kernel,) = program.kernels
    (outer,) = kernel.body
    assert isinstance(outer, For)
    blocks = [s for s in outer.body if isinstance(s, For) and "Y" in stores_of(s.body)]
    assert [s.axis.extent for s in blocks] == [4]
    inside, after = (
        stores_of(blocks[0].body),
        stores_of(outer.body[outer.body.index(blocks[0]) + 1 :]),
    )
    assert {"Y", "dq"} <= set(inside) and set(after) == {"dk", "dv"}
    shapes = {t.name: t.shape for t in kernel.scratch}
    assert shapes["scores"] == (64, 256)  # of one block
    assert shapes["softmax"] == (256, 256)  # of one head
    assert traffic(program).temporaries == 0
    whole = 4 * bytes_of(apart.kernels[0].writes[0], {})
    assert scratch_bytes(kernel, {}) < whole
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, apart, arrays)


@described()
def test_a_head_that_no_cache_holds_leaves_its_sums_over_rows_apart() -> None:
    """Scores of 4096 x 4096 floats: only blocks of rows stay near."""
    program = lowered(attention_gradients(2, 4096, 64))
    names = [[t.name for t in k.writes] for k in program.kernels]
    assert len(names) == 3 and [n[0] for n in names[1:]] == ["dk", "dv"]


@pytest.mark.parametrize("gradients", [False, True])
def test_forced_rows_compute_what_the_interpreter_does(gradients: bool) -> None:
    made = attention_gradients(2, 5, 3) if gradients else attention(2, 7, 3, 4)
    program = lower_program(*made, choices=Choices(fuse=True, contract=True))
    assert len(program.kernels) < 7
    values = dict(zip(made[1], arrays_of(made[1]), strict=True))
    got, _ = interpret_loops(program, values)
    for have, want in zip(got, interpret(made[0], values), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def chain(rng: np.random.Generator) -> Made:
    """Two products with formulas between, rows and batches of random sizes in random order."""
    b, n, m, d = (int(x) for x in rng.integers([4, 65, 20, 4], [9, 150, 60, 20]))
    x, w = (
        matrix("X", n, b, d),
        matrix("W", b, m, d) if rng.random() < 0.5 else matrix("W", b, d, m),
    )
    e, t = te.reduce_axis(d, name="e"), te.reduce_axis(m, name="t")
    flipped = w.shape[1] == m
    first = te.compute(
        (b, n, m),
        lambda s, i, j: te.sum(x[i, s, e] * (w[s, j, e] if flipped else w[s, e, j]), axis=e),
        "first",
    )
    scale = te.compute((b, n), lambda s, i: te.max(first[s, i, t], axis=t), "scale")
    v = matrix("V", m, d)
    u = te.reduce_axis(m, name="u")
    y = te.compute(
        (b, n, d),
        lambda s, i, c: te.sum(te.exp(first[s, i, u] - scale[s, i]) * v[u, c], axis=u) + 1,
        "Y",
    )
    return [y], [x, w, v]


def same_bits(made: Made) -> LoopProgram:
    program, apart = lowered(made), lowered(made, fuse=False)
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, apart, arrays)
    forced = lowered(made, fuse=True)
    assert results(made, forced, arrays) == results(made, apart, arrays)
    return program


def test_random_chains_have_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    kernels = [len(same_bits(chain(rng)).kernels) for _ in range(2)]
    assert min(kernels) == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(0, 60, 20), 1))
def test_more_random_chains(first: int) -> None:
    for seed in range(first, first + 20):
        same_bits(chain(np.random.default_rng(seed)))
