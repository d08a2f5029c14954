"""A smaller program that fails in the same way: statements are dropped, or become given values."""

from __future__ import annotations

from collections.abc import Callable

from tests.random.whole.texts import Block, Program, Statement

Failure = Callable[[Program], str]
"""What is wrong with a program, in a word; "" if nothing is."""
GIVEN = {
    "s": "x", "v": "v", "k": "n", "f": "ta.sin", "m": "Maybe.Missing()", "l": "List.Nil()",
    "t": "Tree.Leaf(v)",
}  # fmt: skip
"""The simplest values, by the first letter of a name."""
MOST_TRIES = 300


def failure_of(check: Callable[[Program], object]) -> Failure:
    """The failure of a check: the first word of its message, after the exception's name."""

    def failure(program: Program) -> str:
        try:
            check(program)
        except Exception as e:  # noqa: BLE001  # any failure is one to keep
            words = str(e).split(":")[0].split()[:4]
            return " ".join([type(e).__name__, *[w for w in words if "_" not in w]])
        return ""

    return failure


def shrunk(program: Program, failure: Failure, tries: int = MOST_TRIES) -> Program:
    """The program with as few statements as still fail alike; it is changed in place."""
    wanted = failure(program)
    left = [tries]

    def still() -> bool:
        left[0] -= 1
        return left[0] >= 0 and failure(program) == wanted

    changed = True
    while changed and left[0] > 0:
        changed = False
        for block in list(program.block.inside()):
            for n in reversed(range(len(block.statements))):
                changed = _smaller(block, n, still) or changed
            for result in _results(block):
                changed = _tried(block, "result", result, still) or changed
    return program


def _smaller(block: Block, n: int, still: Callable[[], bool]) -> bool:
    """Whether a statement could be dropped, or become a given value."""
    whole = block.statements
    if n >= len(whole):
        return False
    given = Statement([f"{m} = {GIVEN.get(m[0], 'x')}" for m in whole[n].made], whole[n].made)
    if _tried(block, "statements", [*whole[:n], *whole[n + 1 :]], still):
        return True
    is_given = not given.made or whole[n].parts == given.parts
    return not is_given and _tried(block, "statements", [*whole[:n], given, *whole[n + 1 :]], still)


def _tried(block: Block, name: str, value: object, still: Callable[[], bool]) -> bool:
    before = getattr(block, name)
    setattr(block, name, value)
    if still():
        return True
    setattr(block, name, before)
    return False


def _results(block: Block) -> list[str]:
    """Results of a program with fewer terms."""
    y, found, rest = block.result.removeprefix('{"y": ').partition(', "v": ')
    terms = y.split(" + ")
    if not found or len(terms) < 2:
        return []
    rows = [[t for t in terms if t is not term] for term in terms]
    return [f'{{"y": {" + ".join(row)}, "v": {rest}' for row in rows]
