"""A rolling update never leaves its bounds, in whatever order things happen."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.controllers.apps.deployment.desire import desire
from kilonova.local.controllers.apps.deployment.rolling import max_surge, max_unavailable
from kilonova.local.controllers.apps.objects import (
    Deployment,
    ReplicaSet,
    ReplicaSetStatus,
)
from tests.local.controllers.apps.values import NOW, a_deployment, a_set

SHARES = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "10%", "34%", "100%"]))


class World:
    """A Deployment, its sets, and the pods that really are there; statuses lag behind."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        size = deployment.spec.replicas
        old = a_set("old", size, image="img:0", revision="1", desired=size, most=99)
        self.sets = {"old": old}
        self.pods = {"old": [True] * size}
        """By set: whether each pod is available."""

    def step(self) -> None:
        """The Deployment acts on what the statuses say."""
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

    def size(self, found: ReplicaSet) -> None:
        """A ReplicaSet makes pods, or removes them, those that are not available first."""
        pods = self.pods[found.metadata.name]
        pods.sort(reverse=True)
        del pods[found.spec.replicas :]
        pods.extend([False] * (found.spec.replicas - len(pods)))

    def tell(self, found: ReplicaSet) -> None:
        """A ReplicaSet says how it is."""
        pods = self.pods[found.metadata.name]
        found.status = ReplicaSetStatus(
            replicas=len(pods),
            available_replicas=sum(pods),
            ready_replicas=sum(pods),
            observed_generation=found.metadata.generation,
        )

    def come_up(self, found: ReplicaSet) -> None:
        """A pod becomes available."""
        pods = self.pods[found.metadata.name]
        if False in pods:
            pods[pods.index(False)] = True

    def check(self) -> None:
        wanted = self.deployment.spec.replicas
        every = [available for pods in self.pods.values() for available in pods]
        assert len(every) <= wanted + max_surge(self.deployment)
        assert sum(every) >= wanted - max_unavailable(self.deployment)


@given(st.integers(1, 9), SHARES, SHARES, st.data())
def test_never_too_many_and_never_too_few(
    replicas: int, surge: int | str, unavailable: int | str, data: st.DataObject
) -> None:
    world = World(a_deployment(replicas, surge=surge, unavailable=unavailable, image="img:1"))
    world.check()
    for _ in range(data.draw(st.integers(0, 60))):
        act = data.draw(st.sampled_from([World.size, World.tell, World.come_up, None]))
        if act is None:
            world.step()
        else:
            act(world, data.draw(st.sampled_from(list(world.sets.values()))))
        world.check()
    # However it went until here, it comes to its end.
    for _ in range(20 * replicas):
        world.step()
        for found in list(world.sets.values()):
            world.size(found)
            world.come_up(found)
            world.tell(found)
        world.check()
    sizes = {name: found.spec.replicas for name, found in world.sets.items()}
    assert sizes.pop("old") == 0
    assert list(sizes.values()) == [replicas]
