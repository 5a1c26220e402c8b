"""The ClusterTopologyBinding controller: keeps the Topologies of schedulers in sync.

KAI has Topologies. Where KAI is enabled, each binding has one of the same name, which the
controller creates and the binding owns, unless the binding refers to another. A referenced one is
only compared, also where KAI is not enabled: then its kind is not watched but read periodically,
and a binding without a reference costs nothing.

The levels of KAI's Topologies are immutable: an outdated one is replaced.
"""

from collections.abc import Callable
from datetime import datetime

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove.topology import (
    ClusterTopologyBindingStatus,
    SchedulerTopology,
    SchedulerTopologyStatus,
)
from kilonova.api.meta import Condition
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    ApiStatusError,
    Client,
    Conflict,
    Controller,
    Invalid,
    Key,
    NotFound,
    Result,
    RuntimeMetrics,
    Watch,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.status import (
    StatusWriter,
    find_condition,
    with_condition,
    without_condition,
)
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.kai.topologies import (
    KAI_TOPOLOGIES,
    KaiTopology,
    build_topology,
    compare_topology,
    has_same_levels,
    is_orphaned,
    is_owned_by,
    list_scheduler_topologies,
)
from kilonova.workloads.backends.optional_kinds import OptionalKind
from kilonova.workloads.caches import Caches
from kilonova.workloads.resources import TOPOLOGY_BINDINGS

SCHEDULER_TOPOLOGY_DRIFT = "SchedulerTopologyDrift"

_CACHE_LAG_SECONDS = 1.0
_RESYNC_SECONDS = 30.0


def build_binding_status(
    binding: ClusterTopologyBinding,
    scheduler_statuses: tuple[SchedulerTopologyStatus, ...],
    now: datetime,
) -> ClusterTopologyBindingStatus:
    """The status of a binding, given the comparisons."""
    conditions, generation = binding.status.conditions, binding.metadata.generation
    if not scheduler_statuses:
        conditions = without_condition(conditions, SCHEDULER_TOPOLOGY_DRIFT)
        return ClusterTopologyBindingStatus(generation, conditions)
    out_of_sync = [each for each in scheduler_statuses if not each.in_sync]
    unknown = any(_is_unavailable(binding, each) for each in out_of_sync)
    if not out_of_sync:
        status, reason, message = "False", "InSync", "All schedulers have the same levels"
    else:
        status, reason = ("Unknown", "TopologyNotFound") if unknown else ("True", "Drift")
        message = "; ".join(each.message for each in out_of_sync)
    drift = Condition(
        SCHEDULER_TOPOLOGY_DRIFT, status, reason, message, observed_generation=generation
    )
    conditions = with_condition(conditions, drift, now)
    return ClusterTopologyBindingStatus(generation, conditions, scheduler_statuses)


def _is_unavailable(
    binding: ClusterTopologyBinding, scheduler_status: SchedulerTopologyStatus
) -> bool:
    """Whether a scheduler has no Topologies, or none could be created for the binding.

    A missing one that the binding refers to counts as drift.
    """
    if scheduler_status.scheduler_backend_topology_observed_generation is not None:
        return False
    declared = {each.scheduler_name for each in binding.spec.scheduler_topology_bindings}
    return scheduler_status.scheduler_name != KAI or KAI not in declared


def build_topology_controller(
    client: Client,
    caches: Caches,
    recorder: EventRecorder,
    now: Callable[[], datetime],
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    kai: OptionalKind[KaiTopology] | None = None,
) -> Controller:
    """Build the controller; the caches must be running.

    It does not wait for the cache of KAI's Topologies, whose CRD may be missing.
    """
    reconciler = _TopologyReconciler(client, caches, recorder, now, kai)
    watches = [Watch(caches.topologies)]
    controller = Controller(
        "clustertopology", reconciler.reconcile, watches, runtime_metrics=runtime_metrics
    )

    def enqueue_all(_old: object, _new: object) -> None:
        for key in list(caches.topologies.store.keys()):
            controller.queue.add(key)

    if kai is not None:
        kai.definition.store.add_event_handler(enqueue_all)
        kai.objects.store.add_event_handler(enqueue_all)
    return controller


