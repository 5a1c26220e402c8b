"""Invariants of gangs, however groups and cliques are scaled."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.grove import names
from tests.harness.campaigns import limit_examples
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    SimulatedReplica,
    list_gang_pods,
)

SCALES = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "a"]), st.integers(min_value=0, max_value=5), st.booleans()
    ),
    max_size=8,
)


@settings(max_examples=limit_examples(60))
@given(least_x=st.integers(1, 3), least_y=st.integers(1, 3), scales=SCALES)
def test_every_clique_is_in_one_gang_and_the_base_has_min_available(
    least_x: int, least_y: int, scales: list[tuple[str, int, bool]]
) -> None:
    replica = SimulatedReplica(
        pod_clique_set(
            clique("a", 2, 1),
            clique("b"),
            clique("c", 2, 1),
            clique("d"),
            groups=[
                group("x", "b", "c", replicas=3, min_available=least_x),
                group("y", "d", replicas=3, min_available=least_y),
            ],
        )
    )
    replica.converge()
    for name, replicas, pods_come in scales:
        kind = "PodClique" if name == "a" else "PodCliqueScalingGroup"
        replica.scale(kind, f"sys-0-{name}", replicas)
        if pods_come:
            replica.converge()
            replica.start_pods()
    replica.converge()

    groups = {gang: list(list_gang_pods(each)) for gang, each in replica.gangs.items()}
    members = [name for each in groups.values() for name in each]
    assert sorted(members) == sorted(replica.cliques)
    least = {"sys-0-x": least_x, "sys-0-y": least_y}
    for gang, cliques in groups.items():
        for each in cliques:
            labels = replica.cliques[each].metadata.labels
            assert labels[names.POD_GANG] == gang
            assert (names.BASE_POD_GANG in labels) == (gang != "sys-0")
    in_base = {
        name
        for name, each in replica.cliques.items()
        if names.SCALING_GROUP not in each.metadata.labels
        or int(each.metadata.labels[names.SCALING_GROUP_REPLICA_INDEX])
        < least[each.metadata.labels[names.SCALING_GROUP]]
    }
    assert set(groups["sys-0"]) == in_base
    for gang in replica.gangs.values():
        for pod_group in gang.spec.pod_groups:
            live = replica.cliques[pod_group.name]
            assert pod_group.min_replicas == min(live.min_available, live.spec.replicas)
            assert len(pod_group.pod_references) >= live.spec.replicas
    assert replica.plan().is_empty
