"""The kubelet of a simulated node: it tells of its containers, and has nothing to run in them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import later, parse_time
from kilonova.local.controllers.objects import Pod
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.kinds.walk import objects, part
from kilonova.local.kubelets import LogRequest, NodeUsage, RemoteProcess
from kilonova.local.nodes.usage import simulated_usage


class SimulatedKubelet:
    """Answers for one simulated node."""

    def __init__(
        self, node: str, pods: Callable[[], Iterable[Pod]], now: Callable[[], datetime]
    ) -> None:
        self._node = node
        self._pods = pods
        self._now = now

    async def logs(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]:
        """A container's life, told from its status; there is nothing else to tell."""
        lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        states = {item["name"]: item for each in lists for item in objects(pod, "status", each)}
        state = part(states, wanted.container, "state")
        if "waiting" in state:
            state = part(states, wanted.container, "lastState")
        lines: list[tuple[str, str]] = []
        ended = part(state, "terminated")
        started = (part(state, "running") or ended).get("startedAt")
        if started:
            lines.append((started, f"simulated container {wanted.container} started"))
        if ended:
            text = f"simulated container {wanted.container} ended with exit code"
            lines.append((ended["finishedAt"], f"{text} {ended['exitCode']}"))
        since = wanted.since
        if wanted.since_seconds is not None:
            since = later(self._now(), -wanted.since_seconds)
        if since is not None:
            lines = [line for line in lines if parse_time(line[0]) >= since]
        kept = lines if wanted.tail is None else lines[len(lines) - min(len(lines), wanted.tail) :]
        printed = (
            f"{moment} {text}\n" if wanted.timestamps else f"{text}\n" for moment, text in kept
        )
        left = wanted.limit_bytes
        for line in (text.encode() for text in printed):
            yield line[:left]
            if left is not None:
                left = max(0, left - len(line))

    async def execute(
        self, pod: JsonObject, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        raise self._nothing_runs(container)

    async def attach(
        self, pod: JsonObject, container: str, *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        raise self._nothing_runs(container)

    async def dial(
        self, pod: JsonObject, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise self._nothing_runs(pod["metadata"]["name"])

    async def usage(self) -> NodeUsage | None:
        """Worked out when asked: of each container a share of what it requested."""
        return simulated_usage(self._pods(), self._now())

    def _nothing_runs(self, what: str) -> ApiError:
        return bad_request(
            f"{what} is simulated: nothing runs on node {self._node}. A pod with the node "
            "selector kilonova.dev/node-kind=process runs for real"
        )
