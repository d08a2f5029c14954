"""The number of threads: a setting of the process that no result depends on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import CompiledFunction, build
from tensorad.errors import BoundsError, DefinitionError
from tensorad.ir.tensor import Tensor
from tests.codegen.threads.test_threads import in_threads, python

COUNTS = (1, 2, 3, 8)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = ta.get_num_threads()
    yield
    ta.set_num_threads(before)


def product() -> list[Tensor]:
    a, b = te.placeholder((70, 60), name="A"), te.placeholder((60, 90), name="B")
    k = te.reduce_axis(60, name="k")
    return [te.compute((70, 90), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"), a, b]


def totals() -> list[Tensor]:
    x, k, m = te.placeholder((400, 300), name="X"), te.reduce_axis(400), te.reduce_axis(300)
    return [te.compute((), lambda: te.sum(te.exp(x[k, m]), axis=[k, m]), name="S"), x]


def columns() -> list[Tensor]:
    x, k = te.placeholder((500, 70), name="X"), te.reduce_axis(500)
    return [te.compute((70,), lambda j: te.sum(x[k, j] * x[k, j], axis=k), name="S"), x]


def softmax() -> list[Tensor]:
    x, k, m = te.placeholder((90, 110), name="X"), te.reduce_axis(110), te.reduce_axis(110)
    top = te.compute((90,), lambda i: te.max(x[i, k], axis=k), name="M")
    e = te.compute((90, 110), lambda i, j: te.exp(x[i, j] - top[i]), name="E")
    s = te.compute((90,), lambda i: te.sum(e[i, m], axis=m), name="T")
    return [te.compute((90, 110), lambda i, j: e[i, j] / s[i], name="P"), x]


def convolution_gradient() -> list[Tensor]:
    x, w = te.placeholder((6, 14, 14), name="X"), te.placeholder((5, 6, 3, 3), name="W")
    c, u, v = te.reduce_axis(6), te.reduce_axis(3), te.reduce_axis(3)
    y = te.compute(
        (5, 12, 12),
        lambda o, i, j: te.sum(x[c, i + u, j + v] * w[o, c, u, v], axis=[c, u, v]),
        name="Y",
    )
    h = te.placeholder((5, 12, 12), name="H")
    return [ta.vjp(y, [w], h)[0], x, h]


PROGRAMS = (product, totals, columns, softmax, convolution_gradient)


@pytest.mark.parametrize("parallel", [None, True], ids=["decided", "forced"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda m: m.__name__)
def test_same_bits_for_any_number_of_threads(
    make: Callable[[], list[Tensor]], parallel: bool | None
) -> None:
    out, *inputs = make()
    f = build(out, inputs, schedule=ta.Schedule(parallel=parallel))
    rng = np.random.default_rng(9)
    arrays = [rng.normal(size=tuple(map(int, t.shape))).astype("f") for t in inputs]  # type: ignore[arg-type]  # numbers
    ta.set_num_threads(1)
    want = np.asarray(f(*arrays)).tobytes()
    for count in COUNTS:
        ta.set_num_threads(count)
        for _ in range(100):
            assert np.asarray(f(*arrays)).tobytes() == want


def looked_up() -> CompiledFunction:
    x, p = te.placeholder((50,), name="X"), te.placeholder((4000,), "int64", name="P")
    y = te.compute((4000,), lambda i: x[p[i]] * 2.0, name="Y")
    return build(y, [x, p], schedule=ta.Schedule(parallel=True))


def test_an_error_in_a_thread_is_the_first_one() -> None:
    f, x = looked_up(), np.ones(50, "f")
    p = np.zeros(4000, np.int64)
    p[[700, 1900, 3900]] = 77, 88, 99
    for count in COUNTS:
        ta.set_num_threads(count)
        for _ in range(20):
            with pytest.raises(BoundsError, match="index 77"):
                f(x, p)
    assert (f(x, p * 0) == 2.0).all(), "the pool goes on"


def test_the_setting_is_one_for_the_process() -> None:
    ta.set_num_threads(3)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(ta.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [3]
    ta.set_num_threads(np.int64(2))  # type: ignore[arg-type]  # an integer all the same
    assert ta.get_num_threads() == 2 and type(ta.get_num_threads()) is int


@pytest.mark.parametrize("count", [0, -1, 257, 2.0, "2", None, True])
def test_refused_counts(count: object) -> None:
    with pytest.raises(DefinitionError) as caught:
        ta.set_num_threads(count)  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == (
        f"the number of threads must be a whole number from 1 to 256, got {count!r}.\n"
        "  in: set_num_threads\n"
        "  hint: 1 runs everything in the calling thread."
    )


def test_changed_while_others_call() -> None:
    out, *inputs = product()
    f = build(out, inputs, schedule=ta.Schedule(parallel=True))
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=tuple(map(int, t.shape))).astype("f") for t in inputs]  # type: ignore[arg-type]  # numbers
    want = f(*arrays)

    def act(number: int) -> None:
        for n in range(60):
            if number == 0:
                ta.set_num_threads(1 + n % 5)
            np.testing.assert_array_equal(f(*arrays), want)

    in_threads(act)


def test_fork_in_the_middle_of_parallel_calls() -> None:
    code = """
    from tensorad import Schedule, set_num_threads
    x = te.placeholder((600, 64), name="X")
    y = te.compute((600, 64), lambda i, j: te.exp(x[i, j]), name="Y")
    f = build(y, [x], schedule=Schedule(parallel=True))
    a = np.zeros((600, 64), "f")
    stop = threading.Event()

    def keep_calling():
        while not stop.is_set():
            assert (f(a) == 1).all()

    threads = [threading.Thread(target=keep_calling) for _ in range(2)]
    for t in threads:
        t.start()
    codes = []
    for number in range(8):
        time.sleep(0.01)
        child = os.fork()
        if child == 0:
            set_num_threads(1 + number % 3)
            os._exit(0 if all((f(a) == 1).all() for _ in range(20)) else 1)
        codes.append(os.waitpid(child, 0)[1])
    stop.set()
    for t in threads:
        t.join()
    print(codes)
    """
    assert python(code, PYTHONWARNINGS="ignore") == str([0] * 8)


@pytest.mark.slow
def test_the_process_may_end_while_a_thread_calls() -> None:
    code = """
    from tensorad import Schedule, get_num_threads
    x = te.placeholder((600, 640), name="X")
    y = te.compute((600, 640), lambda i, j: te.exp(x[i, j]), name="Y")
    f = build(y, [x], schedule=Schedule(parallel=True))
    a = np.zeros((600, 640), "f")
    f(a)

    def keep_calling():
        while True:
            f(a)

    threading.Thread(target=keep_calling, daemon=True).start()
    time.sleep(0.05)
    print("ends with", get_num_threads())
    """
    assert python(code, TENSORAD_NUM_THREADS="5") == "ends with 5"


@pytest.mark.slow
def test_interrupts_while_threads_begin_and_end() -> None:
    """No thread is lost, joined twice or given the number of another one."""
    code = """
    import random, signal
    from tensorad.codegen.threads.pool import pool_for
    random.seed(1)

    def running():
        return len(os.listdir("/proc/self/task"))

    alone, interrupts = running(), 0
    pool_for(2)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for _ in range(300):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 6e-4))
                for _ in range(2):
                    pool_for(random.choice((2, 3, 4, 5)))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1
    for count in (9, 3, 2):
        pool_for(count)
    print(interrupts > 0, running() - alone)
    """
    assert python(code) == "True 1"


@pytest.mark.slow
def test_the_process_may_end_while_threads_begin_and_end() -> None:
    code = """
    from tensorad.codegen.threads.pool import pool_for

    def failed(about):
        print(about.exc_value, flush=True)

    def keep_changing(first):
        while True:
            for count in (first, 3, 7, 2):
                pool_for(count)

    sys.unraisablehook = threading.excepthook = failed
    for number in range(3):
        threading.Thread(target=keep_changing, args=(4 + number,), daemon=True).start()
    time.sleep(0.05)
    """
    for _ in range(3):
        assert python(code) == ""
