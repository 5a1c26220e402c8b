"""ConfigMaps of a namespace as InferenceServices, on both servers."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService
from kilonova.kube import ApiStatusError, Client, Conflict, NotFound, Reflector
from kilonova.kube.status import apply_status, patch_status
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES, PODS
from kilonova.serving.sources import ConfigMapTransport
from tests.conftest import Api


def config_map(name: str, values: str, **labels: str) -> JsonObject:
    metadata = {"name": name, "labels": {"serving.kilonova.dev/service-config": "true", **labels}}
    return {"metadata": metadata, "data": {"values.yaml": values}}


@asynccontextmanager
async def connected(api: Api, name: str = "") -> AsyncGenerator[tuple[Client, Client]]:
    """A client of the server, and one that sees ConfigMaps as services."""
    async with api.client() as client:
        yield (
            client,
            client.wrap_transport(
                lambda transport: ConfigMapTransport(transport, api.namespace, name)
            ),
        )


@asynccontextmanager
async def cached(services: Client, namespace: str) -> AsyncGenerator[Reflector[InferenceService]]:
    reflector = Reflector(services, INFERENCE_SERVICES, namespace)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.wait_for_sync(), 30)
        yield reflector
    finally:
        task.cancel()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_cache_follows_the_services_of_the_namespace(api: Api) -> None:
    async with connected(api) as (client, services):
        await client.create(CONFIG_MAPS, config_map("a", "triton: {replicas: 3}"), api.namespace)
        other = {"metadata": {"name": "other"}, "data": {"values.yaml": "{}"}}
        await client.create(CONFIG_MAPS, other, api.namespace)
        async with cached(services, api.namespace) as cache:
            (found,) = cache.store.objects()
            assert found.spec.servers[0].replicas == 3
            before = found.metadata.generation

            patch = {"data": {"values.yaml": "triton: {replicas: 4}"}}
            await client.patch(CONFIG_MAPS, "a", patch, api.namespace)
            key = (api.namespace, "a")
            await until(
                lambda: (
                    (now := cache.store.get(key))
                    and now.spec.servers[0].replicas == 4
                    and now.metadata.generation != before
                )
            )
            await client.delete(CONFIG_MAPS, "a", api.namespace)
            await until(lambda: key not in cache.store)


async def test_an_invalid_change_leaves_the_last_valid_service(api: Api) -> None:
    async with connected(api) as (client, services):
        await client.create(CONFIG_MAPS, config_map("a", "triton: {replicas: 3}"), api.namespace)
        async with cached(services, api.namespace) as cache:
            for name, values in (("a", "triton: {replicas: x}"), ("b", "{}")):
                body = config_map(name, values)
                await client.apply(CONFIG_MAPS, name, body, api.namespace)
            await until(lambda: (api.namespace, "b") in cache.store)
            kept = cache.store.get((api.namespace, "a"))
            assert kept is not None
            assert kept.spec.servers[0].replicas == 3


async def test_statuses_of_two_writers_are_kept_in_an_annotation(api: Api) -> None:
    async with connected(api) as (client, services):
        await client.create(CONFIG_MAPS, config_map("a", "{}"), api.namespace)
        found = await services.get(INFERENCE_SERVICES, "a", api.namespace)
        known, generation = found.metadata, found.metadata.generation
        await asyncio.gather(
            patch_status(services, INFERENCE_SERVICES, known, {"phase": "Ready", "ready": 2}),
            apply_status(
                services, INFERENCE_SERVICES, known, {"scaling": [{"name": "triton", "desired": 2}]}
            ),
        )
        found = await services.get(INFERENCE_SERVICES, "a", api.namespace)
        assert (found.status.phase, found.status.ready) == ("Ready", 2)
        assert found.status.scaling[0].desired == 2
        assert found.metadata.generation == generation
        assert not found.metadata.annotations

        await patch_status(services, INFERENCE_SERVICES, known, {"phase": None})
        found = await services.get(INFERENCE_SERVICES, "a", api.namespace)
        assert (found.status.phase, found.status.ready) == ("", 2)


async def test_a_status_is_written_to_the_observed_service_alone(api: Api) -> None:
    async with connected(api) as (client, services):
        await client.create(CONFIG_MAPS, config_map("a", "{}"), api.namespace)
        known = (await services.get(INFERENCE_SERVICES, "a", api.namespace)).metadata
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}}, api.namespace)
        with pytest.raises(Conflict):
            await patch_status(
                services, INFERENCE_SERVICES, known, {"phase": "Ready"}, require_version=True
            )
        await client.delete(CONFIG_MAPS, "a", api.namespace)
        assert await patch_status(services, INFERENCE_SERVICES, known, {"phase": "Ready"}) is None
        await client.create(CONFIG_MAPS, config_map("a", "{}"), api.namespace)
        with pytest.raises(Conflict):
            await patch_status(services, INFERENCE_SERVICES, known, {"phase": "Ready"})


async def test_a_transport_may_be_for_one_release(api: Api) -> None:
    async with connected(api, "a") as (client, services):
        for name in ("a", "b"):
            await client.create(CONFIG_MAPS, config_map(name, "{}"), api.namespace)
        found = await services.list(INFERENCE_SERVICES, api.namespace)
        assert [each.metadata.name for each in found.items] == ["a"]


async def test_other_requests_pass_and_services_are_not_created(api: Api) -> None:
    async with connected(api) as (_, services):
        assert not (await services.list(PODS, api.namespace)).items
        with pytest.raises(NotFound):
            await services.get(INFERENCE_SERVICES, "a", api.namespace)
        with pytest.raises(ApiStatusError, match="they are ConfigMaps here"):
            await services.delete(INFERENCE_SERVICES, "a", api.namespace)
