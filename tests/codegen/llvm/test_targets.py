"""Code for other processors: AVX2 here, aarch64 by emulation, with the same bits as at home."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.llvm.call_block import MOST
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.scratch import scratch_bytes
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.executable import constant_array
from tensorad.codegen.runtime.kernel_cache import compiled_kernel, kernel_text
from tensorad.codegen.target import machine, object_code
from tensorad.config import override
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.expr import FUNCTIONS
from tensorad.ir.tensor import Constant, Tensor
from tests.random.generator_mixed import Mixed
from tests.random.generators import WIDE, campaign, random_program
from tests.support.loops.loop_cases import CASES
from tests.support.machines import described

Array = np.ndarray
FEATURES = dict.fromkeys(object_code.host()[1].split(","))
HAS_AVX2 = "+avx2" in FEATURES and "+fma" in FEATURES
avx2 = pytest.mark.skipif(not HAS_AVX2, reason="needs AVX2 and FMA")
CPUINFO = Path("/proc/cpuinfo")
MISSING = [t for t in ("aarch64-linux-gnu-gcc", "qemu-aarch64") if shutil.which(t) is None]
arm = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")
Program = tuple[list[Tensor], dict[Tensor, Array]]


def functions(op: str) -> Program:
    """An elementary function on ordinary and special values, both widths."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 1e-310, 1e30, -2.5, 0.5]
    found: list[Tensor] = []
    arrays: dict[Tensor, Array] = {}
    for dtype in ("float32", "float64"):
        values = np.concatenate([np.random.default_rng(3).normal(0, 4, 39), special])
        x = te.placeholder((len(values),), dtype=dtype, name=f"X{dtype}")
        make = getattr(te, op)
        both = op == "pow" or (op in FUNCTIONS and FUNCTIONS[op].arity == 2)
        with np.errstate(over="ignore"):
            arrays[x] = values.astype(dtype)
        formula = (lambda i, x=x: make(x[i], x[50 - i])) if both else (lambda i, x=x: make(x[i]))
        found.append(te.compute(x.shape, formula, name=op))
    return found, arrays


NAMES = (*FUNCTIONS, "floor", "ceil", "round", "trunc", "pow")


def case(name: str) -> Program:
    made = CASES[name]()
    return made.outputs, made.arrays()


