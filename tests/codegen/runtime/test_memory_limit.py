"""What a call may have: the limit of the process, and how a call that needs more is refused."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, process_memory, te
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.arguments import Parameter
from tensorad.codegen.runtime.executable import Executable
from tensorad.codegen.runtime.memory_limit import check_memory
from tensorad.compiled import CompiledFunction
from tensorad.errors import LimitError
from tests.codegen.entry.test_stub import python_calls
from tests.codegen.threads.test_threads import python

KIB = 1024
N = te.size("n")


def write(root: Path, files: dict[str, str]) -> Path:
    """A system's files in a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


GROUP = "sys/fs/cgroup"
SYSTEMS: dict[str, tuple[dict[str, str], int | None]] = {
    "none": ({}, None),
    "version 2": ({"proc/self/cgroup": "0::/a/b", f"{GROUP}/a/b/memory.max": "5000"}, 5000),
    "soft": ({"proc/self/cgroup": "0::/a", f"{GROUP}/a/memory.high": "6000"}, 6000),
    "unlimited": ({"proc/self/cgroup": "0::/a", f"{GROUP}/a/memory.max": "max"}, None),
    "ancestor": (
        {
            "proc/self/cgroup": "0::/a/b",
            f"{GROUP}/a/b/memory.max": "9000",
            f"{GROUP}/a/memory.max": "7000",
            f"{GROUP}/a/memory.high": "max",
            f"{GROUP}/other/memory.max": "1",
        },
        7000,
    ),
    "container": ({"proc/self/cgroup": "0::/../x/y", f"{GROUP}/memory.max": "8000"}, 8000),
    "version 1": (
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/m/job\n1:name=systemd:/",
            f"{GROUP}/memory/m/job/memory.limit_in_bytes": "9223372036854771712",
            f"{GROUP}/memory/m/memory.limit_in_bytes": "4000",
            f"{GROUP}/cpu/c/memory.limit_in_bytes": "1",
        },
        4000,
    ),
    "both": (
        {
            "proc/self/cgroup": "4:memory:/m\n0::/u",
            f"{GROUP}/memory/m/memory.limit_in_bytes": "4000",
            f"{GROUP}/unified/u/memory.max": "3000",
        },
        3000,
    ),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_control_groups(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, limit = SYSTEMS[system]
    root = write(tmp_path, files)
    monkeypatch.setattr(process_memory, "_physical", lambda: 1 << 40)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert process_memory.process_bytes(root) == (limit or 1 << 40)
    monkeypatch.setattr(process_memory, "_physical", lambda: 2000)
    assert process_memory.process_bytes(root) == 2000
    monkeypatch.setattr(process_memory, "_physical", lambda: None)
    assert process_memory.process_bytes(root) == limit


def test_limits_of_the_process_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {resource.RLIMIT_AS: 7000, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which], 9000))
    assert process_memory.process_bytes(tmp_path) == 7000
    limits[resource.RLIMIT_DATA] = 6000
    assert process_memory.process_bytes(tmp_path) == 6000


@pytest.mark.slow
def test_the_default_is_what_the_process_may_have() -> None:
    code = """
    import resource
    from tensorad import config
    from tensorad.process_memory import process_bytes
    print(config.current().max_bytes == process_bytes())
    """
    assert python(code) == "True"
    assert python(code, TENSORAD_MAX_BYTES="1000") == "False"
    least = process_memory.process_bytes()
    assert least is not None and least >= 1 << 20


def staged(n: Any) -> CompiledFunction:
    """Z from X by way of W, which is kept in memory."""
    x = te.placeholder((n, n), name="X")
    k, m = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="m")
    w = te.compute((n, n), lambda i, j: te.sum(x[i, k] * x[k, j], axis=k), name="W")
    z = te.compute((n,), lambda i: te.sum(w[i, m] * w[m, i], axis=m), name="Z")
    return ta.build(z, [x], "f", schedule=ta.Schedule(fuse=False, parallel=False))


