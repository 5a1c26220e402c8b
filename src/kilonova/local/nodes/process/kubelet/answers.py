"""What the API asks of this node: logs, commands in containers, connections to pods, usage."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError, bad_request, internal
from kilonova.local.kubelets import LogRequest, NodeUsage, RemoteProcess
from kilonova.local.nodes.process.kubelet.logs import read_log
from kilonova.local.nodes.process.kubelet.means import HOST_ADDRESS, log_file
from kilonova.local.nodes.process.kubelet.node import ProcessNode
from kilonova.local.nodes.process.kubelet.runs import Run
from kilonova.local.nodes.process.kubelet.worker import PodWorker
from kilonova.local.nodes.process.runtime import StartFailed, UnknownContainer


class ProcessKubelet:
    """Answers for the process node."""

    def __init__(self, node: ProcessNode) -> None:
        self._node = node

    def logs(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]:
        """The lines of one run: the present one, or the one before."""
        worker, name = self._node.worker(pod), pod["metadata"]["name"]
        where = f'container "{wanted.container}" in pod "{name}"'
        if worker is None or wanted.container not in worker.containers.histories:
            raise bad_request(f"{where} is not available")
        run = worker.containers.histories[wanted.container].latest
        if wanted.previous:
            run = worker.containers.last_ended(wanted.container)
            if run is None:
                raise bad_request(f"previous terminated {where} not found")
        if run is None:
            waiting = worker.containers.waiting.get(wanted.container)
            reason = waiting.reason if waiting else "ContainerCreating"
            raise bad_request(f"{where} is waiting to start: {reason}")
        return self._read(worker, run, wanted)

    async def execute(
        self, pod: JsonObject, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        run = self._running(pod, container, internal(f'container not found ("{container}")'))
        try:
            return await self._node.means.runtime.execute(run.id, command, stdin=stdin, tty=tty)
        except StartFailed as error:
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
        run = self._running(pod, container, absent)
        try:
            return await self._node.means.runtime.attach(run.id, stdin=stdin)
        except UnknownContainer as error:
            raise absent from error

    async def dial(
        self, pod: JsonObject, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        worker = self._node.worker(pod)
        address = "" if worker is None else self._address(worker)
        if worker is None or not worker.containers.any_runs or not address:
            raise internal(f'pod not found ("{_full_name(pod)}")')
        abilities = await self._node.means.abilities.known()
        try:
            if not abilities.network:
                with suppress(OSError):
                    return await asyncio.open_connection(address, port)
                address = HOST_ADDRESS  # there it is if it listens at localhost
            return await asyncio.open_connection(address, port)
        except OSError as error:
            raise internal(
                f"failed to connect to localhost:{port} inside pod {_full_name(pod)}: "
                f"{error.strerror or error}"
            ) from error

    async def usage(self) -> NodeUsage | None:
        return self._node.usage

    def _read(self, worker: PodWorker, run: Run, wanted: LogRequest) -> AsyncIterator[bytes]:
        means = self._node.means
        path = log_file(means.pod_folder(worker.pod.uid), wanted.container, run.attempt)
        return read_log(path, wanted, means.clock.now(), lambda: worker.containers.is_running(run))

    def _address(self, worker: PodWorker) -> str:
        """As it was given out: whoever may write the status must not send us elsewhere."""
        if worker.pod.spec.host_network:
            return HOST_ADDRESS
        return self._node.means.addresses.of(worker.pod.uid)

    def _running(self, pod: JsonObject, container: str, absent: ApiError) -> Run:
        worker = self._node.worker(pod)
        history = worker.containers.histories.get(container) if worker else None
        if history is None or history.latest is None or not history.latest.is_running:
            raise absent
        return history.latest


def _full_name(pod: JsonObject) -> str:
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}"
