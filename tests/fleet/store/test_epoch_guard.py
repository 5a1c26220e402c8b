"""A member accepts no lower epoch than it ever did, on both servers."""

import asyncio

import pytest

from kilonova.api.json import JsonObject
from kilonova.fleet.store import ApiEpochStore, EpochGuard, EpochRefused
from kilonova.fleet.store.epoch_guard import CONFIG_MAP
from kilonova.fleet.store.epochs import build_epoch
from kilonova.kube.client.resource import unstructured_resource
from tests.conftest import Api

CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
FIRST, SECOND, REPLACED = build_epoch(1, 4), build_epoch(1, 5), build_epoch(2, 0)


async def test_lower_epoch_is_refused_also_after_a_restart(api: Api) -> None:
    async with api.client() as client:
        store = ApiEpochStore(client, api.namespace)
        guard = EpochGuard(store)
        for epoch in (FIRST, FIRST, SECOND, REPLACED, REPLACED):
            await guard.accept(epoch)
        assert guard.accepted == REPLACED
        restarted = EpochGuard(store)
        for each in (guard, restarted):
            with pytest.raises(EpochRefused, match=r"epoch 1\.5 is refused: epoch 2\.0 was acc"):
                await each.accept(SECOND)
            await each.accept(REPLACED)
        found = await client.get(CONFIG_MAPS, CONFIG_MAP, api.namespace)
        assert found["data"] == {"epoch": str(REPLACED)}


async def test_of_two_agents_the_record_counts(api: Api) -> None:
    async with api.client() as client:
        one, two = (EpochGuard(ApiEpochStore(client, api.namespace)) for _ in range(2))
        await one.accept(FIRST)
        await two.accept(REPLACED)
        with pytest.raises(EpochRefused):
            await one.accept(SECOND)
        assert one.accepted == REPLACED


async def test_concurrent_agents_agree_on_the_highest(api: Api) -> None:
    async with api.client() as client:
        epochs = [build_epoch(1, term) for term in range(12)]
        guards = [EpochGuard(ApiEpochStore(client, api.namespace)) for _ in epochs]
        await asyncio.gather(
            *(guard.accept(epoch) for guard, epoch in zip(guards, epochs, strict=True)),
            return_exceptions=True,
        )
        assert await EpochGuard(ApiEpochStore(client, api.namespace)).load() == epochs[-1]


async def test_damaged_record_is_an_error_and_not_taken_for_none(api: Api) -> None:
    async with api.client() as client:
        guard = EpochGuard(ApiEpochStore(client, api.namespace))
        await guard.accept(FIRST)
        patch: JsonObject = {"data": {"epoch": "four"}}
        await client.patch(CONFIG_MAPS, CONFIG_MAP, patch, api.namespace)
        with pytest.raises(ValueError, match=r"data.epoch is 'four', must be the highest epoch"):
            await EpochGuard(ApiEpochStore(client, api.namespace)).accept(REPLACED)
