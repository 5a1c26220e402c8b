"""The operator of PodCliqueSets as it lives in the cluster of `kilonova up`.

It runs beside the cluster's own controllers, over a client without a socket, and its webhooks are
functions that the API calls: the same controllers and rules as `kilonova run operator`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from kilonova.kube import Client, Part
from kilonova.local.admission import Operation
from kilonova.local.admission.inprocess import InProcessWebhook
from kilonova.local.cluster import Cluster
from kilonova.workloads.admission import build_handlers, hooks_of
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import Settings

USER = "system:serviceaccount:kilonova-system:kilonova-operator"
"""As whom it acts: the account that it has where it is deployed."""


@dataclass(frozen=True, slots=True)
class EmbeddedOperator:
    """An operator, as the two things that a cluster takes from who lives in it."""

    settings: Settings

    def webhooks(self, client: Callable[[str], Client]) -> Sequence[InProcessWebhook]:
        """What the API asks before it stores a set or a topology."""
        handlers = build_handlers(client(USER), self.settings, operator=USER)
        return [
            InProcessWebhook(
                hook.name,
                handlers[hook.path],
                interest.group,
                resource,
                cast("Sequence[Operation]", interest.operations),
                mutating=hook.mutating,
            )
            for hook in hooks_of(self.settings)
            for interest in hook.interests
            for resource in interest.resources
        ]

    def parts(self, cluster: Cluster) -> Sequence[Part]:
        """What runs in the cluster: caches, controllers, and the metrics that its API serves."""
        clock = cluster.clock
        operator = build_operator(
            cluster.client(USER),
            self.settings,
            now=clock.now,
            monotonic=clock.monotonic,
            new_id=cluster.identities.token,
        )
        metrics = WorkloadMetrics(
            operator.caches, cluster.metrics.registry_of("operator"), clock.now
        )
        return [*operator.parts, *operator.leading, metrics]
