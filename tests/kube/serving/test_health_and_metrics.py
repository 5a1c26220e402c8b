"""Health checks in Kubernetes' format and Prometheus metrics, over a real socket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.metrics import InstrumentedTransport, Metrics
from kilonova.kube.observability.runtime_metrics import RuntimeMetrics
from kilonova.kube.serving.health import Health
from kilonova.kube.serving.health_server import health_server
from kilonova.kube.serving.web_server import WebServer
from tests.kube.memory_api import MemoryApi, MemoryTransport

PODS = unstructured_resource("", "v1", "pods", "Pod", True)


@asynccontextmanager
async def serving(server: WebServer) -> AsyncGenerator[str]:
    port = server.bind()
    task = asyncio.create_task(server.run())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        await task


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def fetch(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with http.get(url) as reply:
        return reply.status, await reply.text()


@pytest.fixture
def health() -> Health:
    health = Health()
    health.add_liveness_check("loop", lambda: None)
    health.add_readiness_check("caches", lambda: "pods are not listed yet")
    return health


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"),
        (
            "/readyz",
            500,
            "[+]ping ok\n[+]loop ok\n[-]caches failed: reason withheld\nreadyz check failed\n",
        ),
        ("/readyz?exclude=caches", 200, "ok"),
        (
            "/readyz?verbose&exclude=caches&exclude=moon&exclude=a",
            200,
            "[+]ping ok\n[+]loop ok\n[+]caches excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "a","moon"\n'
            "readyz check passed\n",
        ),
        ("/readyz/ping", 200, "ok"),
        ("/readyz/caches", 500, "internal server error: pods are not listed yet\n"),
        ("/livez/caches", 404, "404 page not found\n"),
        ("/elsewhere", 404, "404 page not found\n"),
    ],
)
async def test_health_output_matches_kubernetes(health, http, path, status, body):
    async with serving(health_server(health, Metrics(), host="127.0.0.1", port=0)) as url:
        assert await fetch(http, url + path) == (status, body)


@pytest.mark.parametrize(("readiness_in_healthz", "healthz_status"), [(False, 200), (True, 500)])
def test_process_that_is_not_ready_is_live(readiness_in_healthz: bool, healthz_status: int) -> None:
    health = Health(readiness_in_healthz=readiness_in_healthz)
    health.add_readiness_check("started", lambda: "not started yet")
    for endpoint, status in (("livez", 200), ("readyz", 500), ("healthz", healthz_status)):
        assert health.check(Request("GET", f"/{endpoint}"), endpoint).status == status


async def test_raising_check_has_failed(health, http):
    health.add_liveness_check("broken", lambda: str(1 / 0))
    async with serving(health_server(health, Metrics(), host="127.0.0.1", port=0)) as url:
        status, body = await fetch(http, f"{url}/livez/broken")
    assert (status, body) == (500, "internal server error: ZeroDivisionError: division by zero\n")


async def test_metrics_are_scraped(health, http):
    metrics = Metrics()
    metrics.observe_reconcile("sets", "success", 0.002, 0.1)
    metrics.observe_reconcile("sets", "requeued", 0.002, 0.1)
    metrics.register_queue("sets", lambda: 7)
    metrics.leader_status_setter("operator")(True)
    metrics.observe_list("pods", "expired", 12)
    metrics.count_watch_events("pods", 3)
    metrics.count_watch_end("pods", "closed")
    metrics.count_event_written("create")
    metrics.count_events_dropped("full", 4)
    metrics.observe_admission("/validate", 200, 0.001)
    metrics.set_certificate_expiry("admission", 1e9)
    async with serving(health_server(health, metrics, host="127.0.0.1", port=0)) as url:
        status, body = await fetch(http, f"{url}/metrics")
    assert status == 200
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    expected = {
        ("controller_runtime_reconcile_total", "sets", "success"): 1,
        ("controller_runtime_reconcile_total", "requeue_after", "sets"): 1,
        ("controller_runtime_reconcile_time_seconds_count", "sets"): 2,
        ("workqueue_queue_duration_seconds_count", "sets"): 2,
        ("workqueue_depth", "sets"): 7,
        ("leader_election_master_status", "operator"): 1,
        ("kilonova_reflector_lists_total", "expired", "pods"): 1,
        ("kilonova_reflector_listed_objects_total", "pods"): 12,
        ("kilonova_reflector_events_total", "pods"): 3,
        ("kilonova_reflector_watches_ended_total", "closed", "pods"): 1,
        ("kilonova_events_written_total", "create"): 1,
        ("kilonova_events_dropped_total", "full"): 4,
        ("controller_runtime_webhook_requests_total", "/validate", "200"): 1,
        ("kilonova_certificate_expiry_timestamp_seconds", "admission"): 1e9,
    }
    assert {key: samples.get(key) for key in expected} == expected
    assert ("process_resident_memory_bytes",) in samples


def test_metrics_implement_runtime_metrics_without_shared_state():
    one, two = Metrics(), Metrics()
    instruments: RuntimeMetrics = one
    instruments.count_watch_events("pods", 5)
    assert b'kilonova_reflector_events_total{resource="pods"} 5.0' in one.render()[0]
    assert b'resource="pods"' not in two.render()[0]


async def test_requests_to_the_api_are_counted_by_their_outcome():
    metrics = Metrics()
    link = MemoryTransport(MemoryApi())
    client = Client(InstrumentedTransport(link, metrics))
    await client.create(PODS, {"metadata": {"name": "x"}}, "default")
    link.cut = True
    with pytest.raises(ConnectionFailed):
        await client.get(PODS, "x", "default")
    text = metrics.render()[0].decode()
    assert 'rest_client_requests_total{code="200",method="POST"} 1.0' in text
    assert 'rest_client_requests_total{code="<error>",method="GET"} 1.0' in text
    assert 'rest_client_request_duration_seconds_count{method="POST"} 1.0' in text


async def test_port_in_use_fails_on_bind():
    first = WebServer("a", {}, host="127.0.0.1", port=0)
    port = first.bind()
    with pytest.raises(OSError, match="in use"):
        WebServer("b", {}, host="127.0.0.1", port=port).bind()
    first.stop()
    await first.run()


async def test_too_large_body_is_rejected_with_413(http):
    async def echo(request: Request) -> Reply:
        return Reply(200, request.body)

    server = WebServer("echo", {"/": echo}, host="127.0.0.1", port=0, body_limit=100_000)
    async with serving(server) as url:
        async with http.post(url, data=b"x" * 100_000) as reply:
            assert (reply.status, len(await reply.read())) == (200, 100_000)
        async with http.post(url, data=b"x" * 400_000) as reply:
            assert reply.status == 413
            assert "larger than 100000 bytes" in await reply.text()


async def test_handler_that_raises_answers_500(http):
    async def fails(request: Request) -> Reply:
        raise KeyError("secret detail")

    async with serving(WebServer("x", {"/": fails}, host="127.0.0.1", port=0)) as url:
        assert await fetch(http, url) == (500, "internal server error: see the server's log\n")


async def test_stop_lets_requests_in_flight_finish(http):
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        started.set()
        await go_on.wait()
        return Reply(200, b"done")

    server = WebServer("slow", {"/": slow}, host="127.0.0.1", port=0)
    port = server.bind()
    running = asyncio.create_task(server.run())
    request = asyncio.create_task(fetch(http, f"http://127.0.0.1:{port}/"))
    await started.wait()
    server.stop()
    go_on.set()
    assert await request == (200, "done")
    await running


async def test_handler_learns_that_its_client_has_left(http):
    left, entered = asyncio.Event(), asyncio.Event()

    async def wait(request: Request) -> Reply:
        assert request.wait_for_disconnect is not None
        entered.set()
        await request.wait_for_disconnect()
        left.set()
        return Reply(499)

    async with serving(WebServer("test", {"/": wait}, port=0)) as url:
        waiting = asyncio.create_task(fetch(http, url))
        await entered.wait()
        assert not left.is_set()
        waiting.cancel()
        async with asyncio.timeout(10):
            await left.wait()


async def test_cancelled_server_releases_its_port():
    server = WebServer("x", {}, host="127.0.0.1", port=0)
    port = server.bind()
    running = asyncio.create_task(server.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = WebServer("x", {}, host="127.0.0.1", port=port)
    assert again.bind() == port
    again.stop()
    await again.run()
