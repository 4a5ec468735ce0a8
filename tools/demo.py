"""`make demo`: faces found in a photo, and one kernel from the graph to the instruction.

Model and photo come from the package registry (`tools.zoo`); without it the bundled digits are read,
and the output says so. Files are written to build/demo. The exit status is 1 where onnxruntime disagrees.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loopwright.codegen.llvm.executable import Executable
from loopwright.driver.console import report
from loopwright.explore.explored import Explored
from loopwright.explore.page import page
from loopwright.ir.trace import Trace
from loopwright.relax.expr import Function
from loopwright.runtime import threads
from tools.zoo import RegistryError, fetch, fetch_photo

ROOT = Path(__file__).parent.parent
BUNDLED = ROOT / "src/loopwright/driver/data/digits.onnx"
OUT = ROOT / "build/demo"
WIDTH = 100
STRIDE = 4  # pixels of the photo for one place of centerface's maps
Feeds = dict[str, np.ndarray]
Face = tuple[float, float, float, float, float]  # score, left, top, right, bottom


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        path, photo = fetch("centerface"), fetch_photo()
    except RegistryError as error:
        print(f"Nothing could be fetched ({error}): this is the bundled reader of digits.\n")
        path, photo = BUNDLED, None
    started = time.perf_counter()
    explored = Explored.compiled(path)
    exe, trace = explored.exe, explored.trace
    print(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB) -> {len(trace)} passes -> ", end="")
    print(f"{len(exe.program.texts)} kernels in {time.perf_counter() - started:.1f} s\n")
    digits = np.load(BUNDLED.with_suffix(".npz"))["image"]
    feeds = {"image": digits} if photo is None else {"input.1": pixels(photo)}
    results = [value.numpy() for value in exe.run(feeds).values()]
    if photo is None:
        print(f"digits: {results[0].argmax(axis=1)}")
    else:
        found = faces(*results[:3])
        where = ", ".join(f"{f[0]:.0%} at ({f[1]:.0f}, {f[2]:.0f})" for f in found)
        print(f"{photo.name}: {len(found)} face(s), {where}; drawn in {drawn(photo, found)}")
    slowest = bars(exe, feeds)
    levels(trace, exe, slowest)
    (OUT / "model.html").write_text(page(explored, feeds, title=path.name), encoding="utf-8")
    print(f"\nAll of it on one page: {(OUT / 'model.html').relative_to(ROOT)}")
    right = beside_onnxruntime(path, exe, feeds, results)
    print("\nNext:  loopwright bench MODEL.onnx      loopwright explore MODEL.onnx -o page.html")
    print("       your own model in five minutes: docs/first-model.md")
    return 0 if right else 1


# -- the photo ----------------------------------------------------------------------------------


def pixels(photo: Path) -> np.ndarray:
    """The photo as centerface takes it: float32[1, 3, height, width], 0 to 255, multiples of 32."""
    from PIL import Image

    data = np.asarray(Image.open(photo).convert("RGB"), np.float32)
    height, width = (size // 32 * 32 for size in data.shape[:2])
    return np.ascontiguousarray(data[None, :height, :width].transpose(0, 3, 1, 2))


def faces(heat: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> list[Face]:
    """The boxes of an image's maps (arXiv:1911.03599): a place is a face's centre with a probability, the
    logarithms of its height and width, and the rest of the centre. Boxes that overlap are one face."""
    kept: list[Face] = []
    rows, columns = np.nonzero(heat[0, 0] > 0.5)
    order = np.argsort(-heat[0, 0, rows, columns])
    for y, x in zip(rows[order], columns[order], strict=True):
        height, width = np.exp(scale[0, :, y, x]) * STRIDE
        middle_y, middle_x = (offset[0, :, y, x] + (y, x) + 0.5) * STRIDE
        left, top = middle_x - width / 2, middle_y - height / 2
        face = (heat[0, 0, y, x], left, top, left + width, top + height)
        if all(overlap(face, other) < 0.3 for other in kept):
            kept.append(face)
    return kept


def overlap(a: Face, b: Face) -> float:
    """The area of two boxes' intersection by that of their union."""
    width, height = (max(0.0, min(a[k + 2], b[k + 2]) - max(a[k], b[k])) for k in (1, 2))
    both = width * height
    areas = sum((box[3] - box[1]) * (box[4] - box[2]) for box in (a, b))
    return both / (areas - both)


