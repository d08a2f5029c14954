"""Contractions: what counts as one, that no choice changes a bit, and what their loops hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.codegen.contraction.recognise import Contraction, recognise
from tensorad.codegen.contraction.register_tiles import even_rows, lane_tiles, rows_by_registers
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import joined_digits
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, For, If, LoopProgram
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.nest.ir import nest_of, simplify_nest
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.codegen.target.machine import Machine
from tensorad.config import override
from tensorad.errors import BuildError
from tensorad.ir.expr import Expr, add, axis, floordiv, int_const, mod, mul
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.simplify.index.linear import linear_form
from tests.random.generator_contractions import Program, contraction
from tests.random.generators import campaign
from tests.support.machines import described

FORCED = (
    Choices(contract=True),
    Choices(contract=True, tile=(1, 1), pack="panel", block=1),
    Choices(contract=True, tile=(3, 2), pack="relayout", block=5),
    Choices(contract=True, tile=(6, 4), pack="place", parallel=True),
    Choices(contract=True, tile=(5, 1), pack="panel", block=3, parallel=True),
    Choices(contract=True, tile=(2, 3), pack="relayout", parallel=True),
    Choices(contract=True, tile=(3, 2), pack="gaps", parallel=True),
)


def recognised(t: Tensor) -> Contraction | None:
    assert isinstance(t.op, Compute)
    nest = nest_of(t.op.axes, outputs(t.op), t.op.bodies)
    simple = None if nest is None else simplify_nest(nest)
    return None if simple is None else recognise(simple)


def names(found: Contraction | None) -> tuple[str, str, str, str]:
    """Batch, left, right and reduce axes."""
    assert found is not None
    parts: Sequence[Sequence[Expr]] = (
        found.batch, found.left.axes, found.right.axes, found.reduced,
    )  # fmt: skip
    return tuple([" ".join([getattr(a, "name") for a in p]) for p in parts])  # type: ignore[return-value]  # noqa: B009


def matmul(m: int, n: int, k: int, dtype: str = "float32") -> Program:
    a = ta.placeholder((m, k), name="A", dtype=dtype)
    b = ta.placeholder((k, n), name="B", dtype=dtype)
    r = ta.reduce_axis(k, name="k")
    out = ta.compute((m, n), lambda i, j: ta.sum(a[i, r] * b[r, j], axis=r), name="C")
    return Program(out, (a, b))


# What is a contraction


def test_axes_fall_into_batch_left_right_and_reduced() -> None:
    assert names(recognised(matmul(5, 6, 7).output)) == ("", "i", "j", "k")
    x, w = ta.placeholder((2, 3, 9, 9), name="X"), ta.placeholder((4, 3, 3, 3), name="W")
    found = recognised(topi.nn.conv2d(x, w, padding=1))
    assert names(found) == ("", "n y x", "co", "ci ky kx")
    assert found is not None and found.left.padded and not found.right.padded
    q = ta.placeholder((2, 3, 4, 5), name="Q")
    d = ta.reduce_axis(5, name="d")
    scores = ta.compute(
        (2, 3, 4, 4), lambda b, h, i, j: ta.sum(q[b, h, i, d] * q[b, h, j, d], axis=d)
    )
    assert names(recognised(scores)) == ("b h", "i", "j", "d")


def test_factors_of_one_side_belong_together() -> None:
    t, c, d = (
        ta.placeholder(s, name=n) for s, n in (((4, 5, 6), "T"), ((5, 7), "C"), ((6, 7), "D"))
    )
    j, k = ta.reduce_axis(5, name="j"), ta.reduce_axis(6, name="k")
    m = ta.compute((4, 7), lambda i, r: ta.sum(t[i, j, k] * c[j, r] * d[k, r], axis=[j, k]))
    assert names(recognised(m)) == ("", "i", "r", "j k")


def test_an_axis_that_one_factor_of_each_side_has_is_of_the_batch() -> None:
    shapes = {"T": (3, 4, 5, 6), "C": (3, 4, 7), "D": (6, 7), "E": (3, 5)}
    t, c, d, e = (ta.placeholder(s, name=n) for n, s in shapes.items())
    i, k = ta.reduce_axis(4, name="i"), ta.reduce_axis(6, name="k")
    m = ta.compute(
        (3, 5, 7), lambda b, j, r: ta.sum(t[b, i, j, k] * c[b, i, r] * d[k, r], axis=[i, k])
    )
    assert names(recognised(m)) == ("b", "j", "r", "i k")
    one = ta.compute((3, 5, 7), lambda b, j, r: ta.sum(e[b, j] * d[k, r], axis=k), optimize=False)
    assert names(recognised(one)) == ("", "b j", "r", "k")  # two groups as they are
    three = ta.compute((3, 4, 5), lambda b, i, j: ta.sum(t[b, i, j, k] * e[b, j], axis=k))
    assert recognised(three) is None


def test_of_three_factors_two_are_multiplied_first() -> None:
    shapes = {"H": (4, 7), "C": (5, 7), "D": (6, 7)}
    h, c, d = (ta.placeholder(s, name=n) for n, s in shapes.items())
    r = ta.reduce_axis(7, name="r")
    out = ta.compute((4, 5, 6), lambda i, j, k: ta.sum(h[i, r] * (d[k, r] * c[j, r]), axis=r))
    assert names(recognised(out)) == ("", "i j", "k", "r")
    turned = ta.compute((6, 5, 4), lambda k, j, i: ta.sum(h[i, r] * d[k, r] * c[j, r], axis=r))
    assert names(recognised(turned)) == ("", "j i", "k", "r")  # 20 products, 24 and 30 otherwise
    square = ta.placeholder((6, 7), name="S")
    equal = ta.compute((6, 6, 6), lambda i, j, k: ta.sum(d[i, r] * d[j, r] * square[k, r], axis=r))
    assert names(recognised(equal)) == ("", "i j", "k", "r")  # the last axis stays alone


def test_products_that_are_none() -> None:
    a, x = ta.placeholder((5, 6), name="A"), ta.placeholder((6,), name="x")
    k = ta.reduce_axis(6, name="k")
    assert recognised(ta.compute((5,), lambda i: ta.sum(a[i, k] * x[k], axis=k))) is None
    depthwise = topi.nn.conv2d(
        ta.placeholder((2, 3, 9, 9), name="X"), ta.placeholder((3, 1, 3, 3), name="W"), groups=3
    )
    assert recognised(depthwise) is None
    b = ta.placeholder((6, 6), name="B")
    masked = ta.compute(
        (6, 6), lambda i, j: ta.sum(b[i, k] * b[k, j], axis=k, where=(k <= i) & (k <= j))
    )
    assert recognised(masked) is None
    nothing = ta.reduce_axis((3, 3), name="e")
    out = ta.compute((6, 6), lambda i, j: ta.sum(b[i, nothing] * b[nothing, j], axis=nothing))
    assert recognised(out) is None
    n = ta.size("n")
    s = ta.placeholder((n, n), name="S")
    r = ta.reduce_axis(n, name="r")
    triangle = ta.compute((n, n), lambda i, j: ta.sum(s[i, r] * s[r, j], axis=r, where=r <= i))
    assert recognised(triangle) is None


def test_what_follows_the_sum_does_not_decide() -> None:
    plain, p = matmul(40, 40, 40), matmul(40, 40, 40)
    a, b = p.inputs
    r = ta.reduce_axis(40, name="k")
    c = ta.placeholder((40, 40), name="C")
    out = ta.compute((40, 40), lambda i, j: ta.exp(ta.sum(a[i, r] * b[r, j], axis=r)) + c[j, i])
    for t, inputs in ((plain.output, plain.inputs), (out, (a, b, c))):
        assert contracted(lower_program([t], inputs))


def contracted(program: LoopProgram) -> bool:
    """Whether row tiles share a vector loop that no conditions cut."""
    loops = [s for k in program.kernels for s in statements(k.body)]
    return any(isinstance(s, For) and s.kind == "vector" and s.axis.name == "l" for s in loops)


# No choice changes a bit


def interpreted(program: Program, choices: Choices | None) -> np.ndarray:
    lowered = lower_program(
        [program.output], program.inputs, schedule=choices is not None, choices=choices
    )
    verify_loops(lowered)
    arrays = dict(zip(program.inputs, program.arrays(0), strict=True))
    (result,), _ = interpret_loops(lowered, arrays)
    return result


def small(program: Program) -> bool:
    found = recognised(program.output)
    if found is None:
        return False
    return found.depth * int(np.prod(program.output.shape)) < 12_000


def seeds(count: int, first: int = 0) -> list[int]:
    """Seeds of programs that are contractions."""
    return [s for s in range(first, first + count) if recognised(contraction(s).output)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [s for s in seeds(24) if small(contraction(s))])
def test_random_contractions_add_in_the_written_order(seed: int) -> None:
    program = contraction(seed)
    wanted = interpreted(program, None)
    choices = FORCED[seed % len(FORCED)]
    if "several" in repr(program.output.op):
        np.testing.assert_allclose(interpreted(program, choices), wanted, rtol=1e-12)
    np.testing.assert_allclose(interpreted(program, choices), wanted, rtol=1e-12, atol=1e-13)


def check_compiled(seed: int, every: Sequence[Choices]) -> None:
    program = contraction(seed)
    arrays = program.arrays(seed)
    wanted = ta.build(program.output, program.inputs, schedule=Choices(contract=False))(*arrays)
    results = []
    for choices in every:
        f = ta.build(program.output, program.inputs, schedule=choices)
        results.append(f(*arrays))
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    tolerance = 1e-5 if wanted.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(results[0] / scale, wanted / scale, atol=tolerance)
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", seeds(8, 100))
def test_no_choice_changes_a_bit(seed: int) -> None:
    check_compiled(seed, FORCED[:1] + FORCED[1 + seed % 5 : 2 + seed % 5])


@pytest.mark.slow
@pytest.mark.parametrize("part", campaign(range(4), 1))
def test_no_choice_changes_a_bit_in_many_programs(part: int) -> None:
    for seed in seeds(25, 1000 + 25 * part):
        check_compiled(seed, FORCED)


@pytest.mark.parametrize("machine", ["l2=32768,l3=65536", "cpu=haswell", "registers=8"])
def test_no_machine_changes_a_bit(machine: str) -> None:
    program = matmul(37, 83, 301)
    arrays = program.arrays(0)
    wanted = ta.build(program.output, program.inputs)(*arrays)
    with described(machine):
        got = ta.build(program.output, program.inputs)(*arrays)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(got, arrays[0] @ arrays[1], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_number_of_threads_changes_a_bit(threads: int) -> None:
    program = matmul(96, 700, 130)
    arrays = program.arrays(0)
    for choices in FORCED:
        f = ta.build(program.output, program.inputs, schedule=choices)
        with override(num_threads=threads):
            got = f(*arrays)
        np.testing.assert_allclose(got, arrays[0] @ arrays[1], rtol=2e-4, atol=1e-4)


CONVOLUTIONS = {
    "plain": ((2, 5, 11, 13), (7, 5, 3, 3), {}),
    "padded": ((2, 5, 11, 13), (7, 5, 3, 3), {"padding": 1}),
    "strided": ((2, 5, 11, 13), (7, 5, 3, 3), {"padding": 1, "strides": 2}),
    "dilated": ((2, 5, 11, 13), (7, 5, 3, 3), {"padding": 2, "dilation": 2}),
    "grouped": ((2, 6, 11, 13), (8, 3, 3, 3), {"padding": 1, "groups": 2}),
    "pointwise": ((2, 6, 11, 13), (8, 6, 1, 1), {}),
    "mixed": ((2, 5, 12, 9), (4, 5, 5, 2), {"padding": (2, 1), "strides": (1, 3)}),
}


SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in ("strided", "dilated", "grouped", "mixed")]


@pytest.mark.parametrize("name", ["plain", "padded", "pointwise", *SLOW])
def test_convolutions_and_their_gradients(name: str) -> None:
    xs, ws, options = CONVOLUTIONS[name]
    x, w = ta.placeholder(xs, name="X"), ta.placeholder(ws, name="W")
    y = topi.nn.conv2d(x, w, **options)
    h = ta.placeholder(y.shape, name="H")
    dx, dw = ta.JacobianRecursive(y, [x, w], h)
    for out, inputs in ((y, (x, w)), (dx, (w, h)), (dw, (x, h))):
        arrays = Program(out, inputs).arrays(0)
        plain = ta.build(out, inputs, schedule=Choices(contract=False))
        forced = ta.build(out, inputs, schedule=Choices(contract=True))
        assert contracted(lower_program([out], inputs, choices=Choices(contract=True)))
        np.testing.assert_allclose(forced(*arrays), plain(*arrays), rtol=1e-4, atol=1e-4)


# What the loops hold


def test_digits_of_one_number_are_joined() -> None:
    e = axis("e", 0, 60)
    five, four = int_const(5), int_const(4)
    low, high = mod(e, five), floordiv(e, five)
    middle = mod(high, four)
    top = floordiv(e, int_const(20))
    for text, expression in (
        ("7*e", add(mul(int_const(35), high), mul(int_const(7), low))),
        ("e%20", add(mul(five, middle), low)),
        ("e", add(add(mul(int_const(20), top), mul(five, middle)), low)),
    ):
        form = joined_digits(linear_form(expression))
        assert str(form.to_expr()).replace(" ", "") in (text, "*".join(reversed(text.split("*"))))
    apart = linear_form(add(mul(int_const(6), high), low))
    assert joined_digits(apart) is apart


def test_tiles_fit_the_registers_and_cover_everything() -> None:
    for registers, vector_bytes in ((32, 64), (16, 32), (32, 16), (16, 16)):
        machine = Machine(registers=registers, vector_bytes=vector_bytes)
        for size_bytes, width in ((4, 16), (8, 8)):
            most = rows_by_registers(width, size_bytes, machine)
            scale = width * size_bytes // vector_bytes
            for count, rows in enumerate(most[1:], 1):
                used = (rows * count + count) * scale + 1
                assert used <= registers or (count == 1 and rows == 1)
            for lanes in range(1, 200, 7):
                tiles = lane_tiles(lanes, width, min(4, len(most) - 1), 19, most)
                assert [t.start for t in tiles] == [0, *[t.stop for t in tiles[:-1]]]
                assert tiles[-1].stop == lanes
    for rows in range(1, 70):
        for most_rows in (1, 5, 6, 14, 30):
            parts = even_rows(rows, most_rows)
            assert parts[0][0] == 0 and parts[-1][1] == rows
            assert all((stop - start) % step == 0 for start, stop, step in parts)
            assert max(p[2] for p in parts) - min(p[2] for p in parts) <= 1


def innermost(text: str) -> str:
    """The block with the most multiply-adds."""
    blocks = re.split(r"\n(?=\w+:)", text)
    return max(blocks, key=lambda b: b.count("@llvm.fma"))


@pytest.mark.parametrize(
    ("machine", "rows", "vectors"),
    [("registers=32,vector_bytes=64,l2=1048576", 6, 4), ("registers=16,vector_bytes=32", 6, 1)],
)
def test_a_reduce_step_loads_each_operand_once(machine: str, rows: int, vectors: int) -> None:
    program = matmul(60, 256, 256)
    with described(machine):
        lowered = lower_program([program.output], program.inputs)
    (kernel,) = lowered.kernels
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    block = innermost(text)
    assert block.count("call <16 x float> @llvm.fma") == rows * vectors
    assert block.count("load <16 x float>") == vectors
    assert block.count("load float") == rows
    assert "div" not in block and "gather" not in text


def test_flattened_pixels_are_contiguous() -> None:
    x, w = ta.placeholder((2, 16, 12, 12), name="X"), ta.placeholder((16, 16, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    (whole,) = lower_program([y], [x, w], choices=Choices(contract=True)).kernels
    usual = [s for s in whole.body if not (isinstance(s, If) and s.rare)]
    kernel = replace(whole, body=tuple(usual))  # without what adds up again beside NaN
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    assert len(usual) < len(whole.body) and "gather" not in text
    assert "masked.scatter" not in text.split("@llvm.fma", 1)[1].partition("define")[0]
    folds = [s for s in statements(kernel.body) if isinstance(s, Fold)]
    assert folds and all(s.combiner.is_sum for s in folds)


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(BuildError) as error:
        ta.Schedule(pack="tape")  # type: ignore[arg-type]  # the point
    assert 'pass "place", "panel", "relayout" or "gaps".' in str(error.value)
    with pytest.raises(BuildError, match="pass a number of steps"):
        ta.Schedule(block=0)


def test_the_report_says_why() -> None:
    program = matmul(60, 256, 256)
    with described("registers=32,vector_bytes=64,l2=1048576"):
        report = str(ta.lower([program.output], program.inputs).report())
    assert "contraction" in report and "i with j over k" in report
    assert "register tile 6 x 64" in report and "24 sums stay in registers" in report


@described()
def test_a_short_rest_takes_a_part_of_a_register() -> None:
    program = matmul(20, 68, 40)
    (kernel,) = lower_program(
        [program.output], program.inputs, choices=Choices(contract=True)
    ).kernels
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    assert "call <4 x float> @llvm.fma" in text and "masked" not in text
    f = ta.build(program.output, program.inputs, schedule=Choices(contract=True))
    a, b = program.arrays(0)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-5)
