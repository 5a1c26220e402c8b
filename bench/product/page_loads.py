"""Load time of the console: first paint, and the map with all nodes."""

import asyncio
import statistics
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import Browser

from bench.comparison import measure_in_temporary_folder
from bench.product.browser import launch_chromium, limit_wait, visit_page
from bench.product.inputs import Inputs
from bench.product.instance import FLEETS, running_instance
from bench.report import Quantity, Row

_TARGET_MS = 1_000

# `kilonova.fleet` has the nodes on the map and the number of painted frames. It is read in each
# frame inside the page: polling from outside would be less precise.
_RECORD_TIMES_SCRIPT = """
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
    """Medians over visits with a fresh profile, timed from before the page is requested."""
    rows: list[Row] = []
    for fleet in fleets:
        rows += measure_in_temporary_folder(
            lambda folder, fleet=fleet: _measure_fleet(folder, fleet, inputs), data
        )
    return rows


def _measure_fleet(folder: Path, fleet: str, inputs: Inputs) -> list[Row]:
    with running_instance(folder, fleet) as product:
        times = asyncio.run(
            _measure_visits(product.get_console_link(), FLEETS[fleet], inputs.paints)
        )
    title = f"console, {FLEETS[fleet]:,} nodes"
    paint, shown = (statistics.median(column) for column in zip(*times, strict=True))
    return [
        Row(Quantity(f"{title}: first paint", "ms", target=_TARGET_MS), paint),
        Row(Quantity(f"{title}: all nodes on the map", "ms"), shown),
    ]


async def _measure_visits(link: str, nodes: int, visits: int) -> list[tuple[float, float]]:
    async with launch_chromium() as browser:
        return [await _measure_visit(browser, link, nodes) for _ in range(visits)]


async def _measure_visit(browser: Browser, link: str, nodes: int) -> tuple[float, float]:
    """Milliseconds until the first paint, and until the map had all nodes."""
    script = _RECORD_TIMES_SCRIPT.replace("NODES", str(nodes))
    async with limit_wait(f"{nodes} nodes on the map"), visit_page(browser, link, script) as page:
        paint, shown = await page.evaluate("benchTimes")
        return paint, shown