def product() -> Program:
    """Sums long enough for tiles, lanes and threads."""
    a, b = te.placeholder((37, 65), name="A"), te.placeholder((65, 83), name="B")
    k, m, n = te.reduce_axis(65), te.reduce_axis(83), te.reduce_axis(37)
    c = te.compute((37, 83), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    rows = te.compute((37,), lambda i: te.sum(c[i, m] * c[i, m], axis=m), name="R")
    columns = te.compute((83,), lambda j: te.sum(te.exp(c[n, j]), axis=n), name="S")
    rng = np.random.default_rng(4)
    return [c, rows, columns], {t: rng.uniform(-1, 1, t.shape).astype("f") for t in (a, b)}


def random_ones(seed: int) -> Program:
    if seed % 4 == 3:
        return Mixed(seed).program()
    dtype = ("float32", "float64", "int32")[seed % 3]
    made = random_program(seed, dtype, 4, extents=WIDE)
    return made.tensors, made.arrays()


MAKERS: dict[str, Callable[[], Program]] = {
    "product": product,
    **{name: partial(case, name) for name in CASES},
    **{op: partial(functions, op) for op in NAMES},
}
SOME = ("product", "softmax", "scans", "tanh", "pow")


def programs(names: Iterable[str], randoms: range) -> Iterator[tuple[str, Program]]:
    for name in names:
        yield name, MAKERS[name]()
    for seed in randoms:
        yield f"seed {seed}", random_ones(seed)


def at_home(program: Program) -> list[Array]:
    outputs, arrays = program
    results = build(outputs, list(arrays))(*arrays.values())
    return results if isinstance(results, list) else [results]


def same_bits(have: Array, want: Array, what: str) -> None:
    """Equal bit patterns, but for which NaN a NaN is."""
    assert have.dtype == want.dtype and have.shape == want.shape, what
    flat, other = have.reshape(-1, 1), want.reshape(-1, 1)
    differ = flat.view(np.uint8) != other.view(np.uint8)
    rows = differ.any(axis=1)
    if have.dtype.kind == "f":
        rows &= ~(np.isnan(flat) & np.isnan(other))[:, 0]
    assert not rows.any(), f"{what}: {flat[rows, 0][:3]}, {other[rows, 0][:3]}"


@pytest.mark.skipif(not CPUINFO.exists(), reason="only Linux lists what a processor has")
def test_what_the_system_lists_is_found() -> None:
    words = CPUINFO.read_text().split()
    assert HAS_AVX2 == ("avx2" in words and "fma" in words), "tests would be left out"


@avx2
@pytest.mark.parametrize("cpu", ["haswell", "znver3"])
def test_narrow_registers_are_really_used(cpu: str) -> None:
    outputs, arrays = product()
    kernel = lower_program(outputs[:1], list(arrays)).kernels[0]
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    assert "%zmm" not in object_code.assembly(text, 2, cpu) and "%ymm" in object_code.assembly(
        text, 2, cpu
    )
    before = compiled_kernel(kernel)[0]
    with described(f"cpu={cpu}"):
        assert machine.current().vector_bytes == 32
        narrow = compiled_kernel(kernel)[0]
    is_home = cpu == machine.this_machine().cpu
    assert (narrow is before) == is_home, "kernels of two processors are kept apart"


@pytest.mark.sampled(5)
@avx2
@pytest.mark.parametrize("columns", [3, 5, 9, 16, 31, 1024])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_avx2_code_transposes_pieces_of_rows(columns: int, dtype: str) -> None:
    x = te.placeholder((35, columns), dtype, name="X")
    y = te.compute((columns, 35), lambda i, j: x[j, i], "Y")
    a = np.random.default_rng(3).integers(-99, 99, (35, columns)).astype(dtype)
    with described("cpu=haswell"):
        np.testing.assert_array_equal(build(y, [x])(a), a.T)


def check_avx2(programs: Iterator[tuple[str, Program]]) -> None:
    for name, program in programs:
        want = at_home(program)
        with described("cpu=haswell"):
            have = at_home(program)
        for t, a, b in zip(program[0], have, want, strict=True):
            same_bits(a, b, f"{t.name} of {name}")


@avx2
def test_avx2_code_gives_the_same_bits() -> None:
    check_avx2(programs(SOME, range(1, 2)))


@avx2
@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(0, 120, 40), 1))
def test_avx2_code_gives_the_same_bits_everywhere(first: int) -> None:
    check_avx2(programs(() if first else MAKERS, range(first, first + 40)))


NEON = "vector_bytes=16,registers=32,l2=524288"
"""What loops for such a processor are planned for."""
HARNESS = Path(__file__).parents[2] / "support" / "run_objects.c"


