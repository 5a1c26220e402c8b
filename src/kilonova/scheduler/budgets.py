"""Disruption budgets: which pods they guard, and how many of them may go now.

Whoever is pushed out is chosen among those whose budgets allow it. The API server is asked again
for each eviction; what is known here keeps gangs from being chosen in vain.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource, Store
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.objects import LabelSelector, Pod
from kilonova.scheduler.reading.selectors import Requirements, requirements_of


class BudgetSpec(msgspec.Struct, frozen=True, gc=False):
    """Whom a budget guards."""

    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many may go."""

    disruptions_allowed: int = 0


class Budget(msgspec.Struct, gc=False):
    """A PodDisruptionBudget."""

    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, Budget)


class Budgets:
    """Keeps the budgets of a cluster, and which pods they guard, true to the caches.

    Its pods must be those of the world, which hears of changes first.
    """

    def __init__(self, cluster: Cluster, budgets: Store[Budget], pods: Store[Pod]) -> None:
        self._cluster = cluster
        self._pods = pods
        self._selectors: dict[str, dict[str, Requirements]] = {}
        """By namespace and name."""
        budgets.subscribe(self._budget_changed)
        pods.subscribe(self._pod_changed)

    def _budget_changed(self, old: Budget | None, new: Budget | None) -> None:
        budget = new or old
        assert budget is not None
        namespace, name = budget.metadata.namespace, budget.metadata.name
        known = self._selectors.setdefault(namespace, {})
        if new is None:
            self._cluster.budgets.pop(f"{namespace}/{name}", None)
            known.pop(name, None)
        else:
            self._cluster.budgets[f"{namespace}/{name}"] = new.status.disruptions_allowed
            known[name] = requirements_of(new.spec.selector) or ()
            if new.spec.selector is None:
                del known[name]
        if old is None or new is None or old.spec != new.spec:
            self._guard(pod for pod in self._pods.objects() if pod.metadata.namespace == namespace)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and (old is None or _differs(old, new)):
            self._guard([new])

    def _guard(self, pods: Iterable[Pod]) -> None:
        snapshot = self._cluster.snapshot
        for pod in pods:
            booking = snapshot.bookings.get(pod.key)
            if booking is None or not pod.spec.node_name:
                continue
            guards = self._guards_of(pod)
            if booking.member.budgets != guards:
                snapshot.amend(replace(booking, member=replace(booking.member, budgets=guards)))

    def _guards_of(self, pod: Pod) -> tuple[str, ...]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return tuple(
            f"{namespace}/{name}"
            for name, requirements in sorted(self._selectors.get(namespace, {}).items())
            if all(each.holds(labels) for each in requirements)
        )


def _differs(old: Pod, new: Pod) -> bool:
    return old.spec.node_name != new.spec.node_name or old.metadata.labels != new.metadata.labels
