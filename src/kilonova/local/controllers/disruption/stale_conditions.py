"""Resets DisruptionTarget conditions of pods that were not deleted."""

from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.kube import Client, Controller, Reflector, Result, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.shared.pod_conditions import set_pod_condition
from kilonova.local.objects.core import Pod

_STALE_TIMEOUT = timedelta(minutes=2)
_DISRUPTION_TARGET = "DisruptionTarget"
_TERMINATION_BY_KUBELET = "TerminationByKubelet"


def compute_stale_time(pod: Pod) -> datetime | None:
    """When the condition becomes stale; None if the pod is being deleted or lacks it."""
    found = pod.condition(_DISRUPTION_TARGET)
    if found is None or found.status != "True" or found.reason == _TERMINATION_BY_KUBELET:
        return None
    if pod.is_terminal or pod.metadata.deletion_timestamp or not found.last_transition_time:
        return None
    return parse_time(found.last_transition_time) + _STALE_TIMEOUT


class StaleDisruptionController:
    """Resets conditions that have not been followed by a deletion within two minutes."""

    def __init__(self, client: Client, pods: Reflector[Pod], clock: Clock) -> None:
        self._client = client
        self._pods = pods
        self._clock = clock

    def controller(self) -> Controller:
        return Controller(
            "stale disruption conditions",
            self._reconcile,
            [Watch(self._pods, _enqueue_if_disruption_target)],
        )

    async def _reconcile(self, key: Key) -> Result | None:
        pod = self._pods.store.get(key)
        moment = compute_stale_time(pod) if pod is not None else None
        if pod is None or moment is None:
            return None
        now = self._clock.now()
        if moment > now:
            return Result((moment - now).total_seconds())
        back: JsonObject = {
            "type": _DISRUPTION_TARGET,
            "status": "False",
            "reason": None,
            "message": None,
            "lastTransitionTime": format_rfc3339(now),
        }
        await set_pod_condition(self._client, pod, back)
        return None


def _enqueue_if_disruption_target(pod: Pod) -> list[Key]:
    if compute_stale_time(pod) is None:
        return []
    return [(pod.metadata.namespace, pod.metadata.name)]
