"""Names of a set's objects: unique, short enough, deterministic."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.common import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    PodCliqueSet,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.json import JsonObject
from kilonova.workloads.admission.validation.name_conflicts import find_name_conflicts
from kilonova.workloads.builders.autoscalers import build_autoscalers
from kilonova.workloads.builders.compute_domains import build_compute_domains
from kilonova.workloads.builders.pod_cliques import GroupMember, build_clique
from kilonova.workloads.builders.pod_gangs import GangMember, build_gangs
from kilonova.workloads.builders.pods import build_pod, choose_pod_name
from kilonova.workloads.builders.resource_claims import build_replica_claims, build_set_claims
from kilonova.workloads.builders.scaling_groups import build_scaling_group
from kilonova.workloads.builders.services import build_service
from kilonova.workloads.builders.template_lookup import find_group_of_clique
from kilonova.workloads.builders.topology_levels import ResolvedLevels
from kilonova.workloads.settings import OperatorSettings
from tests.harness.campaigns import limit_examples
from tests.workloads.api_objects import (
    build_owner_references,
    clique,
    decode_built,
    get_current_revision,
    group,
    pod_clique_set,
)

LABEL = 63
ON = OperatorSettings(mnnvl=True)


def _names(*often: str) -> st.SearchStrategy[str]:
    """Any names, and often ones that together come close to a clash."""
    any_name = st.from_regex(r"[a-z]([a-z0-9-]{0,13}[a-z0-9])?", fullmatch=True)
    return st.one_of(st.sampled_from(often), any_name)


CLIQUES = _names("a", "b", "a-0-b", "x-1-a", "1-b", "worker", "leader-worker")
GROUPS = _names("a", "x", "x-0", "worker", "leader")
TEMPLATES = _names("t", "a-all-t", "0-t", "a-1-t", "x-0-a-all-t")


@st.composite
def sets(draw: st.DrawFn) -> PodCliqueSet:
    """Sets that pass admission."""
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
    assume(not find_name_conflicts(result.spec.template))
    return result


def list_objects(set_: PodCliqueSet) -> Iterator[tuple[str, JsonObject]]:
    """All objects of a set, with their kinds."""
    for each in build_set_claims(set_):
        yield "ResourceClaim", each
    for index in range(set_.spec.replicas):
        yield from list_replica_objects(set_, index)


def list_replica_objects(set_: PodCliqueSet, index: int) -> Iterator[tuple[str, JsonObject]]:
    template, revision = set_.spec.template, get_current_revision(set_)
    yield "Service", build_service(set_, index)
    for each in build_autoscalers(set_, index):
        yield "HorizontalPodAutoscaler", each
    for each in build_compute_domains(set_, index, ON):
        yield "ComputeDomain", each
    groups = {
        names.scaling_group(set_.metadata.name, index, each.name): each
        for each in template.pod_clique_scaling_groups
    }
    for each in groups.values():
        yield "PodCliqueScalingGroup", build_scaling_group(set_, index, revision, each)
    cliques: list[PodClique] = []
    for each in template.cliques:
        own = find_group_of_clique(template, each.name)
        full = names.scaling_group(set_.metadata.name, index, own.name) if own else ""
        places = (
            [GroupMember(own, full, member) for member in range(own.replicas)] if own else [None]
        )
        for member in places:
            built = build_clique(set_, index, revision, each.name, member, ON)
            yield "PodClique", built
            cliques.append(decode_built(built, PodClique))
    pods: list[GangMember] = []
    for owner in cliques:
        drawn = tuple(
            choose_pod_name(owner.metadata.name, each, ()) for each in range(owner.spec.replicas)
        )
        pods.append(
            GangMember(owner.metadata.name, owner.metadata.labels[names.POD_GANG], 1, drawn)
        )
        for pod_index, name in enumerate(drawn):
            yield (
                "Pod",
                build_pod(owner, set_, pod_index, name, gated=True, released=False, settings=ON),
            )
    replicas = {name: each.replicas for name, each in groups.items()}
    sizes = {each.metadata.name: each.spec.replicas for each in cliques}
    for each in build_replica_claims(
        set_, index, sizes, replicas, owners=build_owner_references(*sizes, *replicas)
    ):
        yield "ResourceClaim", each
    gangs = build_gangs(set_, index, pods, replicas, ResolvedLevels(), ON)
    placed = [each["name"] for gang in gangs for each in gang["spec"]["podgroups"]]
    assert sorted(placed) == sorted(sizes), "every clique is in one gang"
    for each in gangs:
        yield "PodGang", each


@settings(max_examples=limit_examples(200))
@given(sets())
def test_no_two_objects_of_a_kind_share_a_name(set_: PodCliqueSet) -> None:
    counted = Counter((kind, each["metadata"]["name"]) for kind, each in list_objects(set_))

    assert [name for name, times in counted.items() if times > 1] == []


@settings(max_examples=limit_examples(200))
@given(sets())
def test_no_two_pods_of_a_replica_share_a_host_name(set_: PodCliqueSet) -> None:
    hosts = Counter(
        (each["spec"]["subdomain"], each["spec"]["hostname"])
        for kind, each in list_objects(set_)
        if kind == "Pod"
    )

    assert [name for name, times in hosts.items() if times > 1] == []


@settings(max_examples=limit_examples(200))
@given(sets())
def test_labels_and_host_names_are_within_length_limits(set_: PodCliqueSet) -> None:
    for kind, each in list_objects(set_):
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


@settings(max_examples=limit_examples(200))
@given(sets())
def test_building_is_deterministic(set_: PodCliqueSet) -> None:
    assert list(list_objects(set_)) == list(list_objects(set_))


@settings(max_examples=limit_examples(200))
@given(sets())
def test_every_claim_of_a_pod_is_built(set_: PodCliqueSet) -> None:
    there = {
        each["metadata"]["name"] for kind, each in list_objects(set_) if kind == "ResourceClaim"
    }
    used = {
        claim["resourceClaimName"]
        for kind, each in list_objects(set_)
        if kind == "Pod"
        for claim in each["spec"].get("resourceClaims", ())
        if "resourceClaimName" in claim
    }

    assert used <= there


def test_pods_of_a_big_clique_have_distinct_names() -> None:
    drawn = [
        names.pod("sys-0-worker", index, attempt) for index in range(20_000) for attempt in (0, 1)
    ]

    assert len(set(drawn)) == len(drawn)


def test_the_longest_names_fit_with_big_indexes() -> None:
    set_, group_, clique_ = "s" * 15, "g" * 15, "c" * 15
    assert len(set_ + group_ + clique_) == names.MAX_COMBINED_NAME_LENGTH
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
def test_name_conflicts_of_a_set_are_found(set_: PodCliqueSet, kinds: list[str]) -> None:
    assert [each.kind for each in find_name_conflicts(set_.spec.template)] == kinds
