"""The exposition formats, and the server."""

import asyncio
import socket
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kilonova.gpu.exporter import ExporterReading, NodeReading
from kilonova.gpu.exporter.collector import render
from kilonova.gpu.exporter.server import build_exporter_server
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.serving.routing import RequestHandler, require_method
from tests.gpu.devices.machines import simulate
from tests.gpu.exporter.readings import Exposition, load, read, user
from tests.harness.http_probe import fetch
from tests.harness.server_process import find_free_port

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def busy_node() -> NodeReading:
    """Whole, shared and sliced devices on one node, with processes."""
    backend = simulate("h100:3")
    first, second, third = (each.uuid for each in backend.read_inventory().devices)
    backend.set_mig_mode(third, True)
    instance = backend.create_instance(third, "1g.10gb", 0)
    backend.create_instance(third, "1g.10gb", 1)
    backend.set_load(first, load(7, 0.5, 10))
    backend.set_load(second, load(8, 0.2, 10), load(9, 0.2, 10))
    backend.set_load(instance.uuid, load(10, 0.2, 2))
    users = (
        user("whole", "0"),
        user("one", "1:500"),
        user("two", "1:500"),
        user("slice", "2:1g.10gb@0"),
    )
    return read(backend, *users, pods_of={8: "uid-one", 9: "uid-two"})


def test_each_series_is_there_once() -> None:
    body, _ = render(ExporterReading((busy_node(),)))
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series)) > 100


def test_openmetrics_parses_and_has_the_same_series() -> None:
    reading = ExporterReading((busy_node(),))
    text, _ = render(reading)
    body, content_type = render(reading, OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = text_string_to_metric_families(body.decode())
    names = {sample.name for family in families for sample in family.samples}
    assert names == set(Exposition(text.decode()).series)


def test_labels_are_escaped() -> None:
    strange = 'a"b\\c\nd'
    backend = simulate("h100:1")
    body, _ = render(ExporterReading((read(backend, user("p", "0", container=strange)),)))
    assert Exposition(body.decode()).find("DCGM_FI_DEV_GPU_TEMP", container=strange)


async def test_server_takes_the_next_port_where_the_first_is_taken() -> None:
    async def nothing() -> ExporterReading:
        return ExporterReading(())

    taken = find_free_port()
    with socket.create_server(("127.0.0.1", taken)):
        server = build_exporter_server(nothing, taken, host="127.0.0.1")
        assert taken < server.bind() <= taken + 10
        with pytest.raises(OSError, match="in use"):
            build_exporter_server(nothing, taken, host="127.0.0.1", tries=0)
    with pytest.raises(OSError, match="assign requested address"):
        build_exporter_server(nothing, taken, host="203.0.113.1")  # no address of this machine
    task = asyncio.create_task(server.run())
    url = f"http://127.0.0.1:{server.bind()}"
    assert await asyncio.to_thread(fetch, f"{url}/health") == (200, b"ok\n")
    assert (await asyncio.to_thread(fetch, f"{url}/metrics"))[0] == 200
    assert (await asyncio.to_thread(fetch, f"{url}/metrics", b"", "POST"))[0] == 405
    assert (await asyncio.to_thread(fetch, f"{url}/other"))[0] == 404
    task.cancel()
    await asyncio.wait({task})


async def test_scrape_does_not_hold_up_the_event_loop_and_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kilonova.gpu.exporter import server as module

    release, calls, arrived = threading.Event(), 0, 0

    def slow(reading: ExporterReading, accept: str = "") -> tuple[bytes, str]:
        nonlocal calls
        calls += 1
        assert release.wait(60)
        return render(reading, accept)

    async def read_node() -> ExporterReading:
        return ExporterReading((busy_node(),))

    def count(method: str, handler: RequestHandler) -> RequestHandler:
        async def handle(request: Request) -> Reply | StreamReply:
            nonlocal arrived
            arrived += 1
            return await handler(request)

        return require_method(method, handle)

    monkeypatch.setattr(module, "render", slow)
    monkeypatch.setattr(module, "require_method", count)
    server = build_exporter_server(read_node, 0, host="127.0.0.1")
    task = asyncio.create_task(server.run())
    url = f"http://127.0.0.1:{server.bind()}/metrics"
    scrapes = [asyncio.create_task(asyncio.to_thread(fetch, url)) for _ in range(2)]
    while arrived < 2 or not calls:
        await asyncio.sleep(0.01)  # the loop goes on while a scrape renders
    release.set()
    replies = await asyncio.gather(*scrapes)
    assert [status for status, _ in replies] == [200, 200]
    assert calls == 1
    task.cancel()
    await asyncio.wait({task})
