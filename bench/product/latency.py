"""Latency of changes in the console.

Timed from sending a write to the API until its row arrives on the console's stream, or until the
end of the frame that shows it in Chromium. In the same run, the watch of the API that the console
is based on is measured.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
from playwright.async_api import Page

from bench.comparison import measure_in_temporary_folder
from bench.home.servers import NAMESPACE
from bench.product.browser import launch_chromium, limit_wait, visit_page
from bench.product.change_times import ChangeScanner, ChangeTimes
from bench.product.changes import PODS_PATH, change_at_rate, create_pods
from bench.product.inputs import Inputs
from bench.product.instance import running_instance
from bench.report import Quantity, Row
from tests.harness.access import ServerAccess

_TARGET_MS = 500
_POLL_SECONDS = 0.2
_FINAL_WAIT_SECONDS = 2

# Records the changes on the page at the end of the frame that first showed them.
_RECORD_FRAMES_SCRIPT = """
const noted = (globalThis.benchNoted = []);
new MutationObserver((records) => {
  const nodes = records.flatMap(({ target, addedNodes }) => [target, ...addedNodes]);
  const text = nodes.map((node) => node.textContent ?? "").join(" ");
  const numbers = [...text.matchAll(/bench-(\\d+)/gi)].map((found) => Number(found[1]));
  if (numbers.length) requestAnimationFrame(() => {
    const now = (performance.timeOrigin + performance.now()) / 1000;
    for (const number of numbers) noted.push([number, now]);
  });
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def measure(inputs: Inputs, data: Path | None) -> list[Row]:
    """On a small cluster: the stream and a watch, then the page in a browser."""
    return measure_in_temporary_folder(lambda folder: _measure_latency(folder, inputs), data)


def _measure_latency(folder: Path, inputs: Inputs) -> list[Row]:
    with running_instance(folder, "small") as product:
        server = product.get_server()
        server.create_namespace()
        changing = _LatencyMeasurement(server.access, product.get_console_link(), inputs)
        return asyncio.run(changing.measure())


class _LatencyMeasurement:
    """Two series of changes with their observers."""

    def __init__(self, access: ServerAccess, link: str, inputs: Inputs) -> None:
        self._access = access
        self._link = link
        self._rate = inputs.changes_per_second
        self._count = inputs.changes_per_second * inputs.change_seconds

    async def measure(self) -> list[Row]:
        """Each pod changes once a second."""
        await create_pods(self._access, self._rate)
        stream, watch = await self._measure_streams()
        page = await self._measure_page()
        title = f"console, {self._rate} changes/s"
        return [
            Row(
                Quantity(f"{title}: stream (peer: API watch), p50", "ms"),
                stream.get_latency(0.5),
                watch.get_latency(0.5),
            ),
            Row(
                Quantity(f"{title}: stream (peer: API watch), p99", "ms", target=_TARGET_MS),
                stream.get_latency(0.99),
                watch.get_latency(0.99),
            ),
            Row(Quantity(f"{title}: page in Chromium, p50", "ms"), page.get_latency(0.5)),
            Row(
                Quantity(f"{title}: page in Chromium, p99", "ms", target=_TARGET_MS),
                page.get_latency(0.99),
            ),
        ]

    async def _measure_streams(self) -> tuple[ChangeTimes, ChangeTimes]:
        sent: dict[int, float] = {}
        stream, watch = ChangeTimes(self._rate, sent), ChangeTimes(self._rate, sent)
        url_parts = urlsplit(self._link)
        token = parse_qs(url_parts.query)["token"][0]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            readers = [
                await _StreamReader.open(
                    session,
                    f"http://{url_parts.netloc}/api/stream",
                    stream,
                    headers={"authorization": f"Bearer {token}"},
                ),
                await _StreamReader.open(
                    session,
                    f"{self._access.url}{PODS_PATH}?watch=1",
                    watch,
                    ssl_context=self._access.ssl_context(),
                ),
            ]
            await self._send_changes(range(self._count), sent)
            async with limit_wait("all changes to arrive"):
                while not (stream.is_complete and watch.is_complete):
                    await asyncio.sleep(_POLL_SECONDS)
            for reader in readers:
                await reader.close()
        return stream, watch

    async def _measure_page(self) -> ChangeTimes:
        """The workloads page shows the condition of each pod, as far as rows are visible."""
        link = self._link.replace("/?", f"/workloads?namespace={NAMESPACE}&")
        sent: dict[int, float] = {}
        async with (
            launch_chromium() as browser,
            visit_page(browser, link, _RECORD_FRAMES_SCRIPT) as page,
        ):
            await _wait_until(page, "benchNoted.length > 0")
            numbers = range(self._count, 2 * self._count)
            await self._send_changes(numbers, sent)
            await _wait_until(
                page, f"benchNoted.some(([number]) => number >= {numbers[-self._rate]})"
            )
            await asyncio.sleep(_FINAL_WAIT_SECONDS)
            recorded: list[tuple[int, float]] = await page.evaluate("benchNoted")
        visible = {number % self._rate for number, _ in recorded if number in sent}
        arrivals = ChangeTimes(
            self._rate,
            {number: at for number, at in sent.items() if number % self._rate in visible},
        )
        for number, seen in recorded:
            arrivals.record_arrival(number, seen)
        return arrivals

    async def _send_changes(self, numbers: range, sent: dict[int, float]) -> None:
        await change_at_rate(self._access, self._rate, numbers, self._rate, sent)


class _StreamReader:
    """An endless response, read in the background."""

    def __init__(self, response: aiohttp.ClientResponse, arrivals: ChangeTimes) -> None:
        self._answer = response
        self._task = asyncio.create_task(self._read(arrivals))

    @classmethod
    async def open(
        cls,
        session: aiohttp.ClientSession,
        url: str,
        arrivals: ChangeTimes,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | bool = True,
    ) -> "_StreamReader":
        response = await session.get(url, headers=headers, ssl=ssl_context)
        if response.status != 200:
            raise RuntimeError(f"{url} answered {response.status}: {await response.text()}")
        return cls(response, arrivals)

    async def close(self) -> None:
        self._task.cancel()
        self._answer.close()

    async def _read(self, arrivals: ChangeTimes) -> None:
        scanner = ChangeScanner()
        async for piece in self._answer.content.iter_any():
            now = time.time()
            for number in scanner.scan(piece):
                arrivals.record_arrival(number, now)


async def _wait_until(page: Page, condition: str) -> None:
    """Poll the page; its content security policy forbids evaluating a function in it."""
    async with limit_wait(f"{condition} to hold"):
        while not await page.evaluate(condition):
            await asyncio.sleep(_POLL_SECONDS)
