"""Cases of whole programs: derivatives, machine code, schedules, calls, and programs of Python."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.config import override
from tensorad.errors import BuildError, CombinerError, UserError
from tensorad.ir.reference.interpret import interpret
from tests.fuzz.case import Case, Fuzzer, case_of
from tests.random.generators import Array, Program, random_program, random_symbolic_program
from tests.random.test_random_jit import DTYPES, check_compiled
from tests.random.test_random_programs import choose, sources
from tests.random.whole.checks import check_program, extent_of
from tests.random.whole.generator import whole_program
from tests.support.choice_cases import by_name, close, general
from tests.support.program_checks import MODES, SIZES, Derivatives, check_derivatives


def make_derivatives(rng: Any, seed: int) -> Case:
    program, _ = choose(seed, rng, sums=rng.random() < 0.9)
    return case_of(program, program.outputs, seed)


def check_gradients(case: Case) -> None:
    """All modes, differences, the interpreter, counts and bounds."""
    program, rng = case.program(), random.Random(case.seed)
    if not program.float_inputs or not program.outputs[-1].dtype.is_float:
        return
    y, wrt = sources(program, rng)
    try:
        of = Derivatives(program, y, wrt, rng.choice(MODES))
    except CombinerError:
        return  # of a scatter that multiplies: told apart by name
    check_derivatives(of, rng)


def make_code(rng: Any, seed: int) -> Case:
    dtype = rng.choice(DTYPES)
    if rng.random() < 0.25:
        program = random_symbolic_program(seed, dtype, 4, rng=rng)
    else:
        wide = rng.random() < 0.3
        extents = {"extents": (1, 2, 3, 8, 16, 17, 33)} if wide else {}
        program = random_program(seed, dtype, 4 if wide else 6, rng=rng, **extents)
    return case_of(program, program.outputs, seed)


def check_code(case: Case) -> None:
    """Machine code = interpreter, for any layout of the inputs, the same bits on more threads."""
    program = case.program()
    for sizes in _sizes_of(program):
        arrays = program.arrays(dict(sizes))
        if sizes:
            with override(num_threads=1 + case.seed % 3):
                found = _results(ta.build(program.outputs, list(arrays)), arrays, sizes)
            close(program.outputs, found, interpret(program.outputs, arrays, sizes))
            continue
        check_compiled(program.outputs, arrays, case.seed)


def _sizes_of(program: Program) -> tuple[dict[str, int], ...]:
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    return SIZES if symbolic else ({},)


def _results(f: Any, arrays: dict[Any, Array], sizes: dict[str, int]) -> list[Array]:
    found = f(*arrays.values(), **sizes)
    return found if isinstance(found, list) else [found]


def check_schedules(case: Case) -> None:
    """Decisions by hand change at most the last bits."""
    program, rng = case.program(), random.Random(case.seed)
    tensors = program.tensors
    general_ones = general()
    named = by_name(program, tensors)
    for sizes in _sizes_of(program)[:2]:
        arrays = program.arrays(dict(sizes))
        want = interpret(tensors, arrays, sizes)
        for _ in range(3):
            schedule = rng.choice(named) if named and rng.random() < 0.5 else None
            given: Any = schedule or rng.choice(general_ones)
            with override(num_threads=rng.choice((1, 2, 3))):
                try:
                    f = ta.build(tensors, program.inputs, schedule=given)
                except BuildError:
                    assert schedule, f"refused: {given}"
                    continue  # an axis that was named cannot do what is asked of it
                close(tensors, _results(f, arrays, sizes), want)


def check_calls(case: Case) -> None:
    """Arguments that fit give the values; others an error in the user's words, nothing written."""
    program, rng = case.program(), random.Random(case.seed)
    sizes = _sizes_of(program)[0]
    arrays = program.arrays(dict(sizes))
    f = ta.build(program.outputs, program.inputs)
    want = [np.asarray(a) for a in interpret(program.outputs, arrays, sizes)]
    for _ in range(8):
        given: list[Any] = [a.copy() for a in arrays.values()]
        fits = _spoilt(given, rng) if given and rng.random() < 0.6 else True
        out, out_fits = _out_for(program, want, given, rng)
        before = [a.copy() for a in out or [] if isinstance(a, np.ndarray)]
        try:
            found = f(*given, **({} if out is None else {"out": out}), **sizes)
        except UserError as e:
            assert not (fits and out_fits), f"refused: {e}"
            kept = [a for a in out or [] if isinstance(a, np.ndarray)]
            same = [np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                    for a, b in zip(kept, before, strict=True)]  # fmt: skip
            assert all(same), "written: in spite of an error"
            continue
        assert fits and out_fits, f"taken: {[_said(a) for a in given]} out={out}"
        close(program.outputs, found if isinstance(found, list) else [found], want)


