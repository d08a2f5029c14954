"""Kernels of a program become modules: how many, on which thread, and what ends with a build."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, te, topi
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime import background_compiler, kernel_cache
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.codegen.runtime.kernel_cache import compiled_kernel
from tensorad.codegen.target import link
from tensorad.codegen.target.object_code import compile_text
from tensorad.compiled import preparation
from tensorad.errors import InternalError
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

Chain = tuple[Tensor, list[Tensor]]


def chain(length: int, width: int) -> Chain:
    """Sums of rows, each scaled by the last: kernels that cannot run as one."""
    x = te.placeholder((width, width), name="X")
    made = x
    for n in range(length):
        total = topi.sum(made)
        made = te.compute(
            (width, width), lambda a, b, t=total, n=n: x[a, b] * t[()] + (n + 1.0), name=f"y{n}"
        )
    return made, [x]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """Of each module that is compiled: its functions, and the thread."""
    seen: list[tuple[int, str]] = []
    load = link.load

    def counted(text: str, symbols: tuple[str, ...], *rest: object) -> link.Library:
        seen.append((len(symbols), threading.current_thread().name))
        return load(text, symbols, *rest)  # type: ignore[arg-type]

    ta.build(*chain(1, 2))  # the driver and the native entry are there
    monkeypatch.setattr(link, "load", counted)
    yield seen
    assert not [t for t in threading.enumerate() if t.name == "tensorad compiler"]


def test_small_kernels_share_a_module(modules: list[tuple[int, str]]) -> None:
    y, inputs = chain(2, 35)
    program = lower_program([y], inputs)
    ta.build(y, inputs)
    assert len(program.kernels) > 1
    assert len(modules) == 1
    assert modules[0] == (modules[0][0], threading.current_thread().name)


def test_long_programs_are_compiled_beside(
    modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: 2)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)
    before = sys.getswitchinterval()
    y, inputs = chain(3, 37)
    with config.override(debug=()):  # with checks of the loops they all come first
        f = ta.build(y, inputs)
    assert len(modules) > 1
    assert {name for _, name in modules} == {"tensorad compiler"}
    assert sys.getswitchinterval() == before
    x = np.random.default_rng(0).normal(size=(37, 37)).astype(np.float32)
    want = x
    for n in range(3):
        want = x * want.sum() + np.float32(n + 1)
    np.testing.assert_allclose(f(x), want, rtol=2e-3, atol=1e-2)


def test_one_cpu_needs_no_thread_and_one_module(
    modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: 1)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)
    ta.build(*chain(3, 39))
    assert len(modules) == 1
    assert {name for _, name in modules} == {threading.current_thread().name}


def test_equal_texts_are_compiled_once(modules: list[tuple[int, str]]) -> None:
    x = te.placeholder((6, 4, 41), name="X")
    y = te.compute((24, 41), lambda i, j: x[i // 4, i % 4, j], name="Y")
    z = te.compute((6, 4, 41), lambda i, j, k: y[4 * i + j, k], name="Z")
    a = np.arange(6 * 4 * 41, dtype=np.float32).reshape(6, 4, 41)
    f = ta.build([y, z], [x], schedule=ta.Schedule(fuse=False))
    flat, back = f(a)
    np.testing.assert_array_equal(flat, a.reshape(24, 41))
    np.testing.assert_array_equal(back, a)
    before = len(modules)
    ta.build([y, z], [x], schedule=ta.Schedule(fuse=False))
    assert len(modules) == before


def test_code_of_equal_texts_is_shared() -> None:
    """Two sizes of one number each: the keys differ, the code does not know their names."""
    found = []
    for name in ("n", "m"):
        size = te.size(name)
        x = te.placeholder((size, 43), name="X")
        y = te.compute((size, 43), lambda i, j, x=x: x[i, j] * 3.0, name="Y")
        (kernel,) = lower_program([y], [x]).kernels
        found.append(compiled_kernel(kernel)[0])
    assert found[0].phases[0].address == found[1].phases[0].address
    assert [str(s) for s in found[1].phases[0].sizes] == ["m"]


def test_an_error_in_the_thread_is_raised(
    modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: 2)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)

    def refuse(text: str, opt: int, cpu: str) -> bytes:
        raise InternalError("LLVM refuses the code")

    monkeypatch.setattr(link, "compile_text", refuse)
    before = sys.getswitchinterval()
    with pytest.raises(InternalError, match="refuses"):
        ta.build(*chain(2, 45))
    assert sys.getswitchinterval() == before
    monkeypatch.undo()
    ta.build(*chain(2, 45))


@pytest.mark.parametrize("cpus", [1, 2])
def test_other_errors_are_the_same_on_any_thread(
    cpus: int, modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: cpus)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)

    def refuse(text: str, opt: int, cpu: str) -> bytes:
        raise MemoryError

    monkeypatch.setattr(link, "compile_text", refuse)
    with pytest.raises(MemoryError):
        ta.build(*chain(2, 70 + cpus))


@pytest.mark.parametrize("cpus", [1, 2])
def test_finalizers_may_build_while_code_is_compiled(
    cpus: int, modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds LLVM's lock compiles where it is: a thread would wait for it."""
    monkeypatch.setattr(config, "available_cpus", lambda: cpus)
    inner: list[object] = []

    def interrupted(text: str, opt: int, cpu: str) -> bytes:
        if not inner:
            inner.append(None)
            monkeypatch.setattr(config, "available_cpus", lambda: 2)
            inner.append(ta.build(*chain(2, 64 + cpus)))
        return compile_text(text, opt, cpu)

    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)
    monkeypatch.setattr(link, "compile_text", interrupted)
    with config.override(debug=()):
        f = ta.build(*chain(2, 66 + cpus))
    assert len(inner) == 2
    x = np.zeros((66 + cpus, 66 + cpus), np.float32)
    np.testing.assert_array_equal(f(x), x + 2)


