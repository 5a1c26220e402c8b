"""A rolling update never leaves its bounds, in any order of events."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.controllers.apps.deployment.desire import desire
from kilonova.local.controllers.apps.deployment.rolling_update import max_surge, max_unavailable
from kilonova.local.controllers.apps.objects import (
    Deployment,
    ReplicaSet,
    ReplicaSetStatus,
)
from tests.local.controllers.apps.builders import NOW, build_deployment, build_replica_set

SHARES = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "10%", "34%", "100%"]))


class SimulatedRollout:
    """A Deployment, its ReplicaSets, and the pods that really exist; statuses lag behind."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        size = deployment.spec.replicas
        old = build_replica_set("old", size, image="img:0", revision="1", desired=size, most=99)
        self.sets = {"old": old}
        self.pods = {"old": [True] * size}
        """By ReplicaSet: whether each pod is available."""

    def apply_plan(self) -> None:
        """The Deployment acts on the reported statuses."""
        plan = desire(self.deployment, list(self.sets.values()), False, NOW)
        for change in plan.changes:
            found = change.replica_set
            annotations = {**found.metadata.annotations, **change.annotations}
            generation = found.metadata.generation + (change.replicas != found.spec.replicas)
            found.metadata = msgspec.structs.replace(
                found.metadata, annotations=annotations, generation=generation
            )
            found.spec = msgspec.structs.replace(found.spec, replicas=change.replicas)
        if plan.create is not None:
            made = plan.create
            name = made.metadata.name
            made.metadata = msgspec.structs.replace(made.metadata, uid=name, generation=1)
            self.sets[name], self.pods[name] = made, []
        self.deployment.status = plan.status

    def scale_set(self, found: ReplicaSet) -> None:
        """A ReplicaSet creates pods, or deletes them, unavailable ones first."""
        pods = self.pods[found.metadata.name]
        pods.sort(reverse=True)
        del pods[found.spec.replicas :]
        pods.extend([False] * (found.spec.replicas - len(pods)))

    def update_status(self, found: ReplicaSet) -> None:
        """A ReplicaSet reports its status."""
        pods = self.pods[found.metadata.name]
        found.status = ReplicaSetStatus(
            replicas=len(pods),
            available_replicas=sum(pods),
            ready_replicas=sum(pods),
            observed_generation=found.metadata.generation,
        )

    def make_available(self, found: ReplicaSet) -> None:
        """A pod becomes available."""
        pods = self.pods[found.metadata.name]
        if False in pods:
            pods[pods.index(False)] = True

    def check_bounds(self) -> None:
        expected = self.deployment.spec.replicas
        every = [available for pods in self.pods.values() for available in pods]
        assert len(every) <= expected + max_surge(self.deployment)
        assert sum(every) >= expected - max_unavailable(self.deployment)


@given(st.integers(1, 9), SHARES, SHARES, st.data())
def test_rollout_stays_within_surge_and_unavailable(
    replicas: int, surge: int | str, unavailable: int | str, data: st.DataObject
) -> None:
    rollout = SimulatedRollout(
        build_deployment(replicas, surge=surge, unavailable=unavailable, image="img:1")
    )
    rollout.check_bounds()
    for _ in range(data.draw(st.integers(0, 60))):
        act = data.draw(
            st.sampled_from(
                [
                    SimulatedRollout.scale_set,
                    SimulatedRollout.update_status,
                    SimulatedRollout.make_available,
                    None,
                ]
            )
        )
        if act is None:
            rollout.apply_plan()
        else:
            act(rollout, data.draw(st.sampled_from(list(rollout.sets.values()))))
        rollout.check_bounds()
    # From any state, the rollout completes.
    for _ in range(20 * replicas):
        rollout.apply_plan()
        for found in list(rollout.sets.values()):
            rollout.scale_set(found)
            rollout.make_available(found)
            rollout.update_status(found)
        rollout.check_bounds()
    sizes = {name: found.spec.replicas for name, found in rollout.sets.items()}
    assert sizes.pop("old") == 0
    assert list(sizes.values()) == [replicas]
