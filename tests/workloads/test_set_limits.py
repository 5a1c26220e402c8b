"""What a set asks for is known without making it, and how much is too much."""

from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.grove.parts import AutoScaling
from kilonova.api.grove.podcliqueset import (
    ANY_ORDER,
    EXPLICIT,
    IN_ORDER,
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.workloads.limits import (
    MOST_PODS,
    Demand,
    Scaled,
    live_demand,
    scale_excess,
    set_demand,
    set_excess,
)
from kilonova.workloads.templates.claims import set_claims
from tests.workloads.builders import (
    clique,
    group,
    member,
    pod_clique,
    pod_clique_set,
    scaling_group,
)
from tests.workloads.replicas.replica_values import World

BILLIONS = 2_000_000_000
SCALING = AutoScaling(max_replicas=9, min_replicas=1)
_scopes = st.lists(st.sampled_from(["AllReplicas", "PerReplica"]), max_size=2)


def _shared(kind: Any, scopes: list[str]) -> tuple[Any, ...]:
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
            resource_sharing=_shared(GroupResourceSharing, draw(_scopes)),
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
            resource_sharing=_shared(ResourceSharing, draw(_scopes)),
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
        resource_sharing=_shared(SetResourceSharing, draw(_scopes)),
        resource_claim_templates=tuple(
            ResourceClaimTemplate(f"gpu{place}", {"spec": claim}) for place in range(2)
        ),
    )


_T = TypeVar("_T", PodClique, PodCliqueScalingGroup)


def _scaled(part: _T, replicas: int) -> _T:
    return replace(part, spec=replace(part.spec, replicas=replicas))


def _made(worlds: list[World], set_: PodCliqueSet) -> Demand:
    """What there is of a set once all of its replicas are at rest."""
    for world in worlds:
        world.settle()
    return Demand(
        pods=sum(
            len(each.pod_references)
            for world in worlds
            for gang in world.gangs.values()
            for each in gang.spec.pod_groups
        ),
        objects=len(set_claims(set_))
        + sum(len(kind) for world in worlds for kind in world.stored.values()),
        waits=sum(
            len(each.spec.starts_after) for world in worlds for each in world.cliques.values()
        ),
    )


@settings(deadline=None, max_examples=60)
@given(_sets())
def test_what_is_counted_is_what_is_made(set_: PodCliqueSet) -> None:
    worlds = [World(set_, index) for index in range(set_.spec.replicas)]
    counted, made = set_demand(set_.spec), _made(worlds, set_)
    assert (counted.pods, counted.objects) == (made.pods, made.objects)
    assert counted.waits >= made.waits


@settings(deadline=None, max_examples=60)
@given(_sets(), st.randoms(use_true_random=False))
def test_what_is_scaled_by_itself_is_counted_as_it_is_made(set_: PodCliqueSet, chance: Any) -> None:
    worlds = [World(set_, index) for index in range(set_.spec.replicas)]
    _made(worlds, set_)
    live: list[Scaled] = []
    for world in worlds:
        for name, each in world.groups.items():
            world.groups[name] = _scaled(each, chance.randint(0, 4))
        for name, each in world.cliques.items():
            if names.SCALING_GROUP not in each.metadata.labels:
                world.cliques[name] = _scaled(each, chance.randint(0, 4))
        live += [*world.groups.values(), *world.cliques.values()]
    counted, made = live_demand(set_, live), _made(worlds, set_)
    assert (counted.pods, counted.objects) == (made.pods, made.objects)
    assert counted.waits >= made.waits


@pytest.mark.parametrize(
    ("set_", "told"),
    [
        (
            pod_clique_set(clique("a", 2), replicas=BILLIONS),
            "spec.replicas: Invalid value: 2000000000: comes to 4000000000 pods, more than 100000: "
            "lower one of spec.replicas (2000000000) × spec.template.cliques[0].spec.replicas (2)",
        ),
        (
            pod_clique_set(clique("a", BILLIONS)),
            "spec.template.cliques[0].spec.replicas: Invalid value: 2000000000: comes to "
            "2000000000 pods, more than 100000: lower it",
        ),
        (
            pod_clique_set(
                clique("a"), clique("b", 50), groups=[group("g", "b", replicas=40)], replicas=60
            ),
            "spec.replicas: Invalid value: 60: comes to 120060 pods, more than 100000: lower one "
            "of spec.replicas (60) × spec.template.podCliqueScalingGroups[0].replicas (40) × "
            "spec.template.cliques[1].spec.replicas (50)",
        ),
        (
            # As it comes where no webhook is asked: no pods, yet a Service for each replica.
            pod_clique_set(clique("a", 0), replicas=BILLIONS),
            "spec.replicas: Invalid value: 2000000000: comes to 6000000000 objects beside its "
            "pods, more than 100000: lower it",
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
            "spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 400: a "
            "replica comes to 160000 cliques that others wait for, more than 100000: lower it, or "
            "let cliques start in any order",
        ),
        (
            pod_clique_set(clique("a"), groups=[group("g", "a", replicas=5000)], replicas=2),
            "spec.template.podCliqueScalingGroups[0].replicas: Invalid value: 5000: a replica "
            "comes to 10002 objects beside its pods, more than 10000: lower it",
        ),
        (
            pod_clique_set(*(clique(f"c{each}") for each in range(257))),
            "spec.template.cliques: Invalid value: 257: a set has at most 256: make several sets "
            "of it",
        ),
    ],
    ids=["set", "clique", "product", "no pods", "start order", "replica", "roles"],
)
def test_too_much_is_told_with_what_makes_it_so(set_: PodCliqueSet, told: str) -> None:
    assert str(set_excess(set_.spec)) == told


def test_as_much_as_there_may_be_is_not_too_much() -> None:
    just = pod_clique_set(clique("a", MOST_PODS // 100), replicas=100)
    assert set_excess(just.spec) is None
    assert set_excess(pod_clique_set(clique("a", MOST_PODS // 100 + 1), replicas=100).spec)


def test_only_what_is_scaled_out_is_to_blame() -> None:
    set_ = pod_clique_set(clique("a"), clique("b"), groups=[group("g", "b")], replicas=2)
    calm = pod_clique(set_, "b", 1, member(set_, "g", 0, 1))
    out = _scaled(pod_clique(set_, "a"), BILLIONS)
    grown = _scaled(scaling_group(set_, "g"), 4_000)
    everything = [calm, out, grown]
    assert scale_excess(set_, [calm], lambda: everything) is None
    assert str(scale_excess(set_, [out], lambda: everything)) == (
        "PodClique sys-0-a: spec.replicas: Invalid value: 2000000000: the set's replica comes to "
        "2000000001 pods, more than 100000: lower it"
    )
    assert scale_excess(set_, [grown], lambda: [calm, grown]) is None
    assert "PodCliqueScalingGroup sys-0-g: spec.replicas: Invalid value: 4000" in str(
        scale_excess(set_, [grown], lambda: everything)
    )
