"""Objects of a set are counted without building them, and limited."""

from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.grove.common import AutoScaling
from kilonova.api.grove.podcliqueset import (
    ANY_ORDER,
    EXPLICIT,
    IN_ORDER,
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.workloads.builders.resource_claims import build_set_claims
from kilonova.workloads.limits import (
    MAX_PODS,
    ObjectCounts,
    ScalableObject,
    check_scale_limits,
    check_set_limits,
    count_live_objects,
    count_set_objects,
)
from tests.harness.campaigns import limit_examples
from tests.workloads.api_objects import (
    build_group_member,
    clique,
    group,
    pod_clique,
    pod_clique_set,
    scaling_group,
)
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import SimulatedReplica

BILLIONS = 2_000_000_000
SCALING = AutoScaling(max_replicas=9, min_replicas=1)
_scopes = st.lists(st.sampled_from(["AllReplicas", "PerReplica"]), max_size=2)


def _build_sharing(kind: Any, scopes: list[str]) -> tuple[Any, ...]:
    return tuple(kind(f"gpu{place}", scope) for place, scope in enumerate(scopes))


@st.composite
def _sets(draw: st.DrawFn) -> PodCliqueSet:
    """Sets of one to four cliques, of which some are in one of two groups."""
    roles = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    homes = {each: draw(st.sampled_from(["", "g", "h"])) for each in roles}
    groups = [
        group(
            name,
            *members,
            replicas=(replicas := draw(st.integers(1, 3))),
            min_available=draw(st.integers(1, replicas)),
            scale_config=draw(st.none() | st.just(SCALING)),
            resource_sharing=_build_sharing(GroupResourceSharing, draw(_scopes)),
        )
        for name in ("g", "h")
        if (members := [each for each in roles if homes[each] == name])
    ]
    cliques = [
        clique(
            name,
            draw(st.integers(1, 3)),
            1,
            after=draw(st.lists(st.sampled_from(roles[:place]), unique=True)) if place else (),
            resource_sharing=_build_sharing(ResourceSharing, draw(_scopes)),
            auto_scaling_config=None if homes[name] else draw(st.none() | st.just(SCALING)),
        )
        for place, name in enumerate(roles)
    ]
    claim = {"devices": {"requests": [{"name": "gpu"}]}}
    return pod_clique_set(
        *cliques,
        groups=groups,
        replicas=draw(st.integers(0, 2)),
        startup=draw(st.sampled_from([ANY_ORDER, IN_ORDER, EXPLICIT])),
        resource_sharing=_build_sharing(SetResourceSharing, draw(_scopes)),
        resource_claim_templates=tuple(
            ResourceClaimTemplate(f"gpu{place}", {"spec": claim}) for place in range(2)
        ),
    )


_T = TypeVar("_T", PodClique, PodCliqueScalingGroup)


def _with_replicas(part: _T, replicas: int) -> _T:
    return replace(part, spec=replace(part.spec, replicas=replicas))


def _count_built_objects(worlds: list[SimulatedReplica], set_: PodCliqueSet) -> ObjectCounts:
    """The objects of a set once all of its replicas have converged."""
    for replica in worlds:
        replica.converge()
    return ObjectCounts(
        pods=sum(
            len(each.pod_references)
            for replica in worlds
            for gang in replica.gangs.values()
            for each in gang.spec.pod_groups
        ),
        objects=len(build_set_claims(set_))
        + sum(len(kind) for replica in worlds for kind in replica.stored.values()),
        startup_dependencies=sum(
            len(each.spec.starts_after) for replica in worlds for each in replica.cliques.values()
        ),
    )


@settings(deadline=None, max_examples=limit_examples(60))
@given(_sets())
def test_counts_match_the_built_objects(set_: PodCliqueSet) -> None:
    worlds = [SimulatedReplica(set_, index) for index in range(set_.spec.replicas)]
    counted, created = count_set_objects(set_.spec), _count_built_objects(worlds, set_)
    assert (counted.pods, counted.objects) == (created.pods, created.objects)
    assert counted.startup_dependencies >= created.startup_dependencies


@settings(deadline=None, max_examples=limit_examples(60))
@given(_sets(), st.randoms(use_true_random=False))
def test_scaled_objects_are_counted_as_they_are_built(set_: PodCliqueSet, random_data: Any) -> None:
    worlds = [SimulatedReplica(set_, index) for index in range(set_.spec.replicas)]
    _count_built_objects(worlds, set_)
    live: list[ScalableObject] = []
    for replica in worlds:
        for name, each in replica.groups.items():
            replica.groups[name] = _with_replicas(each, random_data.randint(0, 4))
        for name, each in replica.cliques.items():
            if names.SCALING_GROUP not in each.metadata.labels:
                replica.cliques[name] = _with_replicas(each, random_data.randint(0, 4))
        live += [*replica.groups.values(), *replica.cliques.values()]
    counted, created = count_live_objects(set_, live), _count_built_objects(worlds, set_)
    assert (counted.pods, counted.objects) == (created.pods, created.objects)
    assert counted.startup_dependencies >= created.startup_dependencies


@pytest.mark.parametrize(
    ("set_", "message"),
    [
        (
            pod_clique_set(clique("a", 2), replicas=BILLIONS),
            "spec.replicas: Invalid value: 2000000000: results in 4000000000 pods, and the limit "
            "is 100000; reduce one of spec.replicas (2000000000) × "
            "spec.template.cliques[0].spec.replicas (2)",
        ),
        (
            pod_clique_set(clique("a", BILLIONS)),
            "spec.template.cliques[0].spec.replicas: Invalid value: 2000000000: results in "
            "2000000000 pods, and the limit is 100000; reduce it",
        ),
        (
            pod_clique_set(
                clique("a"), clique("b", 50), groups=[group("g", "b", replicas=40)], replicas=60
            ),
            "spec.replicas: Invalid value: 60: results in 120060 pods, and the limit is 100000; "
            "reduce one of spec.replicas (60) × "
            "spec.template.podCliqueScalingGroups[0].replicas (40) × "
            "spec.template.cliques[1].spec.replicas (50)",
        ),
        (
            # As stored without webhooks: no pods, but a Service for each replica.
            pod_clique_set(clique("a", 0), replicas=BILLIONS),
            "spec.replicas: Invalid value: 2000000000: results in 6000000000 objects other than "
            "pods, and the limit is 100000; reduce it",
        ),
        (
            pod_clique_set(
                clique("a"),
                clique("b"),
                groups=[
                    group("g", "a", replicas=400, min_available=400),
                    group("h", "b", replicas=400, min_available=400),
                ],
                startup=IN_ORDER,
            ),
            "spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 400: each "
            "replica results in 160000 startup dependencies, and the limit is 100000; reduce it, "
            "or use cliqueStartupType CliqueStartupTypeAnyOrder",
        ),
        (
            pod_clique_set(clique("a"), groups=[group("g", "a", replicas=5000)], replicas=2),
            "spec.template.podCliqueScalingGroups[0].replicas: Invalid value: 5000: each "
            "replica results in 10002 objects other than pods, and the limit is 10000; reduce it",
        ),
        (
            pod_clique_set(*(clique(f"c{each}") for each in range(257))),
            "spec.template.cliques: Invalid value: 257: a PodCliqueSet has at most 256; split it "
            "into several",
        ),
    ],
    ids=["set", "clique", "product", "no pods", "start order", "replica", "roles"],
)
def test_limit_violation_names_its_factors(set_: PodCliqueSet, message: str) -> None:
    assert str(check_set_limits(set_.spec)) == message


def test_counts_at_the_limit_are_allowed() -> None:
    just = pod_clique_set(clique("a", MAX_PODS // 100), replicas=100)
    assert check_set_limits(just.spec) is None
    assert check_set_limits(pod_clique_set(clique("a", MAX_PODS // 100 + 1), replicas=100).spec)


def test_only_scaled_out_objects_are_reported() -> None:
    set_ = pod_clique_set(clique("a"), clique("b"), groups=[group("g", "b")], replicas=2)
    calm = pod_clique(set_, "b", 1, build_group_member(set_, "g", 0, 1))
    out = _with_replicas(pod_clique(set_, "a"), BILLIONS)
    grown = _with_replicas(scaling_group(set_, "g"), 4_000)
    everything = [calm, out, grown]
    assert check_scale_limits(set_, [calm], lambda: everything) is None
    assert str(check_scale_limits(set_, [out], lambda: everything)) == (
        "PodClique sys-0-a: spec.replicas: Invalid value: 2000000000: the set's replica results "
        "in 2000000001 pods, and the limit is 100000; reduce it"
    )
    assert check_scale_limits(set_, [grown], lambda: [calm, grown]) is None
    assert "PodCliqueScalingGroup sys-0-g: spec.replicas: Invalid value: 4000" in str(
        check_scale_limits(set_, [grown], lambda: everything)
    )
