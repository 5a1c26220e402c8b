"""Which objects of a replica are created, repaired and deleted."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.grove.common import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.meta import OwnerReference
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import Patch, WritePlan
from kilonova.workloads.resources import CLIQUES, GANGS, SCALING_GROUPS, ChildObject, Pod
from tests.workloads.api_objects import clique, group, metadata, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    NOW,
    SimulatedReplica,
    list_created,
    list_gang_pods,
    mark_deleted,
    start_replica,
)

A_SET = pod_clique_set(
    clique("a", 2, 1), clique("b"), clique("c", 3, 1), groups=[group("x", "b", "c", replicas=2)]
)
"""One clique that stands alone, and a group of which one replica is in the base gang."""


def test_gangs_and_groups_are_created_first_then_cliques() -> None:
    replica = SimulatedReplica(A_SET)
    first, second = replica.converge()
    assert {each.resource for each in first.next_creates} == {GANGS, SCALING_GROUPS}
    assert [each.resource for each in second.next_creates][:5] == [CLIQUES] * 5
    assert sorted(replica.gangs) == ["sys-0", "sys-0-x-0"]
    assert sorted(replica.groups) == ["sys-0-x"]
    assert sorted(replica.cliques) == [
        "sys-0-a",
        "sys-0-x-0-b",
        "sys-0-x-0-c",
        "sys-0-x-1-b",
        "sys-0-x-1-c",
    ]
    assert sorted(replica.objects_of_kind("Service")) == ["sys-0"]


def test_gang_lists_pods_by_name_before_they_exist() -> None:
    replica = SimulatedReplica(A_SET)
    replica.converge()
    before = {name: gang.spec for name, gang in replica.gangs.items()}
    replica.start_pods()
    assert replica.converge() == []
    assert {name: gang.spec for name, gang in replica.gangs.items()} == before
    base = list_gang_pods(replica.gangs["sys-0"])
    assert {name: len(pods) for name, pods in base.items()} == {
        "sys-0-a": 2,
        "sys-0-x-0-b": 1,
        "sys-0-x-0-c": 3,
    }
    there = {pod.metadata.name for pod in replica.pods}
    every = {
        name
        for gang in replica.gangs.values()
        for pods in list_gang_pods(gang).values()
        for name in pods
    }
    assert every == there


def test_scaled_gang_refers_to_its_base() -> None:
    replica = start_replica(A_SET)
    base_ref = replica.gangs["sys-0-x-0"].spec.base_ref
    assert base_ref is not None
    assert base_ref.name == "sys-0"
    assert replica.gangs["sys-0"].spec.base_ref is None


def test_terminating_pod_is_replaced_in_its_gang_by_its_successor() -> None:
    replica = start_replica(A_SET)
    before = set(list_gang_pods(replica.gangs["sys-0"])["sys-0-a"])
    victim = next(pod for pod in replica.pods if pod.metadata.labels[names.POD_CLIQUE] == "sys-0-a")
    replica.pods = [
        Pod(mark_deleted(pod.metadata), pod.spec, pod.status) if pod is victim else pod
        for pod in replica.pods
    ]
    replica.converge()
    after = set(list_gang_pods(replica.gangs["sys-0"])["sys-0-a"])
    assert before - after == {victim.metadata.name}
    assert after - before == {names.pod("sys-0-a", 0, 1)}


def test_member_cliques_belong_to_their_group_and_others_to_the_set() -> None:
    replica = start_replica(A_SET)
    owners = {
        name: each.metadata.owner_references[0].kind for name, each in replica.cliques.items()
    }
    assert owners.pop("sys-0-a") == "PodCliqueSet"
    assert set(owners.values()) == {"PodCliqueScalingGroup"}


def test_scaled_clique_keeps_its_replicas_and_its_gang_follows() -> None:
    replica = start_replica(A_SET)
    replica.scale("PodClique", "sys-0-a", 5)
    plans = replica.converge()
    assert [each.name for plan in plans for each in plan.patches] == ["sys-0"]
    assert replica.cliques["sys-0-a"].spec.replicas == 5
    assert len(list_gang_pods(replica.gangs["sys-0"])["sys-0-a"]) == 5


def test_gang_needs_no_more_pods_than_its_clique_is_scaled_to() -> None:
    replica = start_replica(pod_clique_set(clique("a", 3, 3)))
    replica.scale("PodClique", "sys-0-a", 1)
    replica.pods = replica.pods[:1]
    replica.converge()
    assert replica.gangs["sys-0"].spec.pod_groups[0].min_replicas == 1


def test_group_that_grows_gets_gangs_and_cliques() -> None:
    replica = start_replica(A_SET)
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 4)
    plans = replica.converge()
    assert list_created(plans, "PodGang") == ["sys-0-x-1", "sys-0-x-2"]
    assert list_created(plans, "PodClique") == [
        f"sys-0-x-{index}-{name}" for index in (2, 3) for name in ("b", "c")
    ]


def test_scaled_in_group_loses_its_highest_replicas_with_all_objects() -> None:
    template = ResourceClaimTemplate("gpu", {"spec": {"devices": {}}})
    sharing = (ResourceSharing("gpu", "PerReplica"),)
    replica = start_replica(
        pod_clique_set(
            clique("a"),
            clique("b", 2, resource_sharing=sharing),
            groups=[group("x", "b", replicas=3)],
            resource_claim_templates=(template,),
        )
    )
    assert len(replica.objects_of_kind("ResourceClaim")) == 6
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 1)
    (plan,) = replica.converge()
    gone = sorted(each.name for each in plan.deletes)
    assert gone == [
        "sys-0-x-0",
        "sys-0-x-1",
        "sys-0-x-1-b",
        "sys-0-x-1-b-0-gpu",
        "sys-0-x-1-b-1-gpu",
        "sys-0-x-2-b",
        "sys-0-x-2-b-0-gpu",
        "sys-0-x-2-b-1-gpu",
    ]
    assert sorted(replica.objects_of_kind("ResourceClaim")) == [
        "sys-0-x-0-b-0-gpu",
        "sys-0-x-0-b-1-gpu",
    ]


def test_group_scaled_to_zero_leaves_other_objects() -> None:
    replica = start_replica(A_SET)
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 0)
    replica.converge()
    assert sorted(replica.cliques) == ["sys-0-a"]
    assert {name: list(list_gang_pods(gang)) for name, gang in replica.gangs.items()} == {
        "sys-0": ["sys-0-a"]
    }


def test_claims_of_pods_with_gaps_between_their_indexes_stay() -> None:
    template = ResourceClaimTemplate("gpu", {"spec": {"devices": {}}})
    sharing = (ResourceSharing("gpu", "PerReplica"),)
    set_ = pod_clique_set(
        clique("a", 3, 1, resource_sharing=sharing), resource_claim_templates=(template,)
    )
    replica = start_replica(set_)
    replica.pods = [pod for pod in replica.pods if pod.metadata.labels[names.POD_INDEX] == "2"]
    replica.scale("PodClique", "sys-0-a", 1)
    replica.converge()
    assert "sys-0-a-2-gpu" in replica.objects_of_kind("ResourceClaim")


def test_claims_of_an_external_template_wait_for_it_and_outlive_it() -> None:
    sharing = (ResourceSharing("their-gpu", "AllReplicas"),)
    replica = SimulatedReplica(pod_clique_set(clique("a", resource_sharing=sharing)))
    assert replica.plan().claim_templates == {("default", "their-gpu")}
    replica.converge()
    assert replica.objects_of_kind("ResourceClaim") == {}
    assert replica.cliques == {}, "its pods would wait for claims that cannot be created"
    assert replica.gangs
    replica.claim_templates["default", "their-gpu"] = {"spec": {"devices": {}}}
    replica.converge()
    assert list(replica.cliques) == ["sys-0-a"]
    assert list(replica.objects_of_kind("ResourceClaim")) == ["sys-0-a-all-their-gpu"]
    replica.claim_templates.clear()
    assert replica.plan().is_empty
    assert not replica.plan().claim_templates


def test_no_clique_is_created_without_the_template_of_a_shared_claim() -> None:
    sharing = (SetResourceSharing("their-gpu", "AllReplicas"),)
    replica = SimulatedReplica(pod_clique_set(clique("a"), resource_sharing=sharing))
    assert replica.plan().claim_templates == {("default", "their-gpu")}
    replica.converge()
    assert replica.cliques == {}
    replica.set_claims.add("sys-all-their-gpu")
    replica.converge()
    assert list(replica.cliques) == ["sys-0-a"]


SHARED_AT_EVERY_LEVEL = pod_clique_set(
    clique("a", resource_sharing=(ResourceSharing("gpu", "AllReplicas"),)),
    clique("b", resource_sharing=(ResourceSharing("gpu", "PerReplica"),)),
    groups=[group("x", "b", resource_sharing=(GroupResourceSharing("gpu", "AllReplicas"),))],
    resource_sharing=(SetResourceSharing("gpu", "PerReplica"),),
    resource_claim_templates=(ResourceClaimTemplate("gpu", {"spec": {"devices": {}}}),),
)
OWNERS = {
    "sys-0-gpu": ("PodCliqueSet", "sys"),
    "sys-0-x-all-gpu": ("PodCliqueScalingGroup", "sys-0-x"),
    "sys-0-a-all-gpu": ("PodClique", "sys-0-a"),
    "sys-0-x-0-b-0-gpu": ("PodClique", "sys-0-x-0-b"),
}


def _owners(replica: SimulatedReplica) -> dict[str, tuple[str, str]]:
    claims = replica.objects_of_kind("ResourceClaim")
    owners = {name: each.metadata.owner_references for name, each in claims.items()}
    return {name: (owner.kind, owner.name) for name, (owner,) in owners.items()}


def test_claims_are_owned_by_the_object_with_the_sharing_rule() -> None:
    replica = start_replica(SHARED_AT_EVERY_LEVEL)
    assert _owners(replica) == OWNERS
    uids = {
        name: each.metadata.owner_references[0].uid
        for name, each in replica.objects_of_kind("ResourceClaim").items()
    }
    assert uids["sys-0-a-all-gpu"] == replica.cliques["sys-0-a"].metadata.uid


def test_claims_that_the_set_owned_are_handed_over() -> None:
    replica = start_replica(SHARED_AT_EVERY_LEVEL)
    of_set = replica.objects_of_kind("ResourceClaim")["sys-0-gpu"].metadata.owner_references
    foreign = OwnerReference("v1", "ConfigMap", "theirs", "u")
    for name, each in replica.objects_of_kind("ResourceClaim").items():
        owned = replace(each.metadata, owner_references=(foreign, *of_set))
        replica.replace_parts("ResourceClaim", name, metadata=owned)
    replica.converge()
    for name, each in replica.objects_of_kind("ResourceClaim").items():
        kept, owner = each.metadata.owner_references
        assert kept == foreign
        assert (owner.kind, owner.name) == OWNERS[name]


def test_autoscaler_that_is_no_longer_requested_is_deleted() -> None:
    replica = start_replica(pod_clique_set(clique("a", auto_scaling_config=AutoScaling(3))))
    assert list(replica.objects_of_kind("HorizontalPodAutoscaler")) == ["sys-0-a"]
    replica.edit(pod_clique_set(clique("a")))
    replica.converge()
    assert replica.objects_of_kind("HorizontalPodAutoscaler") == {}


def test_metrics_that_are_no_longer_requested_are_removed() -> None:
    target = {"type": "AverageValue", "averageValue": "1000m"}
    metric = {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": target}}
    scaling = AutoScaling(3, metrics=(metric,))
    replica = start_replica(pod_clique_set(clique("a", auto_scaling_config=scaling)))
    assert replica.objects_of_kind("HorizontalPodAutoscaler")["sys-0-a"].spec["metrics"] == [metric]
    replica.edit(pod_clique_set(clique("a", auto_scaling_config=AutoScaling(3))))
    replica.converge()
    (left,) = replica.objects_of_kind("HorizontalPodAutoscaler")["sys-0-a"].spec["metrics"]
    assert left["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}


@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        ("PodClique", "sys-0-a", "minAvailable", 2),
        ("PodClique", "sys-0-a", "roleName", "other"),
        ("PodClique", "sys-0-a", "startsAfter", ["sys-0-x-0-b"]),
        ("PodClique", "sys-0-a", "podSpec", {"containers": [], "hostNetwork": True}),
        ("PodCliqueScalingGroup", "sys-0-x", "cliqueNames", ["b"]),
        ("PodCliqueScalingGroup", "sys-0-x", "minAvailable", 2),
        ("PodGang", "sys-0", "podgroups", []),
        ("PodGang", "sys-0", "priorityClassName", "high"),
        ("Service", "sys-0", "selector", {names.PART_OF: "other"}),
        (
            "Service",
            "sys-0",
            "selector",
            {names.PART_OF: "sys", names.SET_REPLICA_INDEX: "0", "and": "more"},
        ),
    ],
)
def test_child_that_is_edited_is_repaired(kind: str, name: str, path: str, value: object) -> None:
    replica = start_replica(A_SET)
    right = replica.objects_of_kind(kind)[name]
    whole = msgspec.json.decode(msgspec.json.encode(right))
    whole["spec"][path] = value
    replica.objects_of_kind(kind)[name] = msgspec.convert(whole, type(right))
    assert replica.objects_of_kind(kind)[name].spec != right.spec
    replica.converge()
    mended = replica.objects_of_kind(kind)[name].spec
    assert mended == right.spec


def test_removed_label_is_restored_and_foreign_labels_stay() -> None:
    replica = start_replica(A_SET)
    live = replica.cliques["sys-0-a"]
    labels = {**live.metadata.labels, "theirs": "stays"}
    del labels[names.POD_GANG]
    replica.replace_parts("PodClique", "sys-0-a", metadata=replace(live.metadata, labels=labels))
    replica.converge()
    assert replica.cliques["sys-0-a"].metadata.labels == {**live.metadata.labels, "theirs": "stays"}


def test_object_being_deleted_is_waited_for() -> None:
    replica = start_replica(A_SET)
    live = replica.cliques["sys-0-a"]
    replica.replace_parts("PodClique", "sys-0-a", metadata=mark_deleted(live.metadata))
    assert list_created(replica.converge(), "PodClique") == []
    del replica.cliques["sys-0-a"]
    assert list_created(replica.converge(), "PodClique") == ["sys-0-a"]


def test_object_of_another_set_of_that_name_is_left_alone() -> None:
    replica = start_replica(A_SET)
    live = replica.objects_of_kind("Service")["sys-0"]
    other = OwnerReference("grove.io/v1alpha1", "PodCliqueSet", "sys", "old-uid", controller=True)
    metadata = replace(live.metadata, owner_references=(other,))
    replica.objects_of_kind("Service")["sys-0"] = ChildObject(metadata, {"selector": {}})
    assert replica.plan().is_empty


def test_object_without_owner_is_adopted() -> None:
    replica = start_replica(A_SET)
    live = replica.cliques["sys-0-x-0-b"]
    replica.replace_parts(
        "PodClique", "sys-0-x-0-b", metadata=replace(live.metadata, owner_references=())
    )
    replica.converge()
    owner = replica.cliques["sys-0-x-0-b"].metadata.controller
    assert owner is not None
    assert owner.uid == replica.groups["sys-0-x"].metadata.uid


def test_edit_changes_only_affected_objects() -> None:
    replica = start_replica(A_SET)
    labelled = pod_clique_set(
        *A_SET.spec.template.cliques,
        groups=A_SET.spec.template.pod_clique_scaling_groups,
        labels={"team": "blue"},
    )
    replica.edit(labelled)
    (plan,) = replica.converge()
    assert {each.resource for each in plan.patches} == {GANGS}
    assert replica.gangs["sys-0"].metadata.labels["team"] == "blue"


def test_patches_are_in_startup_order() -> None:
    def change(name: str, *after: str) -> Patch:
        return Patch(CLIQUES, metadata(name), {"spec": {}}, after)

    plan = WritePlan(frozenset())
    plan.patches += [change("c", "b", "a"), change("b", "a"), change("a"), change("d", "gone")]
    assert [[each.name for each in wave] for wave in plan.patch_waves] == [["a", "d"], ["b"], ["c"]]


def test_breached_cliques_are_patched_last() -> None:
    def change(name: str, *after: str, broken: float | None = None) -> Patch:
        since = None if broken is None else NOW - timedelta(seconds=broken)
        return Patch(CLIQUES, metadata(name), {"spec": {}}, after, since)

    plan = WritePlan(frozenset())
    plan.patches += [
        change("a", broken=60),
        change("b", "a"),
        change("c", "b", "a", broken=60),
        change("e", "a", broken=10),
        change("d", "c", "b"),
    ]
    waves = [[each.name for each in wave] for wave in plan.patch_waves]
    assert waves == [["b"], ["d"], ["e"], ["a"], ["c"]]
