"""Resource sharing: claims, and the pods that use them."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import (
    ChildFilter,
    CliqueFilter,
    GroupResourceSharing,
    PodCliqueSet,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.pods import build_pod
from kilonova.workloads.builders.resource_claims import (
    build_replica_claims,
    build_set_claims,
    list_external_templates,
)
from tests.workloads.api_objects import (
    SETTINGS,
    build_group_member,
    build_owner_references,
    clique,
    group,
    pod_clique,
    pod_clique_set,
    pod_template,
)


def claim_template(device: str, **metadata: Any) -> JsonObject:
    spec = {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": device}}]}}
    return {"spec": spec, "metadata": metadata} if metadata else {"spec": spec}


def build_set(**sharing: Any) -> PodCliqueSet:
    """A router, and a group sg of worker and leader-worker; sharing at the level that is named."""
    return pod_clique_set(
        clique("router", 2, resource_sharing=sharing.get("router", ())),
        clique("worker", 2, resource_sharing=sharing.get("worker", ())),
        clique("leader-worker"),
        groups=[
            group(
                "sg",
                "worker",
                "leader-worker",
                replicas=2,
                resource_sharing=sharing.get("sg", ()),
            )
        ],
        resource_sharing=sharing.get("set", ()),
        resource_claim_templates=(ResourceClaimTemplate("t", claim_template("inside")),),
    )


def list_pod_claims(
    set_: PodCliqueSet, name: str, in_group: int | None = None, index: int = 0
) -> list[str]:
    """Claims of a pod; checks that all of its containers use them all."""
    member = None if in_group is None else build_group_member(set_, "sg", in_group)
    owner = pod_clique(set_, name, 0, member)
    spec = build_pod(owner, set_, index, "p", gated=False, released=False, settings=SETTINGS)[
        "spec"
    ]
    claims = {each["name"]: each["resourceClaimName"] for each in spec.get("resourceClaims", ())}
    for container in spec["containers"]:
        used = container.get("resources", {}).get("claims", [])
        assert [each["name"] for each in used] == list(claims)
    return list(claims.values())


def list_claim_names(claims: list[JsonObject]) -> list[str]:
    return [each["metadata"]["name"] for each in claims]


ROUTER, WORKER, LEADER = ("router", None), ("worker", 1), ("leader-worker", 1)


@pytest.mark.parametrize(
    ("level", "sharing", "expected"),
    [
        ("set", SetResourceSharing("t", "AllReplicas"), dict.fromkeys(range(3), "sys-all-t")),
        ("set", SetResourceSharing("t", "PerReplica"), dict.fromkeys(range(3), "sys-0-t")),
        (
            "set",
            SetResourceSharing("t", "AllReplicas", filter=ChildFilter(("worker",))),
            {1: "sys-all-t"},
        ),
        (
            "set",
            SetResourceSharing("t", "PerReplica", filter=ChildFilter((), ("sg",))),
            {1: "sys-0-t", 2: "sys-0-t"},
        ),
        (
            "set",
            SetResourceSharing("t", "AllReplicas", filter=ChildFilter(("router",), ("sg",))),
            dict.fromkeys(range(3), "sys-all-t"),
        ),
        (
            "sg",
            GroupResourceSharing("t", "AllReplicas"),
            {1: "sys-0-sg-all-t", 2: "sys-0-sg-all-t"},
        ),
        (
            "sg",
            GroupResourceSharing("t", "PerReplica", filter=CliqueFilter(("worker",))),
            {1: "sys-0-sg-1-t"},
        ),
        ("router", ResourceSharing("t", "AllReplicas"), {0: "sys-0-router-all-t"}),
        ("router", ResourceSharing("t", "PerReplica"), {0: "sys-0-router-1-t"}),
        ("worker", ResourceSharing("t", "PerReplica"), {1: "sys-0-sg-1-worker-1-t"}),
        ("worker", ResourceSharing("t", "AllReplicas"), {1: "sys-0-sg-1-worker-all-t"}),
    ],
)
def test_claims_reach_the_pods_that_share_them(
    level: str, sharing: ResourceSharing, expected: dict[int, str]
) -> None:
    set_ = build_set(**{level: (sharing,)})

    found = {
        member: list_pod_claims(set_, name, in_group, index=1)
        for member, (name, in_group) in enumerate((ROUTER, WORKER, LEADER))
    }

    assert found == {each: [expected[each]] if each in expected else [] for each in range(3)}


def test_claims_of_all_levels_are_combined_with_those_of_the_user() -> None:
    container = {"name": "main", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "own"}]}}
    spec = {
        "containers": [container],
        "initContainers": [{"name": "init"}],
        "resourceClaims": [{"name": "own", "resourceClaimName": "mine"}],
    }
    sharing = ResourceSharing("t", "PerReplica"), ResourceSharing("u", "AllReplicas")
    set_ = pod_clique_set(
        clique("worker", pod_spec=spec, resource_sharing=sharing),
        resource_sharing=(SetResourceSharing("t", "AllReplicas"),),
    )

    pod = build_pod(
        pod_clique(set_, "worker"), set_, 4, "p", gated=False, released=False, settings=SETTINGS
    )["spec"]

    claims = ["own", "sys-all-t", "sys-0-worker-all-u", "sys-0-worker-4-t"]
    assert [each["name"] for each in pod["resourceClaims"]] == claims
    used = pod["containers"][0]["resources"]
    assert used["limits"] == {"cpu": "1"}
    assert [each["name"] for each in used["claims"]] == claims
    assert [each["name"] for each in pod["initContainers"][0]["resources"]["claims"]] == claims[1:]


def test_a_claim_of_the_set_is_made_from_its_own_template() -> None:
    (claim,) = build_set_claims(build_set(set=(SetResourceSharing("t", "AllReplicas"),)))

    assert claim["spec"] == claim_template("inside")["spec"]
    assert claim["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "sys",
        "app.kubernetes.io/component": "resource-claim",
        "app.kubernetes.io/name": "sys-all-t",
    }
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodCliqueSet", "sys")


def test_claims_of_a_replica_follow_the_live_replicas() -> None:
    def both(type_: Any) -> Any:
        return type_("t", "AllReplicas"), type_("u", "PerReplica")

    set_ = pod_clique_set(
        clique("router", resource_sharing=both(ResourceSharing)),
        clique("worker", resource_sharing=both(ResourceSharing)),
        groups=[group("sg", "worker", resource_sharing=both(GroupResourceSharing))],
        resource_sharing=both(SetResourceSharing),
        resource_claim_templates=(
            ResourceClaimTemplate("t", claim_template("a")),
            ResourceClaimTemplate("u", claim_template("b")),
        ),
    )

    found = build_replica_claims(
        set_,
        1,
        {"sys-1-router": 2, "sys-1-sg-0-worker": 1, "sys-1-sg-1-worker": 0},
        {"sys-1-sg": 2},
        owners=build_owner_references(
            "sys-1-router", "sys-1-sg-0-worker", "sys-1-sg-1-worker", "sys-1-sg"
        ),
    )

    assert list_claim_names(found) == [
        "sys-1-u",
        "sys-1-sg-all-t",
        "sys-1-sg-0-u",
        "sys-1-sg-1-u",
        "sys-1-router-all-t",
        "sys-1-router-0-u",
        "sys-1-router-1-u",
        "sys-1-sg-0-worker-all-t",
        "sys-1-sg-0-worker-0-u",
        "sys-1-sg-1-worker-all-t",
    ]
    assert all(each["metadata"]["labels"][names.SET_REPLICA_INDEX] == "1" for each in found)
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in found}
    assert labels["sys-1-sg-1-u"][names.SCALING_GROUP_REPLICA_INDEX] == "1"
    assert labels["sys-1-router-1-u"][names.POD_INDEX] == "1"
    assert labels["sys-1-sg-0-worker-0-u"][names.POD_CLIQUE] == "sys-1-sg-0-worker"
    owners = {
        each["metadata"]["name"]: [owner["name"] for owner in each["metadata"]["ownerReferences"]]
        for each in found
    }
    assert owners["sys-1-u"] == ["sys"]
    assert owners["sys-1-sg-all-t"] == owners["sys-1-sg-1-u"] == ["sys-1-sg"]
    assert owners["sys-1-router-all-t"] == owners["sys-1-router-1-u"] == ["sys-1-router"]
    assert owners["sys-1-sg-0-worker-0-u"] == ["sys-1-sg-0-worker"]


def test_missing_owners_have_no_claims() -> None:
    sharing = (ResourceSharing("t", "AllReplicas"),)
    set_ = build_set(router=sharing, sg=(GroupResourceSharing("t", "AllReplicas"),))
    sizes, groups = {"sys-0-router": 2}, {"sys-0-sg": 2}

    assert list_claim_names(build_replica_claims(set_, 0, sizes, groups, owners={})) == []
    found = build_replica_claims(
        set_, 0, sizes, groups, owners=build_owner_references("sys-0-router")
    )
    assert list_claim_names(found) == ["sys-0-router-all-t"]


def test_a_template_of_the_set_shadows_one_outside() -> None:
    set_ = build_set(
        set=(SetResourceSharing("t", "AllReplicas"), SetResourceSharing("out", "AllReplicas")),
        sg=(GroupResourceSharing("far", "AllReplicas", "elsewhere"),),
    )
    outside = {
        ("default", "t"): claim_template("shadowed"),
        ("default", "out"): claim_template("outside", labels={"a": "b"}, annotations={"c": "d"}),
    }

    assert list_external_templates(set_) == {("default", "out"), ("elsewhere", "far")}
    inside, out = build_set_claims(set_, outside)
    assert inside["spec"] == claim_template("inside")["spec"]
    assert out["spec"] == claim_template("outside")["spec"]
    assert out["metadata"]["labels"]["a"] == "b"
    assert out["metadata"]["annotations"] == {"c": "d"}


def test_no_claim_is_built_from_a_missing_template() -> None:
    set_ = build_set(
        set=(SetResourceSharing("out", "AllReplicas"), SetResourceSharing("t", "AllReplicas"))
    )

    assert list_claim_names(build_set_claims(set_)) == ["sys-all-t"]


def test_claims_at_every_level_and_scope_follow_scaling() -> None:
    """A clique of one pod, and a group of two replicas of one pod."""
    scopes = ("AllReplicas", "PerReplica")
    set_ = pod_clique_set(
        clique("worker-a", resource_sharing=tuple(ResourceSharing("t", each) for each in scopes)),
        clique("worker-b", resource_sharing=tuple(ResourceSharing("t", each) for each in scopes)),
        groups=[
            group(
                "sga",
                "worker-b",
                replicas=2,
                min_available=2,
                resource_sharing=tuple(GroupResourceSharing("t", each) for each in scopes),
            )
        ],
        resource_sharing=tuple(SetResourceSharing("t", each) for each in scopes),
        resource_claim_templates=(ResourceClaimTemplate("t", claim_template("x")),),
    )

    def count(group_replicas: int, pods: int) -> int:
        cliques = {f"sys-0-sga-{each}-worker-b": 1 for each in range(group_replicas)}
        cliques["sys-0-worker-a"] = pods
        owners = build_owner_references(*cliques, "sys-0-sga")
        found = build_replica_claims(set_, 0, cliques, {"sys-0-sga": group_replicas}, owners=owners)
        return len(build_set_claims(set_)) + len(found)

    assert count(2, 1) == 11
    assert count(1, 1) == 8, "one group replica less: its claim, and two of its clique"
    assert count(2, 2) == 12, "one pod more: its own claim"


def test_long_claim_name_is_shortened_only_within_the_pod() -> None:
    template = "a-template-with-a.very-long-name-that-does-not-fit-in-a-label"
    sharing = (SetResourceSharing(template, "AllReplicas"),)
    set_ = pod_clique_set(
        clique("worker", pod_spec=pod_template()),
        resource_sharing=sharing,
        resource_claim_templates=(ResourceClaimTemplate(template, claim_template("x")),),
    )

    (used,) = pod_clique(set_, "worker").spec.pod_spec["resourceClaims"]
    (claim,) = build_set_claims(set_)

    assert used["resourceClaimName"] == claim["metadata"]["name"] == f"sys-all-{template}"
    assert len(used["name"]) <= 63
    assert "." not in used["name"]
    assert len(claim["metadata"]["labels"][names.NAME]) <= 63
