"""Garbage collection through the API of an embedded cluster, in virtual time."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.options import PropagationPolicy
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.controllers.garbagecollector import collector
from kilonova.local.controllers.shared.discovery import discover_resources
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    SECRETS,
    advance_time,
    definition,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

WIDGETS = unstructured_resource("example.com", "v1", "widgets", "Widget", True)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with run_cluster() as cluster:
        yield cluster.client("test")


def reference(obj: Any, kind: str = "ConfigMap", version: str = "v1", **more: Any) -> Any:
    metadata = obj["metadata"]
    return {
        "apiVersion": version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


async def make(
    client: Client,
    name: str,
    *owners: Any,
    resource: Any = CONFIG_MAPS,
    namespace: str | None = "default",
    finalizers: tuple[str, ...] = (),
) -> Any:
    metadata = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return await client.create(resource, {"metadata": metadata}, namespace)


async def drop_finalizers(client: Client, name: str) -> None:
    await client.patch(CONFIG_MAPS, name, {"metadata": {"finalizers": None}}, "default")


async def test_dependents_are_deleted_in_the_background(client: Client) -> None:
    owner = await make(client, "owner")
    child = await make(client, "child", reference(owner))
    await make(client, "grandchild", reference(child), resource=SECRETS)
    await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Background")
    assert await find(client, CONFIG_MAPS, "owner") is None
    await wait_deleted(client, CONFIG_MAPS, "child")
    await wait_deleted(client, SECRETS, "grandchild")


async def test_foreground_deletion_waits_for_blocking_dependents(client: Client) -> None:
    owner = await make(client, "owner")
    await make(
        client, "blocks", reference(owner, blockOwnerDeletion=True), finalizers=("example.com/x",)
    )
    await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Foreground")
    await advance_time()
    assert (await find(client, CONFIG_MAPS, "owner"))["metadata"]["deletionTimestamp"]
    assert (await find(client, CONFIG_MAPS, "blocks"))["metadata"]["deletionTimestamp"]
    await drop_finalizers(client, "blocks")
    await wait_deleted(client, CONFIG_MAPS, "blocks")
    await wait_deleted(client, CONFIG_MAPS, "owner")


async def test_foreground_deletion_does_not_wait_for_other_dependents(client: Client) -> None:
    owner = await make(client, "owner")
    await make(client, "lingers", reference(owner), finalizers=("example.com/x",))
    await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Foreground")
    await wait_deleted(client, CONFIG_MAPS, "owner")
    assert (await find(client, CONFIG_MAPS, "lingers"))["metadata"]["deletionTimestamp"]


async def test_foreground_deletion_propagates_down_a_chain(client: Client) -> None:
    top = await make(client, "top")
    middle = await make(client, "middle", reference(top, blockOwnerDeletion=True))
    await make(
        client, "bottom", reference(middle, blockOwnerDeletion=True), finalizers=("example.com/x",)
    )
    await client.delete(CONFIG_MAPS, "top", "default", propagation_policy="Foreground")
    await advance_time()
    for name in ("top", "middle", "bottom"):
        assert (await find(client, CONFIG_MAPS, name))["metadata"]["deletionTimestamp"], name
    await drop_finalizers(client, "bottom")
    for name in ("bottom", "middle", "top"):
        await wait_deleted(client, CONFIG_MAPS, name)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
async def test_ownership_cycle_is_deleted_completely(
    client: Client, length: int, propagation: PropagationPolicy
) -> None:
    circle = [await make(client, f"c{number}") for number in range(length)]
    for number, obj in enumerate(circle):
        owner = reference(circle[number - 1], blockOwnerDeletion=True)
        await client.patch(
            CONFIG_MAPS,
            obj["metadata"]["name"],
            {"metadata": {"ownerReferences": [owner]}},
            "default",
        )
    await advance_time()
    await client.delete(CONFIG_MAPS, "c0", "default", propagation_policy=propagation)
    for number in range(length):
        await wait_deleted(client, CONFIG_MAPS, f"c{number}")


async def test_orphaned_dependents_stay_and_lose_the_owner_reference(client: Client) -> None:
    owner = await make(client, "owner")
    other = await make(client, "other")
    await make(client, "child", reference(owner))
    await make(client, "shared", reference(owner), reference(other))
    await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Orphan")
    await wait_deleted(client, CONFIG_MAPS, "owner")
    await advance_time()
    assert "ownerReferences" not in (await find(client, CONFIG_MAPS, "child"))["metadata"]
    [left] = (await find(client, CONFIG_MAPS, "shared"))["metadata"]["ownerReferences"]
    assert left["name"] == "other"


async def test_owner_with_another_uid_does_not_count(client: Client) -> None:
    owner = await make(client, "owner")
    await make(client, "child", {**reference(owner), "uid": "of-an-earlier-life"})
    await wait_deleted(client, CONFIG_MAPS, "child")
    assert await find(client, CONFIG_MAPS, "owner")


async def test_dependents_of_an_owner_that_never_existed_are_deleted(client: Client) -> None:
    absent = {"apiVersion": "v1", "kind": "Secret", "name": "nobody", "uid": "none"}
    await make(client, "child", absent)
    await wait_deleted(client, CONFIG_MAPS, "child")


async def test_owner_in_another_namespace_does_not_count(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    owner = await make(client, "owner", namespace="elsewhere")
    await make(client, "child", reference(owner))
    await wait_deleted(client, CONFIG_MAPS, "child")


async def test_one_existing_owner_keeps_a_dependent(client: Client) -> None:
    lost = await make(client, "lost")
    solid = await make(client, "solid")
    await make(client, "child", reference(lost), reference(solid, controller=True))
    await client.delete(CONFIG_MAPS, "lost", "default")

    async def one_left() -> bool:
        return len((await find(client, CONFIG_MAPS, "child"))["metadata"]["ownerReferences"]) == 1

    await wait_for_condition(one_left)
    [left] = (await find(client, CONFIG_MAPS, "child"))["metadata"]["ownerReferences"]
    assert left == reference(solid, controller=True)


async def test_namespaced_dependents_are_deleted_with_a_cluster_scoped_owner(
    client: Client,
) -> None:
    classes = unstructured_resource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
    )
    owner = await client.create(classes, {"metadata": {"name": "high"}, "value": 7})
    await make(client, "child", reference(owner, "PriorityClass", "scheduling.k8s.io/v1"))
    await advance_time()
    assert await find(client, CONFIG_MAPS, "child")
    await client.delete(classes, "high")
    await wait_deleted(client, CONFIG_MAPS, "child")


async def test_cluster_scoped_object_with_a_namespaced_owner_is_ignored(client: Client) -> None:
    classes = unstructured_resource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
    )
    owner = await make(client, "owner")
    body = {"metadata": {"name": "low", "ownerReferences": [reference(owner)]}, "value": 1}
    await client.create(classes, body)
    await client.delete(CONFIG_MAPS, "owner", "default")
    await advance_time()
    assert await find(client, classes, "low", None)


async def test_an_owner_named_by_another_version_of_its_kind_is_found(client: Client) -> None:
    scalers = unstructured_resource(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    owner = await client.create(scalers, {"metadata": {"name": "s"}, "spec": spec}, "default")
    kind = "HorizontalPodAutoscaler"
    await make(client, "child", reference(owner, kind, "autoscaling/v1"))
    await advance_time()
    assert await find(client, CONFIG_MAPS, "child")
    await client.delete(scalers, "s", "default")
    await wait_deleted(client, CONFIG_MAPS, "child")


async def test_owners_of_kinds_that_are_added_and_removed(client: Client) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "none"}
    await make(client, "early", unknown)
    await advance_time()
    assert await find(client, CONFIG_MAPS, "early"), "nobody can tell whether its owner exists"
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    await wait_deleted(client, CONFIG_MAPS, "early")
    owner = await make(client, "w", resource=WIDGETS)
    await make(client, "child", reference(owner, "Widget", "example.com/v1"))
    await advance_time()
    assert await find(client, CONFIG_MAPS, "child")
    await client.delete(DEFINITIONS, "widgets.example.com")
    await wait_deleted(client, DEFINITIONS, "widgets.example.com", None)
    await wait_deleted(client, CONFIG_MAPS, "child")


async def test_kinds_that_are_added_together_are_discovered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    discovered: list[str] = []

    async def discover(client: Client, as_type: Any, *verbs: str) -> Any:
        discovered.append(as_type.__name__)
        return await discover_resources(client, as_type, *verbs)

    monkeypatch.setattr(collector, "discover_resources", discover)
    names = [f"kind{number}" for number in range(5)]
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await advance_time()
        discovered.clear()
        for name in names:
            await client.create(DEFINITIONS, definition("example.com", name.title(), f"{name}s"))
        await advance_time()
        assert len(discovered) <= 2
        for name in names:
            kind = name.title()
            resource = unstructured_resource("example.com", "v1", f"{name}s", kind, True)
            owner = await make(client, name, resource=resource)
            await make(client, name, reference(owner, kind, "example.com/v1"))
            await client.delete(resource, name, "default")
            await wait_deleted(client, CONFIG_MAPS, name)


async def test_a_kind_that_is_no_longer_served_keeps_its_dependents(client: Client) -> None:
    body = definition("example.com", "Widget", "widgets")
    await client.create(DEFINITIONS, body)
    owner = await make(client, "w", resource=WIDGETS)
    await make(client, "child", reference(owner, "Widget", "example.com/v1"))
    await advance_time()
    [version] = body["spec"]["versions"]
    patch = {"spec": {"versions": [{**version, "served": False}]}}
    await client.patch(DEFINITIONS, "widgets.example.com", patch)
    await advance_time()
    assert await find(client, CONFIG_MAPS, "child")


async def test_dependent_that_changes_constantly_is_deleted(client: Client) -> None:
    owner = await make(client, "owner")
    await make(client, "child", reference(owner))
    await client.delete(CONFIG_MAPS, "owner", "default")
    for number in range(20):
        if await find(client, CONFIG_MAPS, "child") is None:
            break
        change = {"data": {"n": str(number)}}
        await client.patch(CONFIG_MAPS, "child", change, "default")
    await wait_deleted(client, CONFIG_MAPS, "child")


async def stopped_midway(data: Path, propagation: PropagationPolicy) -> None:
    """Leave a deletion to the next process: without controllers, none acts on it."""
    async with run_cluster(data=data, controllers="") as cluster:
        client = cluster.client("test")
        owner = await make(client, "owner")
        await make(client, "child", reference(owner, blockOwnerDeletion=True), resource=SECRETS)
        await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy=propagation)


@pytest.mark.looptime(False)
async def test_foreground_deletion_continues_after_a_restart(tmp_path: Path) -> None:
    await stopped_midway(tmp_path, "Foreground")
    async with run_cluster(data=tmp_path) as cluster:
        client = cluster.client("test")
        await wait_deleted(client, CONFIG_MAPS, "owner")
        await wait_deleted(client, SECRETS, "child")


@pytest.mark.looptime(False)
async def test_orphaning_deletion_continues_after_a_restart(tmp_path: Path) -> None:
    await stopped_midway(tmp_path, "Orphan")
    async with run_cluster(data=tmp_path) as cluster:
        client = cluster.client("test")
        await wait_deleted(client, CONFIG_MAPS, "owner")
        assert "ownerReferences" not in (await find(client, SECRETS, "child"))["metadata"]