def test_finalizers_may_build_while_kernels_are_looked_up() -> None:
    y, inputs = chain(1, 59)
    (kernel, *_) = lower_program([y], inputs).kernels
    with kernel_cache._guard.lock, background_compiler._turns._guard.lock:
        made, _ = compiled_kernel(kernel)
        ta.build(*chain(1, 61))
    assert made.phases


@pytest.mark.parametrize("method", ["start", "join"])
def test_interrupts_leave_no_thread(
    method: str, modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes while the builder waits for its thread."""
    monkeypatch.setattr(config, "available_cpus", lambda: 2)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)
    wait = getattr(threading.Thread, method)
    threads: list[threading.Thread] = []

    def interrupted(self: threading.Thread) -> None:
        if threads or self.name != "tensorad compiler":
            wait(self)
            return
        threads.append(self)
        if method == "start":
            wait(self)
        raise KeyboardInterrupt

    before = sys.getswitchinterval()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, method, interrupted)
        with config.override(debug=()), pytest.raises(KeyboardInterrupt):
            ta.build(*chain(3, 63))
    assert sys.getswitchinterval() == before
    threads[0].join(timeout=60)
    assert not threads[0].is_alive()


def test_leaving_early_ends_the_thread(
    modules: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: 2)
    monkeypatch.setattr(background_compiler, "MODULE_LINES", 1)
    begun: list[Kernel] = []

    class Stop(Exception):
        pass

    y, inputs = chain(3, 47)
    with config.override(debug=()), pytest.raises(Stop), Compiler() as compiler:

        def begin(kernel: Kernel) -> None:
            compiler.begin(kernel)
            begun.append(kernel)
            if len(begun) == 2:
                raise Stop

        lower_program([y], inputs, made=begin)
    assert len(modules) <= 2


def test_a_kernel_twice_is_one_job() -> None:
    y, inputs = chain(1, 49)
    kernel, *_ = lower_program([y], inputs).kernels
    with Compiler() as compiler:
        compiler.begin(kernel)
        (first, _), (second, _) = compiler.finished((kernel, kernel))
    assert first is second
    assert kernel_cache.compiled_kernel(kernel)[0] is first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="systems without fork")
def test_a_forked_child_waits_as_long_as_before() -> None:
    before = sys.getswitchinterval()
    with background_compiler._turns.changed():
        assert sys.getswitchinterval() < before
        child = os.fork()
        if child == 0:
            os._exit(int(sys.getswitchinterval() != before))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("cpus", [1, 2])
def test_what_comes_first_runs_beside_or_not_at_all(
    cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cpus", lambda: cpus)
    ran: list[str] = []
    y, inputs = chain(1, 51)
    (kernel, *_) = lower_program([y], inputs).kernels
    compiler = Compiler(lambda: ran.append(threading.current_thread().name))
    with compiler, compiler as again:  # who is given one enters it again
        ((made, _),) = again.finished((kernel,))
    assert made is compiled_kernel(kernel)[0]
    assert ran == ["tensorad compiler"] * (cpus - 1)
    assert not [t for t in threading.enumerate() if t.name == "tensorad compiler"]


def test_the_first_build_prepares_calls() -> None:
    with config.override(native_calls=False):
        assert preparation() is None
    ta.build(*chain(1, 2))
    assert preparation() is None


PREPARED = """
import threading
from tensorad import config, te
from tensorad.building import build
from tensorad.codegen.runtime.background_compiler import Compiler
from tensorad.codegen.target import link
from tensorad.compiled import preparation
config.available_cpus = lambda: 2
threads, load = [], link.load
def seen(text, *rest, **options):
    threads.append(threading.current_thread().name)
    return load(text, *rest, **options)
link.load = seen
with Compiler(preparation()) as compiler:
    compiler.finished(())
print(*sorted(set(threads)))
before = len(threads)
x = te.placeholder((4,), name="X")
build(te.compute((4,), lambda i: x[i] * 2.0), [x])
print(len(threads) - before)
"""


@pytest.mark.slow
def test_the_entry_and_the_driver_are_compiled_beside() -> None:
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:2] == ["tensorad compiler", "1"]


def test_code_for_another_cache_line_is_another() -> None:
    x = te.placeholder((4096, 4096), name="X")
    y = te.compute((4096, 4096), lambda a, b: x[a, b] + 1.0, name="Y")
    jobs = []
    for line in ("line=64", "line=128", "line=64"):
        with described(line):
            (kernel,) = lower_program([y], [x]).kernels
            jobs.append(kernel_cache.job_of(kernel, {})[0])
    assert jobs[0].key == jobs[2].key != jobs[1].key
