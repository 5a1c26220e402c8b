"""What to write for an instance, by what exists."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineInstance
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.builders.engine import resolve_engine
from kilonova.instances.builders.gang import build_gang
from kilonova.instances.builders.identity import Identity
from kilonova.instances.controllers.instance.desire import allocate, desire
from kilonova.instances.controllers.instance.health import assess_members
from kilonova.instances.controllers.instance.observed import ObservedInstance
from kilonova.instances.controllers.instance.plan import FreshAllocation, InstancePlan, Situation
from kilonova.instances.controllers.instance.progress import Progress
from kilonova.instances.controllers.instance.record import encode_record, read_record
from kilonova.instances.repair import CONDUCTOR, RepairDecision
from kilonova.instances.resources import ChildObject, Pod
from kilonova.instances.settings import InstanceSettings
from tests.instances.controllers.instance.objects import CREATED, condition, metadata, node, nodes

NOW = datetime(2026, 5, 1, 0, 10, tzinfo=UTC)
LEVELS = ("zone", "rack")
LABELS = {"zone": "a", "rack": "r0"}
KNOWN = nodes(node("n0", labels=LABELS), node("n1", labels=LABELS), node("n2", labels=LABELS))
FRESH = FreshAllocation(AllocationConstraints(preferred=("rack", "zone")), None)
OWNER = {
    "apiVersion": "inference-engine.groq.io/v1",
    "kind": "InferenceEngineInstance",
    "name": "llama",
    "uid": "uid-llama",
    "controller": True,
}


def instance(**status: Any) -> InferenceEngineInstance:
    spec = {"model": "llama", "targetAgents": 2, "image": "engine"}
    body = {"metadata": metadata("llama"), "spec": spec, "status": status}
    return msgspec.convert(body, InferenceEngineInstance)


def to_live(body: Any, **status: Any) -> Any:
    """An object as the API server has it."""
    own = {"uid": "uid-gang", "resourceVersion": "1", "creationTimestamp": CREATED, "generation": 3}
    return {**body, "metadata": {**body["metadata"], **own}, "status": status}


def gang_of(of: InferenceEngineInstance, *, number: int = 0, **status: Any) -> PodGang:
    """The gang of the first allocation, or of a later one."""
    observed = observe(of)
    body = allocate(observed, resolve_engine(of.spec), FRESH, NOW).gang
    if number:
        base = Situation(
            observe(of, gang_of(of, number=number - 1)),
            resolve_engine(of.spec),
            progress_of(observe(of, gang_of(of, number=number - 1))),
            RepairDecision(relocation="Release"),
            fresh=FRESH,
        )
        body = desire(base, InstanceSettings(), NOW).gang
    assert body is not None
    created = condition("Initialized", observedGeneration=3)
    return msgspec.convert(to_live(body, conditions=[created], **status), PodGang)


def pod(name: str, *, node: str = "n0", allocation: int = 0, gated: bool = False) -> Pod:
    labels = {"supernova.groq.io/allocation": str(allocation)}
    gates = [{"name": "grove.io/podgang-pending-creation"}] if gated else []
    ready = condition("Ready", "True" if node else "False")
    body = {
        "metadata": metadata(name, labels=labels, ownerReferences=[OWNER]),
        "spec": {"nodeName": node, "schedulingGates": gates},
        "status": {"conditions": [condition("PodScheduled"), ready]},
    }
    return msgspec.convert(body, Pod)


def reservation(name: str, phase: str = "Pending") -> Reservation:
    spec = {"pods": [{"count": 1, "requests": {"cpu": 1}}], "duration": "1h"}
    known = metadata(name, ownerReferences=[OWNER])
    body = {"metadata": known, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(body, Reservation)


def observe(
    of: InferenceEngineInstance,
    *gangs: PodGang,
    pods: Any = (),
    reservations: Any = (),
    services: Any = (),
) -> ObservedInstance:
    return ObservedInstance(of, pods, gangs, reservations, services, KNOWN, LEVELS)


def progress_of(observed: ObservedInstance, position: int = 0) -> Progress:
    found = observed.allocations[position]
    members = assess_members(found, "llama", 2, KNOWN, NOW, 300).members
    return Progress(found, members, KNOWN, LEVELS)


def plan(
    observed: ObservedInstance, decision: RepairDecision | None = None, *, serving: bool = False
) -> InstancePlan:
    situation = Situation(
        observed,
        resolve_engine(observed.instance.spec),
        progress_of(observed),
        decision or RepairDecision(),
        progress_of(observed, 1) if serving else None,
        FRESH,
    )
    return desire(situation, InstanceSettings(), NOW)


def with_record(gang: PodGang, of: InferenceEngineInstance, **changes: Any) -> PodGang:
    """A gang after steps that changed its record."""
    record = replace(read_record(gang), **changes)
    identity = Identity.of(of)
    number = int(gang.metadata.labels["supernova.groq.io/allocation"])
    body = build_gang(
        identity,
        resolve_engine(of.spec),
        record.constraints,
        agents=[record.get_pod_name("llama", each) for each in (0, 1)],
        conductor=record.get_pod_name("llama", CONDUCTOR),
        allocation=number,
        level=record.level,
    )
    key = "supernova.groq.io/allocation-record"
    body["metadata"]["annotations"] = {key: encode_record(record)}
    return msgspec.convert(to_live(body, **msgspec.to_builtins(gang.status)), PodGang)


def service(name: str) -> ChildObject:
    known = metadata(name, ownerReferences=[OWNER])
    return msgspec.convert({"metadata": known, "spec": {}}, ChildObject)


ALL = ("llama-agent-0", "llama-agent-1", "llama-conductor")


def test_new_instance_gets_its_service_and_gang_first() -> None:
    found = allocate(observe(instance()), resolve_engine(instance().spec), FRESH, NOW)
    assert [each["metadata"]["name"] for each in found.services] == ["iei-llama"]
    assert found.gang is not None
    names = [
        each["name"] for group in found.gang["spec"]["podgroups"] for each in group["podReferences"]
    ]
    assert names == list(ALL)
    assert (found.create, found.status.phase, found.status.pending_agents) == ((), "Allocating", 2)


def test_pods_follow_the_gang_and_stay_gated_until_all_exist() -> None:
    of = instance()
    gang = gang_of(of)
    gang.status = replace(gang.status, conditions=())
    created = plan(observe(of, gang, pods=[pod(ALL[0], node="", gated=True)]))
    assert [each["metadata"]["name"] for each in created.create] == list(ALL[1:])
    assert created.ungate == ()
    complete = plan(observe(of, gang, pods=[pod(each, node="", gated=True) for each in ALL]))
    assert complete.create == ()
    assert [each.metadata.name for each in complete.ungate] == list(ALL)


def test_placed_agents_stay_in_their_domain() -> None:
    of = instance()
    found = plan(observe(of, gang_of(of), pods=[pod(each) for each in ALL]))
    assert found.gang is not None
    agents = found.gang["spec"]["podgroups"][0]["topologyConstraint"]["packConstraint"]
    assert agents == {"required": "rack", "preferred": "zone"}
    assert found.create == found.delete_pods == ()


@pytest.mark.parametrize(("node_name", "forced"), [("n1", False), ("gone", True)])
def test_replaced_pod_is_deleted_after_the_gang_was_changed(node_name: str, forced: bool) -> None:
    of = instance()
    gang = gang_of(of, lastScheduled=CREATED)
    pods = [pod(ALL[0]), pod(ALL[1], node=node_name), pod(ALL[2])]
    step = plan(observe(of, gang, pods=pods), RepairDecision((1,)))
    assert step.gang is not None
    assert (step.delete_pods, step.create) == ((), ())
    (event,) = step.events
    cause = ": node gone was deleted" if forced else ""
    assert (event.reason, event.message) == ("AgentPodsRecreated", f"Recreated 1 agent pod{cause}")
    changed = msgspec.convert(to_live(step.gang, lastScheduled=CREATED), PodGang)
    after = plan(observe(of, changed, pods=pods))
    (deletion,) = after.delete_pods
    assert (deletion.pod.metadata.name, deletion.is_forced) == (ALL[1], forced)
    assert [each["metadata"]["name"] for each in after.create] == ["llama-agent-1-r1"]
    assert after.events == ()


def test_capacity_is_reserved_in_one_domain_of_the_level() -> None:
    of = instance()
    gang = with_record(gang_of(of, lastScheduled=CREATED), of, level="rack")
    pods = [pod(ALL[0]), pod(ALL[1], node=""), pod(ALL[2])]
    decision = RepairDecision(relocation="Reserve")
    found = plan(observe(of, gang, pods=pods), decision)
    assert found.gang is None
    assert found.reservation is not None
    assert found.reservation["metadata"]["name"] == "iei1-llama"
    assert found.reservation["spec"]["topologyKey"] == "rack"
    known = observe(of, gang, pods=pods, reservations=[reservation("iei1-llama")])
    assert plan(known, decision).reservation is None
    # It is not kept when it is not needed any more, or has expired.
    assert [each.metadata.name for each in plan(known).delete_reservations] == ["iei1-llama"]
    expired = observe(of, gang, pods=pods, reservations=[reservation("iei1-llama", "Expired")])
    assert len(plan(expired, decision).delete_reservations) == 1


def test_relocation_begins_with_a_gang_that_uses_the_reservation() -> None:
    of = instance(domain="a/r0")
    gang = with_record(
        gang_of(of, lastScheduled=CREATED), of, level="rack", recreated=3, generation=4
    )
    pods = [pod(ALL[0]), pod(ALL[1], node=""), pod(ALL[2])]
    reserved = [reservation("iei1-llama", "Reserved")]
    observed = observe(of, gang, pods=pods, reservations=reserved)
    found = plan(observed, RepairDecision(relocation="Relocate"))
    assert found.gang is not None
    assert found.gang["metadata"]["name"] == "iei1-llama"
    assert found.gang["spec"]["reuseReservationRef"]["name"] == "iei1-llama"
    assert (found.delete_pods, found.delete_gangs) == ((), ())
    assert found.status.phase == "Relocating"
    record = read_record(msgspec.convert(to_live(found.gang), PodGang))
    assert (record.base, record.recreated, record.origin) == (5, 3, "a/r0")
    assert record.level == ""


def test_former_allocation_is_released_unless_it_serves() -> None:
    of = instance()
    former = gang_of(of, lastScheduled=CREATED, lastReady=CREATED)
    newest = gang_of(of, number=1)
    pods = [pod(each) for each in ALL]
    observed = observe(of, former, newest, pods=pods)
    released = plan(observed)
    assert [each.metadata.name for each in released.delete_gangs] == ["iei-llama"]
    assert {each.pod.metadata.name for each in released.delete_pods} == set(ALL)
    kept = plan(observed, serving=True)
    assert kept.delete_gangs == kept.delete_pods == ()
    selectors = [each["spec"]["selector"] for each in kept.services]
    assert [each["supernova.groq.io/allocation"] for each in selectors] == ["0", "1"]
    assert (kept.status.phase, kept.status.ready_agents) == ("Relocating", 2)
    assert len(kept.create) == 3


def test_complete_relocation_is_reported_once() -> None:
    of = instance()
    gang = with_record(gang_of(of, number=1, lastScheduled=CREATED), of, origin="a/r9")
    record = read_record(gang)
    names = [record.get_pod_name("llama", each) for each in (0, 1, CONDUCTOR)]
    pods = [pod(each, allocation=1) for each in names]
    gang = with_record(gang, of, level="rack")
    found = plan(observe(of, gang, pods=pods))
    (event,) = found.events
    assert (event.reason, event.message) == ("InstanceRelocated", "Relocated from a/r9 to a/r0")
    assert found.status.repairs.relocated == 1
    services = [service("iei-llama"), service("iei1-llama"), service("iei9-llama")]
    unused = plan(observe(of, gang, pods=pods, services=services)).delete_services
    assert [each.metadata.name for each in unused] == ["iei9-llama"]
    reported = instance(repairs={"relocated": 1})
    assert plan(observe(reported, gang, pods=pods)).events == ()


def test_allocation_that_is_given_up_is_reported_once() -> None:
    of = instance(phase="Allocating")
    gang = gang_of(of)
    why = condition("Unschedulable", reason="InsufficientCapacity", message="no rack is free")
    gang.status = replace(
        gang.status,
        conditions=(*gang.status.conditions, msgspec.convert(why, type(gang.status.conditions[0]))),
    )
    pods = [pod(each, node="") for each in ALL]
    found = plan(observe(of, gang, pods=pods), RepairDecision(has_given_up=True))
    (event,) = found.events
    assert (event.reason, event.is_warning) == ("AllocationFailed", True)
    text = "0 of 2 agents have a node: no rack is free"
    assert event.message == f"Could not allocate resources: {text}"
    assert found.status.phase == "Failed"
    failed = instance(phase="Failed")
    again = plan(observe(failed, gang, pods=pods), RepairDecision(has_given_up=True))
    assert again.events == ()
