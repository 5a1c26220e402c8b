"""The wire, scripted: a transport that answers each request with the next item of a script."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.kube import Client, Reply, Request, Resource, StreamReply


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class Pod(msgspec.Struct):
    """A projection: of a pod's many fields, those that these tests use."""

    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)


PODS = Resource("", "v1", "pods", "Pod", True, Pod)


class Hang:
    """The other end says nothing any more."""


@dataclass
class Pause:
    """The other end is quiet for a while."""

    seconds: float


class Stream:
    """A stream's chunks; exceptions are raised, and after the last step the stream ends."""

    def __init__(self, *steps: "bytes | Pause | Hang | Exception", status: int = 200) -> None:
        self.steps = steps
        self.status = status


@dataclass
class Wire:
    """A transport. When the script is over, requests wait for ever."""

    script: list[Reply | Stream | Exception]
    requests: list[Request] = field(default_factory=list[Request])
    times: list[float] = field(default_factory=list[float])
    open_streams: int = 0
    closed: bool = False

    async def send(self, request: Request) -> Reply:
        answer = await self._next(request)
        assert isinstance(answer, Reply), f"{request} was not expected to be a plain request"
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        answer = await self._next(request)
        if isinstance(answer, Reply):
            answer = Stream(answer.body, status=answer.status)
        self.open_streams += 1
        try:
            yield StreamReply(answer.status, _play(answer))
        finally:
            self.open_streams -= 1

    async def close(self) -> None:
        self.closed = True

    async def _next(self, request: Request) -> Reply | Stream:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        if not self.script:
            await asyncio.Event().wait()
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _play(stream: Stream) -> AsyncGenerator[bytes]:
    for step in stream.steps:
        if isinstance(step, bytes):
            yield step
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Hang):
            await asyncio.Event().wait()
        else:
            raise step


def client_on(wire: Wire) -> Client:
    return Client(wire, jitter=lambda: 0.0)


def pod(name: str, version: int, node: str = "") -> dict[str, Any]:
    """A pod with more on it than the projection wants."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": str(version)},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
    }


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), named)


def refusal(code: int, reason: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, **more}


def refused(code: int, reason: str, message: str = "no", **headers: str) -> Reply:
    return reply(refusal(code, reason, message), code, **headers)


def page(*pods: dict[str, Any], version: int, token: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return reply({"kind": "PodList", "metadata": metadata, "items": list(pods)})


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def added(name: str, version: int, node: str = "") -> bytes:
    return event("ADDED", pod(name, version, node))


def modified(name: str, version: int, node: str = "") -> bytes:
    return event("MODIFIED", pod(name, version, node))


def deleted(name: str, version: int, node: str = "") -> bytes:
    return event("DELETED", pod(name, version, node))


def bookmark(version: int, *, ends_initial_events: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def error_event(code: int, reason: str) -> bytes:
    return event("ERROR", refusal(code, reason))
