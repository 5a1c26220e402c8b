"""What an election relies on in a lease store, on every implementation."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from kilonova.kube.client.client import Client
from kilonova.kube.election import (
    ApiLeaseStore,
    LeaseConflict,
    LeaseRecord,
    LeaseStore,
    LeaseUnavailable,
)
from kilonova.kube.election.api_lease import LEASES
from tests.conftest import Api
from tests.kube.memory_api import MemoryApi, MemoryTransport

FIRST = LeaseRecord("one", 15, "2026-05-01T00:00:00.000000Z", "2026-05-01T00:00:00.000000Z", 0)
CANDIDATES = 8


@pytest.fixture
async def client(api: Api) -> AsyncGenerator[Client]:
    async with api.client() as client:
        yield client


@pytest.fixture
def store(api: Api, client: Client) -> LeaseStore:
    return ApiLeaseStore(client, "contract", api.namespace)


async def test_lease_is_created_once_read_and_replaced(store: LeaseStore) -> None:
    assert await store.read() is None
    created = await store.create(FIRST)
    assert created.record == FIRST
    assert await store.read() == created
    with pytest.raises(LeaseConflict):
        await store.create(replace(FIRST, holder="two"))
    renewed = await store.replace(replace(FIRST, holder="", token=3), created.version)
    assert renewed.version != created.version
    assert await store.read() == renewed
    assert (renewed.record.holder, renewed.record.token) == ("", 3)


async def test_stale_version_conflicts(store: LeaseStore) -> None:
    created = await store.create(FIRST)
    await store.replace(replace(FIRST, holder="two", token=1), created.version)
    with pytest.raises(LeaseConflict):
        await store.replace(replace(FIRST, holder="three", token=1), created.version)


async def test_deleted_lease_conflicts_and_can_be_created(
    api: Api, client: Client, store: LeaseStore
) -> None:
    created = await store.create(FIRST)
    await client.delete(LEASES, "contract", api.namespace)
    with pytest.raises(LeaseConflict):
        await store.replace(FIRST, created.version)
    assert (await store.create(FIRST)).record == FIRST


async def test_one_of_many_candidates_wins_each_write(store: LeaseStore) -> None:
    created = await asyncio.gather(
        *(store.create(replace(FIRST, holder=str(number))) for number in range(CANDIDATES)),
        return_exceptions=True,
    )
    (winner,) = [each for each in created if not isinstance(each, BaseException)]
    losers = [each for each in created if isinstance(each, LeaseConflict)]
    assert len(losers) == CANDIDATES - 1
    replaced = await asyncio.gather(
        *(
            store.replace(replace(FIRST, holder=str(number), token=1), winner.version)
            for number in range(CANDIDATES)
        ),
        return_exceptions=True,
    )
    (second,) = [each for each in replaced if not isinstance(each, BaseException)]
    assert await store.read() == second


async def test_unreachable_storage_is_unavailable_not_a_conflict() -> None:
    link = MemoryTransport(MemoryApi(), cut=True)
    store = ApiLeaseStore(Client(link), "contract", "system")
    with pytest.raises(LeaseUnavailable):
        await store.read()
    with pytest.raises(LeaseUnavailable):
        await store.create(FIRST)
    with pytest.raises(LeaseUnavailable):
        await store.replace(FIRST, "1")


async def test_lease_of_another_client_is_read_as_far_as_it_goes() -> None:
    api = MemoryApi()
    client = Client(MemoryTransport(api))
    body = {"metadata": {"name": "contract"}, "spec": {"holderIdentity": "other"}}
    await client.create(LEASES, body, "system")
    found = await ApiLeaseStore(client, "contract", "system").read()
    assert found is not None
    assert found.record == LeaseRecord(holder="other")
