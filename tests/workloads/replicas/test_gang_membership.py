"""What always holds of gangs, however groups and cliques are scaled."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.grove import names
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import World, listed

SCALES = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "a"]), st.integers(min_value=0, max_value=5), st.booleans()
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(least_x=st.integers(1, 3), least_y=st.integers(1, 3), scales=SCALES)
def test_every_clique_is_in_one_gang_and_the_base_holds_what_there_must_be(
    least_x: int, least_y: int, scales: list[tuple[str, int, bool]]
) -> None:
    world = World(
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
    world.settle()
    for name, replicas, pods_come in scales:
        kind = "PodClique" if name == "a" else "PodCliqueScalingGroup"
        world.scale(kind, f"sys-0-{name}", replicas)
        if pods_come:
            world.settle()
            world.bring_up()
    world.settle()

    groups = {gang: list(listed(each)) for gang, each in world.gangs.items()}
    members = [name for each in groups.values() for name in each]
    assert sorted(members) == sorted(world.cliques)
    least = {"sys-0-x": least_x, "sys-0-y": least_y}
    for gang, cliques in groups.items():
        for each in cliques:
            labels = world.cliques[each].metadata.labels
            assert labels[names.POD_GANG] == gang
            assert (names.BASE_POD_GANG in labels) == (gang != "sys-0")
    in_base = {
        name
        for name, each in world.cliques.items()
        if names.SCALING_GROUP not in each.metadata.labels
        or int(each.metadata.labels[names.SCALING_GROUP_REPLICA_INDEX])
        < least[each.metadata.labels[names.SCALING_GROUP]]
    }
    assert set(groups["sys-0"]) == in_base
    for gang in world.gangs.values():
        for pod_group in gang.spec.pod_groups:
            live = world.cliques[pod_group.name]
            assert pod_group.min_replicas == min(live.min_available, live.spec.replicas)
            assert len(pod_group.pod_references) >= live.spec.replicas
    assert world.plan().is_empty
