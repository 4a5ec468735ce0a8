"""Put the stored results into the README and docs/performance.md: python -m benchmarks.report

Reads benchmarks/results/{plain,latency,compile_time,call_overhead}.json, which the other programs of
this folder write, and replaces what stands between the markers of these pages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .run import REFERENCE, RESULTS, ROOT

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
PEERS = (REFERENCE, "tvm", "numpy")


def stored(name: str) -> Any:
    """The results of one program, or None when it has not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _median(bursts: list[float]) -> float:
    ordered = sorted(bursts)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def latency(data: dict[str, Any]) -> str:
    """The machine, the versions, and the table of medians."""
    machine = data["machine"]
    counts = [key for key in data if key.startswith("threads_")]
    versions: dict[str, str] = {}
    rows = []
    for key in counts:
        for model, engines in data[key].items():
            ms = {engine: _median(found["bursts_ms"]) for engine, found in engines.items()}
            for engine, found in engines.items():
                versions.setdefault(engine, found["version"].split(" ")[0])
            fixed = {e for e, found in engines.items() if " with fixed shapes" in found["version"]}
            cells = [
                f"{_digits(ms[e])}{'*' if e in fixed else ''}" if e in ms else "-" for e in PEERS
            ]
            ours = ms.get("loopwright")
            ratio = f"{ours / ms[REFERENCE]:.2f}" if ours and REFERENCE in ms else "-"
            error = engines.get("loopwright", {}).get("error")
            rows.append(
                [
                    model,
                    key.removeprefix("threads_"),
                    _digits(ours) if ours else "-",
                    *cells,
                    ratio,
                    "-" if error is None else f"{error:.0e}",
                ]
            )
    head = ["model", "threads", "Loopwright", *PEERS, f"Loopwright / {REFERENCE}", "error"]
    said = ", ".join(f"{engine} {version}" for engine, version in versions.items())
    load = machine["load"]
    busy = f" The machine was not quiet: its load was {load:.1f} before." if load > 0.3 else ""
    text = (
        f"Milliseconds, median of {data['rounds']} bursts in turn. {machine['processor']}, "
        f"{machine['cores']} cores; {said}; {data['date']}.{busy}\n\n{_table(head, rows)}"
    )
    if any("*" in cell for row in rows for cell in row):
        text += "\n\n\\* with the input's shapes fixed in the model: the dynamic one is refused."
    return text


def compile_time(data: dict[str, dict[str, list[float]]]) -> str:
    """Seconds from the file to an executable, and to the first result."""
    head = ["model", "Loopwright cold", "from its cache", REFERENCE]
    labels = ("loopwright cold", "loopwright cached", REFERENCE)
    rows = [
        [model, *(_digits(found[label][1]) for label in labels)] for model, found in data.items()
    ]
    text = "Seconds from the file to a callable model, in a new process, imports left out:"
    return f"{text}\n\n{_table(head, rows)}"


def call_overhead(data: dict[str, float]) -> str:
    """Microseconds of a call that does next to nothing."""
    rows = [[f"`{name}`" if "(" in name else name, f"{us:.2f}"] for name, us in data.items()]
    return "Microseconds of a call that adds one to eight floats:\n\n" + _table(["", "us"], rows)


def plain(data: dict[str, Any]) -> str:
    """Medians of plain architectures beside each peer, with the geometric mean of the ratios to the
    fastest."""
    rows, product = [], 1.0
    for model, engines in data["threads_2"].items():
        ms = {engine: _median(found["bursts_ms"]) for engine, found in engines.items()}
        ours = ms.pop("loopwright")
        ratio = ours / min(ms.values())
        product *= ratio
        rows.append([model, _digits(ours), *map(_digits, ms.values()), f"{ratio:.2f}"])
    mean = product ** (1 / len(rows))
    rows.append(["geometric mean", "", *[""] * len(ms), f"{mean:.2f}"])
    head = ["ms, 2 threads", "Loopwright", *ms, "Loopwright / the faster"]
    said = f"{data['machine']['processor']}, medians of {data['rounds']} bursts in turn, {data['date']}."
    return f"{_table(head, rows)}\n\n{said}"


# The results of each page.
PAGES: dict[str, dict[str, Callable[[Any], str]]] = {
    "README.md": {"plain": plain},
    "docs/performance.md": {
        "latency": latency,
        "compile_time": compile_time,
        "call_overhead": call_overhead,
    },
}


def replaced(page: str, text: str) -> str:
    """The text of a page with the stored results between its markers."""
    found = ((make, stored(name)) for name, make in PAGES[page].items())
    section = "\n\n".join(make(data) for make, data in found if data)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(replaced(page, path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"written: {path}")
