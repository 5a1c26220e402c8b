"""Probes: when they run, and their results."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kilonova.local.processnode.kubelet.containers.actions import ProbeHealth
from kilonova.local.processnode.kubelet.objects import Probe
from kilonova.local.processnode.kubelet.probes.prober import (
    HookError,
    ProbeError,
    Prober,
    ProbeResult,
    ProbeTarget,
)
from kilonova.local.processnode.kubelet.probes.worker import ProbeEvent, ProbeWorker
from tests.harness.server_process import ServerProcess, find_free_port
from tests.local.processnode.kubelet.kubelet_pods import pod, running

Answers = dict[str, list[bool | None]]


class ProbeHarness:
    """A container whose probes answer as they are recorded, in the loop's own time."""

    def __init__(self, container: Any, answers: Answers, reported: Any = None) -> None:
        status = {"containerStatuses": [reported]} if reported else {}
        self.pod = pod({"name": "main", **container}, status=status)
        self.answers = answers
        self.recorded: list[ProbeEvent] = []
        self.changes: list[tuple[float, ProbeHealth]] = []
        self.asked: list[float] = []
        run = running(started=0.0).latest
        assert run is not None
        loop = asyncio.get_running_loop()
        self._begin = loop.time()
        self.probes = ProbeWorker(
            self.pod.container("main"),
            run,
            self.pod.reported_status("main"),
            self._check,
            now=lambda: loop.time() - self._begin,
            on_change=self._changed,
            record_event=self.recorded.append,
        )

    async def run(self, seconds: float) -> list[tuple[float, ProbeHealth]]:
        task = asyncio.create_task(self.probes.run())
        await asyncio.sleep(seconds)
        task.cancel()
        return self.changes

    async def _check(self, probe: Probe) -> ProbeResult:
        self.asked.append(asyncio.get_running_loop().time() - self._begin)
        assert probe.exec is not None
        answers = self.answers[probe.exec.command[0]]
        good = answers.pop(0) if len(answers) > 1 else answers[0]
        if good is None:
            raise ProbeError("no")
        return ProbeResult(good, "words")

    def _changed(self) -> None:
        now = asyncio.get_running_loop().time() - self._begin
        self.changes.append((round(now, 1), self.probes.health))


def probe(name: str, **fields: Any) -> Any:
    return {"exec": {"command": [name]}, "periodSeconds": 10, **fields}


@pytest.mark.looptime
async def test_readiness_waits_for_its_delay_and_threshold() -> None:
    spec = probe("r", initialDelaySeconds=5, successThreshold=2)
    probe_harness = ProbeHarness({"readinessProbe": spec}, {"r": [False, True, True]})
    assert not probe_harness.probes.health.is_ready
    assert await probe_harness.run(40) == [(25, ProbeHealth(is_ready=True))]
    assert [round(each) for each in probe_harness.asked] == [5, 15, 25, 35]
    assert probe_harness.recorded == [ProbeEvent("Unhealthy", "Readiness probe failed: words")]


@pytest.mark.looptime
async def test_liveness_fails_after_its_threshold_and_stops_probing() -> None:
    probe_harness = ProbeHarness({"livenessProbe": probe("l")}, {"l": [True, False, False, False]})
    assert await probe_harness.run(100) == [(30, ProbeHealth(is_alive=False))]
    assert len(probe_harness.asked) == 4


@pytest.mark.looptime
async def test_no_other_probe_runs_before_startup_succeeds() -> None:
    container = {
        "startupProbe": probe("s", failureThreshold=30),
        "livenessProbe": probe("l"),
        "readinessProbe": probe("r"),
    }
    probe_harness = ProbeHarness(container, {"s": [False, False, True], "l": [True], "r": [True]})
    assert probe_harness.probes.health.has_started is None
    changes = await probe_harness.run(25)
    assert [(at, health.has_started, health.is_ready) for at, health in changes] == [
        (20, True, False),
        (20, True, True),
    ]


@pytest.mark.looptime
async def test_failed_startup_probe_is_final() -> None:
    probe_harness = ProbeHarness({"startupProbe": probe("s", failureThreshold=2)}, {"s": [False]})
    assert [health.has_started for _, health in await probe_harness.run(60)] == [False]


@pytest.mark.looptime
async def test_probe_that_cannot_run_has_no_result() -> None:
    probe_harness = ProbeHarness({"livenessProbe": probe("l", failureThreshold=1)}, {"l": [None]})
    assert await probe_harness.run(5) == []
    text = "Liveness probe errored and resulted in unknown state: no"
    assert probe_harness.recorded == [ProbeEvent("Unhealthy", text)]


@pytest.mark.looptime
async def test_ready_container_stays_ready_after_a_kubelet_restart() -> None:
    run = running().latest
    assert run is not None
    output = {
        "name": "main",
        "ready": True,
        "started": True,
        "containerID": f"kilonova-process://{run.id}",
    }
    container = {"readinessProbe": probe("r"), "startupProbe": probe("s")}
    probe_harness = ProbeHarness(container, {"r": [True], "s": [False]}, output)
    assert probe_harness.probes.health == ProbeHealth()
    assert await probe_harness.run(20) == []


