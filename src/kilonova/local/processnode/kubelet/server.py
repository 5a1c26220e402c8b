"""The kubelet API of this node: logs, exec, attach, port forwarding, usage."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, bad_request, internal
from kilonova.local.kubelet_api import LogRequest, NodeUsage, RemoteProcess
from kilonova.local.processnode.cri.api import ContainerStartError, UnknownContainer
from kilonova.local.processnode.kubelet.containers.logs import read_log
from kilonova.local.processnode.kubelet.containers.runs import ContainerRun
from kilonova.local.processnode.kubelet.context import HOST_ADDRESS, log_path
from kilonova.local.processnode.kubelet.node import ProcessNode
from kilonova.local.processnode.kubelet.pods.worker import PodWorker


class ProcessKubelet:
    """Serves the kubelet API for the process node."""

    def __init__(self, node: ProcessNode) -> None:
        self._node = node

    def logs(self, pod: JsonObject, options: LogRequest) -> AsyncIterator[bytes]:
        """The log lines of one run: the current one, or the previous one."""
        worker, name = self._node.find_worker(pod), pod["metadata"]["name"]
        where = f'container "{options.container}" in pod "{name}"'
        if worker is None or options.container not in worker.containers.histories:
            raise bad_request(f"{where} is not available")
        run = worker.containers.histories[options.container].latest
        if options.previous:
            run = worker.containers.previous_ended_run(options.container)
            if run is None:
                raise bad_request(f"previous terminated {where} not found")
        if run is None:
            waiting = worker.containers.waiting.get(options.container)
            reason = waiting.reason if waiting else "ContainerCreating"
            raise bad_request(f"{where} is waiting to start: {reason}")
        return self._read_log(worker, run, options)

    async def execute(
        self, pod: JsonObject, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        run = self._find_running(pod, container, internal(f'container not found ("{container}")'))
        try:
            return await self._node.context.runtime.execute(run.id, command, stdin=stdin, tty=tty)
        except ContainerStartError as error:
            raise internal(
                "Internal error occurred: error executing command in container: "
                f"failed to exec in container: {error.message}"
            ) from error
        except UnknownContainer as error:
            raise internal(f'container not found ("{container}")') from error

    async def attach(
        self, pod: JsonObject, container: str, *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        absent = internal(f"container {container} not found in pod {_full_name(pod)}")
        run = self._find_running(pod, container, absent)
        try:
            return await self._node.context.runtime.attach(run.id, stdin=stdin)
        except UnknownContainer as error:
            raise absent from error

    async def dial(
        self, pod: JsonObject, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        worker = self._node.find_worker(pod)
        address = "" if worker is None else self._dial_address(worker)
        if worker is None or not worker.containers.is_any_running or not address:
            raise internal(f'pod not found ("{_full_name(pod)}")')
        abilities = await self._node.context.capabilities.get()
        try:
            if not abilities.network:
                with suppress(OSError):
                    return await asyncio.open_connection(address, port)
                address = HOST_ADDRESS  # reachable there if it listens on localhost
            return await asyncio.open_connection(address, port)
        except OSError as error:
            raise internal(
                f"failed to connect to localhost:{port} inside pod {_full_name(pod)}: "
                f"{error.strerror or error}"
            ) from error

    async def usage(self) -> NodeUsage | None:
        return self._node.usage

    def _read_log(
        self, worker: PodWorker, run: ContainerRun, request: LogRequest
    ) -> AsyncIterator[bytes]:
        kubelet_context = self._node.context
        path = log_path(
            kubelet_context.pod_directory(worker.pod.uid), request.container, run.attempt
        )
        return read_log(
            path, request, kubelet_context.clock.now(), lambda: worker.containers.is_running(run)
        )

    def _dial_address(self, worker: PodWorker) -> str:
        """The assigned address, not the reported one: a client that may write the status must not
        redirect us.
        """
        if worker.pod.spec.host_network:
            return HOST_ADDRESS
        return self._node.context.addresses.get(worker.pod.uid)

    def _find_running(self, pod: JsonObject, container: str, absent: ApiError) -> ContainerRun:
        worker = self._node.find_worker(pod)
        history = worker.containers.histories.get(container) if worker else None
        if history is None or history.latest is None or not history.latest.is_running:
            raise absent
        return history.latest


def _full_name(pod: JsonObject) -> str:
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}"
