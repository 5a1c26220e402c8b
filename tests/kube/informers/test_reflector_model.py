"""Whatever happens to the server and the connection, the store converges to the server.

The server is a model with a version, a log that can be compacted, pages, streaming lists and
watches. The transport splits chunks anywhere and drops connections in the middle of a line.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.kube import Client, InProcessTransport, Reflector, Reply, Request, StreamReply
from tests.kube.scripted_transport import (
    PODS,
    Pod,
    added,
    bookmark,
    deleted,
    error_event,
    error_reply,
    modified,
    page,
    pod,
)


@dataclass
class ModelServer:
    """Pods by name, and the log of their changes."""

    random: Random
    streams_lists: bool
    version: int = 1
    compacted: int = 0
    pods: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    log: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    tokens: dict[str, tuple[int, list[dict[str, Any]]]] = field(
        default_factory=dict[str, tuple[int, list[dict[str, Any]]]]
    )
    watchers: set["asyncio.Queue[bytes]"] = field(default_factory=set["asyncio.Queue[bytes]"])

    def put(self, name: str, node: str) -> None:
        self.version += 1
        line = modified if name in self.pods else added
        self.pods[name] = (self.version, node)
        self._record_event(line(name, self.version, node))

    def delete(self, name: str) -> None:
        if name in self.pods:
            self.version += 1
            _, node = self.pods.pop(name)
            self._record_event(deleted(name, self.version, node))

    def _record_event(self, line: bytes) -> None:
        self.log.append((self.version, line))
        self._send(line)

    def bookmark(self) -> None:
        self._send(bookmark(self.version))

    def compact(self) -> None:
        """Compact the log; continue tokens of open lists expire too."""
        self.compacted = self.version
        self.log.clear()
        self.tokens.clear()

    def disconnect(self) -> None:
        """End all watches; undelivered events are lost."""
        for watcher in self.watchers:
            watcher.put_nowait(b"")
        self.watchers.clear()

    def forget(self) -> None:
        """Disconnect, and reject all resumptions."""
        self.disconnect()
        self.compact()

    def _send(self, line: bytes) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(line)

    async def handle(self, request: Request) -> Reply | StreamReply:
        await asyncio.sleep(0)
        if request.query_param("watch"):
            return self._watch(request)
        return self._page(request)

    def _objects(self) -> list[dict[str, Any]]:
        return [pod(name, version, node) for name, (version, node) in sorted(self.pods.items())]

    def _page(self, request: Request) -> Reply:
        token = request.query_param("continue")
        if token is None:
            version, rest = self.version, self._objects()
        elif token in self.tokens:
            version, rest = self.tokens[token]
        else:
            return error_reply(410, "Expired")
        size = 2 if request.query_param("limit") else len(rest)
        following = ""
        if len(rest) > size:
            following = f"{version}-{len(rest)}"
            self.tokens[following] = (version, rest[size:])
        return page(*rest[:size], version=version, token=following)

    def _watch(self, request: Request) -> Reply | StreamReply:
        backlog: list[bytes] = []
        if request.query_param("sendInitialEvents"):
            if not self.streams_lists:
                return error_reply(422, "Invalid")
            objects = [json.dumps({"type": "ADDED", "object": o}) for o in self._objects()]
            backlog += [line.encode() + b"\n" for line in objects]
            backlog.append(bookmark(self.version, ends_initial_events=True))
        else:
            since = int(request.query_param("resourceVersion") or 0)
            if since < self.compacted:
                if self.random.random() < 0.5:
                    return error_reply(410, "Expired")
                return StreamReply(200, _chunks([error_event(410, "Expired")]))
            backlog += [line for version, line in self.log if version > since]
        watcher: asyncio.Queue[bytes] = asyncio.Queue()
        self.watchers.add(watcher)
        return StreamReply(200, self._split_chunks(b"".join(backlog), watcher))

    async def _split_chunks(
        self, backlog: bytes, watcher: "asyncio.Queue[bytes]"
    ) -> AsyncGenerator[bytes]:
        """The bytes to send, in pieces that are independent of lines."""
        data = backlog
        while True:
            if not data:
                data = await watcher.get()
            while not watcher.empty():
                data += watcher.get_nowait()
            if watcher not in self.watchers:
                return
            cut = self.random.randint(1, max(len(data), 1))
            yield data[:cut]
            data = data[cut:]
            if self.random.random() < 0.3:
                await asyncio.sleep(0)


async def _chunks(chunks: list[bytes]) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


NAMES = st.sampled_from("abcdefg")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("put"), NAMES, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("forget")),
    st.tuples(st.just("disconnect")),
    st.tuples(st.just("pass time"), st.integers(1, 60)),
)


@given(st.lists(STEPS, max_size=40), st.booleans(), st.integers(0, 2**16))
@settings(deadline=None, max_examples=200)
def test_store_converges_to_the_server(
    steps: list[tuple[Any, ...]], streams_lists: bool, seed: int
) -> None:
    asyncio.run(_run_scenario(steps, ModelServer(Random(seed), streams_lists)))


async def _run_scenario(steps: list[tuple[Any, ...]], server: ModelServer) -> None:
    async def no_delay(_seconds: float) -> None:
        await asyncio.sleep(0)

    client = Client(InProcessTransport(server.handle))
    reflector = Reflector(
        client, PODS, indexes={"node": lambda p: (p.spec.node_name,)}, sleep=no_delay
    )
    reported: dict[str, Pod] = {}

    def handler(old: Pod | None, new: Pod | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]
        assert reported.get(name) is old, "a handler's old is what it was last told as new"
        if old is not None and new is not None:
            assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        if new is None:
            del reported[name]
        else:
            reported[name] = new

    reflector.store.add_event_handler(handler)
    running = asyncio.create_task(reflector.run())
    for step, *arguments in steps:
        if step == "pass time":
            for _ in range(arguments[0]):
                await asyncio.sleep(0)
        else:
            getattr(server, step)(*arguments)
    for _ in range(2000):
        if reflector.resource_version == str(server.version):
            break
        server.bookmark()
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled(), running.exception()

    expected = {name: (str(version), node) for name, (version, node) in server.pods.items()}
    for content in (reflector.store.objects(), reported.values()):
        assert {
            p.metadata.name: (p.metadata.resource_version, p.spec.node_name) for p in content
        } == expected
    for node in ("n1", "n2"):
        found = {p.metadata.name for p in reflector.store.by_index("node", node)}
        assert found == {name for name, (_, where) in server.pods.items() if where == node}
