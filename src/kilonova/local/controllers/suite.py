"""All built-in controllers of an embedded cluster, started and stopped together.

Each has the name that it has in kube-controller-manager, where it is there, and can be left out
by it: `*` is all, `-NAME` leaves one out, and a list without `*` is only those that it names.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from kilonova.kube import Manager, Part, PartFailed
from kilonova.local.controllers import apps
from kilonova.local.controllers.accounts import account_parts, authority_parts
from kilonova.local.controllers.admissionpolicies import policy_status_parts
from kilonova.local.controllers.aggregation import aggregation_parts
from kilonova.local.controllers.autoscaling import autoscaler_parts
from kilonova.local.controllers.batch import cron_job_parts, finished_job_parts, job_parts
from kilonova.local.controllers.claims import resource_claim_parts
from kilonova.local.controllers.definitions import DEFINITIONS, DefinitionCleaner, NameAcceptance
from kilonova.local.controllers.disruption import disruption_parts
from kilonova.local.controllers.endpoints import endpoint_slice_parts, endpoints_parts
from kilonova.local.controllers.events import EventExpiry
from kilonova.local.controllers.garbage import GarbageCollector
from kilonova.local.controllers.namespaces import NAMESPACES, NamespaceController
from kilonova.local.controllers.nodes import node_lifecycle_parts, taint_eviction_parts
from kilonova.local.controllers.podgc import pod_collector_parts
from kilonova.local.controllers.quota import quota_parts
from kilonova.local.controllers.secret_tokens import secret_token_parts
from kilonova.local.controllers.volumes import (
    claim_protection_parts,
    ephemeral_volume_parts,
    volume_binder_parts,
    volume_protection_parts,
)
from kilonova.local.controllers.workshop import Workshop

Build = Callable[[Workshop], Iterable[Part]]


def _garbage(workshop: Workshop) -> Iterable[Part]:
    client = workshop.account("garbage-collector")
    return [GarbageCollector(client, workshop.cache(DEFINITIONS))]


def _namespaces(workshop: Workshop) -> Iterable[Part]:
    client = workshop.account("namespace-controller")
    namespaces = workshop.cache(NAMESPACES)
    return [NamespaceController(client, namespaces, workshop.clock).controller()]


def _definitions(workshop: Workshop) -> Iterable[Part]:
    client, definitions = workshop.account("definition-controller"), workshop.cache(DEFINITIONS)
    return [
        DefinitionCleaner(client, definitions).controller(),
        NameAcceptance(client, definitions, workshop.clock).controller(),
    ]


def _events(workshop: Workshop) -> Iterable[Part]:
    return [EventExpiry(workshop.account("event-expiry"), workshop.clock)]


CONTROLLERS: dict[str, Build] = {
    "garbage-collector-controller": _garbage,
    "namespace-controller": _namespaces,
    "serviceaccount-controller": account_parts,
    "root-ca-certificate-publisher-controller": authority_parts,
    "serviceaccount-token-controller": secret_token_parts,
    "clusterrole-aggregation-controller": aggregation_parts,
    "validatingadmissionpolicy-status-controller": policy_status_parts,
    "definition-controller": _definitions,
    "event-expiry": _events,
    "endpointslice-controller": endpoint_slice_parts,
    "endpoints-controller": endpoints_parts,
    "node-lifecycle-controller": node_lifecycle_parts,
    "taint-eviction-controller": taint_eviction_parts,
    "job-controller": job_parts,
    "cronjob-controller": cron_job_parts,
    "ttl-after-finished-controller": finished_job_parts,
    "pod-garbage-collector-controller": pod_collector_parts,
    "horizontal-pod-autoscaler-controller": autoscaler_parts,
    "disruption-controller": disruption_parts,
    "resourcequota-controller": quota_parts,
    "resourceclaim-controller": resource_claim_parts,
    "persistentvolume-binder-controller": volume_binder_parts,
    "persistentvolumeclaim-protection-controller": claim_protection_parts,
    "persistentvolume-protection-controller": volume_protection_parts,
    "ephemeral-volume-controller": ephemeral_volume_parts,
    "replicaset-controller": apps.replica_set_parts,
    "replicationcontroller-controller": apps.replication_controller_parts,
    "deployment-controller": apps.deployment_parts,
    "statefulset-controller": apps.stateful_set_parts,
    "daemonset-controller": apps.daemon_set_parts,
}


class UnknownController(Exception):
    """There is no controller of that name."""


def chosen(selection: str) -> list[str]:
    """The names that a selection stands for; `UnknownController` names one that is none."""
    words = [word.strip() for word in selection.split(",") if word.strip()]
    for word in words:
        if word != "*" and word.removeprefix("-") not in CONTROLLERS:
            known = ", ".join(CONTROLLERS)
            raise UnknownController(f'"{word}" is no controller: choose from *, {known}')
    return [
        name for name in CONTROLLERS if name in words or ("*" in words and f"-{name}" not in words)
    ]


def controller_parts(workshop: Workshop, selection: str, others: Sequence[Part] = ()) -> list[Part]:
    """The chosen controllers, before them what they share, and after them what else was made in
    the same workshop."""
    parts = [part for name in chosen(selection) for part in CONTROLLERS[name](workshop)]
    return [*workshop.shared, *parts, *others]


class Controllers:
    """Runs the parts of a cluster beside its API: supervised components, or controllers."""

    def __init__(self, parts: Sequence[Part], grace: float = 2.0) -> None:
        self._manager = Manager(grace=grace)
        self._manager.add(*parts)
        self._task: asyncio.Task[None] | None = None

    def start(self, on_failure: Callable[[Exception], None]) -> None:
        """Start all parts. If one of them fails, all stop, and `on_failure` is told why."""
        self._task = asyncio.create_task(self._run(on_failure), name="controllers")

    async def _run(self, on_failure: Callable[[Exception], None]) -> None:
        try:
            await self._manager.run(signals=False)
        except PartFailed as failure:
            on_failure(failure)

    @property
    def ended(self) -> asyncio.Task[None]:
        """Done when all parts have stopped."""
        assert self._task is not None
        return self._task

    async def stop(self) -> None:
        """Let the parts end, those that write first."""
        if self._task is not None:
            self._manager.stop()
            await self._task
