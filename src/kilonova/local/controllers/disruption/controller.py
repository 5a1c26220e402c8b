"""Keeps the status of every PodDisruptionBudget true to its pods."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Controller, Reflector, Result, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.disruption.objects import BUDGETS, Budget, BudgetStatus
from kilonova.local.controllers.disruption.scales import Scales
from kilonova.local.controllers.disruption.status import (
    counts_by_scale,
    failed_status,
    new_status,
    overdue,
)
from kilonova.local.controllers.indexes import add_index_once
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.controllers.scales import NoScale
from kilonova.local.selectors import LabelSelector, label_selector

_BY_NAMESPACE = "namespace"
_TOGETHER = 0.1
"""Changes of pods within so many seconds are looked at together."""


class BudgetController:
    """Counts pods for budgets. Namespaces without a budget cost a look into a dictionary."""

    def __init__(
        self,
        client: Client,
        budgets: Reflector[Budget],
        pods: Reflector[Pod],
        scales: Scales,
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._budgets = budgets
        self._pods = pods
        self._scales = scales
        self._events = events
        self._clock = clock
        self._selectors: dict[str, dict[str, LabelSelector]] = {}
        self._looked: dict[Key, float] = {}
        add_index_once(pods.store, _BY_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        budgets.store.subscribe(self._budget_changed)
        watches = [Watch(budgets), Watch(pods, self._budgets_of)]
        self.controller = Controller("disruption budgets", self._reconcile, watches)

    def _budget_changed(self, old: Budget | None, new: Budget | None) -> None:
        if new is not None:
            selector = new.spec.selector
            if selector is not None:
                known = self._selectors.setdefault(new.metadata.namespace, {})
                known[new.metadata.name] = label_selector(selector)
        elif old is not None:
            self._selectors.get(old.metadata.namespace, {}).pop(old.metadata.name, None)

    def _budgets_of(self, pod: Pod) -> Iterable[Key]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            (namespace, name)
            for name, selector in self._selectors.get(namespace, {}).items()
            if selector.matches(labels)
        ]

    async def _reconcile(self, key: Key) -> Result | None:
        budget = self._budgets.store.get(key)
        if budget is None:
            self._looked.pop(key, None)
            return None
        soon = self._looked.get(key, float("-inf")) + _TOGETHER - self._clock.monotonic()
        if soon > 0:
            return Result(soon)
        self._looked[key] = self._clock.monotonic()
        pods = self._covered(budget)
        now = self._clock.now()
        try:
            status, after = await self._counted(budget, pods, now)
        except NoScale as problem:
            text = f"Failed to calculate the number of expected pods: {problem}"
            self._tell(budget, "CalculateExpectedPodCountFailed", text, warning=True)
            await self._write(budget, failed_status(budget, str(problem), now))
            return None
        await self._write(budget, status)
        return None if after is None else Result(max(after, _TOGETHER))

    def _covered(self, budget: Budget) -> list[Pod]:
        namespace = budget.metadata.namespace
        selector = self._selectors.get(namespace, {}).get(budget.metadata.name)
        if selector is None:
            return []
        found = self._pods.store.find(_BY_NAMESPACE, namespace)
        return [pod for pod in found if selector.matches(pod.metadata.labels)]

    async def _counted(
        self, budget: Budget, pods: list[Pod], now: datetime
    ) -> tuple[BudgetStatus, float | None]:
        if not pods:
            self._tell(budget, "NoPods", "No matching pods found")
        scale = 0
        if counts_by_scale(budget.spec):
            scale, unmanaged = await self._scales.expected(pods)
            if unmanaged:
                self._tell(budget, "UnmanagedPods", _unmanaged(budget), warning=True)
        for pod in overdue(budget, pods, now):
            known = pod.metadata
            about = Reference.to(PODS, known.name, known.namespace, known.uid)
            namespace = budget.metadata.namespace
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self._events.event(about, "NotDeleted", text, warning=True)
        return new_status(budget, pods, scale, now)

    async def _write(self, budget: Budget, status: BudgetStatus) -> None:
        """Against the version that was read: an eviction meanwhile must not be forgotten."""
        if status == budget.status:
            return
        known = budget.metadata
        body: JsonObject = msgspec.to_builtins(status)
        gone = dict.fromkeys(budget.status.disrupted_pods.keys() - status.disrupted_pods.keys())
        body["disruptedPods"] = {**status.disrupted_pods, **gone} if status.disrupted_pods else None
        patch = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": body,
        }
        await self._client.patch(BUDGETS, known.name, patch, known.namespace, subresource="status")

    def _tell(self, budget: Budget, reason: str, text: str, *, warning: bool = False) -> None:
        known = budget.metadata
        about = Reference.to(BUDGETS, known.name, known.namespace, known.uid)
        self._events.event(about, reason, text, warning=warning)


def _unmanaged(budget: Budget) -> str:
    selector = label_selector(budget.spec.selector or {})
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may "
        "result in undefined behavior. To account for these pods please set "
        '".spec.minAvailable" field of the PDB to an integer value.'
    )
