"""The runtime on servers: the embedded API server and a genuine kube-apiserver."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import (
    Added,
    AlreadyExists,
    Bookmark,
    Client,
    Conflict,
    Controller,
    Deleted,
    Invalid,
    Key,
    Modified,
    NotFound,
    PatchType,
    Reflector,
    Reply,
    Request,
    StreamReply,
    Transport,
    Unauthorized,
    Watch,
    load_client_config,
    unstructured_resource,
)
from kilonova.kube.client.config.credentials import FixedCredentials, bearer_credential
from kilonova.kube.client.http_transport import HttpTransport
from tests.conftest import Api
from tests.kube.scripted_transport import PODS, ScriptedTransport, error_reply

CONFIGMAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
LEASES = unstructured_resource("coordination.k8s.io", "v1", "leases", "Lease", True)


@pytest.fixture
async def client(api: Api) -> AsyncGenerator[Client]:
    async with api.client() as client:
        yield client


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": data}


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/image:1"}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def eventually(condition: Any, seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_object_is_created_read_patched_and_deleted(api: Api, client: Client) -> None:
    created = await client.create(CONFIGMAPS, config_map("a", x="1"), api.namespace)
    assert created["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, config_map("a"), api.namespace)
    await client.patch(CONFIGMAPS, "a", {"data": {"y": "2"}}, api.namespace)
    add: list[dict[str, Any]] = [{"op": "add", "path": "/data/z", "value": "3"}]
    await client.patch(CONFIGMAPS, "a", add, api.namespace, patch_type=PatchType.JSON)
    found = await client.get(CONFIGMAPS, "a", api.namespace)
    assert found["data"] == {"x": "1", "y": "2", "z": "3"}
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "a", api.namespace, uid="another")
    await client.delete(CONFIGMAPS, "a", api.namespace, uid=found["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", api.namespace)


async def test_dry_run_changes_nothing(api: Api, client: Client) -> None:
    dry_created = await client.create(CONFIGMAPS, config_map("dry"), api.namespace, dry_run=True)
    assert dry_created["metadata"]["name"] == "dry"
    with pytest.raises(NotFound):
        await client.delete(CONFIGMAPS, "dry", api.namespace, dry_run=True)


async def test_apply_conflicts_on_fields_of_other_managers_unless_forced(
    api: Api, client: Client
) -> None:
    await client.apply(
        CONFIGMAPS, "a", {"data": {"x": "1", "y": "1"}}, api.namespace, field_manager="one"
    )
    with pytest.raises(Conflict):
        await client.apply(
            CONFIGMAPS, "a", {"data": {"x": "2"}}, api.namespace, field_manager="two", force=False
        )
    await client.apply(CONFIGMAPS, "a", {"data": {"x": "2"}}, api.namespace, field_manager="two")
    applied = await client.apply(CONFIGMAPS, "a", {}, api.namespace, field_manager="one")
    assert applied["data"] == {"x": "2"}


async def test_object_violating_a_rule_is_invalid(api: Api, client: Client) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(CONFIGMAPS, config_map("Not_A_Name"), api.namespace)
    assert caught.value.causes[0]["field"] == "metadata.name"


async def test_list_is_complete_with_small_pages(api: Api, client: Client) -> None:
    for number in range(7):
        await client.create(CONFIGMAPS, config_map(f"c{number}"), api.namespace)
    listing = await client.list(CONFIGMAPS, api.namespace, label_selector="test=yes", limit=3)
    assert [item["metadata"]["name"] for item in listing.items] == [f"c{n}" for n in range(7)]
    assert int(listing.resource_version) > 0
    await client.delete_collection(CONFIGMAPS, api.namespace, label_selector="test=yes")
    assert (await client.list(CONFIGMAPS, api.namespace, label_selector="test=yes")).items == []


async def test_deployment_is_scaled(api: Api, client: Client) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, api.namespace)
    scaled = await client.set_scale(DEPLOYMENTS, "d", api.namespace, 4)
    assert scaled.spec.replicas == 4
    assert (await client.get_scale(DEPLOYMENTS, "d", api.namespace)).spec.replicas == 4


async def test_pod_is_bound_once_and_evicted(api: Api, client: Client) -> None:
    unplaced = pod("p")
    unplaced["spec"]["schedulerName"] = "nobody"
    await client.create(PODS, unplaced, api.namespace)
    await client.bind("p", api.namespace, "some-node")
    assert (await client.get(PODS, "p", api.namespace)).spec.node_name == "some-node"
    with pytest.raises(Conflict):
        await client.bind("p", api.namespace, "other-node")
    await client.evict("p", api.namespace, grace_period_seconds=0)
    with pytest.raises(NotFound):
        await client.get(PODS, "p", api.namespace)


async def test_watch_yields_changes_after_a_version(api: Api, client: Client) -> None:
    version = (await client.list(CONFIGMAPS, api.namespace)).resource_version
    await client.create(CONFIGMAPS, config_map("a", x="1"), api.namespace)
    await client.patch(CONFIGMAPS, "a", {"data": {"x": "2"}}, api.namespace)
    await client.delete(CONFIGMAPS, "a", api.namespace)
    observed: list[Any] = []
    async with (
        asyncio.timeout(30),
        client.watch(
            CONFIGMAPS, api.namespace, label_selector="test=yes", resource_version=version
        ) as stream,
    ):
        async for batch in stream:
            observed += [event for event in batch if not isinstance(event, Bookmark)]
            if len(observed) == 3:
                break
    assert [type(event) for event in observed] == [Added, Modified, Deleted]


async def test_wrong_credentials_are_rejected(api: Api) -> None:
    endpoint = load_client_config(api.access.kubeconfig).endpoint
    async with Client(
        HttpTransport(endpoint, FixedCredentials(bearer_credential("wrong")))
    ) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.get(CONFIGMAPS, "a", api.namespace)


class WithoutWatchList:
    """A transport to a server that behaves like one without support for initial events."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.refused = 0

    async def send(self, request: Request) -> Reply:
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        if request.query_param("sendInitialEvents"):
            self.refused += 1
            async with ScriptedTransport([error_reply(422, "Invalid")]).stream(request) as reply:
                yield reply
        else:
            async with self._inner.stream(request) as reply:
                yield reply

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize("streaming", [True, False])
async def test_reflector_stays_in_sync_with_the_server(
    streaming: bool, api: Api, client: Client
) -> None:
    access = load_client_config(api.access.kubeconfig)
    link: Transport = HttpTransport(access.endpoint, access.credentials)
    if not streaming:
        link = WithoutWatchList(link)
    await client.create(CONFIGMAPS, config_map("early", x="1"), api.namespace)
    async with Client(link) as reader:
        reflector = Reflector(reader, CONFIGMAPS, api.namespace, label_selector="test=yes")
        running = asyncio.create_task(reflector.run())
        await asyncio.wait_for(reflector.wait_for_sync(), 30)
        assert set(reflector.store.keys()) == {(api.namespace, "early")}
        for number in range(20):
            await client.create(CONFIGMAPS, config_map(f"c{number}"), api.namespace)
        await client.patch(CONFIGMAPS, "early", {"data": {"x": "2"}}, api.namespace)
        await client.delete(CONFIGMAPS, "c0", api.namespace)
        listing = await client.list(CONFIGMAPS, api.namespace, label_selector="test=yes")
        await eventually(
            lambda: (
                sorted(map(reflector.store.version_of, reflector.store.objects()))
                == sorted(map(reflector.store.version_of, listing.items))
            )
        )
        running.cancel()
    early = reflector.store.get((api.namespace, "early"))
    assert early is not None
    assert early["data"] == {"x": "2"}
    assert isinstance(link, HttpTransport) or link.refused == 1  # type: ignore[attr-defined]


