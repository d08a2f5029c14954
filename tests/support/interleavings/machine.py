"""Threads that run functions of LLVM IR, one step after the other, on memory they share.

A step of a thread is what it does by itself and then one operation that others may see: an atomic
access, or a call of the system. Plain accesses between two such operations may be taken as one,
where no other thread touches the same words meanwhile: `search.explore` checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.support.interleavings.ir_text import Function, Instruction, Text
from tests.support.interleavings.values import Value, arithmetic, computed, cut, signed

Address = int | tuple[object, ...]
"""Of a word; a tuple names what a test notes beside the memory of the program."""
AGAIN: Final = "again"
"""What a call of the system answers that has one more step."""
STACKS: Final = 1 << 50
"""Where memory of functions begins; each thread has its own."""


class Wrong(Exception):
    """Something that must not happen in any order of the threads."""


class Waits(Exception):
    """The thread cannot take its step as things are."""


class Frame(NamedTuple):
    """A function that runs: where it is, and its registers that are read later."""

    function: Function
    at: int
    values: tuple[Value, ...]
    stack: int


class Thread(NamedTuple):
    """A thread between two steps.

    Attributes:
        calls: of its script that have ended, -1 for a thread without one.
        frames: from outside to inside.
        word: where it sleeps, or 0, and what was there then.
    """

    calls: int
    frames: tuple[Frame, ...] = ()
    word: int = 0
    expected: int = 0


class State(NamedTuple):
    """Everything between two steps; None for a thread that has been waited for."""

    threads: tuple[Thread | None, ...]
    memory: frozenset[tuple[Address, int]]


@dataclass(frozen=True)
class Step:
    """What a thread did.

    Attributes:
        plain: words it has accessed by itself, with whether it wrote.
        shared: the word of the operation at the end, or None, and whether that may write.
        text: of that operation.
    """

    thread: int
    state: State
    plain: frozenset[tuple[int, bool]]
    shared: tuple[int, bool] | None
    text: str


@dataclass
class Call:
    """A call that a script makes.

    Attributes:
        function, arguments: what is called.
        begins: notes something before; `ends`: is given the result, and answers whether it is done
            (if not, the call is made once more).
    """

    function: str
    arguments: Sequence[int] = ()
    begins: Callable[[Machine], None] = lambda _: None
    ends: Callable[[Machine, int], bool] = lambda _, __: True


@dataclass
class Machine:
    """One step of one thread after the other.

    Attributes:
        scripts: what each of the first threads calls.
        system: functions that are not in the text, each with whether others may see it.
        indirect: runs what registers hold the address of.
        hints: addresses that decide nothing but speed; an access to them is no step.
        orders: (address, operation, order) of atomic accesses that were made.
    """

    text: Text
    scripts: Sequence[Sequence[Call]]
    system: Mapping[str, tuple[Callable[[Machine, list[int]], object], bool]]
    indirect: Callable[[Machine, list[int]], object] | None = None
    hints: Callable[[int], bool] = lambda _: False
    inside: Callable[[Machine, int], None] = lambda _, __: None
    """Is given every address, and raises where nothing is."""
    orders: set[tuple[int, str, str]] = field(default_factory=set)
    memory: dict[Address, int] = field(default_factory=dict)
    threads: list[Thread | None] = field(default_factory=list)
    thread: int = 0
    choice: int = 0
    choices: int = 1

    def start(self, memory: Mapping[Address, int], first: Sequence[Thread] = ()) -> State:
        """The state before the first step."""
        threads = [*(Thread(0) for _ in self.scripts), *first]
        return State(tuple(threads), frozenset((a, v) for a, v in memory.items() if v))

    def read(self, address: Address) -> int:
        """A word of memory; of what nobody has written, 0."""
        return self.memory.get(address, 0)

    def write(self, address: Address, value: int) -> None:
        """Change a word."""
        if value:
            self.memory[address] = value
        else:
            self.memory.pop(address, None)

    def begin(self, function: str, arguments: Sequence[int]) -> int:
        """Have one more thread, which runs a function: its number."""
        free = [n for n, t in enumerate(self.threads) if t is None]
        number = free[0] if free else len(self.threads)
        made = Thread(-1, (self._entered(self.text.function(function), arguments, number),))
        self.threads[number : number + 1] = [made]
        return number

    def sleep(self, word: int, expected: int) -> None:
        """Until it is woken, if the word still is what it was."""
        if self.read(word) == expected:
            self._asleep = (word, expected)

    def wake(self, word: int) -> None:
        """All that sleep there."""
        for n, t in enumerate(self.threads):
            if t is not None and t.word == word:
                self.threads[n] = t._replace(word=0, expected=0)

    def has_ended(self, thread: int) -> bool:
        """Whether a thread has nothing left to do."""
        found = self.threads[thread]
        return found is None or self._is_over(thread, found)

    def _is_over(self, number: int, thread: Thread) -> bool:
        if thread.frames:
            return False
        return thread.calls < 0 or thread.calls == len(self.scripts[number])

    def steps(self, state: State) -> list[Step]:
        """What can come next: the steps of all threads that are not waiting."""
        found: list[Step] = []
        for n, thread in enumerate(state.threads):
            if thread is None or thread.word or self._is_over(n, thread):
                continue
            self.choice, self.choices = 0, 1
            while self.choice < self.choices:
                found.append(self._step(state, n, thread))
                self.choice += 1
        return found

    def _step(self, state: State, number: int, thread: Thread) -> Step:
        self.threads, self.memory = list(state.threads), dict(state.memory)
        self.thread, self._asleep = number, (0, 0)
        self._plain: set[tuple[int, bool]] = set()
        self._shared: tuple[int, bool] | None = None
        frames, calls = list(thread.frames), thread.calls
        text = ""
        try:
            while True:
                if not frames:
                    if calls < 0 or calls == len(self.scripts[number]):
                        break
                    call = self.scripts[number][calls]
                    call.begins(self)
                    made = self._entered(self.text.function(call.function), call.arguments, number)
                    frames.append(made)
                running = _Running(self, frames)
                text = running.run()
                if text:
                    break
                if calls >= 0 and not frames:
                    calls += self.scripts[number][calls].ends(self, running.result)
        except Waits:
            return Step(number, state, frozenset(self._plain), None, "waits")
        self.threads[number] = Thread(calls, tuple(frames), *self._asleep)
        after = State(tuple(self.threads), frozenset(self.memory.items()))
        return Step(number, after, frozenset(self._plain), self._shared, text or "ends")

    def _entered(self, function: Function, arguments: Sequence[int], number: int) -> Frame:
        names = dict(zip(function.parameters, arguments, strict=True))
        live = tuple([names[name] for name in function.live[0]])
        return Frame(function, 0, live, STACKS + (number << 30))

    def plainly(self, address: int, *, writes: bool) -> None:
        """Note an access that others must not make at the same time."""
        if address < STACKS:
            self.inside(self, address)
            self._plain.add((address, writes))

    def visibly(self, address: int, operation: str, order: str) -> None:
        """Note an atomic access."""
        self.inside(self, address)
        self.orders.add((address, operation, order))
        self._shared = (address, operation != "load")


class _Running:
    """The innermost function of a thread, and what it calls, up to the end of a step."""

    def __init__(self, machine: Machine, frames: list[Frame]) -> None:
        self.machine = machine
        self.frames = frames
        self.result = 0
        self._open()

    def _open(self) -> None:
        """Go on with the innermost function."""
        self.function, self.at, values, self.stack = self.frames[-1]
        self.env: dict[str, Value] = dict(zip(self.function.live[self.at], values, strict=False))

    def _close(self) -> None:
        """Keep where it is, with what is read later."""
        live = self.function.live[self.at]
        values = tuple([self.env[name] for name in live])
        self.frames[-1] = Frame(self.function, self.at, values, self.stack)

    def run(self) -> str:
        """Up to the end of a step, whose text is returned, or of the outermost function: ""."""
        code = self.function.code
        while True:
            i = code[self.at]
            kind = i.kind
            if kind == "call":
                text = self._call(i)
                if text:
                    return text
                code = self.function.code
            elif kind == "return":
                if self._return(i):
                    return ""
                code = self.function.code
            elif kind == "jump":
                self._go(i.words[0])
            elif kind == "branch":
                self._go(i.words[0] if self._values(i)[0] & 1 else i.words[1])
            else:
                visible = _RUN[kind](self, i, self._values(i))
                self.at += 1
                if visible:
                    self._close()
                    return f"{self.function.name}: {i.text}"

    def _values(self, i: Instruction) -> list[Value]:
        return [self.env[o] if isinstance(o, str) else o for o in i.operands]

    def _go(self, label: str) -> None:
        function = self.function
        source = _block(function, self.at)
        at = function.starts[label]
        entering: dict[str, Value] = {}
        while function.code[at].kind == "phi":
            i = function.code[at]
            chosen = i.operands[i.words.index(source)]
            entering[i.out] = self.env[chosen] if isinstance(chosen, str) else chosen
            at += 1
        self.env.update(entering)
        self.at = at

    def _call(self, i: Instruction) -> str:
        name, values, m = i.words[0], self._values(i), self.machine
        visible = True
        if not name:
            *values, target = values
            name = m.text.names.get(target, "")
            if not name:
                assert m.indirect is not None
                return self._answered(i, m.indirect(m, [*values, target]), visible=True)
        if name in m.system:
            known, visible = m.system[name]
            return self._answered(i, known(m, values), visible=visible)
        called = m.text.function(name)
        after = self.function.live[self.at + 1]
        kept = tuple([self.env.get(n) for n in after])
        self.frames[-1] = Frame(self.function, self.at + 1, kept, self.stack)
        self.frames.append(Frame(called, 0, (), self.stack))
        self.function, self.at = called, 0
        self.env = dict(zip(called.parameters, values, strict=True))
        return ""

    def _answered(self, i: Instruction, answer: object, *, visible: bool) -> str:
        if answer is not AGAIN:
            if i.out:
                self.env[i.out] = answer
            self.at += 1
        if not visible:
            return ""
        self._close()
        return f"{self.function.name}: {i.text}"

    def _return(self, i: Instruction) -> bool:
        result = self._values(i)[0] if i.operands else 0
        base = self.stack
        self.frames.pop()
        outer = self.frames[-1].stack if self.frames else STACKS + (self.machine.thread << 30)
        for address in [a for a in self.machine.memory if isinstance(a, int) and outer <= a < base]:
            del self.machine.memory[address]
        if not self.frames:
            self.result = result
            return True
        self._open()
        out = self.function.code[self.at - 1].out
        if out:
            self.env[out] = result
        return False


def _block(function: Function, at: int) -> str:
    """The label of the block where an instruction stands."""
    return max((start, label) for label, start in function.starts.items() if start <= at)[1]


_BYTES: Final = {"i8": 1, "i32": 4, "i64": 8, "ptr": 8}


def _is_visible(m: Machine, address: int, operation: str, order: str) -> bool:
    if m.hints(address):
        return False
    m.visibly(address, operation, order)
    return True


def _getelementptr(r: _Running, i: Instruction, v: list[Value]) -> bool:
    r.env[i.out] = v[0] + _BYTES[i.words[0]] * signed(v[1], "i64")
    return False


def _load(r: _Running, i: Instruction, v: list[Value]) -> bool:
    r.env[i.out] = cut(r.machine.read(v[0]), i.words[0])
    if i.kind == "load":
        r.machine.plainly(v[0], writes=False)
        return False
    return _is_visible(r.machine, v[0], "load", i.words[1])


def _store(r: _Running, i: Instruction, v: list[Value]) -> bool:
    r.machine.write(v[1], v[0] if i.words[0].startswith("[") else cut(v[0], i.words[0]))
    if i.kind == "store":
        r.machine.plainly(v[1], writes=True)
        return False
    return _is_visible(r.machine, v[1], "store", i.words[1])


def _atomicrmw(r: _Running, i: Instruction, v: list[Value]) -> bool:
    kind, order, name = i.words[1], i.words[2], i.words[0]
    old = r.machine.read(v[0])
    r.machine.write(v[0], arithmetic(name, kind, old, v[1]))
    r.env[i.out] = old
    return _is_visible(r.machine, v[0], "change", order)


def _cmpxchg(r: _Running, i: Instruction, v: list[Value]) -> bool:
    old = r.machine.read(v[0])
    same = old == cut(v[1], i.words[0])
    if same:
        r.machine.write(v[0], cut(v[2], i.words[0]))
    r.env[i.out] = (old, int(same))
    return _is_visible(r.machine, v[0], "change", i.words[1])


def _compute(r: _Running, i: Instruction, v: list[Value]) -> bool:
    r.env[i.out] = computed(i, v)
    return False


def _alloca(r: _Running, i: Instruction, _: list[Value]) -> bool:
    r.env[i.out] = r.stack
    r.stack += 256
    return False


_RUN: Final[Mapping[str, Callable[[_Running, Instruction, list[Value]], bool]]] = {
    "getelementptr": _getelementptr, "load": _load, "load atomic": _load, "store": _store,
    "store atomic": _store, "atomicrmw": _atomicrmw, "cmpxchg": _cmpxchg, "alloca": _alloca,
    **dict.fromkeys(("extractvalue", "compare", "select", "convert", "arithmetic"), _compute),
}  # fmt: skip
