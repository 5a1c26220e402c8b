"""Watch events from memory: an API that serves one watch, made before anything is measured."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec

from bench.home.pods import realistic_pod
from kilonova.api.json import JsonObject
from kilonova.kube import Request, StreamReply
from kilonova.kube.resource import plain
from kilonova.local.cluster import Cluster, Settings

_PODS = plain("", "v1", "pods", "Pod", True)


class Feed:
    """All pods as initial events; then, each time it is asked for, a round of modifications."""

    def __init__(self, pods: Sequence[JsonObject], chunk: int) -> None:
        self._asked = asyncio.Event()
        self._initial = _chunks([_line("ADDED", pod) for pod in pods], chunk)
        self._initial.append(_bookmark())
        self._round = _chunks([_line("MODIFIED", pod) for pod in pods], chunk)

    def send_round(self) -> None:
        """Modify each pod once."""
        self._asked.set()

    async def answer(self, request: Request) -> StreamReply:
        """Answer the reflector's one request."""
        assert request.param("sendInitialEvents") == "true"
        return StreamReply(200, self._stream())

    async def _stream(self) -> AsyncGenerator[bytes]:
        for chunk in self._initial:
            yield chunk
        while await self._asked.wait():
            self._asked.clear()
            for chunk in self._round:
                yield chunk


async def stored_pods(count: int) -> list[JsonObject]:
    """Realistic pods as an API stores and shows them: defaults, status, managed fields."""
    cluster = Cluster(Settings(port=None, controllers="serviceaccount-controller"))
    await cluster.start()
    try:
        pod = await cluster.client("bench").create(_PODS, realistic_pod(name="pod"), "default")
    finally:
        await cluster.stop()
    return [
        {**pod, "metadata": {**pod["metadata"], "name": f"pod-{number}", "uid": f"uid-{number}"}}
        for number in range(count)
    ]


def _line(event: str, pod: JsonObject) -> bytes:
    return msgspec.json.encode({"type": event, "object": pod}) + b"\n"


def _bookmark() -> bytes:
    metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    return _line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def _chunks(lines: Sequence[bytes], size: int) -> list[bytes]:
    """Whole lines together up to a size, but at least one."""
    chunks: list[bytes] = []
    gathered: list[bytes] = []
    room = size
    for line in lines:
        if gathered and len(line) > room:
            chunks.append(b"".join(gathered))
            gathered, room = [], size
        gathered.append(line)
        room -= len(line)
    return [*chunks, b"".join(gathered)]