@asynccontextmanager
async def served(*routes: Any) -> AsyncGenerator[int]:
    """An HTTP server; yields its port."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def check(action: Any, **container: Any) -> ProbeResult:
    subject = pod({"name": "main", "readinessProbe": action, **container}).container("main")
    assert subject.readiness_probe is not None
    nothing: Any = None
    target = ProbeTarget(subject, "run", "127.0.0.1")
    return await Prober(nothing).probe_container(target, subject.readiness_probe)


def answer(status: int, **headers: str) -> Callable[[web.Request], Any]:
    async def respond(request: web.Request) -> web.Response:
        text = request.headers["User-Agent"] + request.headers.get("X-Test", "")
        return web.Response(status=status, text=text, headers=headers)

    return respond


async def test_http_probes() -> None:
    routes = [
        web.get("/ok", answer(200)),
        web.get("/no", answer(503)),
        web.get("/here", answer(302, Location="/ok")),
        web.get("/away", answer(302, Location="http://example.invalid/")),
        web.get("/round", answer(302, Location="/round")),
    ]
    async with served(*routes) as port:
        ports = [{"name": "web", "containerPort": port}]

        async def page(path: str) -> ProbeResult:
            return await check({"httpGet": {"path": path, "port": "web"}}, ports=ports)

        assert (await page("/ok")).succeeded
        assert (await page("/here")).succeeded
        assert await page("/no") == ProbeResult(False, "HTTP probe failed with statuscode: 503")
        away = await page("/away")
        assert (away.succeeded, away.warning) == (True, True)
        assert "Probe terminated redirects, Response body: kube-probe/1.36" in away.text
        assert "stopped after 10 redirects" in (await page("/round")).text
    refused = await check({"httpGet": {"path": "/", "port": port}})
    place = f"127.0.0.1:{port}"
    assert refused.text == f'Get "http://{place}/": dial tcp {place}: connect: connection refused'


async def test_tcp_probes() -> None:
    async with served() as port:
        assert (await check({"tcpSocket": {"port": port}})).succeeded
    refused = await check({"tcpSocket": {"port": port}})
    assert refused.text == f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    with pytest.raises(ProbeError, match='has no port named "x"'):
        await check({"tcpSocket": {"port": "x"}})


async def test_server_without_grpc_is_unhealthy() -> None:
    async with served() as port:
        found = await check({"grpc": {"port": port}})
        assert not found.succeeded
        assert found.text.startswith("error: health rpc probe failed: ")
    assert 'failed to connect service "127.0.0.1:' in (await check({"grpc": {"port": port}})).text


async def test_http_hooks_succeed_with_any_status() -> None:
    subject = pod(
        {"name": "main", "lifecycle": {"preStop": {"httpGet": {"path": "/no", "port": 1}}}}
    ).container("main")
    hook = subject.lifecycle.pre_stop
    assert hook is not None
    nothing: Any = None
    with pytest.raises(HookError):
        await Prober(nothing).run_hook(ProbeTarget(subject, "run", "127.0.0.1"), hook)


@pytest.mark.parametrize(
    ("answer", "good", "text"),
    [
        (b"\x00\x00\x00\x00\x02\x08\x01", True, "service healthy"),
        (
            b"\x00\x00\x00\x00\x02\x08\x02",
            False,
            'service unhealthy (responded with "NOT_SERVING")',
        ),
        (b"\x00\x00\x00\x00\x00", False, 'service unhealthy (responded with "UNKNOWN")'),
    ],
)
async def test_grpc_health_statuses(answer: bytes, good: bool, text: str) -> None:
    acknowledged = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
        writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + ping)
        received = b""
        while ping[:4] + b"\x01" + ping[5:] not in received:
            received += await reader.read(4096)
        assert b"/grpc.health.v1.Health/Check" in received
        assert received.endswith(ping[9:])
        acknowledged.set()
        length = len(answer).to_bytes(3)
        writer.write(length + b"\x00\x01\x00\x00\x00\x01" + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await check({"grpc": {"port": port, "service": "s"}}) == ProbeResult(good, text)
    assert acknowledged.is_set()


async def test_a_genuine_health_service(control_plane_binaries: Path, tmp_path: Path) -> None:
    port, peers = find_free_port(), find_free_port()
    mine = f"http://127.0.0.1:{port}"
    command = [
        *(control_plane_binaries / "etcd", "--data-dir", tmp_path / "etcd"),
        *("--listen-client-urls", mine, "--advertise-client-urls", mine),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
    ]
    etcd = ServerProcess("etcd", command, tmp_path / "etcd.log")
    try:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 30
        while not (found := await check({"grpc": {"port": port}})).succeeded:
            assert loop.time() < deadline, found
            await asyncio.sleep(0.05)
        unknown = await check({"grpc": {"port": port, "service": "no-such-service"}})
        assert not unknown.succeeded
    finally:
        etcd.stop()
