"""How long the console takes to be there: first paint, and the map with all its nodes."""

import asyncio
import statistics
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import Browser

from bench.comparing import in_fresh_folder
from bench.product.browser import chromium, visit
from bench.product.inputs import Inputs
from bench.product.running import FLEETS, running
from bench.report import Quantity, Row

_AIM_MS = 1_000

_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ALL_SHOWN = """nodes => document.body.innerText.includes(`${nodes} nodes`) && performance.now()"""


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
    """Milliseconds until something was drawn, and until the map said that it has all nodes."""
    async with visit(browser, link) as page:
        shown = await page.wait_for_function(_ALL_SHOWN, arg=nodes)
        paint = await page.wait_for_function(_FIRST_PAINT)
        return await paint.json_value(), await shown.json_value()
