"""How long a change of the cluster takes to be seen in the console.

The clock runs from the moment a write is sent to the API until its row has arrived on the
console's stream, or until the frame is over that shows it in Chromium. Beside it, in the same
run, the plain watch of the API that the console itself lives on.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
from playwright.async_api import Page

from bench.comparing import in_fresh_folder
from bench.home.servers import NAMESPACE
from bench.product.arrivals import Arrivals, Marks
from bench.product.browser import chromium, patience, visit
from bench.product.changes import PODS_PATH, change_steadily, make_pods
from bench.product.inputs import Inputs
from bench.product.running import running
from bench.report import Quantity, Row
from tests.harness.access import Access

_AIM_MS = 500
_LOOK_SECONDS = 0.2
_LAST_FRAMES_SECONDS = 2

# Takes down which changes stand on the page, when the frame that first showed them was over.
_NOTE_FRAMES = """
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
    """On a small cluster: the stream beside a watch, then the page in a browser."""
    return in_fresh_folder(lambda folder: _measure(folder, inputs), data)


def _measure(folder: Path, inputs: Inputs) -> list[Row]:
    with running(folder, "small") as product:
        server = product.server()
        server.make_namespace()
        changing = _Changing(server.access, product.console(), inputs)
        return asyncio.run(changing.measure())


class _Changing:
    """Two rounds of changes, and who looks on."""

    def __init__(self, access: Access, link: str, inputs: Inputs) -> None:
        self._access = access
        self._link = link
        self._rate = inputs.changes_per_second
        self._count = inputs.changes_per_second * inputs.change_seconds

    async def measure(self) -> list[Row]:
        """Each pod changes once a second."""
        await make_pods(self._access, self._rate)
        stream, watch = await self._to_streams()
        page = await self._to_page()
        title = f"console, {self._rate} changes/s"
        return [
            Row(
                Quantity(f"{title}: in its stream (a watch of the API), p50", "ms"),
                stream.milliseconds(0.5),
                watch.milliseconds(0.5),
            ),
            Row(
                Quantity(f"{title}: in its stream (a watch of the API), p99", "ms", aim=_AIM_MS),
                stream.milliseconds(0.99),
                watch.milliseconds(0.99),
            ),
            Row(Quantity(f"{title}: on the page in Chromium, p50", "ms"), page.milliseconds(0.5)),
            Row(
                Quantity(f"{title}: on the page in Chromium, p99", "ms", aim=_AIM_MS),
                page.milliseconds(0.99),
            ),
        ]

    async def _to_streams(self) -> tuple[Arrivals, Arrivals]:
        sent: dict[int, float] = {}
        stream, watch = Arrivals(self._rate, sent), Arrivals(self._rate, sent)
        where = urlsplit(self._link)
        token = parse_qs(where.query)["token"][0]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            readers = [
                await _Reader.open(
                    session,
                    f"http://{where.netloc}/api/stream",
                    stream,
                    headers={"authorization": f"Bearer {token}"},
                ),
                await _Reader.open(
                    session,
                    f"{self._access.url}{PODS_PATH}?watch=1",
                    watch,
                    trust=self._access.ssl_context(),
                ),
            ]
            await self._change(range(self._count), sent)
            async with patience("all changes to arrive"):
                while not (stream.is_complete and watch.is_complete):
                    await asyncio.sleep(_LOOK_SECONDS)
            for reader in readers:
                await reader.close()
        return stream, watch

    async def _to_page(self) -> Arrivals:
        """The list of workloads shows what is said of each pod, as far as it fits the window."""
        link = self._link.replace("/?", f"/workloads?namespace={NAMESPACE}&")
        sent: dict[int, float] = {}
        async with chromium() as browser, visit(browser, link, _NOTE_FRAMES) as page:
            await _until(page, "benchNoted.length > 0")
            numbers = range(self._count, 2 * self._count)
            await self._change(numbers, sent)
            await _until(page, f"benchNoted.some(([number]) => number >= {numbers[-self._rate]})")
            await asyncio.sleep(_LAST_FRAMES_SECONDS)
            noted: list[tuple[int, float]] = await page.evaluate("benchNoted")
        in_sight = {number % self._rate for number, _ in noted if number in sent}
        arrivals = Arrivals(
            self._rate,
            {number: at for number, at in sent.items() if number % self._rate in in_sight},
        )
        for number, seen in noted:
            arrivals.note(number, seen)
        return arrivals

    async def _change(self, numbers: range, sent: dict[int, float]) -> None:
        await change_steadily(self._access, self._rate, numbers, self._rate, sent)


class _Reader:
    """An answer that does not end, read in the background."""

    def __init__(self, answer: aiohttp.ClientResponse, arrivals: Arrivals) -> None:
        self._answer = answer
        self._task = asyncio.create_task(self._read(arrivals))

    @classmethod
    async def open(
        cls,
        session: aiohttp.ClientSession,
        url: str,
        arrivals: Arrivals,
        headers: Mapping[str, str] | None = None,
        trust: ssl.SSLContext | bool = True,
    ) -> "_Reader":
        answer = await session.get(url, headers=headers, ssl=trust)
        if answer.status != 200:
            raise RuntimeError(f"{url} answered {answer.status}: {await answer.text()}")
        return cls(answer, arrivals)

    async def close(self) -> None:
        self._task.cancel()
        self._answer.close()

    async def _read(self, arrivals: Arrivals) -> None:
        marks = Marks()
        async for piece in self._answer.content.iter_any():
            now = time.time()
            for number in marks.found(piece):
                arrivals.note(number, now)


async def _until(page: Page, condition: str) -> None:
    """Look again and again; the page's content policy forbids it to look by itself."""
    async with patience(f"{condition} to hold"):
        while not await page.evaluate(condition):
            await asyncio.sleep(_LOOK_SECONDS)
