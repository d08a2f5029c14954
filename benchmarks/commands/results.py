"""The page of results: written from the JSON files of real runs, with machine and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.commands import accuracy
from benchmarks.commands.suites import SUITES
from benchmarks.measure.timing import QUIET
from benchmarks.report.figures import Figures, remarks, table
from benchmarks.report.plots import draw, draw_growth
from benchmarks.report.records import Row, failures, from_json
from benchmarks.report.tables import by_mode, markdown, number
from benchmarks.report.verdicts import Verdict, verdicts
from benchmarks.suites import scaling

PAGE: Final = Path(__file__).parents[1] / "RESULTS.md"
PICTURES: Final = Path(__file__).parents[1] / "pictures"
RACES: Final = "frameworks"

HEAD: Final = """# Results

Written by `python -m benchmarks results` from the files of real runs. Milliseconds belong to the
machine below; ratios are what counts. All contestants of a row ran in one process, in turns, and
were checked against NumPy at float64 (`!` marks a wrong result). A figure is the median of the
rounds in which the machine was quiet, a ratio the median of the processes. `x` is the time of the
best of PyTorch (eager and compiled), JAX and NumPy over tensorad's: above 1, tensorad is faster.
`of limit` is the share of what a loop of multiply-adds and streams of bytes reach in the same
process. Where the best peer takes less than 20 microseconds the call decides, not the kernel, and
no floor is asked.
"""


def compose(folder: Path, page: Path = PAGE, pictures: Path = PICTURES) -> str:
    """Write the page from the files in `folder`; its text."""
    found = {p.stem: json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))}
    parts = [HEAD]
    if found:
        parts.append(_machine(next(iter(found.values()))))
    judged: dict[str, list[Verdict]] = {}
    bodies: list[str] = []
    if RACES in found:
        rows = [from_json(r) for r in found[RACES]["rows"]]
        judged[RACES] = verdicts(rows)
        bodies.append(_races(rows, draw(rows, pictures), page))
    for suite in SUITES:
        if suite.name in found:
            figures = [Figures(**r) for r in found[suite.name]["rows"]]
            judged[suite.name] = suite.judge(figures)
            text = f"{suite.text[0].upper()}{suite.text[1:]}."
            body = f"## {suite.name}\n\n{text}\n\n{table(figures, as_markdown=True)}\n"
            body += "".join([f"\n- {line}" for line in remarks(figures)]) + "\n"
            if suite is scaling.SUITE:
                body += _picture(draw_growth(figures, pictures / "growth.png"), page)
            bodies.append(body)
    if "limits" in found:
        bodies.append(_limits(found["limits"]["rows"]))
        if found["limits"].get("regions"):
            bodies.append(table([Figures(**r) for r in found["limits"]["regions"]], True) + "\n")
    if "accuracy" in found:
        judged["accuracy"] = accuracy.judge(found["accuracy"])
        bodies.append(_accuracy(found["accuracy"]))
    parts.append(_judged(judged))
    written = "\n".join([*parts, *bodies])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(written)
    return written


def _machine(found: Mapping[str, Any]) -> str:
    machine = ", ".join([f"{name} {value}" for name, value in found["machine"].items()])
    versions = ", ".join([f"{name} {value}" for name, value in found["versions"].items()])
    return f"Machine: {machine}.\n\nVersions: {versions}.\n"


def _judged(found: Mapping[str, Sequence[Verdict]]) -> str:
    lines = ["## What is asked, and what came out", ""]
    rows = [
        [name, v.what, "holds" if v.holds else "**fails**", v.text]
        for name, part in found.items()
        for v in part
    ]
    lines += ["| suite | asked | | found |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join([*lines, ""])


def _races(rows: Sequence[Row], drawn: Sequence[Path], page: Path) -> str:
    """A table for each group and number of threads, the headline sizes and the drawn ones."""
    noisy = sum([r.foreign > QUIET for r in rows])
    processes = max([len(r.all_ratios("best")) for r in rows])
    least = min([r.rounds for r in rows]) // max(1, processes)
    lines = [
        "## Workloads beside frameworks",
        "",
        f"{processes} process{'es' * (processes > 1)}, at least {least} rounds in each; "
        f"{noisy} of {len(rows)} rows while others used the machine.",
        "",
        *[f"- {line}" for line in failures(rows)],
        "",
    ]
    for picture in drawn:
        lines.append(_picture(picture, page))
    for threads in sorted({r.threads for r in rows}):
        for group in dict.fromkeys([r.group for r in rows]):
            part = [r for r in rows if r.threads == threads and r.group == group]
            if part:
                lines += [f"### {group}, {threads} thread{'s' * (threads > 1)}", ""]
                lines += [markdown(*by_mode(part)), ""]
    loops = [r for r in rows if "numba" in r.ms and r.shape == 0]
    if loops:
        lines += ["### Loops by hand (numba), over tensorad", "", _loops(loops), ""]
    return "\n".join(lines)


def _picture(path: Path | None, page: Path) -> str:
    return "" if path is None else f"\n![{path.stem}]({path.relative_to(page.parent)})\n"


def _limits(found: Sequence[Mapping[str, Any]]) -> str:
    """Rates in 1e9 per second, one line each."""
    head = ["limit", *[f"{f['threads']} threads" for f in found]]
    cells = []
    for kind, unit in (("peak_gflops", "operations"), ("bandwidth_gbs", "bytes")):
        for name in found[0][kind]:
            rates = [number(f[kind][name]) for f in found]
            cells.append([f"{name}, 1e9 {unit}/s", *rates])
    return f"## limits\n\n{markdown(head, cells)}\n"


def _accuracy(found: Mapping[str, Any]) -> str:
    """The largest error of every function, in units of the last place."""
    worst: dict[str, dict[str, float]] = {}
    for r in found["functions"]:
        worst.setdefault(r["op"], {})[r["dtype"]] = r["ulps"]
    kinds = list(dict.fromkeys([d for by_kind in worst.values() for d in by_kind]))
    cells = [[op, *[number(by.get(d)) for d in kinds]] for op, by in worst.items()]
    return f"## accuracy\n\n{markdown(['function, ulp', *kinds], cells)}\n"


def _loops(rows: Sequence[Row]) -> str:
    cells = [
        [r.workload, str(r.threads), r.mode, f"{r.ours:.3g}", f"{r.ratio('numba'):.2f}"]
        for r in rows
    ]
    return markdown(["workload", "threads", "mode", "ms", "numba / tensorad"], cells)
