"""The driver and its pool of threads, with kernels that note which iterations run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.threads.driver_ir import driver_text
from tensorad.codegen.threads.launch_ir import SPINS
from tensorad.codegen.threads.linux_calls import CALLS
from tensorad.codegen.threads.pool import Pool as Compiled
from tests.support.interleavings.ir_text import Text
from tests.support.interleavings.machine import (
    AGAIN,
    Address,
    Call,
    Frame,
    Machine,
    State,
    Thread,
    Waits,
    Wrong,
)
from tests.support.interleavings.search import Found, explore

POOL: Final = 1 << 20
_BLOCKS: Final = 1 << 24
_EACH: Final = 1 << 12
_TABLE, _SLOTS, _NOTHING = 1 << 10, 1 << 11, 3 << 10
"""In the memory of a caller, after its call block."""
_KERNELS: Final = 1 << 40
_GUARD: Final = ("guard", 0)
FAILS: Final = 100
"""Added to the first iteration that fails: the code of the error."""


@dataclass(frozen=True)
class Loops:
    """A call of the driver: parallel loops one after the other.

    Attributes:
        counts: iterations of each; `marks`: bits beside them in the kernel's answer.
        threads: that the call may use.
        fails: iterations of the last loop that find an error.
        slices: of each loop to begin with, if the call looks for signals between them.
    """

    counts: tuple[int, ...]
    threads: int = 2
    marks: int = 0
    fails: frozenset[int] = frozenset()
    slices: int = 0


@dataclass(frozen=True)
class Resize:
    """The pool has so many workers from now on."""

    workers: int


@dataclass(frozen=True)
class Fork:
    """The process forks; the thread goes on in both."""


Action = Loops | Resize | Fork
_FORK: Final = """
define void @forks() nounwind {
  call void @fork()
  ret void
}
"""


def edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """The text with something else in places that must be there."""
    for old, new in edits:
        if old not in text:
            raise AssertionError(f"the text has no {old!r}")
        text = text.replace(old, new)
    return text


def quick(text: str) -> str:
    """The text, whose threads sleep after one look instead of many."""
    assert text.count(f"%n1, {SPINS}\n") == 2
    return text.replace(f"%n1, {SPINS}\n", "%n1, 0\n")


@dataclass
class Pool:
    """Threads of a program on one pool.

    Attributes:
        scripts: what each of them does.
        workers: that are there at first.
        edits: what stands in the text instead (mistakes that must be found).
        refuses: whether the system may give fewer threads than asked for.
    """

    scripts: Sequence[Sequence[Action]]
    workers: int = 1
    edits: Sequence[tuple[str, str]] = ()
    refuses: bool = False
    orders: set[tuple[int, str, str]] = field(default_factory=set)

    def found(self) -> Found:
        """What all orders of steps lead to."""
        machine = self.machine()
        start = machine.start(self._memory(), self._first(machine.text))
        return explore(machine, start, self._is_done)

    def machine(self) -> Machine:
        """Threads that begin."""
        whole = edited(quick(driver_text()), self.edits) + _FORK
        text = Text(whole, {"main_thread": 1 << 23})
        scripts = [
            [self._call(n, s, a) for s, a in enumerate(script)]
            for n, script in enumerate(self.scripts)
        ]
        return Machine(text, scripts, self._system(), self._kernel, _is_hint, orders=self.orders)

    def _is_done(self, state: State) -> bool:
        for n, t in enumerate(state.threads[: len(self.scripts)]):
            if t is not None and t.calls >= 0 and (t.frames or t.calls < len(self.scripts[n])):
                return False
        memory = dict(state.memory)
        if any(t and t.word and memory.get(t.word, 0) != t.expected for t in state.threads):
            raise Wrong("a worker sleeps although there is something new")
        return True

    def _first(self, text: Text) -> list[Thread]:
        """Workers that have just begun."""
        found: list[Thread] = []
        for n in range(1, self.workers + 1):
            argument = POOL + block.ARGUMENTS + n * block.ARGUMENT_BYTES
            stack = (1 << 50) + ((len(self.scripts) + n - 1) << 30)
            found.append(Thread(-1, (Frame(text.function("worker"), 0, (argument,), stack),)))
        return found

    def _memory(self) -> dict[Address, int]:
        memory: dict[Address, int] = {POOL + block.WORKERS: self.workers}
        for n in range(1, self.workers + 1):
            argument = POOL + block.ARGUMENTS + n * block.ARGUMENT_BYTES
            thread = len(self.scripts) + n
            memory.update({argument: POOL, argument + 8: n, argument + 24: thread})
        for n, script in enumerate(self.scripts):
            for s, action in enumerate(script):
                if isinstance(action, Loops):
                    memory.update(_block_of(_place(n, s), action))
        return memory

    def _call(self, thread: int, number: int, action: Action) -> Call:
        if isinstance(action, Resize):
            return Call("resize", (POOL, action.workers), _holds, _resized)
        if isinstance(action, Fork):
            return Call("forks")
        at = _place(thread, number)

        def begins(m: Machine) -> None:
            m.write(("runs", at), 1)

        def ends(m: Machine, failed: int) -> bool:
            _complete(m, at, action, len(action.counts))
            m.write(("runs", at), 0)
            m.write(("loop", at), 0)
            if failed != bool(action.fails):
                raise Wrong(f"a call answers {failed}")
            if failed:
                first = min(action.fails)
                told = [m.read(at + 8 * w) for w in (block.CODE, block.VALUE)]
                if told != [FAILS + first, first]:
                    raise Wrong(f"an error at {told}, and not at {first}")
            return True

        return Call("run", (at,), begins, ends)

    def _loops(self, at: int) -> Loops:
        thread, number = divmod((at - _BLOCKS) // _EACH, 16)
        action = self.scripts[thread][number]
        assert isinstance(action, Loops)
        return action

    def _kernel(self, m: Machine, values: list[int]) -> object:
        slots, _, _, begin, end, error, target = values
        at, loop = divmod(target - _KERNELS, 16)
        action = self._loops(at)
        if slots != at + _SLOTS:
            raise Wrong("a kernel is given operands of another one")
        if end == -1 or end == (1 << 64) - 1:
            _complete(m, at, action, loop)
            m.write(("loop", at), loop + 1)
            return action.counts[loop] | action.marks
        if not m.read(("runs", at)) or m.read(("loop", at)) != loop + 1:
            raise Wrong("a kernel begins after its loop")
        inside = ("inside", at, m.thread)
        if not m.read(inside):
            m.write(inside, 1)
            return AGAIN
        m.write(inside, 0)
        for i in range(begin, end):
            if m.read(("ran", at, i)):
                raise Wrong(f"iteration {i} runs twice")
            m.write(("ran", at, i), 1)
        bad = [i for i in range(begin, end) if i in action.fails and loop + 1 == len(action.counts)]
        if bad:
            m.plainly(error, writes=True)
            m.write(error, bad[0])
        return FAILS + bad[0] if bad else 0

    def _system(self) -> Mapping[str, tuple[Callable[[Machine, list[int]], object], bool]]:
        found: dict[str, tuple[Callable[[Machine, list[int]], object], bool]] = {}
        found.update(dict.fromkeys(_LOCAL, (_nothing, False)))
        found["here"] = (lambda m, _: m.thread, False)
        found["llvm.abs.i64"] = (lambda _, v: min(v[0], (1 << 64) - v[0]), False)
        found["syscall"] = (_futex, True)
        found["pthread_create"] = (self._create, True)
        found["pthread_join"] = (_join, True)
        found["fork"] = (self._fork, True)
        found["clock"] = (lambda _, __: 1 << 32, False)
        found["PyErr_CheckSignals"] = (self._fork, True)
        return found

    def _fork(self, m: Machine, _: list[int]) -> object:
        """Once in the parent and once in the child, whose other threads do not exist."""
        m.choices = 2
        if m.choice:
            threads = [t if n == m.thread else None for n, t in enumerate(m.threads)]
            m.threads[:] = threads
            m.memory = {a: v for a, v in m.memory.items() if _survives(a, m.thread)}
        return 0

    def _create(self, m: Machine, values: list[int]) -> object:
        handle, _, function, argument = values
        m.choices = 2 if self.refuses else 1
        if m.choice:
            return 1
        m.write(handle, m.begin(m.text.names[function], [argument]) + 1)
        return 0


_LOCAL: Final = (
    "apart", "llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr", "llvm.x86.sse2.pause",
    "PyEval_RestoreThread", "PyEval_SaveThread",
)  # fmt: skip


def _nothing(_: Machine, __: list[int]) -> object:
    return 0


@lru_cache
def _forgets() -> tuple[bool, ...]:
    """For each byte of the pool whether a forked child has another one."""
    pool = Compiled()
    pool._memory[:] = 1
    pool.forget()
    return tuple(pool._memory != 1)


def _survives(address: Address, thread: int) -> bool:
    """Whether a forked child has what there was."""
    if not isinstance(address, int):
        _, at, *_ = address
        return isinstance(at, int) and (at - _BLOCKS) // _EACH // 16 == thread
    at = address - POOL
    return not (0 <= at < block.POOL_BYTES and _forgets()[at])


def _futex(m: Machine, values: list[int]) -> object:
    number, word, operation, value, *_ = values
    assert number == CALLS.futex
    if operation == 128:  # wait; it may come back at any time
        m.choices = 2
        if not m.choice:
            m.sleep(word, value)
    else:
        m.wake(word)
    return 0


def _holds(m: Machine) -> None:
    """Only one thread at a time changes the number: it holds a lock of Python."""
    if m.read(_GUARD) not in (0, m.thread + 1):
        raise Waits
    m.write(_GUARD, m.thread + 1)


def _resized(m: Machine, done: int) -> bool:
    """Python asks again until it is done."""
    if done:
        m.write(_GUARD, 0)
        workers = sum([t is not None and t.calls < 0 for t in m.threads])
        if workers != m.read(POOL + block.WORKERS):
            raise Wrong("a worker is left behind")
    return bool(done)


def _join(m: Machine, values: list[int]) -> object:
    thread = values[0] - 1
    if not m.has_ended(thread):
        raise Waits
    m.threads[thread] = None
    return 0


def _is_hint(address: int) -> bool:
    """Processors that threads ran on."""
    return address >= POOL + block.ERRORS and (address - POOL - block.ERRORS) % 64 == block.CPU


def _place(thread: int, number: int) -> int:
    return _BLOCKS + _EACH * (16 * thread + number)


def _block_of(at: int, action: Loops) -> dict[Address, int]:
    """The words of a call and of its steps."""
    words = {
        block.STEPS: at + _TABLE,
        block.COUNT: len(action.counts),
        block.SLOTS: at + _SLOTS,
        block.INDICES: at + _NOTHING,
        block.SIZES: at + _NOTHING,
        block.INSIDE: at + _NOTHING,
        block.THREADS: action.threads,
        block.SLICES: action.slices,
        block.THREAD: min(action.slices, 1),
        block.POOL: POOL,
    }
    found: dict[Address, int] = {at + 8 * n: w for n, w in words.items()}
    for n in range(len(action.counts)):
        found[at + _TABLE + 24 * n] = _KERNELS + 16 * at + n
        found[at + _TABLE + 24 * n + 16] = block.PARALLEL
    return found


def _complete(m: Machine, at: int, action: Loops, loop: int) -> None:
    """Of the loop before this one all iterations have run, and nobody is in it."""
    if not loop:
        return
    for i in range(action.counts[loop - 1]):
        if not m.read(("ran", at, i)):
            raise Wrong(f"iteration {i} has not run")
        m.write(("ran", at, i), 0)
    if any(isinstance(a, tuple) and a[:2] == ("inside", at) for a in m.memory):
        raise Wrong("a thread is in a kernel whose loop has ended")
