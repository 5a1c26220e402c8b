"""What is read for a service, from servers that answer anything or nothing."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from kilonova.api.serving import InferenceServiceSpec, Runtime, ServerGroup, ServerPorts
from kilonova.serving.signals.http_reader import HttpReader, ReadFailed
from kilonova.serving.signals.service_poll import ServicePoll
from tests.serving.signals.pods import gateway_pod, server_pod

RECORDINGS = Path(__file__).parent / "recordings"
Answer = Callable[[str], bytes]


def respond(body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


@contextlib.asynccontextmanager
async def scripted_server(answer: Answer, connections: list[int] | None = None):
    """A server that answers each request with these bytes; an answer without a length ends the
    connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if connections is not None:
            connections.append(1)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                sent = answer(head.split(b" ")[1].decode())
                writer.write(sent)
                await writer.drain()
                if b"length" not in sent and b"chunked" not in sent:
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def http_reader() -> AsyncGenerator[HttpReader]:
    reader = HttpReader(timeout=0.2)
    try:
        yield reader
    finally:
        reader.close()


def spec_with(port: int, runtime: Runtime = "Triton") -> InferenceServiceSpec:
    group = ServerGroup(name="main", runtime=runtime, ports=ServerPorts(metrics=port))
    return InferenceServiceSpec(servers=(group,))


async def test_queue_of_servers_is_added_to_what_gateways_say() -> None:
    metrics = respond((RECORDINGS / "vllm.txt").read_text())
    stats = respond('envoy_cluster_upstream_rq_active{envoy_cluster_name="server/main"} 8\n')
    async with (
        scripted_server(lambda _: stats) as gateway,
        scripted_server(lambda _: metrics) as server,
        http_reader() as reader,
    ):
        poll = ServicePoll(reader, gateway)
        signals = await poll.read(spec_with(server), [gateway_pod(), server_pod()], 0.0)
        assert signals.problems == ()
        figures = signals.groups["main"]
        assert (figures.in_flight, figures.queued) == (8, 3)


async def test_plain_server_without_metrics_is_no_problem_and_asked_rarely() -> None:
    asked: list[str] = []

    def answer(path: str) -> bytes:
        asked.append(path)
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"

    async with (
        scripted_server(lambda _: respond("")) as gateway,
        scripted_server(answer) as server,
        http_reader() as reader,
    ):
        poll = ServicePoll(reader, gateway)
        for now in range(20):
            pods = [gateway_pod(), server_pod()]
            signals = await poll.read(spec_with(server, "Custom"), pods, float(now))
            assert signals.problems == ()
    assert asked == ["/metrics"]


async def test_triton_without_metrics_is_a_problem_that_leaves_the_figures_complete() -> None:
    async with scripted_server(lambda _: respond("")) as gateway, http_reader() as reader:
        poll = ServicePoll(reader, gateway)
        signals = await poll.read(spec_with(1), [gateway_pod(), server_pod()], 0.0)
        assert signals.problems == ("server web-main-0: connection refused",)
        assert signals.is_complete


async def test_only_ready_pods_are_read() -> None:
    async with http_reader() as reader:
        poll = ServicePoll(reader, 1)
        signals = await poll.read(spec_with(1), [gateway_pod(ready=False)], 0.0)
        assert signals.problems == ("no gateway is ready",)
        assert not signals.is_complete


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"garbage\r\n\r\n", "the answer is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\nshort",
            "no answer within 0.2s",
        ),
        (b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n", "HTTP 503 at /metrics"),
        (b"", "the connection was closed before the end of the answer"),
    ],
)
async def test_what_cannot_be_read_says_why(answer: bytes, problem: str) -> None:
    async with scripted_server(lambda _: answer) as port, http_reader() as reader:
        with pytest.raises(ReadFailed) as caught:
            await reader.read(("127.0.0.1", port), "/metrics")
        assert str(caught.value) == problem


async def test_connection_is_kept_and_opened_again_when_it_was_closed() -> None:
    connections: list[int] = []
    answers = [
        respond("1"),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nto the end",
        respond("4"),
    ]
    async with (
        scripted_server(lambda _: answers.pop(0), connections) as port,
        http_reader() as reader,
    ):
        texts = [await reader.read(("127.0.0.1", port), "/") for _ in range(4)]
    assert texts == ["1", "abcde", "to the end", "4"]
    assert len(connections) == 2
