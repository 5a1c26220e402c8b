"""Which objects a replica gets, what is mended, and what goes."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.grove.parts import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.meta import OwnerReference
from kilonova.workloads.replicas.plan import Patch, Plan
from kilonova.workloads.resources import CLIQUES, GANGS, GROUPS, Child, Pod
from tests.workloads.builders import clique, group, metadata, pod_clique_set
from tests.workloads.replicas.replica_values import NOW, World, created, going, listed, started

A_SET = pod_clique_set(
    clique("a", 2, 1), clique("b"), clique("c", 3, 1), groups=[group("x", "b", "c", replicas=2)]
)
"""One clique that stands alone, and a group of which one replica is in the base gang."""


def test_all_is_made_gangs_and_groups_first_and_cliques_when_those_are_seen() -> None:
    world = World(A_SET)
    first, second = world.settle()
    assert {each.resource for each in first.first_creates} == {GANGS, GROUPS}
    assert [each.resource for each in second.first_creates][:5] == [CLIQUES] * 5
    assert sorted(world.gangs) == ["sys-0", "sys-0-x-0"]
    assert sorted(world.groups) == ["sys-0-x"]
    assert sorted(world.cliques) == [
        "sys-0-a",
        "sys-0-x-0-b",
        "sys-0-x-0-c",
        "sys-0-x-1-b",
        "sys-0-x-1-c",
    ]
    assert sorted(world.of("Service")) == ["sys-0"]


def test_gang_lists_pods_before_they_are_there_under_the_names_they_will_have() -> None:
    world = World(A_SET)
    world.settle()
    before = {name: gang.spec for name, gang in world.gangs.items()}
    world.bring_up()
    assert world.settle() == []
    assert {name: gang.spec for name, gang in world.gangs.items()} == before
    base = listed(world.gangs["sys-0"])
    assert {name: len(pods) for name, pods in base.items()} == {
        "sys-0-a": 2,
        "sys-0-x-0-b": 1,
        "sys-0-x-0-c": 3,
    }
    there = {pod.metadata.name for pod in world.pods}
    every = {
        name for gang in world.gangs.values() for pods in listed(gang).values() for name in pods
    }
    assert every == there


def test_scaled_gang_refers_to_its_base() -> None:
    world = started(A_SET)
    base_ref = world.gangs["sys-0-x-0"].spec.base_ref
    assert base_ref is not None
    assert base_ref.name == "sys-0"
    assert world.gangs["sys-0"].spec.base_ref is None


def test_pod_that_ends_is_replaced_in_its_gang_by_the_one_to_come() -> None:
    world = started(A_SET)
    before = set(listed(world.gangs["sys-0"])["sys-0-a"])
    victim = next(pod for pod in world.pods if pod.metadata.labels[names.POD_CLIQUE] == "sys-0-a")
    world.pods = [
        Pod(going(pod.metadata), pod.spec, pod.status) if pod is victim else pod
        for pod in world.pods
    ]
    world.settle()
    after = set(listed(world.gangs["sys-0"])["sys-0-a"])
    assert before - after == {victim.metadata.name}
    assert after - before == {names.pod("sys-0-a", 0, 1)}


def test_member_cliques_belong_to_their_group_and_others_to_the_set() -> None:
    world = started(A_SET)
    owners = {name: each.metadata.owner_references[0].kind for name, each in world.cliques.items()}
    assert owners.pop("sys-0-a") == "PodCliqueSet"
    assert set(owners.values()) == {"PodCliqueScalingGroup"}


def test_scaled_clique_keeps_its_replicas_and_its_gang_follows() -> None:
    world = started(A_SET)
    world.scale("PodClique", "sys-0-a", 5)
    plans = world.settle()
    assert [each.name for plan in plans for each in plan.patches] == ["sys-0"]
    assert world.cliques["sys-0-a"].spec.replicas == 5
    assert len(listed(world.gangs["sys-0"])["sys-0-a"]) == 5


def test_gang_needs_no_more_pods_than_its_clique_is_scaled_to() -> None:
    world = started(pod_clique_set(clique("a", 3, 3)))
    world.scale("PodClique", "sys-0-a", 1)
    world.pods = world.pods[:1]
    world.settle()
    assert world.gangs["sys-0"].spec.pod_groups[0].min_replicas == 1


def test_group_that_grows_gets_gangs_and_cliques() -> None:
    world = started(A_SET)
    world.scale("PodCliqueScalingGroup", "sys-0-x", 4)
    plans = world.settle()
    assert created(plans, "PodGang") == ["sys-0-x-1", "sys-0-x-2"]
    assert created(plans, "PodClique") == [
        f"sys-0-x-{index}-{name}" for index in (2, 3) for name in ("b", "c")
    ]


def test_group_that_shrinks_loses_the_highest_with_all_that_is_theirs() -> None:
    template = ResourceClaimTemplate("gpu", {"spec": {"devices": {}}})
    sharing = (ResourceSharing("gpu", "PerReplica"),)
    world = started(
        pod_clique_set(
            clique("a"),
            clique("b", 2, resource_sharing=sharing),
            groups=[group("x", "b", replicas=3)],
            resource_claim_templates=(template,),
        )
    )
    assert len(world.of("ResourceClaim")) == 6
    world.scale("PodCliqueScalingGroup", "sys-0-x", 1)
    (plan,) = world.settle()
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
    assert sorted(world.of("ResourceClaim")) == ["sys-0-x-0-b-0-gpu", "sys-0-x-0-b-1-gpu"]


def test_group_scaled_to_nothing_leaves_the_rest() -> None:
    world = started(A_SET)
    world.scale("PodCliqueScalingGroup", "sys-0-x", 0)
    world.settle()
    assert sorted(world.cliques) == ["sys-0-a"]
    assert {name: list(listed(gang)) for name, gang in world.gangs.items()} == {
        "sys-0": ["sys-0-a"]
    }


def test_claims_of_pods_with_gaps_between_their_indexes_stay() -> None:
    template = ResourceClaimTemplate("gpu", {"spec": {"devices": {}}})
    sharing = (ResourceSharing("gpu", "PerReplica"),)
    set_ = pod_clique_set(
        clique("a", 3, 1, resource_sharing=sharing), resource_claim_templates=(template,)
    )
    world = started(set_)
    world.pods = [pod for pod in world.pods if pod.metadata.labels[names.POD_INDEX] == "2"]
    world.scale("PodClique", "sys-0-a", 1)
    world.settle()
    assert "sys-0-a-2-gpu" in world.of("ResourceClaim")


def test_claims_from_a_template_elsewhere_wait_for_it_and_stay_when_it_goes() -> None:
    sharing = (ResourceSharing("their-gpu", "AllReplicas"),)
    world = World(pod_clique_set(clique("a", resource_sharing=sharing)))
    assert world.plan().claim_templates == {("default", "their-gpu")}
    world.settle()
    assert world.of("ResourceClaim") == {}
    assert world.cliques == {}, "its pods would wait for claims that nobody can make"
    assert world.gangs
    world.claim_templates["default", "their-gpu"] = {"spec": {"devices": {}}}
    world.settle()
    assert list(world.cliques) == ["sys-0-a"]
    assert list(world.of("ResourceClaim")) == ["sys-0-a-all-their-gpu"]
    world.claim_templates.clear()
    assert world.plan().is_empty
    assert not world.plan().claim_templates


def test_no_clique_is_made_without_the_template_of_a_claim_of_the_whole_set() -> None:
    sharing = (SetResourceSharing("their-gpu", "AllReplicas"),)
    world = World(pod_clique_set(clique("a"), resource_sharing=sharing))
    assert world.plan().claim_templates == {("default", "their-gpu")}
    world.settle()
    assert world.cliques == {}
    world.set_claims.add("sys-all-their-gpu")
    world.settle()
    assert list(world.cliques) == ["sys-0-a"]


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


def _owners(world: World) -> dict[str, tuple[str, str]]:
    claims = world.of("ResourceClaim")
    owners = {name: each.metadata.owner_references for name, each in claims.items()}
    return {name: (owner.kind, owner.name) for name, (owner,) in owners.items()}


def test_claims_are_owned_by_what_the_sharing_belongs_to() -> None:
    world = started(SHARED_AT_EVERY_LEVEL)
    assert _owners(world) == OWNERS
    uids = {
        name: each.metadata.owner_references[0].uid
        for name, each in world.of("ResourceClaim").items()
    }
    assert uids["sys-0-a-all-gpu"] == world.cliques["sys-0-a"].metadata.uid


def test_claims_that_the_set_owned_are_handed_over() -> None:
    world = started(SHARED_AT_EVERY_LEVEL)
    of_set = world.of("ResourceClaim")["sys-0-gpu"].metadata.owner_references
    theirs = OwnerReference("v1", "ConfigMap", "theirs", "u")
    for name, each in world.of("ResourceClaim").items():
        owned = replace(each.metadata, owner_references=(theirs, *of_set))
        world.change("ResourceClaim", name, metadata=owned)
    world.settle()
    for name, each in world.of("ResourceClaim").items():
        kept, owner = each.metadata.owner_references
        assert kept == theirs
        assert (owner.kind, owner.name) == OWNERS[name]


def test_autoscaler_that_is_asked_for_no_more_goes() -> None:
    world = started(pod_clique_set(clique("a", auto_scaling_config=AutoScaling(3))))
    assert list(world.of("HorizontalPodAutoscaler")) == ["sys-0-a"]
    world.edit(pod_clique_set(clique("a")))
    world.settle()
    assert world.of("HorizontalPodAutoscaler") == {}


def test_metrics_that_are_asked_for_no_more_go() -> None:
    target = {"type": "AverageValue", "averageValue": "1000m"}
    metric = {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": target}}
    scaling = AutoScaling(3, metrics=(metric,))
    world = started(pod_clique_set(clique("a", auto_scaling_config=scaling)))
    assert world.of("HorizontalPodAutoscaler")["sys-0-a"].spec["metrics"] == [metric]
    world.edit(pod_clique_set(clique("a", auto_scaling_config=AutoScaling(3))))
    world.settle()
    (left,) = world.of("HorizontalPodAutoscaler")["sys-0-a"].spec["metrics"]
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
def test_child_that_somebody_edits_is_mended(
    kind: str, name: str, path: str, value: object
) -> None:
    world = started(A_SET)
    right = world.of(kind)[name]
    whole = msgspec.json.decode(msgspec.json.encode(right))
    whole["spec"][path] = value
    world.of(kind)[name] = msgspec.convert(whole, type(right))
    assert world.of(kind)[name].spec != right.spec
    world.settle()
    mended = world.of(kind)[name].spec
    assert mended == right.spec


def test_label_that_somebody_takes_away_comes_back_and_foreign_ones_stay() -> None:
    world = started(A_SET)
    live = world.cliques["sys-0-a"]
    labels = {**live.metadata.labels, "theirs": "stays"}
    del labels[names.POD_GANG]
    world.change("PodClique", "sys-0-a", metadata=replace(live.metadata, labels=labels))
    world.settle()
    assert world.cliques["sys-0-a"].metadata.labels == {**live.metadata.labels, "theirs": "stays"}


def test_object_that_is_going_is_waited_for() -> None:
    world = started(A_SET)
    live = world.cliques["sys-0-a"]
    world.change("PodClique", "sys-0-a", metadata=going(live.metadata))
    assert created(world.settle(), "PodClique") == []
    del world.cliques["sys-0-a"]
    assert created(world.settle(), "PodClique") == ["sys-0-a"]


def test_object_of_another_set_of_that_name_is_left_alone() -> None:
    world = started(A_SET)
    live = world.of("Service")["sys-0"]
    other = OwnerReference("grove.io/v1alpha1", "PodCliqueSet", "sys", "old-uid", controller=True)
    metadata = replace(live.metadata, owner_references=(other,))
    world.of("Service")["sys-0"] = Child(metadata, {"selector": {}})
    assert world.plan().is_empty


def test_object_that_lost_its_owner_is_ours_again() -> None:
    world = started(A_SET)
    live = world.cliques["sys-0-x-0-b"]
    world.change("PodClique", "sys-0-x-0-b", metadata=replace(live.metadata, owner_references=()))
    world.settle()
    owner = world.cliques["sys-0-x-0-b"].metadata.controller
    assert owner is not None
    assert owner.uid == world.groups["sys-0-x"].metadata.uid


def test_set_that_is_edited_elsewhere_changes_only_what_it_says() -> None:
    world = started(A_SET)
    labelled = pod_clique_set(
        *A_SET.spec.template.cliques,
        groups=A_SET.spec.template.pod_clique_scaling_groups,
        labels={"team": "blue"},
    )
    world.edit(labelled)
    (plan,) = world.settle()
    assert {each.resource for each in plan.patches} == {GANGS}
    assert world.gangs["sys-0"].metadata.labels["team"] == "blue"


def test_changes_are_made_in_the_order_of_startup() -> None:
    def change(name: str, *after: str) -> Patch:
        return Patch(CLIQUES, metadata(name), {"spec": {}}, after)

    plan = Plan(frozenset())
    plan.patches += [change("c", "b", "a"), change("b", "a"), change("a"), change("d", "gone")]
    assert [[each.name for each in wave] for wave in plan.waves] == [["a", "d"], ["b"], ["c"]]


def test_what_tells_why_all_is_changed_is_changed_last() -> None:
    def change(name: str, *after: str, broken: float | None = None) -> Patch:
        since = None if broken is None else NOW - timedelta(seconds=broken)
        return Patch(CLIQUES, metadata(name), {"spec": {}}, after, since)

    plan = Plan(frozenset())
    plan.patches += [
        change("a", broken=60),
        change("b", "a"),
        change("c", "b", "a", broken=60),
        change("e", "a", broken=10),
        change("d", "c", "b"),
    ]
    waves = [[each.name for each in wave] for wave in plan.waves]
    assert waves == [["b"], ["d"], ["e"], ["a"], ["c"]]
