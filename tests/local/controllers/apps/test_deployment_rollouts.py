"""Deployments of an embedded cluster with simulated nodes, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kilonova.api.times import parse_time
from kilonova.kube import Client, Reflector
from kilonova.local.controllers.apps.pod_state import is_active, resolve_int_or_percent
from kilonova.local.objects.core import PODS as POD_FACTS
from kilonova.local.objects.core import Pod
from tests.local.controllers.apps.manifests import (
    DEPLOYMENTS,
    REPLICA_SETS,
    cluster,
    conditions,
    pods_of,
    reasons,
    set_image,
    wait_for_status,
    wait_rolled_out,
    workload,
)
from tests.local.embedded_cluster import (
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def sets_of(client: Client) -> dict[str, Any]:
    """The ReplicaSets by revision."""
    found = (await client.list(REPLICA_SETS, "default")).items
    return {each["metadata"]["annotations"][REVISION]: each for each in found}


async def images_of(client: Client) -> Counter[str]:
    return Counter(pod["spec"]["containers"][0]["image"] for pod in await pods_of(client))


async def test_a_deployment_gets_its_pods(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=3), "default")
    done = await wait_rolled_out(client, 3)
    assert conditions(done) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert done["metadata"]["annotations"][REVISION] == "1"
    (replica_set,) = (await sets_of(client)).values()
    hash_ = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{hash_}"
    assert len(await pods_of(client, **{"pod-template-hash": hash_})) == 3
    assert await reasons(client, "Deployment", "web") == ["ScalingReplicaSet"]


async def test_idle_controllers_write_nothing(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=3), "default")
    await wait_rolled_out(client, 3)
    await advance_time(30)
    before = [
        (each["metadata"]["name"], each["metadata"]["resourceVersion"])
        for resource in (DEPLOYMENTS, REPLICA_SETS, PODS)
        for each in (await client.list(resource, "default")).items
    ]
    await advance_time(3600)
    after = [
        (each["metadata"]["name"], each["metadata"]["resourceVersion"])
        for resource in (DEPLOYMENTS, REPLICA_SETS, PODS)
        for each in (await client.list(resource, "default")).items
    ]
    assert before == after


async def test_rolled_back_template_reuses_its_replica_set(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=4), "default")
    await wait_rolled_out(client, 4)
    await set_image(client, DEPLOYMENTS, "img:2")
    done = await wait_rolled_out(client, 4)
    assert done["metadata"]["annotations"][REVISION] == "2"
    assert await images_of(client) == {"img:2": 4}
    sizes = {
        revision: each["spec"]["replicas"] for revision, each in (await sets_of(client)).items()
    }
    assert sizes == {"1": 0, "2": 4}
    await set_image(client, DEPLOYMENTS, "img:1")
    await wait_rolled_out(client, 4)
    sets = await sets_of(client)
    assert sorted(sets) == ["2", "3"]
    history = "deployment.kubernetes.io/revision-history"
    assert sets["3"]["metadata"]["annotations"][history] == "1"
    assert await images_of(client) == {"img:1": 4}


async def test_failing_rollout_times_out_and_can_be_undone(client: Client) -> None:
    made = workload(replicas=4, progressDeadlineSeconds=60)
    await client.create(DEPLOYMENTS, made, "default")
    await wait_rolled_out(client, 4)
    wrong = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}}}}}
    await client.patch(DEPLOYMENTS, "web", wrong, "default")
    stuck = await wait_for_status(
        client, DEPLOYMENTS, replicas=5, updatedReplicas=2, availableReplicas=3
    )
    assert conditions(stuck)["Progressing"] == ("True", "ReplicaSetUpdated")

    async def reported() -> bool:
        found = await client.get(DEPLOYMENTS, "web", "default")
        return conditions(found)["Progressing"] == ("False", "ProgressDeadlineExceeded")

    await wait_for_condition(reported, within=70)
    assert len(await pods_of(client)) == 5
    undone = {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    await client.patch(DEPLOYMENTS, "web", undone, "default")
    done = await wait_rolled_out(client, 4)
    assert conditions(done)["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_recreate_never_runs_old_and_new_pods_together(client: Client) -> None:
    made = workload(replicas=3, strategy={"type": "Recreate"})
    await client.create(DEPLOYMENTS, made, "default")
    await wait_rolled_out(client, 3)
    images: list[Counter[str]] = []

    def look(_: Any, __: Any) -> None:
        images.append(Counter(pod.metadata.labels["pod-template-hash"] for pod in store.objects()))

    async with watching(client, look) as store:
        await set_image(client, DEPLOYMENTS, "img:2")
        await wait_rolled_out(client, 3)
    assert max(len(each) for each in images) == 1


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(6, "25%", "25%"), (5, 2, 0), (5, 0, 2), (4, "100%", "50%"), (3, 0, "10%")],
)
async def test_a_rolling_update_stays_within_its_bounds(
    client: Client, replicas: int, surge: int | str, unavailable: int | str
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    await client.create(DEPLOYMENTS, workload(replicas=replicas, strategy=strategy), "default")
    await wait_rolled_out(client, replicas)
    counts: list[tuple[int, int]] = []

    def look(_: Any, __: Any) -> None:
        active = [pod for pod in store.objects() if is_active(pod)]
        counts.append((len(active), sum(pod.is_ready for pod in active)))

    async with watching(client, look) as store:
        await set_image(client, DEPLOYMENTS, "img:2")
        await asyncio.sleep(1.2)
        await set_image(client, DEPLOYMENTS, "img:3")
        await wait_rolled_out(client, replicas)
    assert await images_of(client) == {"img:3": replicas}
    most = replicas + resolve_int_or_percent(surge, replicas, round_up=True)
    least = replicas - (resolve_int_or_percent(unavailable, replicas, round_up=False) or 1)
    assert max(count for count, _ in counts) <= most
    assert min(ready for _, ready in counts) >= least


class watching:
    """A view of all pods, with a look at each change."""

    def __init__(self, client: Client, look: Any) -> None:
        self._pods: Reflector[Pod] = Reflector(client, POD_FACTS)
        self._look = look

    async def __aenter__(self) -> Any:
        self._task = asyncio.create_task(self._pods.run())
        await self._pods.wait_for_sync()
        self._pods.store.add_event_handler(self._look)
        return self._pods.store

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportions(client: Client) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await client.create(DEPLOYMENTS, workload(replicas=10, strategy=strategy), "default")
    await wait_rolled_out(client, 10)
    wrong = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}}}}}
    await client.patch(DEPLOYMENTS, "web", wrong, "default")
    await wait_for_status(client, DEPLOYMENTS, replicas=13, updatedReplicas=5, availableReplicas=8)
    await client.set_scale(DEPLOYMENTS, "web", "default", 15)
    await wait_for_status(client, DEPLOYMENTS, replicas=18, updatedReplicas=7, availableReplicas=11)


async def test_min_ready_seconds_slow_a_rollout_down(client: Client) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    made = workload(replicas=2, minReadySeconds=30, strategy=strategy)
    created = await client.create(DEPLOYMENTS, made, "default")
    done = await wait_rolled_out(client, 2)
    (available,) = [each for each in done["status"]["conditions"] if each["type"] == "Available"]
    took = parse_time(available["lastTransitionTime"]) - parse_time(
        created["metadata"]["creationTimestamp"]
    )
    assert timedelta(seconds=30) <= took <= timedelta(seconds=33)


async def test_hash_collision_is_counted_and_avoided(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=1), "default")
    await wait_rolled_out(client, 1)
    ((_, first),) = (await sets_of(client)).items()
    name = first["metadata"]["name"]
    await client.delete(DEPLOYMENTS, "web", "default")
    await wait_deleted(client, REPLICA_SETS, name)
    squatter = workload(name, replicas=0)
    await client.create(REPLICA_SETS, squatter, "default")
    await client.create(DEPLOYMENTS, workload(replicas=1), "default")
    done = await wait_rolled_out(client, 1)
    assert done["status"]["collisionCount"] == 1
    assert await find(client, REPLICA_SETS, name) is not None


async def test_deletion_cascades_and_orphaning_does_not(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=2), "default")
    await wait_rolled_out(client, 2)
    await client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Orphan")
    await wait_deleted(client, DEPLOYMENTS, "web")
    await advance_time()
    ((_, left),) = (await sets_of(client)).items()
    assert not left["metadata"].get("ownerReferences")
    assert len(await pods_of(client)) == 2
    await client.create(DEPLOYMENTS, workload(replicas=2), "default")
    await wait_rolled_out(client, 2)
    ((_, adopted),) = (await sets_of(client)).items()
    assert adopted["metadata"]["uid"] == left["metadata"]["uid"]
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "web"
    await client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Foreground")
    await wait_deleted(client, DEPLOYMENTS, "web")
    assert await sets_of(client) == {}
    assert await pods_of(client) == []
