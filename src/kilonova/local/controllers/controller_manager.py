"""All built-in controllers of an embedded cluster, started and stopped together.

Each has its name in kube-controller-manager, if it exists there, and can be selected as with
`--controllers`: `*` is all, `-NAME` disables one, and a list without `*` is only those that it
names.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from kilonova.kube import Manager, Runnable, RunnableFailed
from kilonova.local.controllers import apps
from kilonova.local.controllers.admission_policy_status import policy_status_controllers
from kilonova.local.controllers.batch import (
    cron_job_controllers,
    job_controllers,
    ttl_after_finished_controllers,
)
from kilonova.local.controllers.clusterrole_aggregation import role_aggregation_controllers
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.custom_resource_definitions import (
    DEFINITIONS,
    CrdFinalizer,
    CrdNamingController,
)
from kilonova.local.controllers.disruption import disruption_controllers
from kilonova.local.controllers.endpoints import endpoint_slice_controllers, endpoints_controllers
from kilonova.local.controllers.event_ttl import EventTtlController
from kilonova.local.controllers.garbagecollector.collector import GarbageCollector
from kilonova.local.controllers.namespace.controller import NAMESPACES, NamespaceController
from kilonova.local.controllers.nodelifecycle import (
    node_lifecycle_controllers,
    taint_eviction_controllers,
)
from kilonova.local.controllers.pod_gc import pod_gc_controllers
from kilonova.local.controllers.podautoscaler import autoscaler_controllers
from kilonova.local.controllers.resourceclaim import resource_claim_controllers
from kilonova.local.controllers.resourcequota import quota_controllers
from kilonova.local.controllers.serviceaccount.namespace_objects import (
    root_ca_publisher_controllers,
    service_account_controllers,
)
from kilonova.local.controllers.serviceaccount.token_secrets import token_controllers
from kilonova.local.controllers.volumes import (
    claim_protection_controllers,
    ephemeral_volume_controllers,
    volume_binder_controllers,
    volume_protection_controllers,
)

ControllerBuilder = Callable[[ControllerContext], Iterable[Runnable]]


def _garbage_collector(context: ControllerContext) -> Iterable[Runnable]:
    client = context.client_for("garbage-collector")
    return [GarbageCollector(client, context.informer(DEFINITIONS))]


def _namespace_controllers(context: ControllerContext) -> Iterable[Runnable]:
    client = context.client_for("namespace-controller")
    namespaces = context.informer(NAMESPACES)
    return [NamespaceController(client, namespaces, context.clock).controller()]


def _definition_controllers(context: ControllerContext) -> Iterable[Runnable]:
    client, definitions = context.client_for("definition-controller"), context.informer(DEFINITIONS)
    return [
        CrdFinalizer(client, definitions).controller(),
        CrdNamingController(client, definitions, context.clock).controller(),
    ]


def _event_ttl_controllers(context: ControllerContext) -> Iterable[Runnable]:
    return [EventTtlController(context.client_for("event-expiry"), context.clock)]


CONTROLLER_BUILDERS: dict[str, ControllerBuilder] = {
    "garbage-collector-controller": _garbage_collector,
    "namespace-controller": _namespace_controllers,
    "serviceaccount-controller": service_account_controllers,
    "root-ca-certificate-publisher-controller": root_ca_publisher_controllers,
    "serviceaccount-token-controller": token_controllers,
    "clusterrole-aggregation-controller": role_aggregation_controllers,
    "validatingadmissionpolicy-status-controller": policy_status_controllers,
    "definition-controller": _definition_controllers,
    "event-expiry": _event_ttl_controllers,
    "endpointslice-controller": endpoint_slice_controllers,
    "endpoints-controller": endpoints_controllers,
    "node-lifecycle-controller": node_lifecycle_controllers,
    "taint-eviction-controller": taint_eviction_controllers,
    "job-controller": job_controllers,
    "cronjob-controller": cron_job_controllers,
    "ttl-after-finished-controller": ttl_after_finished_controllers,
    "pod-garbage-collector-controller": pod_gc_controllers,
    "horizontal-pod-autoscaler-controller": autoscaler_controllers,
    "disruption-controller": disruption_controllers,
    "resourcequota-controller": quota_controllers,
    "resourceclaim-controller": resource_claim_controllers,
    "persistentvolume-binder-controller": volume_binder_controllers,
    "persistentvolumeclaim-protection-controller": claim_protection_controllers,
    "persistentvolume-protection-controller": volume_protection_controllers,
    "ephemeral-volume-controller": ephemeral_volume_controllers,
    "replicaset-controller": apps.replica_set_controllers,
    "replicationcontroller-controller": apps.replication_controller_controllers,
    "deployment-controller": apps.deployment_controllers,
    "statefulset-controller": apps.stateful_set_controllers,
    "daemonset-controller": apps.daemon_set_controllers,
}


class UnknownController(Exception):
    """There is no controller of that name."""


def select_controllers(selection: str) -> list[str]:
    """The names of the selected controllers; `UnknownController` names one that does not exist."""
    words = [word.strip() for word in selection.split(",") if word.strip()]
    for word in words:
        if word != "*" and word.removeprefix("-") not in CONTROLLER_BUILDERS:
            choices = ", ".join(CONTROLLER_BUILDERS)
            raise UnknownController(f'unknown controller "{word}": choose from *, {choices}')
    return [
        name
        for name in CONTROLLER_BUILDERS
        if name in words or ("*" in words and f"-{name}" not in words)
    ]


def build_controllers(
    context: ControllerContext, selection: str, others: Sequence[Runnable] = ()
) -> list[Runnable]:
    """The selected controllers, preceded by what they share, and followed by what else was built
    with the same context.
    """
    parts = [
        part
        for name in select_controllers(selection)
        for part in CONTROLLER_BUILDERS[name](context)
    ]
    return [*context.shared_parts, *parts, *others]


class ControllerManager:
    """Runs the runnables of a cluster beside its API: supervised components, or controllers."""

    def __init__(self, parts: Sequence[Runnable], grace: float = 2.0) -> None:
        self._manager = Manager(grace=grace)
        self._manager.add(*parts)
        self._task: asyncio.Task[None] | None = None

    def start(self, on_failure: Callable[[Exception], None]) -> None:
        """Start all runnables. If one of them fails, all stop, and `on_failure` is called."""
        self._task = asyncio.create_task(self._run(on_failure), name="controllers")

    async def _run(self, on_failure: Callable[[Exception], None]) -> None:
        try:
            await self._manager.run(signals=False)
        except RunnableFailed as failure:
            on_failure(failure)

    @property
    def stopped(self) -> asyncio.Task[None]:
        """Done when all runnables have stopped."""
        assert self._task is not None
        return self._task

    async def stop(self) -> None:
        """Stop the runnables, those that write first."""
        if self._task is not None:
            self._manager.stop()
            await self._task
