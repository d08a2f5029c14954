"""Pictures of a run: ratios as bars, and the roofline. matplotlib is optional."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.report.figures import Figures
from benchmarks.report.records import Row
from benchmarks.report.tables import title

COLOURS: Final = {"fwd": "#4c72b0", "grad": "#dd8452", "fb": "#55a868", "step": "#8172b3"}
MEANING: Final = {
    "fwd": "forward", "grad": "gradients", "fb": "forward + gradients", "step": "training step",
}  # fmt: skip

NEAR: Final = 9
"""Points between a place and its name from which a line joins them."""
PLACES: Final = [(x, y) for x in (4, -4, 24, -24) for y in range(-60, 61, 4)]
"""Where a name may be from its place, in points."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Bars and a roofline for each number of threads; says so where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed")
        return []
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for threads in sorted({r.threads for r in rows}):
        part = [r for r in rows if r.threads == threads and r.shape == 0]
        if part:
            found.append(_saved(folder / f"ratios_{threads}.png", _bars, part))
        limited = [r for r in part if r.limit_ms is not None and r.flops > 0 and r.ours > 0]
        if limited:
            found.append(_saved(folder / f"roofline_{threads}.png", _roofline, limited))
    return found


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure without a window, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _saved(path: Path, drawn: Callable[[Sequence[Row]], Any], rows: Sequence[Row]) -> Path:
    drawn(rows).savefig(path)
    return path


def _bars(rows: Sequence[Row]) -> Any:
    """best framework / ours, from 1 upwards or downwards, on a logarithmic scale."""
    names = list(dict.fromkeys([r.workload for r in rows]))
    modes = [m for m in ("fwd", "grad", "fb") if any(r.mode == m for r in rows)]
    figure, axes = new_figure(2.5 + 0.42 * len(names), 5)
    by_key = {(r.workload, r.mode): r for r in rows}
    width = 0.8 / len(modes)
    for k, mode in enumerate(modes):
        at = [(n, by_key[name, mode]) for n, name in enumerate(names) if (name, mode) in by_key]
        known = [(n, r.ratio()) for n, r in at if not math.isnan(r.ratio())]
        x = [n + (k - (len(modes) - 1) / 2) * width for n, _ in known]
        heights = [ratio - 1 for _, ratio in known]
        axes.bar(x, heights, width, bottom=1, color=COLOURS[mode], label=MEANING[mode])
        loops = [(n, r.ratio("numba")) for n, r in at if not math.isnan(r.ratio("numba"))]
        places = [n + (k - (len(modes) - 1) / 2) * width for n, _ in loops]
        label = "loops by hand (numba) / tensorad" if k == 0 and loops else None
        axes.plot(places, [v for _, v in loops], "k_", markersize=7, label=label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    _powers_of_two(axes, [r.ratio() for r in rows if not math.isnan(r.ratio())])
    axes.set_xticks(range(len(names)), names, rotation=55, ha="right")
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", alpha=0.3)
    threads = rows[0].threads
    axes.set_ylabel("best framework / tensorad")
    axes.set_title(f"Above 1: tensorad is faster ({threads} thread{'s' * (threads > 1)})")
    axes.legend(loc="upper left", fontsize="small")
    return figure


def _powers_of_two(axes: Any, values: Sequence[float]) -> None:
    """Ticks around all values, as fractions below 1."""
    low = math.floor(math.log2(min(values, default=1.0) * 0.9))
    high = math.ceil(math.log2(max(values, default=1.0) * 1.1))
    powers = range(min(low, -1), max(high, 1) + 1)
    axes.set_ylim(2.0 ** powers[0], 2.0 ** powers[-1])
    labels = [str(2**k) if k >= 0 else f"1/{2**-k}" for k in powers]
    axes.set_yticks([2.0**k for k in powers], labels)
    axes.minorticks_off()


def _roofline(rows: Sequence[Row]) -> Any:
    """Operations per second over operations per byte, and what the machine allows."""
    figure, axes = new_figure(8, 5.5)
    for mode in dict.fromkeys([r.mode for r in rows]):
        part = [r for r in rows if r.mode == mode]
        x = [r.flops / (r.read_bytes + r.written_bytes) for r in part]
        axes.scatter(x, [_rate(r) for r in part], s=22, color=COLOURS[mode], label=MEANING[mode])
        allowed = [r.flops / (r.limit_ms or math.nan) / 1e6 for r in part]
        axes.scatter(x, allowed, s=26, marker="_", color="black", linewidths=0.8)
        axes.vlines(x, [_rate(r) for r in part], allowed, colors=COLOURS[mode], alpha=0.25)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.1)
    axes.set_xlabel("useful operations per compulsory byte")
    axes.set_ylabel("1e9 operations per second")
    threads = rows[0].threads
    axes.set_title(
        f"Roofline, {threads} thread{'s' * (threads > 1)} (dashes: what peak and bandwidth allow)"
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize="small")
    _name(figure, axes, rows)
    return figure


def _name(figure: Any, axes: Any, rows: Sequence[Row]) -> None:
    """The names of forward + gradients beside their points, each where it covers no other name, no
    point and not the legend."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # places are known then
    points = [(r.flops / (r.read_bytes + r.written_bytes), _rate(r)) for r in rows]
    pixel = figure.dpi / 72
    taken = [Bbox.from_bounds(x - 2 * pixel, y - 2 * pixel, 4 * pixel, 4 * pixel)
             for x, y in axes.transData.transform(points)]  # fmt: skip
    taken.append(axes.get_legend().get_window_extent())
    for r, point in [(r, p) for r, p in zip(rows, points, strict=True) if r.mode == "fb"]:
        for way in sorted(PLACES, key=lambda w: math.hypot(*w)):
            text = axes.annotate(
                title(r), point, fontsize=6, xytext=way, textcoords="offset points",
                ha="left" if way[0] > 0 else "right", va="center",
                arrowprops={"arrowstyle": "-", "lw": 0.3} if math.hypot(*way) > NEAR else None,
            )  # fmt: skip
            renderer = figure.canvas.get_renderer()
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer)  # without the line
            beside = axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1
            inside = beside and axes.bbox.y0 < box.y0 and box.y1 < axes.bbox.y1
            if inside and not any(box.overlaps(other) for other in taken):
                text.set_in_layout(False)
                taken.append(box)
                break
            text.remove()


def _rate(r: Row) -> float:
    return r.flops / r.ours / 1e6


def draw_growth(rows: Sequence[Figures], path: Path) -> Path | None:
    """Nanoseconds per point over the number of points, a line for each kind of kernel."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = new_figure(8, 5)
    for r in rows:
        least = r.values["least points"]
        names = [n for n in r.values if n.startswith("x") and n.endswith(" ns")]
        points = [least * int(n[1:-3]) for n in names]
        axes.plot(points, [r.values[n] for n in names], "o-", markersize=3, label=r.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("points")
    axes.set_ylabel("ns per point")
    axes.set_title("Growth: flat is proportional")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    return path
