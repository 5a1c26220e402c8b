"""Evicts pods from unhealthy devices, as far as their disruption budgets allow."""

from collections.abc import Mapping, Sequence

from kilonova.api.gpu.health import HealthRecord
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.resources import PODS
from kilonova.gpu.devices.model import NodeInventory
from kilonova.kube import Conflict, KubeError, NotFound, TooManyRequests
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger

_RETRY_SECONDS = 10.0
_log = get_logger(__name__)


async def evict_pods(
    context: AgentContext,
    pods: Sequence[Holder],
    records: Mapping[str, HealthRecord],
    inventory: NodeInventory,
) -> float | None:
    """Evict pods; returns when to try again those that could not be."""
    retry: float | None = None
    for pod in pods:
        about = ObjectReference.to(PODS, pod.name, pod.namespace, pod.uid)
        reason = _describe(pod, records, inventory)
        try:
            await context.client.evict(pod.name, pod.namespace, uid=pod.uid)
        except (NotFound, Conflict):
            continue  # it is gone, or another pod has its name
        except TooManyRequests as error:
            context.metrics.evictions.labels("refused").inc()
            message = f"Not evicted from {reason}: {error}"
            context.events.event(about, "EvictionRefused", message, warning=True)
            retry = _RETRY_SECONDS
            continue
        except KubeError as error:
            _log.warning("pod not evicted, will retry", pod=pod.key, error=str(error))
            retry = _RETRY_SECONDS
            continue
        context.metrics.evictions.labels("evicted").inc()
        context.events.event(about, "EvictedFromGPU", f"Evicted from {reason}", warning=True)
    return retry


def _describe(pod: Holder, records: Mapping[str, HealthRecord], inventory: NodeInventory) -> str:
    for device in inventory.devices:
        record = records.get(device.uuid)
        if record is not None and record.is_unhealthy and pod.uses(device.index):
            return f"GPU {device.index}: {record.reason}"
    return "an unhealthy GPU"
