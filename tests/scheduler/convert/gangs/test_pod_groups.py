"""PodGroups converted to gangs."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.convert.gangs.pod_groups import (
    COSCHEDULED_KIND,
    NATIVE_KIND,
    PodGroupRef,
    convert_pod_group,
    find_pod_group_ref,
)
from kilonova.scheduler.convert.gangs.podgangs import convert_placed_podgang, convert_podgang
from kilonova.scheduler.core.model.gangs import Gang, PackConstraint
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.pod_groups import CoschedulingPodGroup, KubernetesPodGroup
from kilonova.scheduler.status.conditions import gang_condition
from kilonova.scheduler.status.pod_group_status import scheduled_condition
from kilonova.scheduler.status.results import SchedulingResult
from tests.scheduler.convert.wire_pods import wire_pod

PENDING_RESULT = SchedulingResult(False, "InsufficientCapacity", "too few GPUs")


def metadata(**more: Any) -> dict[str, Any]:
    return {
        "name": "train",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-05-01T00:00:00Z",
        **more,
    }


def coscheduled(spec: dict[str, Any], **more: Any) -> CoschedulingPodGroup:
    return msgspec.convert({"metadata": metadata(**more), "spec": spec}, CoschedulingPodGroup)


def native(spec: dict[str, Any], *conditions: dict[str, str]) -> KubernetesPodGroup:
    body = {"metadata": metadata(), "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, KubernetesPodGroup)


def pods(count: int, placed: int = 0) -> dict[str, Pod]:
    """Pods of priority 5, the first few of them bound."""
    wire_pods = (
        wire_pod({"priority": 5, "nodeName": "n0" if each < placed else ""}, name=f"w{each}")
        for each in range(count)
    )
    return {pod.key: pod for pod in wire_pods}


def convert_group(
    group: CoschedulingPodGroup | KubernetesPodGroup, members: dict[str, Pod]
) -> Gang:
    gang = convert_pod_group(group, members.values())
    assert gang is not None
    found = convert_podgang(gang, members.get)
    assert isinstance(found, Gang)
    return found


LABELS = {
    "current label": ({"scheduling.x-k8s.io/pod-group": "a"}, {}, (COSCHEDULED_KIND, "a")),
    "former label": ({"pod-group.scheduling.sigs.k8s.io": "a"}, {}, (COSCHEDULED_KIND, "a")),
    "Kubernetes": ({}, {"schedulingGroup": {"podGroupName": "b"}}, (NATIVE_KIND, "b")),
    "Kubernetes before coscheduling": (
        {"scheduling.x-k8s.io/pod-group": "a"},
        {"schedulingGroup": {"podGroupName": "b"}},
        (NATIVE_KIND, "b"),
    ),
    "PodGang first": (
        {"scheduling.x-k8s.io/pod-group": "a", "grove.io/podgang": "g"},
        {"schedulingGroup": {"podGroupName": "b"}},
        None,
    ),
    "an empty name": ({"scheduling.x-k8s.io/pod-group": ""}, {"schedulingGroup": {}}, None),
    "none": ({}, {}, None),
}


@pytest.mark.parametrize("name", LABELS)
def test_pod_group_of_a_pod_is_found(name: str) -> None:
    labels, spec, ref = LABELS[name]
    wanted = None if ref is None else PodGroupRef(ref[0], "ns", ref[1])
    assert find_pod_group_ref(wire_pod(spec, labels)) == wanted


def test_coscheduling_group_is_a_gang_of_its_minimum() -> None:
    group = coscheduled(
        {"minMember": 2, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 10},
        labels={"scheduling.kilonova.dev/queue": "research"},
    )
    gang = convert_group(group, pods(3))
    (only,) = gang.groups
    assert gang.name == "podgroup.scheduling.x-k8s.io/ns/train"
    assert (only.minimum, [member.pod for member in only.members]) == (
        2,
        ["ns/w0", "ns/w1", "ns/w2"],
    )
    assert (gang.queue, gang.priority, gang.pack) == ("research", 5, PackConstraint())


def test_coscheduling_group_without_a_minimum_needs_one_pod() -> None:
    assert convert_group(coscheduled({}), pods(2)).needed == 1
    assert convert_group(coscheduled({"minMember": 0}), pods(2)).needed == 1


@pytest.mark.parametrize(
    "label", ["batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"]
)
def test_pods_of_jobs_and_stateful_sets_are_ordered_by_index(label: str) -> None:
    made = (wire_pod({}, {label: str(index)}, f"w{index}") for index in range(11))
    gang = convert_group(coscheduled({"minMember": 11}), {pod.key: pod for pod in made})
    assert [member.pod for member in gang.groups[0].members] == [f"ns/w{n}" for n in range(11)]


def test_group_without_pods_is_not_a_gang() -> None:
    assert convert_pod_group(coscheduled({"minMember": 2}), ()) is None


def test_kubernetes_group_has_its_minimum_topology_and_priority() -> None:
    group = native(
        {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "priority": 70,
        }
    )
    gang = convert_group(group, pods(3))
    assert gang.name == "podgroup.scheduling.k8s.io/ns/train"
    assert (gang.needed, gang.priority) == (2, 70)
    assert gang.pack == PackConstraint(required="example.com/rack")


def test_pods_of_a_basic_group_are_converted_one_by_one() -> None:
    assert convert_pod_group(native({"schedulingPolicy": {"basic": {}}}), pods(2).values()) is None


def test_pods_of_a_basic_group_with_a_topology_share_one_domain() -> None:
    constraints = {"topology": [{"key": "example.com/rack"}]}
    group = native({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": constraints})
    gang = convert_group(group, pods(3))
    assert (gang.needed, gang.pack.required) == (1, "example.com/rack")


@pytest.mark.parametrize(("mode", "minimum"), [("Pod", 1), (None, 1), ("PodGroup", 3)])
def test_group_disrupted_as_a_whole_has_no_surplus_pods(mode: str | None, minimum: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": mode}
    members = pods(4, placed=3)
    gang = convert_pod_group(native(spec), members.values())
    assert gang is not None
    placed_gang = convert_placed_podgang(gang, members.get)
    assert placed_gang is not None
    for each in (convert_group(native(spec), members), placed_gang):
        assert each.groups[0].minimum == minimum
        assert each.needed == 0


def condition(status: str) -> dict[str, str]:
    since = "2026-05-01T00:01:00Z"
    return {"type": "PodGroupScheduled", "status": status, "lastTransitionTime": since}


EXPECTED_CONDITIONS = {
    "too few": ((), 1, None),
    "enough": ((), 2, ("True", "Scheduled")),
    "after pending": ((condition("False"),), 2, ("True", "Scheduled")),
    "written already": ((condition("True"),), 2, None),
}


@pytest.mark.parametrize("name", EXPECTED_CONDITIONS)
def test_kubernetes_group_is_scheduled_when_its_minimum_is_bound(name: str) -> None:
    conditions, placed, expected = EXPECTED_CONDITIONS[name]
    group = native({"schedulingPolicy": {"gang": {"minCount": 2}}}, *conditions)
    new = scheduled_condition(group, pods(3, placed).values())
    assert (new and (new.status, new.reason)) == expected


def test_only_never_scheduled_kubernetes_group_reports_pending() -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    groups = (native(policy), native(policy, condition("True")), coscheduled({"minMember": 2}))
    gangs = [convert_pod_group(group, pods(2).values()) for group in groups]
    conditions = [gang and gang_condition(gang, PENDING_RESULT) for gang in gangs]
    assert [each and (each.type, each.status, each.reason) for each in conditions] == [
        ("PodGroupScheduled", "False", "Unschedulable"),
        None,
        None,
    ]