def drawn(photo: Path, found: list[Face]) -> Path:
    from PIL import Image, ImageDraw

    image = Image.open(photo).convert("RGB")
    for _, *box in found:
        ImageDraw.Draw(image).rectangle(box, outline=(255, 80, 0), width=4)
    image.save(OUT / "faces.png")
    return (OUT / "faces.png").relative_to(ROOT)


# -- where the time is spent, and on what ---------------------------------------------------------

PROFILED = 5  # runs, of which each kernel's fastest call counts


def bars(exe: Executable, feeds: Feeds) -> str:
    """The kernels that take most of the time, as bars; the name of the slowest."""
    entries = sorted(
        exe.profile(**feeds, number=PROFILED), key=lambda entry: -entry.min_us * entry.calls
    )
    total = sum(entry.min_us * entry.calls for entry in entries)
    largest = entries[0].min_us * entries[0].calls / total
    print(f"\nWhere {total / PROFILED / 1e3:.2f} ms are spent, on {threads.num_threads()} threads:")
    for entry in entries[:5]:
        part = entry.min_us * entry.calls / total
        print(f"  {entry.name[:52]:<52} {part:6.1%} {'█' * round(part / largest * 36)}")
    rest = 1 - sum(entry.min_us * entry.calls for entry in entries[:5]) / total
    print(f"  {f'{len(entries) - 5} others':<52} {rest:6.1%}")
    return entries[0].name


def levels(trace: Trace, exe: Executable, name: str) -> None:
    """A kernel at each level, by its most telling line."""
    fused = trace.last("NameDimensions").after
    main = next(f for f in fused.functions.values() if isinstance(f, Function))
    schedule = str(trace.schedules[name]).splitlines() if name in trace.schedules else []
    texts = {
        "graph": (main.script(), rf"\({name}, "),
        "loops": (fused[name].script(), r"\] = .*\] \+ .*\*"),
        "schedule": ("\n".join(schedule), r"decide|split"),
        "LLVM": (exe.program.text(name), r"@llvm\.fm|fmul|fadd"),
        "assembly": (exe.program.assembly(name), r"vfmadd|vpdp|fmla|v?mulp|fmul"),
    }
    print(f"\nThe first of them at five levels, {name}:")
    for level, (text, mark) in texts.items():
        lines = text.splitlines()
        line = next((row.strip() for row in lines if re.search(mark, row)), "")
        shown = re.sub(
            r"\s+", " ", line if level != "loops" else re.sub(r"\[[^]]*\]", "[..]", line)
        )
        print(f"  {level:<9}{len(lines):>6} lines  {shown[: WIDTH - 26]}")


# -- beside onnxruntime ---------------------------------------------------------------------------


def median(call: Callable[[], object], seconds: float = 1.0) -> float:
    """Median milliseconds of a call."""
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def beside_onnxruntime(
    path: Path, exe: Executable, feeds: Feeds, results: list[np.ndarray]
) -> bool:
    """One sentence; whether the results agree."""
    ours = median(lambda: exe.run(feeds))
    try:
        import onnxruntime
    except ImportError:
        print(f"A run takes {ours:.2f} ms; onnxruntime is not installed, so nothing is compared.")
        return True
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options)
    reference = session.run(None, feeds)
    other = median(lambda: session.run(None, feeds))
    error = max(
        float(np.abs(got - want).max() / (np.abs(want).max() or 1.0))
        for got, want in zip(results, map(np.asarray, reference), strict=True)
    )
    verdict = "the results agree" if error <= 1e-4 else "THE RESULTS DIFFER"
    print(
        f"A run takes {ours:.2f} ms, onnxruntime's {other:.2f}; {verdict} ({error:.0e}, relative)."
    )
    return error <= 1e-4


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        sys.exit(report(error))