async def test_controller_reconciles_desired_state(api: Api, client: Client) -> None:
    """Each ConfigMap gets a Lease of its name; a deleted Lease is recreated."""
    maps = Reflector(client, CONFIGMAPS, api.namespace, label_selector="test=yes")
    leases = Reflector(client, LEASES, api.namespace)

    async def reconcile(key: Key) -> None:
        namespace, name = key
        expected, there = key in maps.store, key in leases.store
        if expected and not there:
            await client.apply(LEASES, name, {"spec": {"holderIdentity": name}}, namespace)
        elif there and not expected:
            await client.delete(LEASES, name, namespace)

    controller = Controller("leases", reconcile, [Watch(maps), Watch(leases)], workers=2)
    names = [f"c{number}" for number in range(5)]
    tasks = [asyncio.create_task(part.run()) for part in (maps, leases, controller)]
    try:
        for name in names:
            await client.create(CONFIGMAPS, config_map(name), api.namespace)
        await eventually(lambda: len(leases.store) == 5)
        before = leases.store.get((api.namespace, "c0"))
        await client.delete(LEASES, "c0", api.namespace)
        await eventually(lambda: leases.store.get((api.namespace, "c0")) not in (None, before))
        await client.delete(CONFIGMAPS, "c1", api.namespace)
        await eventually(lambda: (api.namespace, "c1") not in leases.store)
        controller.stop()
        await asyncio.wait_for(tasks[2], 10)
    finally:
        for task in tasks:
            task.cancel()
    found = await client.list(LEASES, api.namespace)
    assert [item["metadata"]["name"] for item in found.items] == ["c0", "c2", "c3", "c4"]
