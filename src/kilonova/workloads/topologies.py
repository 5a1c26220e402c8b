"""The controller of ClusterTopologyBindings: schedulers' own topologies say the same as they.

KAI has topologies of its own. Where it is enabled, each binding has one of its name, made, kept
and owned by it, unless the binding refers to one that somebody else keeps. That is only compared,
as is any that a binding refers to where KAI is not enabled: then its kind is not watched but read
again from time to time, and a binding that refers to none costs nothing.

The levels of KAI's topologies never change: another one takes the place of one that is outdated.
"""

from collections.abc import Callable
from datetime import datetime

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove.topology import (
    ClusterTopologyBindingStatus,
    SchedulerTopology,
    SchedulerTopologyStatus,
)
from kilonova.kube import (
    UNMEASURED,
    ApiStatusError,
    Client,
    Conflict,
    Controller,
    Instruments,
    Invalid,
    Key,
    NotFound,
    Result,
    Watch,
)
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.kaitopologies import (
    KAI_TOPOLOGIES,
    KaiTopology,
    compare,
    has_levels_of,
    is_kept_for,
    is_left_over,
    topology_object,
    wanted_topologies,
)
from kilonova.workloads.backends.kinds import OptionalKind
from kilonova.workloads.caches import Caches
from kilonova.workloads.conditions import find_condition, with_condition, without_condition
from kilonova.workloads.resources import TOPOLOGIES
from kilonova.workloads.statuses import status_patch

DRIFT = "SchedulerTopologyDrift"

_BEHIND_SECONDS = 1.0
_AGAIN_SECONDS = 30.0


def binding_status(
    binding: ClusterTopologyBinding, compared: tuple[SchedulerTopologyStatus, ...], now: datetime
) -> ClusterTopologyBindingStatus:
    """The status of a binding, from what the comparisons came to."""
    conditions, generation = binding.status.conditions, binding.metadata.generation
    if not compared:
        conditions = without_condition(conditions, DRIFT)
        return ClusterTopologyBindingStatus(generation, conditions)
    amiss = [each for each in compared if not each.in_sync]
    unknown = any(_is_unavailable(binding, each) for each in amiss)
    if not amiss:
        status, reason, message = "False", "InSync", "All schedulers have the same levels"
    else:
        status, reason = ("Unknown", "TopologyNotFound") if unknown else ("True", "Drift")
        message = "; ".join(each.message for each in amiss)
    conditions = with_condition(conditions, DRIFT, status, reason, message, now, generation)
    return ClusterTopologyBindingStatus(generation, conditions, compared)


def _is_unavailable(binding: ClusterTopologyBinding, compared: SchedulerTopologyStatus) -> bool:
    """Whether a scheduler has no topologies of its own, or none could be made for the binding.

    One that the binding refers to and that is not there differs from it like any other.
    """
    if compared.scheduler_backend_topology_observed_generation is not None:
        return False
    declared = {each.scheduler_name for each in binding.spec.scheduler_topology_bindings}
    return compared.scheduler_name != KAI or KAI not in declared


def build_topology_controller(
    client: Client,
    caches: Caches,
    recorder: Recorder,
    now: Callable[[], datetime],
    instruments: Instruments = UNMEASURED,
    kai: OptionalKind[KaiTopology] | None = None,
) -> Controller:
    """Keeps KAI's topologies where it is enabled, and tells how bindings are.

    The caches must run beside it. It does not wait for KAI's, whose kind may be missing.
    """
    rounds = _Rounds(client, caches, recorder, now, kai)
    watched = [Watch(caches.topologies)]
    controller = Controller("topologies", rounds.reconcile, watched, instruments=instruments)

    def changed(_old: object, _new: object) -> None:
        for key in list(caches.topologies.store.keys()):
            controller.queue.add(key)

    if kai is not None:
        kai.definition.store.subscribe(changed)
        kai.objects.store.subscribe(changed)
    return controller


