"""Probes: when they are made, what they come to, and what they find."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kilonova.local.nodes.process.kubelet.checks import (
    CheckError,
    Checks,
    HookFailed,
    Outcome,
    Target,
)
from kilonova.local.nodes.process.kubelet.pods import Probe
from kilonova.local.nodes.process.kubelet.probes import ContainerProbes, Told
from kilonova.local.nodes.process.kubelet.sequence import Health
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.harness.process import ServerProcess, free_port
from tests.local.process.kubelet.kubelet_pods import pod, running

Answers = dict[str, list[bool | None]]


class Bed:
    """A container whose probes answer as they are told, in the loop's own time."""

    def __init__(self, container: Any, answers: Answers, reported: Any = None) -> None:
        status = {"containerStatuses": [reported]} if reported else {}
        self.pod = pod({"name": "main", **container}, status=status)
        self.answers = answers
        self.told: list[Told] = []
        self.changes: list[tuple[float, Health]] = []
        self.asked: list[float] = []
        run = running(started=0.0).latest
        assert run is not None
        loop = asyncio.get_running_loop()
        self._begin = loop.time()
        self.probes = ContainerProbes(
            self.pod.container("main"),
            run,
            self.pod.reported("main"),
            self._check,
            now=lambda: loop.time() - self._begin,
            changed=self._changed,
            tell=self.told.append,
        )

    async def run(self, seconds: float) -> list[tuple[float, Health]]:
        task = asyncio.create_task(self.probes.run())
        await asyncio.sleep(seconds)
        task.cancel()
        return self.changes

    async def _check(self, probe: Probe) -> Outcome:
        self.asked.append(asyncio.get_running_loop().time() - self._begin)
        assert probe.exec is not None
        answers = self.answers[probe.exec.command[0]]
        good = answers.pop(0) if len(answers) > 1 else answers[0]
        if good is None:
            raise CheckError("no")
        return Outcome(good, "words")

    def _changed(self) -> None:
        now = asyncio.get_running_loop().time() - self._begin
        self.changes.append((round(now, 1), self.probes.health))


def probe(name: str, **fields: Any) -> Any:
    return {"exec": {"command": [name]}, "periodSeconds": 10, **fields}


@pytest.mark.looptime
async def test_readiness_waits_for_its_delay_and_threshold() -> None:
    spec = probe("r", initialDelaySeconds=5, successThreshold=2)
    bed = Bed({"readinessProbe": spec}, {"r": [False, True, True]})
    assert not bed.probes.health.ready
    assert await bed.run(40) == [(25, Health(ready=True))]
    assert [round(each) for each in bed.asked] == [5, 15, 25, 35]
    assert bed.told == [Told("Unhealthy", "Readiness probe failed: words")]


@pytest.mark.looptime
async def test_liveness_fails_after_its_threshold_and_is_not_asked_again() -> None:
    bed = Bed({"livenessProbe": probe("l")}, {"l": [True, False, False, False]})
    assert await bed.run(100) == [(30, Health(alive=False))]
    assert len(bed.asked) == 4


@pytest.mark.looptime
async def test_nothing_else_is_asked_before_the_start() -> None:
    container = {
        "startupProbe": probe("s", failureThreshold=30),
        "livenessProbe": probe("l"),
        "readinessProbe": probe("r"),
    }
    bed = Bed(container, {"s": [False, False, True], "l": [True], "r": [True]})
    assert bed.probes.health.startup is None
    changes = await bed.run(25)
    assert [(at, health.startup, health.ready) for at, health in changes] == [
        (20, True, False),
        (20, True, True),
    ]


@pytest.mark.looptime
async def test_a_start_that_fails_is_the_end() -> None:
    bed = Bed({"startupProbe": probe("s", failureThreshold=2)}, {"s": [False]})
    assert [health.startup for _, health in await bed.run(60)] == [False]


@pytest.mark.looptime
async def test_a_probe_that_cannot_be_made_says_nothing() -> None:
    bed = Bed({"livenessProbe": probe("l", failureThreshold=1)}, {"l": [None]})
    assert await bed.run(5) == []
    text = "Liveness probe errored and resulted in unknown state: no"
    assert bed.told == [Told("Unhealthy", text)]


