"""Groups of pods as others write them, read as the gangs that they mean."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.core.gangs import Gang, Pack
from kilonova.scheduler.groupobjects import CoscheduledGroup, NativeGroup
from kilonova.scheduler.groupstatus import scheduled
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import read_gang, read_standing
from kilonova.scheduler.reading.podgroups import (
    COSCHEDULED_KIND,
    NATIVE_KIND,
    GroupRef,
    gang_of_group,
    group_named,
)
from kilonova.scheduler.speaking import told_by
from kilonova.scheduler.verdicts import Verdict
from tests.scheduler.reading.wire_pods import wire_pod

WAITS = Verdict(False, "NoRoom", "too few GPUs")


def metadata(**more: Any) -> dict[str, Any]:
    return {
        "name": "train",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-05-01T00:00:00Z",
        **more,
    }


def coscheduled(spec: dict[str, Any], **more: Any) -> CoscheduledGroup:
    return msgspec.convert({"metadata": metadata(**more), "spec": spec}, CoscheduledGroup)


def native(spec: dict[str, Any], *conditions: dict[str, str]) -> NativeGroup:
    body = {"metadata": metadata(), "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, NativeGroup)


def pods(count: int, placed: int = 0) -> dict[str, Pod]:
    """Pods of priority 5, the first few of them on nodes."""
    made = (
        wire_pod({"priority": 5, "nodeName": "n0" if each < placed else ""}, name=f"w{each}")
        for each in range(count)
    )
    return {pod.key: pod for pod in made}


def read(group: CoscheduledGroup | NativeGroup, members: dict[str, Pod]) -> Gang:
    gang = gang_of_group(group, members.values())
    assert gang is not None
    found = read_gang(gang, members.get)
    assert isinstance(found, Gang)
    return found


LABELS = {
    "as it is written now": ({"scheduling.x-k8s.io/pod-group": "a"}, {}, (COSCHEDULED_KIND, "a")),
    "as it was before": ({"pod-group.scheduling.sigs.k8s.io": "a"}, {}, (COSCHEDULED_KIND, "a")),
    "Kubernetes": ({}, {"schedulingGroup": {"podGroupName": "b"}}, (NATIVE_KIND, "b")),
    "Kubernetes before coscheduling": (
        {"scheduling.x-k8s.io/pod-group": "a"},
        {"schedulingGroup": {"podGroupName": "b"}},
        (NATIVE_KIND, "b"),
    ),
    "a PodGang before all": (
        {"scheduling.x-k8s.io/pod-group": "a", "grove.io/podgang": "g"},
        {"schedulingGroup": {"podGroupName": "b"}},
        None,
    ),
    "an empty name": ({"scheduling.x-k8s.io/pod-group": ""}, {"schedulingGroup": {}}, None),
    "none": ({}, {}, None),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_pod_names_its_group(name: str) -> None:
    labels, spec, ref = LABELS[name]
    wanted = None if ref is None else GroupRef(ref[0], "ns", ref[1])
    assert group_named(wire_pod(spec, labels)) == wanted


def test_a_coscheduling_group_is_a_gang_of_its_minimum() -> None:
    group = coscheduled(
        {"minMember": 2, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 10},
        labels={"scheduling.kilonova.dev/queue": "research"},
    )
    gang = read(group, pods(3))
    (only,) = gang.groups
    assert gang.name == "podgroup.scheduling.x-k8s.io/ns/train"
    assert (only.minimum, [member.pod for member in only.members]) == (
        2,
        ["ns/w0", "ns/w1", "ns/w2"],
    )
    assert (gang.queue, gang.priority, gang.pack) == ("research", 5, Pack())


def test_a_coscheduling_group_without_a_minimum_needs_one_pod() -> None:
    assert read(coscheduled({}), pods(2)).needed == 1
    assert read(coscheduled({"minMember": 0}), pods(2)).needed == 1


@pytest.mark.parametrize(
    "label", ["batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"]
)
def test_pods_of_jobs_and_stateful_sets_are_in_order_of_their_index(label: str) -> None:
    made = (wire_pod({}, {label: str(index)}, f"w{index}") for index in range(11))
    gang = read(coscheduled({"minMember": 11}), {pod.key: pod for pod in made})
    assert [member.pod for member in gang.groups[0].members] == [f"ns/w{n}" for n in range(11)]


def test_a_group_without_pods_is_no_gang() -> None:
    assert gang_of_group(coscheduled({"minMember": 2}), ()) is None


def test_a_native_gang_has_its_minimum_topology_and_priority() -> None:
    group = native(
        {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "priority": 70,
        }
    )
    gang = read(group, pods(3))
    assert gang.name == "podgroup.scheduling.k8s.io/ns/train"
    assert (gang.needed, gang.priority) == (2, 70)
    assert gang.pack == Pack(required="example.com/rack")


def test_pods_of_a_basic_group_are_each_on_their_own() -> None:
    assert gang_of_group(native({"schedulingPolicy": {"basic": {}}}), pods(2).values()) is None


def test_pods_of_a_basic_group_with_a_topology_come_one_by_one_into_one_domain() -> None:
    constraints = {"topology": [{"key": "example.com/rack"}]}
    group = native({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": constraints})
    gang = read(group, pods(3))
    assert (gang.needed, gang.pack.required) == (1, "example.com/rack")


@pytest.mark.parametrize(("mode", "minimum"), [("Pod", 1), (None, 1), ("PodGroup", 3)])
def test_a_group_that_goes_as_a_whole_has_no_pods_to_spare(mode: str | None, minimum: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": mode}
    members = pods(4, placed=3)
    gang = gang_of_group(native(spec), members.values())
    assert gang is not None
    standing = read_standing(gang, members.get)
    assert standing is not None
    for each in (read(native(spec), members), standing):
        assert each.groups[0].minimum == minimum
        assert each.needed == 0


def condition(status: str) -> dict[str, str]:
    since = "2026-05-01T00:01:00Z"
    return {"type": "PodGroupScheduled", "status": status, "lastTransitionTime": since}


TOLD = {
    "too few": ((), 1, None),
    "enough": ((), 2, ("True", "Scheduled")),
    "after it waited": ((condition("False"),), 2, ("True", "Scheduled")),
    "told already": ((condition("True"),), 2, None),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_native_group_is_scheduled_when_enough_pods_have_a_node(name: str) -> None:
    conditions, placed, wanted = TOLD[name]
    group = native({"schedulingPolicy": {"gang": {"minCount": 2}}}, *conditions)
    said = scheduled(group, pods(3, placed).values())
    assert (said and (said.status, said.reason)) == wanted


def test_only_a_native_group_that_never_was_scheduled_says_that_it_waits() -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    groups = (native(policy), native(policy, condition("True")), coscheduled({"minMember": 2}))
    gangs = [gang_of_group(group, pods(2).values()) for group in groups]
    said = [gang and told_by(gang, WAITS) for gang in gangs]
    assert [each and (each.type, each.status, each.reason) for each in said] == [
        ("PodGroupScheduled", "False", "Unschedulable"),
        None,
        None,
    ]
