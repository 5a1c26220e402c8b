"""The kubelet of a simulated node: it tells of its containers, and has nothing to run in them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.kinds.walk import objects, part
from kilonova.local.kubelets import LogRequest, NodeUsage, RemoteProcess


class SimulatedKubelet:
    """Answers for one simulated node."""

    def __init__(self, node: str) -> None:
        self._node = node

    async def logs(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]:
        """A container's life, told from its status; there is nothing else to tell."""
        states = {item["name"]: item for item in objects(pod, "status", "containerStatuses")}
        state = part(states, wanted.container, "state")
        lines: list[tuple[str, str]] = []
        ended = part(state, "terminated")
        started = (part(state, "running") or ended).get("startedAt")
        if started:
            lines.append((started, f"simulated container {wanted.container} started"))
        if ended:
            text = f"simulated container {wanted.container} ended with exit code"
            lines.append((ended["finishedAt"], f"{text} {ended['exitCode']}"))
        kept = lines if wanted.tail is None else lines[len(lines) - min(len(lines), wanted.tail) :]
        for moment, text in kept:
            yield (f"{moment} {text}\n" if wanted.timestamps else f"{text}\n").encode()

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
        return None

    def _nothing_runs(self, what: str) -> ApiError:
        return bad_request(
            f"{what} is simulated: nothing runs on node {self._node}. A pod with the node "
            "selector kilonova.dev/node-kind=process runs for real"
        )
