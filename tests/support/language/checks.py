"""What random programs of the language are held to."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.reference.known import evaluating
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Constant,
    FunctionCall,
    Loop,
    Placeholder,
    Saved,
    Scan,
    Scatter,
)
from tensorad.language import check, interpret, parse, without_dead_code
from tensorad.language.evaluate import Evaluator
from tensorad.program.traces import traced
from tests.support.language.generator import random_program

X, V = np.float64(0.7), np.array([0.3, -0.5, 0.9])
FIRST_ORDER = (
    Branch, Compute, Constant, FunctionCall, Loop, Placeholder, Saved, Scan, Scatter,
)  # fmt: skip


def check_program(seed: int) -> None:
    """All ways to run a program agree, and nothing of functions and references is left."""
    text = random_program(seed, has_control=seed % 3 > 0)
    program = parse(text)
    assert str(parse(str(program))) == str(program), text
    check(program)
    short = without_dead_code(program)
    compiled = ta.function(program["f"])
    for n in (0, 2):
        args = (X, V, np.int64(n))
        wanted, effects = interpret(program, "f", *args)
        found, fewer = interpret(short, "f", *args)
        for a, b, c in zip(wanted, compiled(*args), found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=text)
            np.testing.assert_array_equal(a, c, err_msg=text)
        assert fewer.writes <= effects.writes
        assert fewer.allocations <= effects.allocations
    trace = compiled.trace(X, V, np.int64(2))
    ops = ops_between(trace.results, dict.fromkeys(trace.parameters))
    assert all(isinstance(op, FIRST_ORDER) for op in (*ops, *inner_ops(ops)))


def check_effects(seed: int) -> None:
    """Each read, write and allocation happens once, as the interpreter counts them."""
    text = random_program(seed, has_control=False).replace("grad(", "(fn (g) { g })(")
    text = text.replace("jvp(", "(fn (g) { fn (a, b) { (g(a), a) } })(").replace(")[1])", ")[0])")
    program = parse(text)
    args = (X, V, np.int64(2))
    wanted = interpret(program, "f", *args).effects
    params = [ta.placeholder(np.shape(a), str(np.asarray(a).dtype)) for a in args]
    with evaluating() as evaluation:
        run = Evaluator(program, evaluation)
        traced("f", lambda given: run.apply(run.function("f"), tuple(given)), params)
    assert run.effects == wanted, text
