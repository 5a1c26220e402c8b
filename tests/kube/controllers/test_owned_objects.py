"""Objects of an owner on the embedded API server. Virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Metadata
from kilonova.kube import Client, Invalid, NotFound, Reflector, Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken, OwnedObjectWriter
from kilonova.kube.controllers.slow_start import SlowStart
from kilonova.kube.owner_references import build_owner_reference
from tests.local.embedded_cluster import LoopClock, run_cluster, virtual_time

pytestmark = virtual_time

NAMESPACE = "default"


class ConfigMap(msgspec.Struct, gc=False):
    metadata: Metadata
    data: dict[str, str] = {}


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


@dataclass(frozen=True, slots=True)
class Scenario:
    client: Client
    cache: Reflector[ConfigMap]
    writer: OwnedObjectWriter[ConfigMap]
    owner: Metadata
    other: Metadata

    def find(self, name: str) -> ConfigMap | None:
        """What the cache has."""
        return self.cache.store.get((NAMESPACE, name))

    async def create(self, *bodies: Any) -> None:
        await self.writer.create_all(bodies, self.owner, SlowStart(LoopClock().monotonic))


def body(name: str, owner: Metadata, value: str = "1") -> dict[str, Any]:
    references = [build_owner_reference(CONFIG_MAPS, owner)]
    return {"metadata": {"name": name, "ownerReferences": references}, "data": {"key": value}}


@asynccontextmanager
async def scenario() -> AsyncGenerator[Scenario]:
    """A writer, its cache, and two owners."""
    async with run_cluster() as cluster:
        client = cluster.client("test")
        owners = [
            await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, NAMESPACE)
            for name in ("owner", "other")
        ]
        cache = Reflector(client, CONFIG_MAPS)
        writer = OwnedObjectWriter(client, CONFIG_MAPS, Expectations(cache), "set")
        task = asyncio.create_task(cache.run())
        await cache.wait_for_sync()
        try:
            yield Scenario(client, cache, writer, *(each.metadata for each in owners))
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_cache_shows_every_write_when_it_returns() -> None:
    async with scenario() as found:
        await found.create(*(body(f"child-{number}", found.owner) for number in range(3)))
        children = [found.find(f"child-{number}") for number in range(3)]
        known = [each for each in children if each is not None]
        assert len(known) == 3
        await found.writer.patch_all(known, {"data": {"key": "2"}})
        assert {each.data["key"] for each in map(found.find, names_of(known)) if each} == {"2"}
        await found.writer.delete_all([each.metadata for each in known[:2]])
        await found.writer.delete(known[2].metadata)
        assert [found.find(name) for name in names_of(known)] == [None, None, None]


async def test_unchanged_object_is_not_written() -> None:
    async with scenario() as found:
        wanted = body("child", found.owner)
        await found.writer.apply_changes(None, wanted, found.owner)
        first = found.find("child")
        assert first is not None
        await found.writer.apply_changes(first, wanted, found.owner)
        assert found.find("child") is first
        await found.writer.apply_changes(first, body("child", found.owner, "2"), found.owner)
        changed = found.find("child")
        assert changed is not None
        assert changed.data == {"key": "2"}


async def test_object_that_an_earlier_attempt_created_is_accepted() -> None:
    async with scenario() as found:
        await found.client.create(CONFIG_MAPS, body("child", found.owner), NAMESPACE)
        await found.create(body("child", found.owner))
        assert found.find("child") is not None


async def test_object_of_another_owner_is_not_touched() -> None:
    async with scenario() as found:
        taken = body("child", found.other)
        live = await found.client.create(CONFIG_MAPS, taken, NAMESPACE)
        wanted = body("child", found.owner, "2")
        error = "ConfigMap child belongs to another object: delete it, or rename the set"
        with pytest.raises(NameTaken, match=error):
            await found.create(wanted)
        for seen in (None, live):  # the cache may lack it
            with pytest.raises(NameTaken, match=error):
                await found.writer.apply_changes(seen, wanted, found.owner)
        assert (await found.client.get(CONFIG_MAPS, "child", NAMESPACE)).data == {"key": "1"}


async def test_replaced_object_is_neither_patched_nor_deleted() -> None:
    async with scenario() as found:
        await found.create(body("child", found.owner))
        former = found.find("child")
        assert former is not None
        await found.writer.delete(former.metadata)
        await found.create(body("child", found.owner))
        with pytest.raises(Invalid, match="uid"):
            await found.writer.patch_all([former], {"data": {"key": "2"}})
        await found.writer.delete(former.metadata)
        await found.writer.delete_all([former.metadata])
        live = await found.client.get(CONFIG_MAPS, "child", NAMESPACE)
        assert live.metadata.uid != former.metadata.uid
        assert live.data == {"key": "1"}


async def test_object_that_is_gone_is_left_out() -> None:
    async with scenario() as found:
        await found.create(body("child", found.owner))
        former = found.find("child")
        assert former is not None
        await found.writer.delete(former.metadata)
        await found.writer.patch_all([former], {"data": {"key": "2"}})
        await found.writer.delete_all([former.metadata], forced={former.metadata.uid})
        with pytest.raises(NotFound):
            await found.client.get(CONFIG_MAPS, "child", NAMESPACE)


def names_of(objects: list[ConfigMap]) -> list[str]:
    return [each.metadata.name for each in objects]