class _TopologyReconciler:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        recorder: EventRecorder,
        now: Callable[[], datetime],
        kai: OptionalKind[KaiTopology] | None,
    ) -> None:
        self._client = client
        self._store = caches.topologies.store
        self._recorder = recorder
        self._now = now
        self._kai = kai
        self._status_writer = StatusWriter(
            client, TOPOLOGY_BINDINGS, Expectations(caches.topologies)
        )

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one binding."""
        binding = self._store.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return None
        declared = binding.spec.scheduler_topology_bindings
        statuses: list[SchedulerTopologyStatus] = []
        cache_lags = False
        for each in list_scheduler_topologies(binding, managed=self._kai is not None):
            found = await (
                self._get_topology(each) if each in declared else self._ensure_topology(binding)
            )
            statuses.append(compare_topology(binding, each, found))
            cache_lags = cache_lags or self._is_missing_in_cache(found)
        await self._delete_unused_topology(binding)
        status = build_binding_status(binding, tuple(statuses), self._now())
        if await self._status_writer.write(binding, status) is not binding:
            self._record_drift_event(binding, status)
        if cache_lags:
            return Result(requeue_after=_CACHE_LAG_SECONDS)
        return Result(requeue_after=_RESYNC_SECONDS) if declared and self._kai is None else None

    def _is_missing_in_cache(self, found: KaiTopology | None) -> bool:
        """Whether the cache lacks a Topology yet: then no event would report its deletion."""
        if self._kai is None or found is None:
            return False
        return self._kai.objects.store.get(("", found.metadata.name)) is None

    async def _get_topology(self, wanted: SchedulerTopology) -> KaiTopology | None:
        if wanted.scheduler_name != KAI:
            return None
        try:
            return await self._client.get(KAI_TOPOLOGIES, wanted.topology_reference)
        except NotFound:
            return None

    async def _ensure_topology(self, binding: ClusterTopologyBinding) -> KaiTopology | None:
        """KAI's Topology of the binding's name, created or replaced if its levels differ."""
        assert self._kai is not None
        if not self._kai.is_served:
            self._record_failure_event(
                binding, f"{self._kai.missing_message}: install KAI or disable its backend"
            )
            return None
        found = await self._get_topology(SchedulerTopology(KAI, binding.metadata.name))
        if found is not None and found.metadata.deletion_timestamp is not None:
            return found  # its deletion triggers the next reconcile
        if found is not None and not is_orphaned(found, binding):
            if has_same_levels(found, binding):
                return found
            if not is_owned_by(found, binding):
                problem = f"Topology {found.metadata.name} has another owner and different levels"
                fix = "refer to it in schedulerTopologyBindings, or delete it"
                self._record_failure_event(binding, f"{problem}: {fix}")
                return found
        return await self._replace_topology(binding, found)

    async def _replace_topology(
        self, binding: ClusterTopologyBinding, outdated: KaiTopology | None
    ) -> KaiTopology | None:
        try:
            if outdated is not None:
                known = outdated.metadata
                await self._client.delete(KAI_TOPOLOGIES, known.name, uid=known.uid)
            return await self._client.create(KAI_TOPOLOGIES, build_topology(binding))
        except Conflict:
            raise
        except ApiStatusError as error:
            name = binding.metadata.name
            self._record_failure_event(
                binding, f"Topology {name} cannot be written: {error.message}"
            )
            if isinstance(error, Invalid):
                return None  # until the binding is changed
            raise

    async def _delete_unused_topology(self, binding: ClusterTopologyBinding) -> None:
        """Delete the Topology of a binding that refers to another one by now."""
        if self._kai is None:
            return
        found = self._kai.objects.store.get(("", binding.metadata.name))
        names = {
            each.topology_reference for each in list_scheduler_topologies(binding, managed=True)
        }
        if found is None or binding.metadata.name in names or not is_owned_by(found, binding):
            return
        try:
            await self._client.delete(KAI_TOPOLOGIES, found.metadata.name, uid=found.metadata.uid)
        except (NotFound, Conflict):
            return

    def _record_drift_event(
        self, binding: ClusterTopologyBinding, status: ClusterTopologyBindingStatus
    ) -> None:
        old = find_condition(binding.status.conditions, SCHEDULER_TOPOLOGY_DRIFT)
        new = find_condition(status.conditions, SCHEDULER_TOPOLOGY_DRIFT)
        if new is None or (old is not None and old.status == new.status):
            return
        if new.status == "False":
            self._recorder.event(_reference_to(binding), "TopologyInSync", new.message)
        else:
            self._recorder.event(
                _reference_to(binding), "TopologyDriftDetected", new.message, warning=True
            )

    def _record_failure_event(self, binding: ClusterTopologyBinding, problem: str) -> None:
        self._recorder.event(
            _reference_to(binding), "KAIBackendMappingFailed", problem, warning=True
        )


def _reference_to(binding: ClusterTopologyBinding) -> ObjectReference:
    return ObjectReference.to(TOPOLOGY_BINDINGS, binding.metadata.name, uid=binding.metadata.uid)
