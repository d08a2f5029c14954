"""One driver for all passes: run in order, and seen, checked, timed and bisected on demand."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

from tensorad import config
from tensorad.errors import InternalError

Context = TypeVar("Context")
State = TypeVar("State")


class NotComparedError(Exception):
    """Two states cannot be evaluated; the text says why."""


@dataclass(frozen=True)
class Pass(Generic[Context, State]):
    """One step of a list of passes: a pure function that keeps what its form computes.

    Attributes:
        name: what TENSORAD_DEBUG=ir:<name> and bisecting call it.
        run: (context, state) -> state; the same object if nothing changes.
        place: why it stands where it stands.
        required: whether what follows needs it; others may be left out, and TENSORAD_BISECT does.
        deciding: whether what the list makes is thrown away without it; TENSORAD_BISECT counts it
            before the others of its list, so that a mistake of an earlier one shows with that one.
    """

    name: str
    run: Callable[[Context, State], State]
    place: str
    required: bool = False
    deciding: bool = False


@dataclass(frozen=True)
class Form(Generic[Context, State]):
    """How to look at one kind of IR.

    Attributes:
        show: the text of a state.
        verify: raises InternalError where a state is not well formed.
        compare: in what the values of two states differ, "" in nothing; raises NotComparedError.
        fixed: a state that may be looked at more than once.
    """

    show: Callable[[Context, State], str]
    verify: Callable[[Context, State], None]
    compare: Callable[[Context, State, State], str]
    fixed: Callable[[State], State] = lambda state: state


class _Counter:
    """Optional passes of this process."""

    def __init__(self) -> None:
        self.done = 0
        self.last = ""
        """The last one counted."""


_counter = _Counter()
_times: dict[str, tuple[int, float]] = {}
"""By name: how often a pass ran, and seconds."""
_seen: set[str] = set()
"""Names of the passes that ran while somebody looked."""


def run_passes(
    passes: Sequence[Pass[Context, State]],
    context: Context,
    state: State,
    form: Form[Context, State],
) -> State:
    """The state after all passes, in order.

    TENSORAD_DEBUG: `ir` prints the state after each pass that changed it (`ir:name`: only that
    pass), `verify` checks well-formedness, `check` compares values before and after, `time`
    tells at the end of the process what each pass took.
    TENSORAD_BISECT=n leaves out what need not run but for n passes of the process: those of this
    list are counted before those of lists that run inside of one of its passes.

    Raises:
        InternalError: with `verify` or `check`, the first pass that is wrong.
    """
    if not bypasses_memo():
        for p in passes:
            state = p.run(context, state)
        return state
    for p in _not_left_out(passes):
        state = _watched(p, context, form.fixed(state), form)
    return state


def bypasses_memo() -> bool:
    """Whether somebody wants to see the passes run: then nothing is left out or remembered."""
    settings = config.current()
    if not settings.debug:
        return settings.bisect is not None
    flags = [f for f in settings.debug if f in config.PASS_FLAGS or f.startswith("ir:")]
    return bool(flags) or settings.bisect is not None


def _not_left_out(passes: Sequence[Pass[Context, State]]) -> list[Pass[Context, State]]:
    """The passes of a list that run, in order; those that decide are counted first."""
    order = sorted(range(len(passes)), key=lambda n: not passes[n].deciding)
    kept = [n for n in order if passes[n].required or _is_within(passes[n])]
    return [passes[n] for n in sorted(kept)]


def _is_within(p: Pass[Context, State]) -> bool:
    """Whether a pass may run that need not; the last one is named."""
    limit = config.current().bisect
    if limit is None:
        return True
    if _counter.done >= limit:
        return False
    _counter.done += 1
    _counter.last = p.name
    if _counter.done == limit:
        print(last_pass(limit, p.name), file=sys.stderr, flush=True)
    return True


def last_pass(n: int, name: str) -> str:
    """The line that names the last pass of a bisected process."""
    return f"TENSORAD_BISECT={n}: the last pass is {name}"


def count_again() -> None:
    """Count passes from 0 again: a new run in the same process."""
    _counter.done, _counter.last = 0, ""


def counted() -> tuple[int, str]:
    """How many passes ran under TENSORAD_BISECT, and the last one's name."""
    return _counter.done, _counter.last


def _watched(
    p: Pass[Context, State], context: Context, before: State, form: Form[Context, State]
) -> State:
    """What one pass makes, looked at as TENSORAD_DEBUG says."""
    debug = config.current().debug
    _note_name(p.name)
    start = perf_counter()
    after = form.fixed(p.run(context, before))
    if "time" in debug:
        _note_time(p.name, perf_counter() - start)
    if after is before:
        return after
    if "ir" in debug or f"ir:{p.name}" in debug:
        text = form.show(context, after)
        if text != form.show(context, before):
            print(f"after {p.name}:\n{text}\n", file=sys.stderr)
    if "verify" in debug:
        try:
            form.verify(context, after)
        except InternalError as broken:
            raise InternalError(f"after the pass {p.name}: {broken}") from broken
    if "check" in debug:
        _check(p, context, before, after, form)
    return after


def _check(
    p: Pass[Context, State],
    context: Context,
    before: State,
    after: State,
    form: Form[Context, State],
) -> None:
    try:
        difference = form.compare(context, before, after)
    except NotComparedError as reason:
        print(f"not compared, before and after {p.name}: {reason}", file=sys.stderr)
        return
    if difference:
        one, two = form.show(context, before), form.show(context, after)
        raise InternalError(
            f"the pass {p.name} changed values: {difference}\nbefore:\n{one}\nafter:\n{two}"
        )


def _note_name(name: str) -> None:
    if not _seen:
        atexit.register(_tell_unknown)
    _seen.add(name)


def _tell_unknown() -> None:
    print(unknown_passes(config.current().debug), end="", file=sys.stderr)


def unknown_passes(debug: Sequence[str]) -> str:
    """What is told at the end of flags ir:<name> that no pass of this process has."""
    known = {f"ir:{name}" for name in (*_seen, "loops")}  # loops: of whole programs, by lowering
    unknown = [f for f in debug if f.startswith("ir:") and f not in known]
    if not unknown:
        return ""
    ran = ", ".join(sorted(_seen))
    return f"TENSORAD_DEBUG={','.join(unknown)}: no pass of this name ran. Passes that ran: {ran}\n"


def _note_time(name: str, seconds: float) -> None:
    if not _times:
        atexit.register(_tell_times)
    count, total = _times.get(name, (0, 0.0))
    _times[name] = count + 1, total + seconds


def _tell_times() -> None:
    print(time_table(), end="", file=sys.stderr)


def time_table() -> str:
    """What TENSORAD_DEBUG=time tells: milliseconds of each pass, the longest first."""
    order = sorted(_times.items(), key=lambda item: -item[1][1])
    rows = [f"{1e3 * total:10.1f} ms {count:7d} x {name}" for name, (count, total) in order]
    return "\n".join(["passes:", *rows, ""])
