"""Measure the explorers: python -m tools.benchmark_explorers

Prints, for every explorer of the course: the time to draw all frames, the size of what a
page holds, the kernel's time for one redraw, and the browser's time on the main thread
for one redraw, layout included. Then one explorer beside `ipywidgets.interact` with a
fresh Matplotlib figure, in the same kernel. Wants a quiet machine.
"""

import gzip
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

from lib import explorers
from lib.absolute import LearnedPositions
from lib.explorer import Explorer
from lib.lengths import Measured
from lib.show import table
from tests.conftest import BROWSER_OPTIONS, browser_path

REDRAW = """async () => {
  const figure = document.querySelector(".explorer");
  const inputs = [...figure.querySelectorAll("input")];
  const times = [];
  const draw = window.requestAnimationFrame;
  for (const input of inputs) for (let i = 0; i <= +input.max; i++) {
    let paint;
    window.requestAnimationFrame = (callback) => { paint = callback; return 1; };
    input.value = i;
    const start = performance.now();
    input.dispatchEvent(new Event("input"));
    paint();
    figure.getBoundingClientRect();
    times.push(performance.now() - start);
    window.requestAnimationFrame = draw;
    await new Promise(draw);
  }
  return times;
}"""
DRAG = """async () => {
  const input = document.querySelector(".explorer input");
  const start = performance.now();
  for (let frame = 0; frame < 120; frame++) {
    input.value = frame % (+input.max + 1);
    input.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
  }
  return 120000 / (performance.now() - start);
}"""


HEADER: tuple[str, ...] = ("explorer", "frames", "bake s", "KB gz", "kernel ms")
HEADER += ("page median ms", "page p99 ms", "frames/s")
IN_A_KERNEL = """
%matplotlib inline
import statistics, time
import matplotlib.pyplot as plt
import numpy as np
import torch
from ipywidgets import interactive
from lib import explorers
from lib.rope import inv_freq

torch.manual_seed(201)
q, k = torch.randn(2, 8, dtype=torch.float64).unbind()
explorer = explorers.rotated_pair(q, k)
vectors = [x.numpy().reshape(-1, 2) @ [1, 1j] for x in (q, k)]
theta, circle = inv_freq(8).numpy(), np.exp(1j * np.linspace(0, 2 * np.pi, 61))

def draw(position, pair):
    figure, axes = plt.subplots()
    axes.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
    for vector, colour in zip(vectors, ("C0", "C1")):
        start, end = vector[pair], vector[pair] * np.exp(1j * position * theta[pair])
        axes.plot(abs(start) * circle.real, abs(start) * circle.imag, "0.8")
        axes.plot([0, start.real], [0, start.imag], "--", color=colour)
        axes.plot([0, end.real], [0, end.imag], "o-", color=colour)
    axes.set_title(f"{position * theta[pair]:.3f} rad")
    plt.show()

def median_ms(move):
    times = []
    for position in range(1, 41):
        start = time.perf_counter()
        move(position)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)

explorer.widget
twin = interactive(draw, position=(0, 128), pair=(0, 3))
ours = median_ms(lambda n: setattr(explorer, "position", n))
interact = median_ms(lambda n: setattr(twin.children[0], "value", n))
print(ours, interact)
"""


def course() -> list[Explorer]:
    torch.manual_seed(201)
    q, k = torch.randn(2, 8, dtype=torch.float64).unbind()
    rows = LearnedPositions(10, 32)
    vectors = torch.randn(2, 12, 8)
    measured = Measured()
    starts = {
        "true position": lambda start, n: start + torch.arange(n),
        "start ignored": lambda start, n: torch.arange(n),
    }
    return [
        explorers.table_lookup(rows),
        explorers.rotated_pair(q, k),
        explorers.clock_hands(8),
        explorers.score_against_offset(q, k),
        explorers.offset_test(rows, 8),
        explorers.measured_lengths(measured),
        explorers.attention_by_layer(measured.attention, measured.settings["map_step"]),
        explorers.layout_pairs(q, k),
        explorers.decoding_starts(vectors[0], vectors[1], starts),
        explorers.angle_errors(),
        explorers.published_wavelengths(),
    ]


def milliseconds(action: Callable[[int], object], repeats: int) -> float:
    """The median of so many runs."""
    times = []
    for turn in range(repeats):
        start = time.perf_counter()
        action(turn)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def beside_interact() -> tuple[float, float]:
    """Medians in one real kernel: a move of the rotated pair's explorer, and of its twin with `interact`."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(IN_A_KERNEL)])
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    [printed] = [o.text for o in notebook.cells[0].outputs if o.output_type == "stream"]
    ours, interact = map(float, printed.split())
    return ours, interact


def main() -> None:
    rows = []
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(
            executable_path=browser_path(), args=BROWSER_OPTIONS
        )
        for explorer in course():
            start = time.perf_counter()
            html = explorer.html()
            bake = time.perf_counter() - start
            name, values = next(iter(explorer._controls.items()))
            assert explorer.widget

            def redraw(turn, explorer=explorer, name=name, values=values):
                setattr(explorer, name, values[1 + turn % (len(values) - 1)])

            kernel = milliseconds(redraw, 60)
            page = browser.new_page()
            file = Path(folder) / "page.html"
            file.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{html}")
            page.goto(file.as_uri())
            times = sorted(page.evaluate(REDRAW))
            rate = page.evaluate(DRAG)
            page.close()
            rows.append(
                (
                    explorer.title,
                    len(explorer.frames()),
                    f"{bake:.1f}",
                    f"{len(gzip.compress(html.encode())) / 1000:.1f}",
                    f"{kernel:.1f}",
                    f"{statistics.median(times):.2f}",
                    f"{times[int(0.99 * len(times))]:.2f}",
                    f"{rate:.0f}",
                )
            )
        browser.close()
    table(rows, header=HEADER)
    ours, interact = beside_interact()
    print(
        f"\nin a kernel, messages included: {ours:.1f} ms a move of the rotated pair,"
    )
    print(
        f"{interact:.0f} ms with interact and a fresh figure: {interact / ours:.0f} times"
    )


if __name__ == "__main__":
    main()
