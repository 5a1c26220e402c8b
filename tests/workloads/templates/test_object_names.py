"""Names of a set's objects: unique, short enough, always the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.parts import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    PodCliqueSet,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.json import JsonObject
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.autoscalers import autoscaler_objects
from kilonova.workloads.templates.claims import replica_claims, set_claims
from kilonova.workloads.templates.clashes import name_clashes
from kilonova.workloads.templates.cliques import Member, clique_object
from kilonova.workloads.templates.computedomains import compute_domain_objects
from kilonova.workloads.templates.gangs import CliquePods, gang_objects
from kilonova.workloads.templates.groups import group_object
from kilonova.workloads.templates.lookup import group_of
from kilonova.workloads.templates.pods import pod_name, pod_object
from kilonova.workloads.templates.services import service_object
from kilonova.workloads.templates.topology import Levels
from tests.workloads.builders import clique, group, made, owners_of, pod_clique_set, revision_of

LABEL = 63
ON = Settings(mnnvl=True)


def _names(*often: str) -> st.SearchStrategy[str]:
    """Any names, and often ones that together come close to a clash."""
    any_name = st.from_regex(r"[a-z]([a-z0-9-]{0,13}[a-z0-9])?", fullmatch=True)
    return st.one_of(st.sampled_from(often), any_name)


CLIQUES = _names("a", "b", "a-0-b", "x-1-a", "1-b", "worker", "leader-worker")
GROUPS = _names("a", "x", "x-0", "worker", "leader")
TEMPLATES = _names("t", "a-all-t", "0-t", "a-1-t", "x-0-a-all-t")


@st.composite
def sets(draw: st.DrawFn) -> PodCliqueSet:
    """Sets that admission lets pass."""
    set_name = draw(_names("sys", "a", "a-0"))
    clique_names = draw(st.lists(CLIQUES, min_size=1, max_size=4, unique=True))
    group_names = draw(st.lists(GROUPS, max_size=2, unique=True))
    places = {each: draw(st.sampled_from(["", *group_names])) for each in clique_names}
    scopes = st.sampled_from(["AllReplicas", "PerReplica"])
    templates = draw(st.lists(TEMPLATES, max_size=2, unique=True))

    def shared(type_: Any) -> Any:
        chosen = draw(st.lists(st.sampled_from(templates), unique=True)) if templates else []
        return tuple(type_(each, draw(scopes)) for each in chosen)

    scaled = st.sampled_from([None, AutoScaling(9)])
    result = pod_clique_set(
        *(
            clique(
                each,
                draw(st.integers(1, 3)),
                gpus=draw(st.integers(0, 1)),
                auto_scaling_config=None if places[each] else draw(scaled),
                resource_sharing=shared(ResourceSharing),
            )
            for each in clique_names
        ),
        groups=[
            group(
                each,
                *(name for name in clique_names if places[name] == each),
                replicas=draw(st.integers(1, 3)),
                scale_config=draw(scaled),
                resource_sharing=shared(GroupResourceSharing),
                annotations=draw(st.sampled_from([dict[str, str](), {names.MNNVL_GROUP: "fast"}])),
            )
            for each in group_names
        ],
        name=set_name,
        replicas=draw(st.integers(1, 3)),
        annotations=draw(st.sampled_from([dict[str, str](), {names.MNNVL_GROUP: "all"}])),
        resource_sharing=shared(SetResourceSharing),
        resource_claim_templates=tuple(
            ResourceClaimTemplate(each, {"spec": {}}) for each in templates
        ),
    )
    assume(not name_clashes(result.spec.template))
    return result


def objects(set_: PodCliqueSet) -> Iterator[tuple[str, JsonObject]]:
    """All objects of a set, with their kinds."""
    for each in set_claims(set_):
        yield "ResourceClaim", each
    for index in range(set_.spec.replicas):
        yield from replica_objects(set_, index)


def replica_objects(set_: PodCliqueSet, index: int) -> Iterator[tuple[str, JsonObject]]:
    template, revision = set_.spec.template, revision_of(set_)
    yield "Service", service_object(set_, index)
    for each in autoscaler_objects(set_, index):
        yield "HorizontalPodAutoscaler", each
    for each in compute_domain_objects(set_, index, ON):
        yield "ComputeDomain", each
    groups = {
        names.scaling_group(set_.metadata.name, index, each.name): each
        for each in template.pod_clique_scaling_groups
    }
    for each in groups.values():
        yield "PodCliqueScalingGroup", group_object(set_, index, revision, each)
    cliques: list[PodClique] = []
    for each in template.cliques:
        own = group_of(template, each.name)
        full = names.scaling_group(set_.metadata.name, index, own.name) if own else ""
        places = [Member(own, full, place) for place in range(own.replicas)] if own else [None]
        for place in places:
            built = clique_object(set_, index, revision, each.name, place, ON)
            yield "PodClique", built
            cliques.append(made(built, PodClique))
    pods: list[CliquePods] = []
    for owner in cliques:
        drawn = tuple(
            pod_name(owner.metadata.name, each, ()) for each in range(owner.spec.replicas)
        )
        pods.append(
            CliquePods(owner.metadata.name, owner.metadata.labels[names.POD_GANG], 1, drawn)
        )
        for pod_index, name in enumerate(drawn):
            yield (
                "Pod",
                pod_object(owner, set_, pod_index, name, gated=True, released=False, settings=ON),
            )
    replicas = {name: each.replicas for name, each in groups.items()}
    sizes = {each.metadata.name: each.spec.replicas for each in cliques}
    for each in replica_claims(set_, index, sizes, replicas, owners=owners_of(*sizes, *replicas)):
        yield "ResourceClaim", each
    gangs = gang_objects(set_, index, pods, replicas, Levels(), ON)
    placed = [each["name"] for gang in gangs for each in gang["spec"]["podgroups"]]
    assert sorted(placed) == sorted(sizes), "every clique is in one gang"
    for each in gangs:
        yield "PodGang", each


@settings(max_examples=200)
@given(sets())
def test_no_two_objects_of_a_kind_share_a_name(set_: PodCliqueSet) -> None:
    counted = Counter((kind, each["metadata"]["name"]) for kind, each in objects(set_))

    assert [name for name, times in counted.items() if times > 1] == []


@settings(max_examples=200)
@given(sets())
def test_no_two_pods_of_a_replica_share_a_host_name(set_: PodCliqueSet) -> None:
    hosts = Counter(
        (each["spec"]["subdomain"], each["spec"]["hostname"])
        for kind, each in objects(set_)
        if kind == "Pod"
    )

    assert [name for name, times in hosts.items() if times > 1] == []


@settings(max_examples=200)
@given(sets())
def test_whatever_is_a_label_or_a_host_name_is_short_enough(set_: PodCliqueSet) -> None:
    for kind, each in objects(set_):
        for value in each["metadata"]["labels"].values():
            assert len(value) <= LABEL
        if kind == "Pod":
            spec = each["spec"]
            used = [claim["name"] for claim in spec.get("resourceClaims", ())]
            assert len(set(used)) == len(used)
            for name in (spec["hostname"], spec["subdomain"], each["metadata"]["name"], *used):
                assert len(name) <= LABEL
        elif kind != "ResourceClaim":
            assert len(each["metadata"]["name"]) <= LABEL


@settings(max_examples=200)
@given(sets())
def test_building_again_gives_the_same(set_: PodCliqueSet) -> None:
    assert list(objects(set_)) == list(objects(set_))


@settings(max_examples=200)
@given(sets())
def test_every_claim_of_a_pod_is_one_that_is_made(set_: PodCliqueSet) -> None:
    there = {each["metadata"]["name"] for kind, each in objects(set_) if kind == "ResourceClaim"}
    used = {
        claim["resourceClaimName"]
        for kind, each in objects(set_)
        if kind == "Pod"
        for claim in each["spec"].get("resourceClaims", ())
        if "resourceClaimName" in claim
    }

    assert used <= there


def test_pods_of_a_big_clique_have_names_of_their_own() -> None:
    drawn = [
        names.pod("sys-0-worker", index, attempt) for index in range(20_000) for attempt in (0, 1)
    ]

    assert len(set(drawn)) == len(drawn)


def test_the_longest_names_fit_with_big_indexes() -> None:
    set_, group_, clique_ = "s" * 15, "g" * 15, "c" * 15
    assert len(set_ + group_ + clique_) == names.LONGEST_PARTS
    full = names.member_clique(names.scaling_group(set_, 9999, group_), 9999, clique_)

    assert len(names.pod(full, 9999, 0)) <= LABEL
    assert len(names.hostname(full, 9999)) <= LABEL


SHARED = (ResourceSharing("t", "AllReplicas"),)


@pytest.mark.parametrize(
    ("set_", "kinds"),
    [
        (pod_clique_set(clique("worker"), clique("leader-worker")), []),
        (pod_clique_set(clique("a-0-b"), clique("b"), groups=[group("a", "b")]), ["PodClique"]),
        (pod_clique_set(clique("a-x-b"), clique("b"), groups=[group("a", "b")]), []),
        (pod_clique_set(clique("a-7-b"), clique("b"), groups=[group("a", "b")]), ["PodClique"]),
        (
            pod_clique_set(
                clique("x-b"),
                clique("b"),
                groups=[group("a", "x-b"), group("a-1", "b")],
            ),
            [],
        ),
        (
            pod_clique_set(
                clique("1-b"),
                clique("b"),
                groups=[group("a", "1-b"), group("a-2", "b")],
            ),
            ["PodClique"],
        ),
        (pod_clique_set(clique("a"), clique("b"), groups=[group("a", "b")]), []),
        (
            pod_clique_set(
                clique("a", auto_scaling_config=AutoScaling(2)),
                clique("b"),
                groups=[group("a", "b", scale_config=AutoScaling(2))],
            ),
            ["HorizontalPodAutoscaler"],
        ),
        (
            pod_clique_set(
                clique("a", resource_sharing=SHARED),
                resource_sharing=(SetResourceSharing("a-all-t", "PerReplica"),),
            ),
            ["ResourceClaim"],
        ),
        (
            pod_clique_set(
                clique("a", resource_sharing=SHARED),
                resource_sharing=(SetResourceSharing("a-all-t", "AllReplicas"),),
            ),
            [],
        ),
    ],
)
def test_a_set_whose_objects_would_share_a_name_is_found_out(
    set_: PodCliqueSet, kinds: list[str]
) -> None:
    assert [each.kind for each in name_clashes(set_.spec.template)] == kinds