@pytest.mark.parametrize("n", [64, N], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("native", [True, False])
def test_all_that_a_call_has_counts(n: Any, native: bool) -> None:
    with config.override(native_calls=native, num_threads=1):
        f = staged(n)
    x, out = np.ones((64, 64), np.float32), np.empty(64, np.float32)
    with config.override(num_threads=1):
        use = f.memory if isinstance(n, int) else f.memory_at(n=64)
    assert use.inputs == 16 * KIB and use.temporaries >= 16 * KIB
    calls = (lambda: f(x), lambda: f(x, out=out))
    for act in calls:
        with config.override(max_bytes=use.peak, num_threads=1):
            for _ in range(3):
                assert act()[0] == 64.0**3
            if native:
                assert python_calls(act) == 0
            with config.override(max_bytes=use.peak - 1):
                for _ in range(3):
                    with pytest.raises(LimitError, match="a call of f takes"):
                        act()
            assert act()[0] == 64.0**3


def test_the_error_names_the_largest() -> None:
    with config.override(num_threads=1):
        f = staged(N)
        with config.override(max_bytes=20 * KIB), pytest.raises(LimitError) as caught:
            f(np.ones((64, 64), np.float32)[:, ::-1])
    taken = str(caught.value).split()[5]
    assert 48.0 <= float(taken) < 80
    assert str(caught.value) == (
        f"a call of f takes {taken} KiB of memory together with its arguments; "
        "the limit is 20.0 KiB.\n"
        "  in: argument X : float32 (64, 64), 16.0 KiB; copy of X : float32 (64, 64), 16.0 KiB; "
        "temporary W : float32 (64, 64), 16.0 KiB\n"
        "  hint: use smaller sizes, or raise the limit with the environment variable "
        "TENSORAD_MAX_BYTES."
    )


def test_what_is_passed_made_and_copied_is_added_up(tmp_path: Path) -> None:
    x = te.placeholder((100,), "float64", name="X")
    y = te.compute((100,), lambda i: x[i] + 1.0, "Y")
    layout = Executable(lower_program([y], [x])).layout({}, ())
    ones = np.ones(100)
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(100,))
    uses: list[tuple[np.ndarray, object, int, bool]] = [
        (ones, None, 1600, True),
        (ones[::-1], None, 2400, True),  # a copy
        (ones, np.empty(200)[::2], 2400, True),
        (np.broadcast_to(1.0, (100,)), None, 8 + 800 + 800, True),
        (ones, [ones], 800, False),  # others have an output beside the argument
        (mapped, None, 800, False),  # others are no files
    ]
    for given, out, size, others in uses:
        asked = ("f", layout, [(Parameter(x), given)], [(y, (100,))], out)
        with config.override(max_bytes=size):
            assert check_memory(*asked) == others
        with config.override(max_bytes=size - 1), pytest.raises(LimitError):
            check_memory(*asked)


def adder(n: int) -> CompiledFunction:
    x = te.placeholder((n,), "float64", name="X")
    return ta.build(te.compute((n,), lambda i: x[i] + 1.0, "Y"), [x], "f")


def test_numbers_that_are_rounded_alike_are_shown_in_bytes() -> None:
    f = adder(1_000_000)
    text = "takes 16000000 bytes of memory together with its arguments; the limit is 15999999 bytes"
    least = config.override(max_bytes=15_999_999, num_threads=1)
    with least, pytest.raises(LimitError, match=text):
        f(np.ones(1_000_000))


def test_copies_count_and_are_not_made() -> None:
    f = adder(1000)
    x = np.ones(1000)
    with config.override(max_bytes=16_000 + 3000, num_threads=1):
        assert (f(x) == 2).all()
        for other in (x[::-1], x.astype("f4")):
            with pytest.raises(LimitError, match=r"copy of X : float64 \(1000,\), 7.8 KiB"):
                f(other)
        with pytest.raises(LimitError, match=r"copy of Y : float64 \(1000,\), 7.8 KiB"):
            f(x, out=np.empty(2000)[::2])
        assert (f(x) == 2).all()


def test_arrays_of_files_do_not_count(tmp_path: Path) -> None:
    """Their pages may leave memory; whether native calls may go on depends on the array."""
    f, file = adder(1000), tmp_path / "x"
    np.ones(1000).tofile(file)
    mapped = np.memmap(file, np.float64, "r", shape=(1000,)).view(np.ndarray)
    with config.override(max_bytes=17_000, num_threads=1):
        assert (f(np.broadcast_to(1.0, (1000,))) == 2).all(), "one element and its copy"
    with config.override(max_bytes=10_000, num_threads=1):
        for _ in range(3):
            assert (f(mapped) == 2).all()
            with pytest.raises(LimitError, match="argument X"):
                f(np.ones(1000))


def test_an_array_that_is_passed_again_counts_once() -> None:
    a, b = te.placeholder((100, 100), name="A"), te.placeholder((100, 100), name="B")
    f = ta.build(te.compute((100,), lambda i: a[i, 0] * b[0, i], name="Y"), [a, b], "f")
    x, y = np.ones((100, 100), "f4"), np.ones((100, 100), "f4")
    with config.override(max_bytes=50_000):
        assert f(x, x).tolist() == [1.0] * 100 == f(x[:], x).tolist()
        for _ in range(3):
            with pytest.raises(LimitError):
                f(x, y)
            assert f(y, y).tolist() == [1.0] * 100


def test_refused_before_a_page_is_touched() -> None:
    code = """
    from tensorad.errors import LimitError

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    n = te.size("n")
    x = te.placeholder((n,), name="X")
    k = te.reduce_axis(n, name="k")
    f = build(te.compute((n, n), lambda i, j: x[i] * x[j], "Y"), [x])
    f(np.ones(2, "f"))
    before = resident()
    try:
        f(np.ones(12_000, "f"))
    except LimitError as error:
        print("576" in str(error) or str(error), resident() - before < 20 << 20)
    """
    assert python(code, TENSORAD_MAX_BYTES=str(300 << 20)).startswith("True True")