class _Rounds:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        recorder: Recorder,
        now: Callable[[], datetime],
        kai: OptionalKind[KaiTopology] | None,
    ) -> None:
        self._client = client
        self._store = caches.topologies.store
        self._recorder = recorder
        self._now = now
        self._kai = kai
        self._echo = Echo(caches.topologies)

    async def reconcile(self, key: Key) -> Result | None:
        """One round of one binding."""
        binding = self._store.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return None
        declared = binding.spec.scheduler_topology_bindings
        compared: list[SchedulerTopologyStatus] = []
        is_behind = False
        for each in wanted_topologies(binding, kept=self._kai is not None):
            found = await (self._find(each) if each in declared else self._keep(binding))
            compared.append(compare(binding, each, found))
            is_behind = is_behind or self._is_behind(found)
        await self._drop_unused(binding)
        status = binding_status(binding, tuple(compared), self._now())
        patch = status_patch(binding.status, status)
        if patch is not None:
            known = binding.metadata
            body = {"metadata": {"uid": known.uid}, **patch}
            changed = await self._client.patch(TOPOLOGIES, known.name, body, subresource="status")
            self._report(binding, status)
            await self._echo.of_version(changed.metadata.resource_version)
        if is_behind:
            return Result(after=_BEHIND_SECONDS)
        return Result(after=_AGAIN_SECONDS) if declared and self._kai is None else None

    def _is_behind(self, found: KaiTopology | None) -> bool:
        """Whether the cache does not show a topology yet: then it would not tell that it goes."""
        if self._kai is None or found is None:
            return False
        return self._kai.objects.store.get(("", found.metadata.name)) is None

    async def _find(self, wanted: SchedulerTopology) -> KaiTopology | None:
        if wanted.scheduler_name != KAI:
            return None
        try:
            return await self._client.get(KAI_TOPOLOGIES, wanted.topology_reference)
        except NotFound:
            return None

    async def _keep(self, binding: ClusterTopologyBinding) -> KaiTopology | None:
        """KAI's topology of the binding's name, made so that both say the same."""
        assert self._kai is not None
        if not self._kai.served:
            self._tell_failure(binding, f"{self._kai.missing}: install KAI, or do not enable it")
            return None
        found = await self._find(SchedulerTopology(KAI, binding.metadata.name))
        if found is not None and found.metadata.deletion_timestamp is not None:
            return found  # when it is gone there will be another round
        if found is not None and not is_left_over(found, binding):
            if has_levels_of(found, binding):
                return found
            if not is_kept_for(found, binding):
                problem = f"Topology {found.metadata.name} is somebody else's, and has other levels"
                fix = "refer to it in schedulerTopologyBindings, or delete it"
                self._tell_failure(binding, f"{problem}: {fix}")
                return found
        return await self._make(binding, found)

    async def _make(
        self, binding: ClusterTopologyBinding, outdated: KaiTopology | None
    ) -> KaiTopology | None:
        try:
            if outdated is not None:
                known = outdated.metadata
                await self._client.delete(KAI_TOPOLOGIES, known.name, uid=known.uid)
            return await self._client.create(KAI_TOPOLOGIES, topology_object(binding))
        except Conflict:
            raise
        except ApiStatusError as error:
            name = binding.metadata.name
            self._tell_failure(binding, f"Topology {name} cannot be written: {error.message}")
            if isinstance(error, Invalid):
                return None  # until somebody changes the binding
            raise

    async def _drop_unused(self, binding: ClusterTopologyBinding) -> None:
        """Delete what was kept for a binding that refers to another topology by now."""
        if self._kai is None:
            return
        found = self._kai.objects.store.get(("", binding.metadata.name))
        names = {each.topology_reference for each in wanted_topologies(binding, kept=True)}
        if found is None or binding.metadata.name in names or not is_kept_for(found, binding):
            return
        try:
            await self._client.delete(KAI_TOPOLOGIES, found.metadata.name, uid=found.metadata.uid)
        except (NotFound, Conflict):
            return

    def _report(
        self, binding: ClusterTopologyBinding, status: ClusterTopologyBindingStatus
    ) -> None:
        old = find_condition(binding.status.conditions, DRIFT)
        new = find_condition(status.conditions, DRIFT)
        if new is None or (old is not None and old.status == new.status):
            return
        if new.status == "False":
            self._recorder.event(_about(binding), "TopologyInSync", new.message)
        else:
            self._recorder.event(
                _about(binding), "TopologyDriftDetected", new.message, warning=True
            )

    def _tell_failure(self, binding: ClusterTopologyBinding, problem: str) -> None:
        self._recorder.event(_about(binding), "KAIBackendMappingFailed", problem, warning=True)


def _about(binding: ClusterTopologyBinding) -> Reference:
    return Reference.to(TOPOLOGIES, binding.metadata.name, uid=binding.metadata.uid)