def _spoilt(given: list[Any], rng: random.Random) -> bool:
    """Whether the arguments still fit when one of them was changed."""
    at = rng.randrange(len(given))
    a = given[at]
    kind = rng.randrange(9)
    if kind == 0:
        given.pop(at)
    elif kind == 1:
        given.append(a)
    elif kind == 2:
        given[at] = rng.choice((None, "a", [a, None], {}, object(), [[1], [1, 2]]))
    elif kind == 3:
        other = np.dtype("complex64") if rng.random() < 0.5 else np.dtype("U3")
        given[at] = a.astype(other)
    elif kind == 4:
        given[at] = a[None]
    elif kind == 5 and a.ndim:
        given[at] = np.concatenate([a, a[:1]]) if len(a) else np.ones((1, *a.shape[1:]), a.dtype)
    else:
        given[at] = _same_elsewhere(a, kind)
        return True
    return False


def _same_elsewhere(a: Array, kind: int) -> Array:
    """The same elements, at odd addresses, in the other order of bytes, or in reverse."""
    if kind == 6:
        raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
        moved = raw.view(a.dtype).reshape(a.shape) if a.nbytes else a
        moved[...] = a
        return moved
    if kind == 7:
        return a.copy(order="F")
    flipped = np.ascontiguousarray(a[::-1]) if a.ndim else a
    return flipped[::-1] if a.ndim else a


def _out_for(
    program: Program, want: list[Array], given: list[Any], rng: random.Random
) -> tuple[Any, bool]:
    """`out`, and whether it fits."""
    outs: list[Any] = [
        np.zeros(w.shape, str(t.dtype)) for t, w in zip(program.outputs, want, strict=True)
    ]
    kind = rng.randrange(8)
    if kind < 3:
        return None, True
    if kind == 3:
        outs.append(np.zeros(3))
        return outs, False
    at = rng.randrange(len(outs))
    a = outs[at]
    if kind == 4:
        outs[at] = np.zeros((*a.shape, 2), a.dtype)
        return outs, False
    if kind == 5:
        outs[at] = a.astype("float16")
        return outs, False
    if kind == 6:
        a.flags.writeable = False
        return outs, False
    return outs, True


def _said(a: object) -> str:
    return f"{a.dtype}{a.shape}" if isinstance(a, np.ndarray) else repr(a)[:20]


@dataclass
class Text:
    """A program of Python that is a text already."""

    seed: int
    code: str


def make_whole(rng: Any, seed: int) -> Case:
    return Case(whole_program(seed, rng=rng).code, seed)


def check_whole(case: Case) -> None:
    """All ways to run a program agree, and all its derivatives."""
    of: Any = Text(case.seed, case.text)
    check_program(of, extent_of(case.seed))


PROGRAM_FUZZERS = {
    "derivatives": Fuzzer(make_derivatives, check_gradients),
    "code": Fuzzer(make_code, check_code),
    "schedules": Fuzzer(make_code, check_schedules),
    "calls": Fuzzer(make_code, check_calls),
    "programs": Fuzzer(make_whole, check_whole),
}
