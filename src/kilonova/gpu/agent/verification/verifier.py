"""Verifies the devices of a node's pods, and reports each mismatch once."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from kilonova.gpu.agent.blocking import InThread
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.holders import Holder, read_holders
from kilonova.gpu.agent.resources import PODS, Pod
from kilonova.gpu.agent.verification.comparison import (
    Mismatch,
    find_mismatches,
    usage_by_processes,
)
from kilonova.gpu.agent.verification.evidence import read_pods_of
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger

PodsOfProcesses = Callable[[Iterable[int]], Mapping[int, str]]

_log = get_logger(__name__)


class PodVerifier:
    """Compares by processes; `pods_of` blocks, and runs in a thread."""

    def __init__(
        self,
        context: AgentContext,
        pods_of: PodsOfProcesses = read_pods_of,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self._context = context
        self._pods_of = pods_of
        self._in_thread = in_thread
        self._told: set[Mismatch] = set()

    async def verify(
        self,
        inventory: NodeInventory,
        pods: Iterable[Pod],
        samples: Sequence[DeviceTelemetry],
    ) -> tuple[Mismatch, ...]:
        """The mismatches that there are now; new ones are reported by an Event of the pod."""
        holders = read_holders(pods)
        pids = [process.pid for sample in samples for process in sample.processes]
        pod_of: Mapping[int, str] = {}
        if pids and holders:
            pod_of = await self._in_thread(self._pods_of, pids)
        usage = usage_by_processes(inventory, samples, pod_of)
        found = find_mismatches(inventory, holders, usage)
        by_uid = {each.uid: each for each in holders}
        for each in found:
            if each not in self._told:
                self._tell(by_uid[each.pod], each)
        self._told = set(found)
        return found

    def _tell(self, pod: Holder, mismatch: Mismatch) -> None:
        self._context.metrics.mismatches.inc()
        message = (
            f"Uses {mismatch.used}, but was assigned {mismatch.assigned}: its container sees "
            "devices that the scheduler did not choose"
        )
        about = ObjectReference.to(PODS, pod.name, pod.namespace, pod.uid)
        self._context.events.event(about, "DeviceMismatch", message, warning=True)
        _log.warning(
            "pod uses other devices than it was assigned",
            pod=pod.key,
            used=mismatch.used,
            assigned=mismatch.assigned,
        )
