"""The controller of ClusterTopologyBindings: do schedulers' own topologies say the same?

A scheduler may keep a topology of its own; where a binding refers to it, its levels are compared
with the binding's. Such a kind need not be installed, so it is not watched but read again from
time to time; a binding that refers to none costs nothing.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove.topology import (
    ClusterTopologyBindingStatus,
    SchedulerTopology,
    SchedulerTopologyStatus,
)
from kilonova.api.meta import Metadata
from kilonova.kube import (
    UNMEASURED,
    Client,
    Controller,
    Instruments,
    Key,
    NotFound,
    Resource,
    Result,
    Watch,
)
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.workloads.caches import Caches
from kilonova.workloads.conditions import find_condition, with_condition, without_condition
from kilonova.workloads.resources import TOPOLOGIES
from kilonova.workloads.statuses import status_patch

DRIFT = "SchedulerTopologyDrift"

_AGAIN_SECONDS = 30.0


class KaiLevel(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A level of KAI's topology: the label of nodes whose values are its domains."""

    node_label: str


class KaiTopologySpec(msgspec.Struct, frozen=True, gc=False):
    """Levels, the broadest first."""

    levels: tuple[KaiLevel, ...] = ()


class KaiTopology(msgspec.Struct, gc=False):
    """What KAI knows of a cluster."""

    metadata: Metadata
    spec: KaiTopologySpec = KaiTopologySpec()


KAI_TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False, KaiTopology)
_KAI = "kai-scheduler"


def compare(
    binding: ClusterTopologyBinding, wanted: SchedulerTopology, found: KaiTopology | None
) -> SchedulerTopologyStatus:
    """Whether a scheduler's topology says the same as a binding; None is one that is not there."""
    name = wanted.topology_reference
    if found is None:
        message = f"{wanted.scheduler_name} has no topology {name!r}"
        if wanted.scheduler_name != _KAI:
            message = f"{wanted.scheduler_name} has no topologies of its own, only {_KAI} has"
        return SchedulerTopologyStatus(wanted.scheduler_name, name, False, None, message)
    asked = [level.key for level in binding.spec.levels]
    told = [level.node_label for level in found.spec.levels]
    message = ""
    if asked != told:
        message = f"topology {name!r} has levels {', '.join(told)} instead of {', '.join(asked)}"
    return SchedulerTopologyStatus(
        wanted.scheduler_name, name, asked == told, found.metadata.generation, message
    )


def binding_status(
    binding: ClusterTopologyBinding, compared: tuple[SchedulerTopologyStatus, ...], now: datetime
) -> ClusterTopologyBindingStatus:
    """The status of a binding, from what the comparisons came to."""
    conditions, generation = binding.status.conditions, binding.metadata.generation
    if not compared:
        conditions = without_condition(conditions, DRIFT)
        return ClusterTopologyBindingStatus(generation, conditions)
    amiss = [each for each in compared if not each.in_sync]
    unknown = any(each.scheduler_backend_topology_observed_generation is None for each in amiss)
    if not amiss:
        status, reason, message = "False", "InSync", "All schedulers have the same levels"
    else:
        status, reason = ("Unknown", "TopologyNotFound") if unknown else ("True", "Drift")
        message = "; ".join(each.message for each in amiss)
    conditions = with_condition(conditions, DRIFT, status, reason, message, now, generation)
    return ClusterTopologyBindingStatus(generation, conditions, compared)


def build_topology_controller(
    client: Client,
    caches: Caches,
    recorder: Recorder,
    now: Callable[[], datetime],
    instruments: Instruments = UNMEASURED,
) -> Controller:
    """Tells how bindings are; the caches must run beside it."""
    rounds = _Rounds(client, caches, recorder, now)
    watched = [Watch(caches.topologies)]
    return Controller("topologies", rounds.reconcile, watched, instruments=instruments)


class _Rounds:
    def __init__(
        self, client: Client, caches: Caches, recorder: Recorder, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._store = caches.topologies.store
        self._recorder = recorder
        self._now = now
        self._echo = Echo(caches.topologies)

    async def reconcile(self, key: Key) -> Result | None:
        """One round of one binding."""
        binding = self._store.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return None
        wanted = binding.spec.scheduler_topology_bindings
        compared = tuple([compare(binding, each, await self._find(each)) for each in wanted])
        status = binding_status(binding, compared, self._now())
        patch = status_patch(binding.status, status)
        if patch is not None:
            known = binding.metadata
            body = {"metadata": {"uid": known.uid}, **patch}
            changed = await self._client.patch(TOPOLOGIES, known.name, body, subresource="status")
            self._report(binding, status)
            await self._echo.of_version(changed.metadata.resource_version)
        return Result(after=_AGAIN_SECONDS) if wanted else None

    async def _find(self, wanted: SchedulerTopology) -> KaiTopology | None:
        if wanted.scheduler_name != _KAI:
            return None
        try:
            return await self._client.get(KAI_TOPOLOGIES, wanted.topology_reference)
        except NotFound:
            return None

    def _report(
        self, binding: ClusterTopologyBinding, status: ClusterTopologyBindingStatus
    ) -> None:
        old = find_condition(binding.status.conditions, DRIFT)
        new = find_condition(status.conditions, DRIFT)
        if new is None or (old is not None and old.status == new.status):
            return
        about = Reference.to(TOPOLOGIES, binding.metadata.name, uid=binding.metadata.uid)
        if new.status == "False":
            self._recorder.event(about, "TopologyInSync", new.message)
        else:
            self._recorder.event(about, "TopologyDriftDetected", new.message, warning=True)
