"""The kubelet API of a simulated node: logs and usage without running processes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import add_seconds, parse_time
from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.kubelet_api import LogRequest, NodeUsage, RemoteProcess
from kilonova.local.objects.core import Pod
from kilonova.local.simnodes.usage import simulate_node_usage


class SimulatedKubelet:
    """Serves the kubelet API for one simulated node."""

    def __init__(
        self, node: str, pods: Callable[[], Iterable[Pod]], now: Callable[[], datetime]
    ) -> None:
        self._node = node
        self._pods = pods
        self._now = now

    async def logs(self, pod: JsonObject, options: LogRequest) -> AsyncIterator[bytes]:
        """The start and end of a container from its status; a simulated container has no output."""
        lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        states = {
            item["name"]: item for each in lists for item in nested_objects(pod, "status", each)
        }
        state = nested_object(states, options.container, "state")
        if "waiting" in state:
            state = nested_object(states, options.container, "lastState")
        lines: list[tuple[str, str]] = []
        ended = nested_object(state, "terminated")
        started = (nested_object(state, "running") or ended).get("startedAt")
        if started:
            lines.append((started, f"simulated container {options.container} started"))
        if ended:
            text = f"simulated container {options.container} ended with exit code"
            lines.append((ended["finishedAt"], f"{text} {ended['exitCode']}"))
        since = options.since
        if options.since_seconds is not None:
            since = add_seconds(self._now(), -options.since_seconds)
        if since is not None:
            lines = [line for line in lines if parse_time(line[0]) >= since]
        selected = (
            lines if options.tail is None else lines[len(lines) - min(len(lines), options.tail) :]
        )
        printed = (
            f"{moment} {text}\n" if options.timestamps else f"{text}\n" for moment, text in selected
        )
        left = options.limit_bytes
        for line in (text.encode() for text in printed):
            yield line[:left]
            if left is not None:
                left = max(0, left - len(line))

    async def execute(
        self, pod: JsonObject, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        raise self._not_supported_error(container)

    async def attach(
        self, pod: JsonObject, container: str, *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        raise self._not_supported_error(container)

    async def dial(
        self, pod: JsonObject, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise self._not_supported_error(pod["metadata"]["name"])

    async def usage(self) -> NodeUsage | None:
        """Computed on request: a fraction of each container's requests."""
        return simulate_node_usage(self._pods(), self._now())

    def _not_supported_error(self, what: str) -> ApiError:
        return bad_request(
            f"{what} is not available: node {self._node} is simulated. A pod with the node "
            "selector kilonova.dev/node-kind=process runs as processes"
        )
