"""Pods that were said to be disrupted and were not: the condition is taken back."""

from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time, rfc3339
from kilonova.kube import Client, Controller, Reflector, Result, Watch
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.podconditions import set_pod_condition

_PATIENCE = timedelta(minutes=2)
_TARGET = "DisruptionTarget"
_BY_KUBELET = "TerminationByKubelet"


def stale_at(pod: Pod) -> datetime | None:
    """From when on the condition is not believed; None where it is true, or not there."""
    found = pod.condition(_TARGET)
    if found is None or found.status != "True" or found.reason == _BY_KUBELET:
        return None
    if pod.ended or pod.metadata.deletion_timestamp or not found.last_transition_time:
        return None
    return parse_time(found.last_transition_time) + _PATIENCE


class StaleTargets:
    """Takes back conditions that have not come true in two minutes."""

    def __init__(self, client: Client, pods: Reflector[Pod], clock: Clock) -> None:
        self._client = client
        self._pods = pods
        self._clock = clock

    def controller(self) -> Controller:
        return Controller("stale disruptions", self._reconcile, [Watch(self._pods, _if_targeted)])

    async def _reconcile(self, key: Key) -> Result | None:
        pod = self._pods.store.get(key)
        moment = stale_at(pod) if pod is not None else None
        if pod is None or moment is None:
            return None
        now = self._clock.now()
        if moment > now:
            return Result((moment - now).total_seconds())
        back: JsonObject = {
            "type": _TARGET,
            "status": "False",
            "reason": None,
            "message": None,
            "lastTransitionTime": rfc3339(now),
        }
        await set_pod_condition(self._client, pod, back)
        return None


def _if_targeted(pod: Pod) -> list[Key]:
    if stale_at(pod) is None:
        return []
    return [(pod.metadata.namespace, pod.metadata.name)]
