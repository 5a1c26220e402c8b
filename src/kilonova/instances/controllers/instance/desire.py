"""What to write for an instance. Pure.

    no gang ─► gang ─► pods, gated ─► pods ─► nodes ─► ready
                 ▲                                       │
                 └── a repair: the record changes  ◄─────┘

A gang that is to change is written alone: its pods follow when the caches show it.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from kilonova.api.grove.names import POD_GANG_GATE
from kilonova.api.inference_engine import InstanceStatus, names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang, PodGangSpec
from kilonova.api.scheduling import Reservation
from kilonova.api.scheduling_names import AVOID_NODES, QUEUE
from kilonova.api.times import format_rfc3339
from kilonova.instances.builders.engine import Engine
from kilonova.instances.builders.gang import (
    build_gang,
    list_constrained_levels,
    list_preferred_levels,
)
from kilonova.instances.builders.identity import Identity
from kilonova.instances.builders.pods import build_agent_pod, build_conductor_pod
from kilonova.instances.builders.reservation import build_reservation
from kilonova.instances.builders.service import build_services
from kilonova.instances.controllers.instance.evolution import evolve
from kilonova.instances.controllers.instance.gang_status import build_gang_status
from kilonova.instances.controllers.instance.observed import (
    ObservedAllocation,
    ObservedInstance,
    get_allocation,
)
from kilonova.instances.controllers.instance.plan import (
    Deletion,
    FreshAllocation,
    InstanceEvent,
    InstancePlan,
    Rung,
    Situation,
)
from kilonova.instances.controllers.instance.record import AllocationRecord, encode_record
from kilonova.instances.controllers.instance.status import (
    build_new,
    build_status,
)
from kilonova.instances.repair import CONDUCTOR
from kilonova.instances.resources import Pod
from kilonova.instances.settings import InstanceSettings


def allocate(
    observed: ObservedInstance, engine: Engine, fresh: FreshAllocation, now: datetime
) -> InstancePlan:
    """The first allocation of an instance."""
    identity, number = Identity.of(observed.instance), observed.next_number
    record = AllocationRecord(fresh.constraints, fresh.build, agents=engine.agents)
    record = replace(record, generation=number, base=number)
    return InstancePlan(
        services=tuple(build_services(identity, number, number)),
        gang=_build_gang(identity, engine, record, number),
        status=build_new(observed.instance, engine.agents, now),
    )


def desire(situation: Situation, settings: InstanceSettings, now: datetime) -> InstancePlan:
    """What to write for an instance with an allocation."""
    if situation.decision.relocation in ("Relocate", "Release") and situation.fresh is not None:
        return _relocate(situation, situation.fresh, now)
    return _change_gang(situation, now) or _continue(situation, settings, now)


def _relocate(situation: Situation, fresh: FreshAllocation, now: datetime) -> InstancePlan:
    """The next allocation. Its gang is written first: after that, the former one is released."""
    observed, old = situation.observed, situation.progress.allocation
    identity, number = Identity.of(observed.instance), old.number + 1
    is_reserved = situation.decision.relocation == "Relocate"
    name = names.reservation(observed.instance.metadata.name, number)
    has_reservation = any(each.metadata.name == name for each in observed.own_reservations)
    generation = old.record.generation + 1
    record = AllocationRecord(
        fresh.constraints,
        fresh.build,
        agents=situation.engine.agents,
        generation=generation,
        base=generation,
        recreated=old.record.recreated,
        started=format_rfc3339(now),
        reason=old.record.reason,
        origin=observed.instance.status.domain,
        reservation=name if is_reserved and has_reservation else "",
    )
    status = build_status(
        observed.instance,
        situation.serving or situation.progress,
        record,
        now,
        has_given_up=False,
        is_relocating=True,
    )
    return InstancePlan(
        gang=_build_gang(identity, situation.engine, record, number),
        status=status,
        repairs=(("relocate", 1),),
    )


def _change_gang(situation: Situation, now: datetime) -> InstancePlan | None:
    """A step of a repair, which changes the gang; None if it is as it should be."""
    observed, progress = situation.observed, situation.progress
    allocation, instance = progress.allocation, observed.instance
    evolution = evolve(
        allocation,
        progress.members,
        situation.decision,
        instance.metadata.name,
        observed.find_node,
        observed.levels,
        list_constrained_levels(situation.engine, allocation.record.constraints),
        now,
    )
    identity = Identity.of(instance)
    gang = _build_gang(identity, situation.engine, evolution.record, allocation.number)
    if _has_same_gang(allocation.gang, gang):
        return None
    events: tuple[InstanceEvent, ...] = ()
    repairs: list[tuple[Rung, int]] = []
    if evolution.recreated:
        pods = "pod" if evolution.recreated == 1 else "pods"
        cause = f": {evolution.reason}" if evolution.reason else ""
        message = f"Recreated {evolution.recreated} agent {pods}{cause}"
        events = (InstanceEvent(names.AGENT_PODS_RECREATED, message),)
        moved = evolution.moved
        repairs = [("recreate", evolution.recreated - moved), ("replace-node", moved)]
    return InstancePlan(
        gang=gang,
        status=_build_status(situation, evolution.record, now),
        events=events,
        repairs=tuple(each for each in repairs if each[1]),
    )


def _continue(situation: Situation, settings: InstanceSettings, now: datetime) -> InstancePlan:
    """Pods and all else, of a gang that is as it should be."""
    observed, progress = situation.observed, situation.progress
    allocation, instance = progress.allocation, observed.instance
    create = tuple(_build_missing_pods(situation, settings))
    status = _build_status(situation, allocation.record, now)
    serving = situation.serving or progress
    numbers = allocation.number, serving.allocation.number
    services = tuple(build_services(Identity.of(instance), *numbers))
    names_in_use = {each["metadata"]["name"] for each in services}
    ungate = () if create else _list_gated(allocation, instance.metadata.name)
    return InstancePlan(
        services=services,
        reservation=_build_reservation(situation, settings),
        delete_pods=tuple(_list_deletions(situation)),
        delete_gangs=tuple(
            each.gang
            for each in observed.allocations
            if each is not allocation and each is not serving.allocation
        ),
        delete_services=tuple(
            each
            for each in observed.services
            if observed.is_own(each.metadata)
            and each.metadata.name not in names_in_use
            and each.metadata.deletion_timestamp is None
        ),
        delete_reservations=tuple(_list_unused_reservations(situation)),
        create=create,
        ungate=ungate,
        gang_status=(
            allocation.gang,
            build_gang_status(progress, now, is_created=not create and not ungate),
        ),
        status=status,
        events=tuple(_list_events(situation, status)),
        repairs=(("give-up", 1),) if _has_just_failed(instance.status, status) else (),
    )


def _build_gang(
    identity: Identity, engine: Engine, record: AllocationRecord, number: int
) -> JsonObject:
    pods = list(record.list_pods(identity.name))
    gang = build_gang(
        identity,
        engine,
        record.constraints,
        agents=[name for member, _, name in pods if member != CONDUCTOR],
        conductor=record.get_pod_name(identity.name, CONDUCTOR),
        allocation=number,
        level=record.level,
        avoided_nodes=record.avoided_nodes,
        reservation=record.reservation,
    )
    annotations = gang["metadata"].get("annotations", {})
    gang["metadata"]["annotations"] = {
        **annotations,
        names.ALLOCATION_RECORD: encode_record(record),
    }
    return gang


def _has_same_gang(live: PodGang, wanted: JsonObject) -> bool:
    """Whether a gang is as wanted; others may have added labels and annotations."""
    metadata = wanted["metadata"]
    labels, annotations = live.metadata.labels, live.metadata.annotations
    return (
        live.spec == msgspec.convert(wanted["spec"], PodGangSpec)
        and metadata["labels"].items() <= labels.items()
        and metadata["annotations"].items() <= annotations.items()
        and labels.get(QUEUE) == metadata["labels"].get(QUEUE)
        and annotations.get(AVOID_NODES) == metadata["annotations"].get(AVOID_NODES)
    )


def _build_missing_pods(situation: Situation, settings: InstanceSettings) -> Iterator[JsonObject]:
    instance, allocation = situation.observed.instance, situation.progress.allocation
    for member, generation, name in allocation.record.list_pods(instance.metadata.name):
        if name not in allocation.pods:
            yield _build_pod(situation, settings, member, generation)


def _build_pod(
    situation: Situation, settings: InstanceSettings, member: int, generation: int
) -> JsonObject:
    identity = Identity.of(situation.observed.instance)
    allocation = situation.progress.allocation
    if member == CONDUCTOR:
        return build_conductor_pod(
            identity,
            situation.engine,
            scheduler_name=settings.scheduler_name,
            allocation=allocation.number,
            generation=generation,
            levels=list_preferred_levels(situation.engine, allocation.record.constraints),
        )
    return build_agent_pod(
        identity,
        situation.engine,
        member,
        scheduler_name=settings.scheduler_name,
        allocation=allocation.number,
        generation=generation,
        node_preferences=allocation.record.constraints.node_preferences,
    )


def _list_gated(allocation: ObservedAllocation, instance: str) -> tuple[Pod, ...]:
    pods = (allocation.pods[name] for _, _, name in allocation.record.list_pods(instance))
    return tuple(pod for pod in pods if pod.spec.scheduling_gates and _is_gated(pod))


def _is_gated(pod: Pod) -> bool:
    return any(each.name == POD_GANG_GATE for each in pod.spec.scheduling_gates)


def _list_deletions(situation: Situation) -> Iterator[Deletion]:
    """Pods that are not those of the record, and those of former allocations."""
    observed, allocation = situation.observed, situation.progress.allocation
    wanted = {name for _, _, name in allocation.record.list_pods(observed.instance.metadata.name)}
    kept = None if situation.serving is None else situation.serving.allocation.number
    for pod in observed.own_pods:
        number = get_allocation(pod.metadata)
        if number == kept or (number == allocation.number and pod.metadata.name in wanted):
            continue
        node = pod.spec.node_name
        is_forced = bool(node) and observed.find_node(node) is None
        if is_forced or pod.metadata.deletion_timestamp is None:
            yield Deletion(pod, is_forced)


def _build_reservation(situation: Situation, settings: InstanceSettings) -> JsonObject | None:
    """The reservation of the next allocation, if it is to be made and does not exist."""
    instance, allocation = situation.observed.instance, situation.progress.allocation
    name = names.reservation(instance.metadata.name, allocation.number + 1)
    exists = any(each.metadata.name == name for each in situation.observed.own_reservations)
    if situation.decision.relocation != "Reserve" or exists:
        return None
    generation = allocation.record.generation + 1
    return build_reservation(
        Identity.of(instance),
        situation.engine,
        _build_pod(situation, settings, 0, generation),
        _build_pod(situation, settings, CONDUCTOR, generation),
        allocation=allocation.number + 1,
        level=allocation.record.level or situation.engine.required,
    )


def _list_unused_reservations(situation: Situation) -> Iterator[Reservation]:
    """Those of no relocation, or of one that is complete."""
    instance, progress = situation.observed.instance, situation.progress
    used: set[str] = set()
    if situation.decision.relocation == "Reserve":
        number = progress.allocation.number + 1
        used.add(names.reservation(instance.metadata.name, number))
    if not progress.is_placed:
        used.add(progress.allocation.record.reservation)
    for each in situation.observed.own_reservations:
        if each.metadata.name not in used or each.status.phase == "Expired":
            yield each


def _build_status(situation: Situation, record: AllocationRecord, now: datetime) -> InstanceStatus:
    serving = situation.serving
    return build_status(
        situation.observed.instance,
        serving or situation.progress,
        record,
        now,
        has_given_up=situation.decision.has_given_up and serving is None,
        is_relocating=serving is not None,
    )


def _list_events(situation: Situation, status: InstanceStatus) -> Iterator[InstanceEvent]:
    old, progress = situation.observed.instance.status, situation.progress
    if status.repairs.relocated > old.repairs.relocated:
        origin = progress.allocation.record.origin or "several domains"
        domain = status.domain or "several domains"
        yield InstanceEvent(names.INSTANCE_RELOCATED, f"Relocated from {origin} to {domain}")
    if _has_just_failed(old, status):
        message = next((each.message for each in status.conditions if each.type == "Allocated"), "")
        text = f"Could not allocate resources: {message}"
        yield InstanceEvent(names.ALLOCATION_FAILED, text, is_warning=True)


def _has_just_failed(old: InstanceStatus, new: InstanceStatus) -> bool:
    return new.phase == "Failed" and old.phase != "Failed"
