"""What is read from the machine, what stands in for it, and code for other processors."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from tensorad import config, te
from tensorad.building import build
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.codegen.target import machine, object_code
from tensorad.errors import DefinitionError


def cache(folder: Path, index: int, kind: str, level: int, size: str, line: str = "64") -> None:
    entry = folder / f"index{index}"
    entry.mkdir()
    values = {"type": kind, "level": str(level), "size": size, "coherency_line_size": line}
    for name, text in values.items():
        (entry / name).write_text(text + "\n")


def test_caches_of_linux(tmp_path: Path) -> None:
    cache(tmp_path, 0, "Data", 1, "48K", "128")
    cache(tmp_path, 1, "Instruction", 1, "32K", "128")
    cache(tmp_path, 2, "Unified", 2, "2M", "128")
    (tmp_path / "index3").mkdir()  # a container that hides the rest
    assert machine._linux_caches(tmp_path) == {"l1": 48 << 10, "l2": 2 << 20, "line": 128}
    assert machine._linux_caches(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(("size", "counted"), [(480, 32), (32, 32), (16, 16)])
def test_a_process_counts_on_a_part_of_a_large_last_cache(
    monkeypatch: pytest.MonkeyPatch, size: int, counted: int
) -> None:
    found = {"l1": 48 << 10, "l2": 2 << 20, "l3": size << 20, "line": 64}
    monkeypatch.setattr(machine, "_linux_caches", lambda folder: dict(found))
    monkeypatch.setattr(machine, "_mac_caches", lambda: dict(found))
    m = machine.this_machine.__wrapped__()
    assert (m.l1, m.l2, m.l3) == (48 << 10, 2 << 20, counted << 20)


def test_the_flag_may_tell_of_a_larger_last_cache() -> None:
    with config.override(machine=f"l3={480 << 20}"):
        assert machine.current().l3 == 480 << 20


def test_a_quota_limits_the_cpus(tmp_path: Path) -> None:
    every = config.available_cpus(str(tmp_path / "none"))
    assert every >= 1
    for text, count in (("max 100000", every), ("50000 100000", 1), ("nonsense", every)):
        (tmp_path / "cpu.max").write_text(text)
        assert config.available_cpus(str(tmp_path / "cpu.max")) == count


def test_this_machine_makes_sense() -> None:
    m = machine.this_machine()
    assert 8 << 10 <= m.l1 <= m.l2 <= 1 << 30 and m.line in (32, 64, 128, 256)
    assert m.vector_bytes in (16, 32, 64) and m.registers in (16, 32) and m.cores >= 1
    if platform.machine() == "x86_64":
        assert machine.probed_vector_bytes(m.cpu) == m.vector_bytes


@pytest.mark.parametrize("line", [32, 64, 128])
def test_powers_of_two_are_lines(line: int) -> None:
    with config.override(machine=f"line={line}"):
        assert machine.current().line == line


def test_facts_can_be_replaced() -> None:
    with config.override(machine="l2=1048576, cores=12,flops=1.5"):
        m = machine.current()
        assert (m.l2, m.cores, m.flops, machine.target()) == (1 << 20, 12, 1.5, "")
        assert "L2 1 MB" in str(m) and str(m).endswith("12 CPUs")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
def test_another_processor_brings_its_registers() -> None:
    for cpu, width, registers in (("haswell", 32, 16), ("x86-64", 16, 16), ("x86-64-v4", 64, 32)):
        with config.override(machine=f"cpu={cpu}"):
            m = machine.current()
            assert (m.cpu, m.vector_bytes, m.registers) == (cpu, width, registers)
            assert machine.target() == ("" if cpu == machine.this_machine().cpu else cpu)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
@pytest.mark.parametrize(("cpu", "uses"), [("haswell", False), ("x86-64-v4", True)])
def test_wide_vectors_use_no_instruction_that_the_processor_lacks(cpu: str, uses: bool) -> None:
    x = te.placeholder((64,), name="X")
    with config.override(machine=f"cpu={cpu},vector_bytes=64,registers=32"):
        assert machine.current().vector_bytes == 64
        y = te.compute((64,), lambda i: te.exp(x[i]), name="Y")
        (kernel,) = lower_program([y], [x]).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
        assert ("avx512" in text) == uses
        assert ("%zmm" in object_code.assembly(text, 2, cpu)) == uses


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
def test_processors_differ_in_how_many_multiply_adds_begin_in_a_cycle() -> None:
    for cpu, units in (
        ("haswell", 2), ("znver1", 1), ("znver3", 2), ("znver4", 1), ("znver5", 2),
        ("tigerlake", 1), ("sapphirerapids", 2),
    ):  # fmt: skip
        with config.override(machine=f"cpu={cpu}"):
            assert machine.current().multiply_adds == units
        with config.override(machine=f"cpu={cpu},multiply_adds=3"):
            assert machine.current().multiply_adds == 3


def test_registers_without_a_processor_bring_units_of_their_own() -> None:
    for width, units in ((16, 2), (32, 2), (64, 1)):
        with config.override(machine=f"vector_bytes={width}"):
            assert machine.current().multiply_adds == units
            assert machine.current().by_lines == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
def test_some_processors_wait_for_lines_that_are_asked_for_one_by_one() -> None:
    for cpu, by_lines in (("sapphirerapids", 3), ("graniterapids", 3), ("znver3", 0)):
        with config.override(machine=f"cpu={cpu}"):
            assert machine.current().by_lines == by_lines
        with config.override(machine=f"cpu={cpu},by_lines=2.5"):
            assert machine.current().by_lines == 2.5


def test_the_pace_of_memory_is_what_the_speeds_say_or_the_usual() -> None:
    text = "vector_bytes=64,multiply_adds=1,flops=110000000000"
    with config.override(machine=f"{text},read=25000000000"):
        assert 7.2 < machine.current().pace < 7.3
    with config.override(machine=text):
        assert machine.current().pace == machine.USUAL_PACE


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
@pytest.mark.parametrize("cpu", ["pentium3", "pentium4"])
def test_processors_of_32_bits_mean_their_registers(cpu: str) -> None:
    x = te.placeholder((37,), dtype="float64", name="X")
    with config.override(machine=f"cpu={cpu}"):
        assert machine.current().vector_bytes == 16
        f = build(te.compute((37,), lambda i: te.tanh(x[i]), name="Y"), [x])
    array = np.linspace(-2, 2, 37)
    np.testing.assert_allclose(f(array), np.tanh(array), rtol=1e-15)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
@pytest.mark.parametrize("cpu", ["nonsense", "i386"])
def test_an_unknown_processor_is_refused(cpu: str) -> None:
    with config.override(machine=f"cpu={cpu}"), pytest.raises(DefinitionError) as caught:
        machine.current()
    assert str(caught.value) == (
        f"LLVM knows no processor {cpu!r} of x86-64.\n"
        f"  in: TENSORAD_MACHINE=cpu={cpu}\n"
        "  hint: write a name of LLVM, as in cpu=haswell or cpu=x86-64-v4, or leave cpu out."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("l2", "l2 must be a positive integer, got ''."),
        ("l2=-4", "l2 must be a positive integer, got '-4'."),
        ("l2=²", "l2 must be a positive integer, got '²'."),
        ("line=1/4", "line must be a power of two, got '1/4'."),
        ("line=100", "line must be a power of two, got '100'."),
        ("line=0", "line must be a power of two, got '0'."),
        ("vector_bytes=48", "vector_bytes must be a power of two, got '48'."),
        ("flops=fast", "flops must be a number, not negative, got 'fast'."),
        ("cpu=", "cpu must be a name, got ''."),
    ],
)
def test_values_are_refused_by_what_they_must_be(text: str, said: str) -> None:
    with config.override(machine=text), pytest.raises(DefinitionError) as caught:
        machine.current()
    assert str(caught.value) == (
        f"TENSORAD_MACHINE: {said}\n"
        f"  in: TENSORAD_MACHINE={text}\n"
        "  hint: write name=value, as in cpu=haswell,l2=262144; sizes in bytes."
    )


@pytest.mark.parametrize("text", ["l9=4", "4", "=4"])
def test_nonsense_is_refused(text: str) -> None:
    with config.override(machine=text), pytest.raises(DefinitionError) as caught:
        machine.current()
    assert str(caught.value) == (
        f"TENSORAD_MACHINE has the part {text!r}, which says nothing.\n"
        f"  in: TENSORAD_MACHINE={text}\n"
        "  hint: write name=value with cpu, l1, l2, l3, line, vector_bytes, registers, "
        "multiply_adds, cores, flops, read, by_lines; sizes in bytes."
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("NUM_THREADS", "0", "a positive integer, got '0'.\n  hint: export {}=4"),
        ("NUM_THREADS", "²", "a positive integer, got '²'.\n  hint: export {}=4"),
        ("BISECT", "-1", "a whole number from 0, got '-1'.\n  hint: export {}=4"),
        ("BISECT", "abc", "a whole number from 0, got 'abc'.\n  hint: export {}=4"),
        ("NUM_THREADS", "257", "at most 256, got '257'.\n  hint: export {}=4"),
        ("MAX_BYTES", "8G", "a positive integer, got '8G'.\n  hint: export {}=68719476736"),
        ("NATIVE_CALLS", "no", "0 or 1, got 'no'.\n  hint: export {}=0"),
    ],
)
def test_refused_flags(monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str) -> None:
    flag = f"TENSORAD_{name}"
    monkeypatch.setenv(flag, text)
    with pytest.raises(DefinitionError) as caught:
        config._from_environment()
    assert str(caught.value) == f"{flag} must be {said.format(flag)}"


def test_blanks_around_the_commas_of_flags_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORAD_DEBUG", " time, verify ,ir:solve,")
    assert config._from_environment().debug == ("time", "verify", "ir:solve")
    monkeypatch.setenv("TENSORAD_DEBUG", "time, verfy")
    with pytest.raises(DefinitionError) as caught:
        config._from_environment()
    assert str(caught.value) == (
        "TENSORAD_DEBUG has the unknown flag 'verfy'.\n"
        "  hint: use some of ir, verify, check, time, certify, readback, llvm, asm, ir:<pass>, "
        "separated by commas."
    )
