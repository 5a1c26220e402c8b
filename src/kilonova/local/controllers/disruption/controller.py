"""The controller of PodDisruptionBudget statuses."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Controller, Reflector, Result, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.selectors import LabelSelector, selector_from_object
from kilonova.local.clock import Clock
from kilonova.local.controllers.disruption.expected_pods import ExpectedPodCounter
from kilonova.local.controllers.disruption.objects import (
    POD_DISRUPTION_BUDGETS,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from kilonova.local.controllers.disruption.status import (
    build_failed_status,
    compute_status,
    find_overdue_pods,
    uses_scale,
)
from kilonova.local.controllers.shared.scales import ScaleUnavailable
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import add_index_once

_BY_NAMESPACE = "namespace"
_SYNC_BATCH_PERIOD = 0.1
"""Changes of pods within so many seconds are processed together."""


class DisruptionController:
    """Counts pods for budgets. For namespaces without a budget the cost is one dictionary
    lookup."""

    def __init__(
        self,
        client: Client,
        budgets: Reflector[PodDisruptionBudget],
        pods: Reflector[Pod],
        scales: ExpectedPodCounter,
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._budgets = budgets
        self._pods = pods
        self._scales = scales
        self._events = events
        self._clock = clock
        self._selectors: dict[str, dict[str, LabelSelector]] = {}
        self._last_sync: dict[Key, float] = {}
        add_index_once(pods.store, _BY_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        budgets.store.add_event_handler(self._handle_budget_change)
        watches = [Watch(budgets), Watch(pods, self._map_pod_to_budgets)]
        self.controller = Controller("disruption budgets", self._reconcile, watches)

    def _handle_budget_change(
        self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None
    ) -> None:
        if new is not None:
            selector = new.spec.selector
            if selector is not None:
                selectors_by_budget = self._selectors.setdefault(new.metadata.namespace, {})
                selectors_by_budget[new.metadata.name] = selector_from_object(selector)
        elif old is not None:
            self._selectors.get(old.metadata.namespace, {}).pop(old.metadata.name, None)

    def _map_pod_to_budgets(self, pod: Pod) -> Iterable[Key]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            (namespace, name)
            for name, selector in self._selectors.get(namespace, {}).items()
            if selector.matches(labels)
        ]

    async def _reconcile(self, key: Key) -> Result | None:
        budget = self._budgets.store.get(key)
        if budget is None:
            self._last_sync.pop(key, None)
            return None
        delay = (
            self._last_sync.get(key, float("-inf")) + _SYNC_BATCH_PERIOD - self._clock.monotonic()
        )
        if delay > 0:
            return Result(delay)
        self._last_sync[key] = self._clock.monotonic()
        pods = self._select_pods(budget)
        now = self._clock.now()
        try:
            status, after = await self._compute_status(budget, pods, now)
        except ScaleUnavailable as problem:
            text = f"Failed to calculate the number of expected pods: {problem}"
            self._record_event(budget, "CalculateExpectedPodCountFailed", text, warning=True)
            await self._write_status(budget, build_failed_status(budget, str(problem), now))
            return None
        await self._write_status(budget, status)
        return None if after is None else Result(max(after, _SYNC_BATCH_PERIOD))

    def _select_pods(self, budget: PodDisruptionBudget) -> list[Pod]:
        namespace = budget.metadata.namespace
        selector = self._selectors.get(namespace, {}).get(budget.metadata.name)
        if selector is None:
            return []
        found = self._pods.store.by_index(_BY_NAMESPACE, namespace)
        return [pod for pod in found if selector.matches(pod.metadata.labels)]

    async def _compute_status(
        self, budget: PodDisruptionBudget, pods: list[Pod], now: datetime
    ) -> tuple[PodDisruptionBudgetStatus, float | None]:
        if not pods:
            self._record_event(budget, "NoPods", "No matching pods found")
        scale = 0
        if uses_scale(budget.spec):
            scale, unmanaged = await self._scales.count_expected(pods)
            if unmanaged:
                self._record_event(
                    budget, "UnmanagedPods", _unmanaged_pods_message(budget), warning=True
                )
        for pod in find_overdue_pods(budget, pods, now):
            metadata = pod.metadata
            about = ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)
            namespace = budget.metadata.namespace
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self._events.event(about, "NotDeleted", text, warning=True)
        return compute_status(budget, pods, scale, now)

    async def _write_status(
        self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus
    ) -> None:
        """Written against the version that was read: a concurrent eviction must not be lost."""
        if status == budget.status:
            return
        metadata = budget.metadata
        body: JsonObject = msgspec.to_builtins(status)
        removed = dict.fromkeys(budget.status.disrupted_pods.keys() - status.disrupted_pods.keys())
        body["disruptedPods"] = (
            {**status.disrupted_pods, **removed} if status.disrupted_pods else None
        )
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": body,
        }
        await self._client.patch(
            POD_DISRUPTION_BUDGETS, metadata.name, patch, metadata.namespace, subresource="status"
        )

    def _record_event(
        self, budget: PodDisruptionBudget, reason: str, text: str, *, warning: bool = False
    ) -> None:
        metadata = budget.metadata
        about = ObjectReference.to(
            POD_DISRUPTION_BUDGETS, metadata.name, metadata.namespace, metadata.uid
        )
        self._events.event(about, reason, text, warning=warning)


def _unmanaged_pods_message(budget: PodDisruptionBudget) -> str:
    selector = selector_from_object(budget.spec.selector or {})
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may "
        "result in undefined behavior. To account for these pods please set "
        '".spec.minAvailable" field of the PDB to an integer value.'
    )
