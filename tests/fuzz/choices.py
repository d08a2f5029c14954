"""Sources of choices: numbers that are drawn and written down, and those of a list again.

A case is made by choices alone, so a smaller list of smaller numbers makes a simpler one: what
fails is shrunk without knowing what it is, as in MacIver and Donaldson, "Test-Case Reduction via
Test-Case Generation" (ECOOP 2020).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

MOST_TRIES = 400
MOST_SECONDS = 120.0


class Drawn(random.Random):
    """Choices of a seed, which are written down."""

    def __init__(self, seed: int) -> None:
        self.made: list[int] = []
        super().__init__(seed)

    def randint(self, a: int, b: int) -> int:
        number = int(super().random() * (b - a + 1))
        self.made.append(number)
        return a + number


class Repeated(random.Random):
    """Choices of a list; the first possibility behind its end."""

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__(0)
        self.given = iter(given)

    def randint(self, a: int, b: int) -> int:
        return a + min(next(self.given, 0), b - a)


def shrunk(
    given: Sequence[int], fails: Callable[[Sequence[int]], bool], seconds: float = MOST_SECONDS
) -> list[int]:
    """A shorter list of smaller numbers that fails as well, as far as time allows.

    Args:
        fails: whether a list fails in the way that is looked for; the given one does.
    """
    best = list(given)
    left, end = MOST_TRIES, time.monotonic() + seconds

    def better(candidate: list[int]) -> bool:
        nonlocal best, left
        if left == 0 or candidate == best or time.monotonic() > end:
            return False
        left -= 1
        if fails(candidate):
            best = candidate
            return True
        return False

    before: list[int] | None = None
    while before != best:
        before = best
        length = max(1, len(best) // 2)
        while length:
            at = len(best)
            while at > 0:
                at = max(0, at - length)
                better([*best[:at], *best[at + length :]])
            length //= 2
        for at in reversed(range(len(best))):
            for smaller in _smaller(best, at):
                if better([*best[:at], smaller, *best[at + 1 :]]):
                    break
    return best


def _smaller(numbers: Sequence[int], at: int) -> list[int]:
    """Smaller numbers for one place, the smallest first."""
    n = numbers[at] if at < len(numbers) else 0
    return sorted({0, n // 2, n - 1}) if n > 0 else []
