"""Actions on nodes, pods and workloads."""

import asyncio
from datetime import UTC, datetime

from kilonova.api.times import format_rfc3339
from kilonova.component.console import ActionRequest
from kilonova.console.objects import PODS, Pod
from kilonova.kube import ApiStatusError, Client, NotFound, TooManyRequests

_MAX_CONCURRENT_EVICTIONS = 8


async def restart(request: ActionRequest) -> str:
    """Roll out a changed pod template, as `kubectl rollout restart`."""
    annotations = {"kubectl.kubernetes.io/restartedAt": format_rfc3339(datetime.now(UTC))}
    template = {"metadata": {"annotations": annotations}}
    await _patch_spec(request, {"template": template})
    return f"{request.target} restarted: its pods are replaced"


async def suspend(request: ActionRequest) -> str:
    """Suspend a Job."""
    await _patch_spec(request, {"suspend": True})
    return f"{request.target} suspended"


async def resume(request: ActionRequest) -> str:
    """Resume a suspended Job."""
    await _patch_spec(request, {"suspend": False})
    return f"{request.target} resumed"


async def cordon(request: ActionRequest) -> str:
    """Make a node unschedulable."""
    await _patch_spec(request, {"unschedulable": True})
    return f"{request.target} cordoned"


async def uncordon(request: ActionRequest) -> str:
    """Make a node schedulable."""
    await _patch_spec(request, {"unschedulable": None})
    return f"{request.target} uncordoned"


async def drain(request: ActionRequest) -> str:
    """Cordon a node, and evict its pods."""
    await _patch_spec(request, {"unschedulable": True})
    return f"{request.target} cordoned; {await _evict_pods(request.client, request.name)}"


async def _patch_spec(request: ActionRequest, spec: dict[str, object]) -> None:
    await request.client.patch(
        request.resource, request.name, {"spec": spec}, request.namespace or None
    )


async def _evict_pods(client: Client, node: str) -> str:
    """Evict all pods of a node, once; returns a message that names the pods not evicted and why."""
    listing = await client.list(PODS, field_selector=f"spec.nodeName={node}")
    pods = [pod for pod in listing.items if _is_evictable(pod)]
    limit = asyncio.Semaphore(_MAX_CONCURRENT_EVICTIONS)

    async def evict(pod: Pod) -> str:
        async with limit:
            return await _evict(client, pod)

    blocked = [reason for reason in await asyncio.gather(*map(evict, pods)) if reason]
    text = f"{_count_pods(len(pods) - len(blocked))} evicted"
    if not blocked:
        return text
    return f"{text}, {_count_pods(len(blocked))} not evicted: {'; '.join(blocked)}"


def _is_evictable(pod: Pod) -> bool:
    """Not pods of DaemonSets, which are recreated at once, nor mirror pods, as `kubectl drain`."""
    owner = pod.metadata.controller
    return not pod.metadata.annotations.mirror and (owner is None or owner.kind != "DaemonSet")


async def _evict(client: Client, pod: Pod) -> str:
    """Why a pod is not evicted; empty if it is."""
    meta = pod.metadata
    try:
        await client.evict(meta.name, meta.namespace, uid=meta.uid)
    except NotFound:
        return ""
    except TooManyRequests as error:
        causes = (str(cause.get("message", "")) for cause in error.causes)
        return f"{meta.id}: {next(filter(None, causes), error.message)}"
    except ApiStatusError as error:
        return f"{meta.id}: {error.message}"
    return ""


def _count_pods(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"
