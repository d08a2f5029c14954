"""All states that threads can reach, in whatever order they take their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.support.interleavings.machine import Machine, State, Step, Wrong


class Found(NamedTuple):
    """What there was to see.

    Attributes:
        states: how many.
        mistake: what went wrong, with the steps that lead there; "" if nothing.
    """

    states: int
    mistake: str


def explore(
    machine: Machine, start: State, is_done: Callable[[State], bool], most: int = 10**6
) -> Found:
    """Take every step from every state, each state once.

    Wrong is what the machine raises; a plain access while another thread may change the word; and
    a state from which no order of steps leads to one that is done, as threads sleep forever there.
    """
    before: dict[State, tuple[State, Step] | None] = {start: None}
    into: dict[State, list[State]] = {}
    done: list[State] = []
    stack = [start]
    while stack:
        state = stack.pop()
        try:
            if is_done(state):
                done.append(state)
            steps = machine.steps(state)
            _check_apart(steps)
        except Wrong as error:
            return Found(len(before), f"{error}\n{_way(before, state)}")
        for step in steps:
            into.setdefault(step.state, []).append(state)
            if step.state not in before:
                before[step.state] = (state, step)
                stack.append(step.state)
        if len(before) > most:
            raise AssertionError(f"more than {most} states")
    lost = _never(before, into, done)
    if lost is not None:
        return Found(len(before), f"nobody goes on\n{_way(before, lost)}")
    return Found(len(before), "")


def _check_apart(steps: Sequence[Step]) -> None:
    """Raise Wrong where two threads access a word, one by itself, and one of them writes."""
    for n, one in enumerate(steps):
        for other in steps[n + 1 :]:
            if one.thread != other.thread:
                _check_pair(one, other)


def _check_pair(one: Step, other: Step) -> None:
    for a, b in ((one, other), (other, one)):
        written = {address for address, writes in a.plain if writes}
        touched = {address for address, _ in b.plain}
        if b.shared is not None:
            touched.add(b.shared[0])
            if b.shared[1] and b.shared[0] in {address for address, _ in a.plain}:
                written.add(b.shared[0])
        both = written & touched
        if both:
            raise Wrong(f"threads {a.thread} and {b.thread} use {min(both):#x} at the same time")


def _never(
    states: dict[State, tuple[State, Step] | None],
    into: dict[State, list[State]],
    done: Sequence[State],
) -> State | None:
    """The last state found that leads to none of those done."""
    reaches = set(done)
    stack = list(done)
    while stack:
        for state in into.get(stack.pop(), ()):
            if state not in reaches:
                reaches.add(state)
                stack.append(state)
    return next((s for s in reversed(states) if s not in reaches), None)


def _way(before: dict[State, tuple[State, Step] | None], state: State) -> str:
    lines: list[str] = []
    last = before[state]
    while last is not None:
        state, step = last
        lines.append(f"{step.thread}  {step.text}")
        last = before[state]
    return "\n".join(reversed(lines))
