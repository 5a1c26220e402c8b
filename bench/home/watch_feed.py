"""Prepared watch events: an in-memory API that serves one watch."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec

from bench.home.pods import build_realistic_pod
from kilonova.api.json import JsonObject
from kilonova.kube import Request, StreamReply
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster

_PODS = unstructured_resource("", "v1", "pods", "Pod", True)


class WatchFeed:
    """All pods as initial events; then, on request, one modification of each."""

    def __init__(self, pods: Sequence[JsonObject], chunk: int) -> None:
        self._requested = asyncio.Event()
        self._initial = _split_chunks([_encode_event("ADDED", pod) for pod in pods], chunk)
        self._initial.append(_encode_bookmark())
        self._events = _split_chunks([_encode_event("MODIFIED", pod) for pod in pods], chunk)

    def send_events(self) -> None:
        """Modify each pod once."""
        self._requested.set()

    async def handle_request(self, request: Request) -> StreamReply:
        """Serve the reflector's watch request."""
        assert request.query_param("sendInitialEvents") == "true"
        return StreamReply(200, self._stream())

    async def _stream(self) -> AsyncGenerator[bytes]:
        for chunk in self._initial:
            yield chunk
        while await self._requested.wait():
            self._requested.clear()
            for chunk in self._events:
                yield chunk


async def build_stored_pods(count: int) -> list[JsonObject]:
    """Realistic pods as an API returns them: with defaults, status and managed fields."""
    cluster = EmbeddedCluster(ClusterSettings(port=None, controllers="serviceaccount-controller"))
    await cluster.start()
    try:
        pod = await cluster.client("bench").create(
            _PODS, build_realistic_pod(name="pod"), "default"
        )
    finally:
        await cluster.stop()
    return [
        {**pod, "metadata": {**pod["metadata"], "name": f"pod-{number}", "uid": f"uid-{number}"}}
        for number in range(count)
    ]


def _encode_event(event: str, pod: JsonObject) -> bytes:
    return msgspec.json.encode({"type": event, "object": pod}) + b"\n"


def _encode_bookmark() -> bytes:
    metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    return _encode_event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def _split_chunks(lines: Sequence[bytes], size: int) -> list[bytes]:
    """Chunks of whole lines up to a size, with at least one line each."""
    chunks: list[bytes] = []
    gathered: list[bytes] = []
    remaining = size
    for line in lines:
        if gathered and len(line) > remaining:
            chunks.append(b"".join(gathered))
            gathered, remaining = [], size
        gathered.append(line)
        remaining -= len(line)
    return [*chunks, b"".join(gathered)]