class Emulated:
    """Programs as one aarch64 executable: their kernels' objects, tables and buffers."""

    def __init__(self, folder: Path, cpu: str) -> None:
        self.folder, self.cpu = folder, cpu
        self.objects: list[Path] = []
        self.tables: list[str] = []
        self.names: list[str] = []
        self.kernels: dict[str, list[tuple[str, bool]]] = {}
        self.input = b""
        self.results: list[tuple[tuple[Tensor, ...], list[Array]]] = []
        self.scratch = 64

    def functions_of(self, kernel: Kernel) -> list[tuple[str, bool]]:
        """The symbols of a kernel's functions, its object written if it is new."""
        key, tensors = kernel_key(kernel)
        if key not in self.kernels:
            prefix = f"k{len(self.kernels)}_"
            text, functions = kernel_text(kernel, tensors)
            for f in functions:
                text = text.replace(f"@{f.name}(", f"@{prefix}{f.name}(")
            image = object_code.compile_text(text, 2, self.cpu, "aarch64-linux-gnu")
            self.objects.append(self.folder / f"{prefix}.o")
            self.objects[-1].write_bytes(image)
            self.kernels[key] = [(f"{prefix}{f.name}", f.parallel) for f in functions]
            self.names.extend([name for name, _ in self.kernels[key]])
        return self.kernels[key]

    def add(self, program: Program) -> None:
        """Take a program in: its table of steps, and its buffers for the input."""
        outputs, arrays = program
        loops = lower_program(outputs, list(arrays))
        slots: dict[Tensor, int] = {}
        for t in (*loops.inputs, *loops.outputs, *[t for k in loops.kernels for t in used(k)]):
            slots.setdefault(t, len(slots))
        rows, indices = [], [0]
        for kernel in loops.kernels:
            self.scratch = max(self.scratch, scratch_bytes(kernel, {}))
            for symbol, parallel in self.functions_of(kernel):
                rows.append(f"{{{symbol}, {len(indices)}, {int(parallel)}}}")
                indices.extend([slots[t] for t in kernel_key(kernel)[1]])
        number = len(self.tables)
        numbers = ", ".join(map(str, indices))
        self.tables.append(
            f"static long i{number}[] = {{{numbers}}};\n"
            f"static struct step s{number}[] = {{{', '.join(rows)}}};"
        )
        buffers = [self.content(t, arrays) for t in slots]
        counts = [number, len(rows), len(loops.inputs), len(loops.outputs), len(buffers)]
        head = np.array([*counts, *[len(b) for b in buffers]], np.int64)
        self.input += b"".join([head.tobytes(), *buffers])
        with override(machine=""):
            self.results.append((loops.outputs, at_home(program)))

    def content(self, t: Tensor, arrays: dict[Tensor, Array]) -> bytes:
        """What a buffer holds at first."""
        if t in arrays:
            return np.ascontiguousarray(arrays[t], str(t.dtype)).tobytes()
        if isinstance(t.op, Constant):
            return constant_array(t).tobytes()
        return b"\xcd" * bytes_of(t, {})

    def run(self, side: str) -> list[list[Array]]:
        """The outputs of all programs, buffers touching a forbidden page at that side."""
        binary = self.folder / "run"
        if not binary.exists():
            declared = [f"kernel {name};" for name in self.names]
            count = range(len(self.tables))
            pointers = [
                f"static struct step *steps[] = {{{', '.join([f's{n}' for n in count])}}};",
                f"static long *indices[] = {{{', '.join([f'i{n}' for n in count])}}};",
                f"static const long SCRATCH = {self.scratch}, MOST = {MOST};",
            ]
            lines = [*declared, *self.tables, *pointers]
            (self.folder / "tables.h").write_text("\n".join(lines) + "\n")
            command = ["aarch64-linux-gnu-gcc", "-static", "-O1", f"-I{self.folder}", str(HARNESS)]
            command += [*map(str, self.objects), "-o", str(binary), "-lm"]
            done = subprocess.run(command, capture_output=True, timeout=120)
            assert done.returncode == 0, done.stderr.decode()[-2000:]
        done = subprocess.run(
            ["qemu-aarch64", str(binary), side], input=self.input, capture_output=True, timeout=120
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stderr.decode()}"
        found, at = [], 0
        for _, want in self.results:
            arrays = []
            for w in want:
                part = np.frombuffer(done.stdout, w.dtype, w.size, at)
                arrays.append(part.reshape(w.shape))
                at += w.nbytes
            found.append(arrays)
        return found


def used(kernel: Kernel) -> tuple[Tensor, ...]:
    return (*kernel.reads, *kernel.writes)


def check_arm(programs: Iterator[tuple[str, Program]], folder: Path, cpu: str) -> None:
    emulated = Emulated(folder, cpu)
    names = []
    for name, program in programs:
        names.append(name)
        with described(NEON):
            emulated.add(program)
    for side in ("start", "end"):
        found = emulated.run(side)
        for name, arrays, (outputs, want) in zip(names, found, emulated.results, strict=True):
            for t, a, b in zip(outputs, arrays, want, strict=True):
                same_bits(a, b, f"{t.name} of {name}, forbidden page at the {side}")


@arm
def test_aarch64_code_gives_the_same_bits(tmp_path: Path) -> None:
    check_arm(programs(SOME, range(1, 2)), tmp_path, "generic")


@arm
@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["generic", "neoverse-v1"])
def test_aarch64_code_gives_the_same_bits_everywhere(cpu: str, tmp_path: Path) -> None:
    check_arm(programs(MAKERS, range(30)), tmp_path, cpu)
