"""How long the console takes to be there: first paint, and the map with all its nodes."""

import asyncio
import statistics
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import Browser

from bench.comparing import in_fresh_folder
from bench.product.browser import chromium, patience, visit
from bench.product.inputs import Inputs
from bench.product.running import FLEETS, running
from bench.report import Quantity, Row

_AIM_MS = 1_000

# `kilonova.fleet` says what is on the map and how many frames of it were painted. Looked at once
# in each frame, and from inside: what is asked from outside would come later.
_NOTE_TIMES = """
globalThis.benchTimes = new Promise((tell) => {
  const look = () => {
    const map = globalThis.kilonova?.fleet;
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if (paint && map?.nodes >= NODES && map.frames.painted > 0) {
      tell([paint.startTime, performance.now()]);
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
"""


def measure(fleets: Sequence[str], inputs: Inputs, data: Path | None) -> list[Row]:
    """Medians over visits with an empty profile each, from before the page is asked for."""
    rows: list[Row] = []
    for fleet in fleets:
        rows += in_fresh_folder(lambda folder, fleet=fleet: _look(folder, fleet, inputs), data)
    return rows


def _look(folder: Path, fleet: str, inputs: Inputs) -> list[Row]:
    with running(folder, fleet) as product:
        times = asyncio.run(_visit_often(product.console(), FLEETS[fleet], inputs.paints))
    title = f"console, {FLEETS[fleet]:,} nodes"
    paint, shown = (statistics.median(column) for column in zip(*times, strict=True))
    return [
        Row(Quantity(f"{title}: first paint", "ms", aim=_AIM_MS), paint),
        Row(Quantity(f"{title}: all of them on the map", "ms"), shown),
    ]


async def _visit_often(link: str, nodes: int, visits: int) -> list[tuple[float, float]]:
    async with chromium() as browser:
        return [await _visit_once(browser, link, nodes) for _ in range(visits)]


async def _visit_once(browser: Browser, link: str, nodes: int) -> tuple[float, float]:
    """Milliseconds until something was drawn, and until the map had all nodes."""
    script = _NOTE_TIMES.replace("NODES", str(nodes))
    async with patience(f"{nodes} nodes on the map"), visit(browser, link, script) as page:
        paint, shown = await page.evaluate("benchTimes")
        return paint, shown
