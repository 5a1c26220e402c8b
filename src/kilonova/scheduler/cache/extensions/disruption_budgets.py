"""PodDisruptionBudgets: which pods they protect, and how many disruptions they allow now.

Preemption prefers victims whose budgets allow it. The API server checks each eviction again; this
cache only avoids choosing victims that cannot be evicted.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource, Store
from kilonova.scheduler.convert.selectors import Requirements, convert_label_selector
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.objects.core_v1 import LabelSelector, Pod


class DisruptionBudgetSpec(msgspec.Struct, frozen=True, gc=False):
    """The pods that a budget protects."""

    selector: LabelSelector | None = None


class DisruptionBudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The number of disruptions allowed now."""

    disruptions_allowed: int = 0


class DisruptionBudget(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, DisruptionBudget
)


class DisruptionBudgetCache:
    """Keeps the budgets of a cluster and the pods that they protect up to date.

    It must use the pod store of the scheduler cache, whose handlers run first.
    """

    def __init__(
        self, cluster: Cluster, budgets: Store[DisruptionBudget], pods: Store[Pod]
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._selectors: dict[str, dict[str, Requirements]] = {}
        """Selectors by namespace and name."""
        budgets.add_event_handler(self._budget_changed)
        pods.add_event_handler(self._pod_changed)

    def _budget_changed(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        budget = new or old
        assert budget is not None
        namespace, name = budget.metadata.namespace, budget.metadata.name
        selectors = self._selectors.setdefault(namespace, {})
        if new is None:
            self._cluster.budgets.pop(f"{namespace}/{name}", None)
            selectors.pop(name, None)
        else:
            self._cluster.budgets[f"{namespace}/{name}"] = new.status.disruptions_allowed
            selectors[name] = convert_label_selector(new.spec.selector) or ()
            if new.spec.selector is None:
                del selectors[name]
        if old is None or new is None or old.spec != new.spec:
            self._assign_budgets(
                pod for pod in self._pods.objects() if pod.metadata.namespace == namespace
            )

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and (old is None or _has_budget_relevant_change(old, new)):
            self._assign_budgets([new])

    def _assign_budgets(self, pods: Iterable[Pod]) -> None:
        snapshot = self._cluster.snapshot
        for pod in pods:
            pod_placement = snapshot.placements.get(pod.key)
            if pod_placement is None or not pod.spec.node_name:
                continue
            budgets = self._budgets_of(pod)
            if pod_placement.member.budgets != budgets:
                snapshot.update_pod(
                    replace(pod_placement, member=replace(pod_placement.member, budgets=budgets))
                )

    def _budgets_of(self, pod: Pod) -> tuple[str, ...]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return tuple(
            f"{namespace}/{name}"
            for name, requirements in sorted(self._selectors.get(namespace, {}).items())
            if all(each.matches(labels) for each in requirements)
        )


def _has_budget_relevant_change(old: Pod, new: Pod) -> bool:
    return old.spec.node_name != new.spec.node_name or old.metadata.labels != new.metadata.labels
