"""Register tiles: how lanes and rows are cut so that accumulators stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from tensorad.codegen.model import Processor
from tensorad.ir.expr import ZERO, Const, Expr, add, call, floordiv, int_const, mul, sub

MOST_REGISTERS: Final = 6
"""Logical registers of lanes in one tile."""

LEAST_LANES: Final = 4
"""Of a part of a register."""

MOST_SHARED: Final = 8
"""Parallel iterations that any number of threads can share."""

LEAST_DEPTH: Final = 128
"""Steps of a block from which keeping its sums in memory costs little."""

SUMS_AGAIN: Final = 8
"""Elements of rows that cost as much as a result that is read and stored once more."""

ROWS_AGAIN: Final = 1 / 32
"""What reading the rows costs for a panel of one unit, as a part of what it computes."""


@dataclass(frozen=True)
class Tile:
    """Lanes [start, stop) of a panel in groups of `registers`, with `rows` rows at a time.

    Attributes:
        covering: the last group is moved back to where it fits, over lanes of the one before.
    """

    start: int
    stop: int
    registers: int
    rows: int
    covering: bool = False


def scale_of(width: int, size_bytes: int, target: Processor) -> int:
    """Registers of the machine that one logical register takes."""
    return max(1, width * size_bytes // target.vector_bytes)


def rows_by_registers(width: int, size_bytes: int, target: Processor) -> tuple[int, ...]:
    """Rows of a tile at most by its registers: sums, one row of lanes and a broadcast fit."""
    scale = scale_of(width, size_bytes, target)
    room = target.registers - 1
    found = [0]
    for registers in range(1, MOST_REGISTERS + 1):
        rows = (room - registers * scale) // (registers * scale)
        if rows < 1 and registers > 1:
            break
        found.append(max(1, rows))
    return tuple(found)


def lane_tiles(
    lanes: int, width: int, registers: int, rows: int, most: Sequence[int]
) -> list[Tile]:
    """Whole groups, then the registers that are left, then the masked rest."""
    tiles: list[Tile] = []
    whole = lanes // width
    left = whole % registers
    at = 0
    for count, groups in ((registers, whole // registers), (left, 1)):
        if count and groups:
            stop = at + groups * count * width
            tiles.append(Tile(at, stop, count, min(rows, most[count])))
            at = stop
    if at < lanes:
        tiles.append(Tile(at, lanes, 1, min(rows, most[1])))
    return tiles


def covering_tile(
    tiles: Sequence[Tile], width: int, rows: int, most: Sequence[int], spare: float
) -> Tile | None:
    """One tile for all lanes in place of several: less code that takes at most `spare` longer.

    None where there is none, or one tile has all lanes anyway.
    """
    lanes = tiles[-1].stop
    room = sum([_row_cycles(t, width) for t in tiles]) * (1 + spare)
    for registers in range(tiles[0].registers, 0, -1):
        made = Tile(0, lanes, registers, min(rows, most[registers]), covering=True)
        if lanes > registers * width and len(tiles) > 1 and _row_cycles(made, width) <= room:
            return made
    return None


def _row_cycles(t: Tile, width: int) -> float:
    """Cycles of a reduce step over all its lanes, for one row."""
    groups = ceil((t.stop - t.start) / (t.registers * width))
    return groups * step_cycles(t.rows, t.registers) / t.rows


def step_cycles(rows: int, registers: int, units: int = 1) -> float:
    """Cycles of a reduce step of a tile: multiply-adds, loads, and waiting for sums.

    A sum waits four cycles for the one before, and for others where several units share them.

    Args:
        units: multiply-adds that begin in a cycle.
    """
    loads = rows + registers
    return max(rows * registers / units, 0.55 * loads, 3.0 + units) + 0.1 * loads


def moved_back(start: Expr, size: int, end: Expr) -> Expr:
    """Where a tile starts that may not reach beyond the end."""
    return call("minimum", start, sub(end, int_const(size)))


def panel_lanes(flat: int, step: int, unit: int, most: int) -> int:
    """Lanes of a panel: a multiple of `step`, at most `most` or one step, little waste."""
    if step == 1:
        return min(flat, max(unit, most // unit * unit))
    count = flat // step
    best, chosen = 0.0, 1
    for n in range(1, count + 1):
        lanes = n * step
        if lanes > most and n > 1:
            break
        full = lanes / (ceil(lanes / unit) * unit)
        even = count / (ceil(count / n) * n)
        if full * even >= best - 0.01:
            best, chosen = max(best, full * even), n
    return chosen * step


def block_depth(depth: int, flat: int, unit: int, room: int) -> int:
    """Steps of a block whose panels have `room` elements, so that the fewest elements are moved.

    Rows are read again for each panel; results are read and stored once more for each block. Of the
    blocks whose panels have as many whole units of lanes, the deepest are the fewest.

    Args:
        depth: steps of the whole sum, each of `flat` lanes.
    """
    most = max(1, depth // LEAST_DEPTH)
    found: list[tuple[int, int]] = []
    for units in range(1, ceil(flat / unit) + 1):
        deepest = room // (units * unit)
        if deepest * most < depth:
            break
        blocks, panels = ceil(depth / deepest), ceil(flat / (units * unit))
        found.append((panels * depth + SUMS_AGAIN * (blocks - 1) * flat, blocks))
    return ceil(depth / min(found)[1]) if found else max(1, room // unit)


def even_lanes(flat: int, unit: int, most: int, outer: int, cores: int) -> int:
    """Lanes of even panels of whole units, at most `most` lanes or one unit each.

    Wide ones, that leave no core much more to do: rows are read again for each panel.
    """
    units, best = ceil(flat / unit), (inf, 1)
    for n in range(1, max(1, min(units, most // unit)) + 1):
        each = ceil(units / ceil(units / n))
        best = min(best, (_longest(units, each, outer, cores) * (1 + ROWS_AGAIN / each), each))
    return best[1] * unit


def _longest(units: int, each: int, outer: int, cores: int) -> int:
    """Units that one of the cores has to do; the last panel of all units may be narrower."""
    count = ceil(units / each)
    last = units - (count - 1) * each
    rounds, left = divmod(outer * (count - 1), cores)
    beside = (cores - left) * (each // last) if left else 0
    return (rounds + (left > 0)) * each + ceil(max(0, outer - beside) / cores) * last


def enough(target: Processor) -> int:
    """How many parallel iterations keep all cores busy."""
    return 1 if target.cores == 1 else min(MOST_SHARED, 2 * target.cores)


def even_rows(count: int, most: int) -> list[tuple[int, int, int]]:
    """(start, stop, step) of tiles of at most `most` rows that differ by one at most."""
    number = ceil(count / most)
    large = ceil(count / number)
    small = large - 1
    larges = count - small * number
    parts = [(0, larges * large, large)]
    if larges < number:
        parts.append((larges * large, count, small))
    return parts


def lanes_of_tile(t: Tile, width: int) -> int:
    """Lanes side by side; a short rest takes a part of a register."""
    if t.stop - t.start > width // 2:
        return t.registers * width
    return max(LEAST_LANES, 1 << (t.stop - t.start - 1).bit_length())


RowTiles = tuple[Expr, Expr, int]
"""Tiles of so many rows from the first number to the second: the last may have to move back."""


def row_tiles(
    count: Expr, most: int, least: float, spare: float = 0.0, registers: int = 4
) -> list[RowTiles]:
    """Tiles that together have all rows; where their number is symbolic, ever smaller ones.

    All are equal, which is half of the code, if they then have at least the part `least` of the
    rows, or if that takes at most `spare` longer: the last one may move back, or, unless `least`
    is 1, all may be smaller.
    """
    if isinstance(count, Const):
        number = int(count.value)
        parts = even_rows(number, most)
        large = parts[0][2]
        equal = [n for n in range(ceil(least * large), large) if number % n == 0]
        if len(parts) > 1 and equal:
            parts = [(0, number, equal[-1])]
        elif len(parts) > 1:
            room = sum([_tile_cycles(p, registers) for p in parts]) * (1 + spare)
            alike = [(0, ceil(number / large) * large, large)] if spare else []
            fewer = range(large - 1, 0, -1) if least < 1 else ()
            alike += [(0, number, n) for n in fewer if number % n == 0]
            parts = next(([p] for p in alike if _tile_cycles(p, registers) <= room), parts)
        return [(int_const(a), int_const(b), n) for a, b, n in parts]
    tiles: list[RowTiles] = []
    start: Expr = ZERO
    for rows in dict.fromkeys((most, ceil(most / 2), 1)):
        stop = count
        if rows > 1:
            whole = mul(floordiv(sub(count, start), int_const(rows)), int_const(rows))
            stop = add(start, whole)
        tiles.append((start, stop, rows))
        start = stop
    return tiles


def _tile_cycles(part: tuple[int, int, int], registers: int) -> float:
    """Cycles of a reduce step over the tiles of some rows."""
    start, stop, step = part
    return (stop - start) // step * step_cycles(step, registers)


def first_row(row: Expr, tiles: RowTiles, count: Expr) -> Expr:
    """The first row of the tile that would start at `row`, of so many rows in all."""
    _, stop, step = tiles
    beyond = sub(stop, count)
    if isinstance(beyond, Const) and beyond.value > 0:
        return moved_back(row, step, count)
    return row