@pytest.mark.looptime
async def test_who_was_ready_before_a_restart_stays_so() -> None:
    run = running().latest
    assert run is not None
    said = {
        "name": "main",
        "ready": True,
        "started": True,
        "containerID": f"kilonova-process://{run.id}",
    }
    container = {"readinessProbe": probe("r"), "startupProbe": probe("s")}
    bed = Bed(container, {"r": [True], "s": [False]}, said)
    assert bed.probes.health == Health()
    assert await bed.run(20) == []


@asynccontextmanager
async def served(*routes: Any) -> AsyncGenerator[int]:
    """A web server; its port."""
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


async def check(action: Any, **container: Any) -> Outcome:
    subject = pod({"name": "main", "readinessProbe": action, **container}).container("main")
    assert subject.readiness_probe is not None
    nothing: Any = None
    target = Target(subject, "run", "127.0.0.1")
    return await Checks(nothing).probe(target, subject.readiness_probe)


def answer(status: int, **headers: str) -> Callable[[web.Request], Any]:
    async def respond(request: web.Request) -> web.Response:
        text = request.headers["User-Agent"] + request.headers.get("X-Test", "")
        return web.Response(status=status, text=text, headers=headers)

    return respond


async def test_pages() -> None:
    routes = [
        web.get("/ok", answer(200)),
        web.get("/no", answer(503)),
        web.get("/here", answer(302, Location="/ok")),
        web.get("/away", answer(302, Location="http://example.invalid/")),
        web.get("/round", answer(302, Location="/round")),
    ]
    async with served(*routes) as port:
        ports = [{"name": "web", "containerPort": port}]

        async def page(path: str) -> Outcome:
            return await check({"httpGet": {"path": path, "port": "web"}}, ports=ports)

        assert (await page("/ok")).good
        assert (await page("/here")).good
        assert await page("/no") == Outcome(False, "HTTP probe failed with statuscode: 503")
        away = await page("/away")
        assert (away.good, away.warning) == (True, True)
        assert "Probe terminated redirects, Response body: kube-probe/1.36" in away.text
        assert "stopped after 10 redirects" in (await page("/round")).text
    refused = await check({"httpGet": {"path": "/", "port": port}})
    place = f"127.0.0.1:{port}"
    assert refused.text == f'Get "http://{place}/": dial tcp {place}: connect: connection refused'


async def test_connections() -> None:
    async with served() as port:
        assert (await check({"tcpSocket": {"port": port}})).good
    refused = await check({"tcpSocket": {"port": port}})
    assert refused.text == f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    with pytest.raises(CheckError, match='has no port named "x"'):
        await check({"tcpSocket": {"port": "x"}})


async def test_a_server_that_speaks_no_grpc_is_unhealthy() -> None:
    async with served() as port:
        found = await check({"grpc": {"port": port}})
        assert not found.good
        assert found.text.startswith("error: health rpc probe failed: ")
    assert 'failed to connect service "127.0.0.1:' in (await check({"grpc": {"port": port}})).text


async def test_hooks_of_pages_succeed_with_any_answer() -> None:
    subject = pod(
        {"name": "main", "lifecycle": {"preStop": {"httpGet": {"path": "/no", "port": 1}}}}
    ).container("main")
    hook = subject.lifecycle.pre_stop
    assert hook is not None
    nothing: Any = None
    with pytest.raises(HookFailed):
        await Checks(nothing).run_hook(Target(subject, "run", "127.0.0.1"), hook)


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
async def test_what_a_health_service_says(answer: bytes, good: bool, text: str) -> None:
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
        assert await check({"grpc": {"port": port, "service": "s"}}) == Outcome(good, text)
    assert acknowledged.is_set()


async def test_a_genuine_health_service(tmp_path: Path) -> None:
    folder = binaries()
    if folder is None:
        pytest.skip(HOW_TO_GET)
    port, peers = free_port(), free_port()
    mine = f"http://127.0.0.1:{port}"
    command = [
        *(folder / "etcd", "--data-dir", tmp_path / "etcd"),
        *("--listen-client-urls", mine, "--advertise-client-urls", mine),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
    ]
    etcd = ServerProcess("etcd", command, tmp_path / "etcd.log")
    try:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 30
        while not (found := await check({"grpc": {"port": port}})).good:
            assert loop.time() < deadline, found
            await asyncio.sleep(0.05)
        unknown = await check({"grpc": {"port": port, "service": "no-such-service"}})
        assert not unknown.good
    finally:
        etcd.stop()
