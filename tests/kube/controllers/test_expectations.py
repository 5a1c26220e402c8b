"""Waiting until a cache shows one's own writes. Virtual time."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from kilonova.kube import Reflector
from kilonova.kube.client.resource import Resource
from kilonova.kube.controllers.expectations import Expectations
from tests.kube.scripted_transport import ScriptedTransport, client_over

pytestmark = pytest.mark.looptime

KEY = ("ns", "thing")


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""


class Thing(msgspec.Struct):
    metadata: Meta


THINGS = Resource("example.com", "v1", "things", "Thing", True, Thing)


class CacheScenario:
    """A store that is filled directly, as its watch would."""

    def __init__(self) -> None:
        cache = Reflector(client_over(ScriptedTransport([])), THINGS)
        self.store = cache.store
        self.expectations = Expectations(cache)

    def update(self, version: int, uid: str = "u", **more: str) -> None:
        self.store.put(Thing(Meta("thing", "ns", uid, str(version), **more)))

    def remove(self) -> None:
        self.store.remove(KEY)


async def assert_waiting(requested: Awaitable[None]) -> "asyncio.Future[None]":
    """Assert that the task still waits after it could have returned."""
    waiting = asyncio.ensure_future(requested)
    await asyncio.sleep(1)
    assert not waiting.done()
    return waiting


def remove_object(scenario: CacheScenario) -> None:
    scenario.remove()


def mark_terminating(scenario: CacheScenario) -> None:
    scenario.update(3, deletion_timestamp="2026-01-01T00:00:00Z")


def replace_object(scenario: CacheScenario) -> None:
    scenario.update(3, uid="v")


@pytest.mark.parametrize("happens", [remove_object, mark_terminating, replace_object])
async def test_wait_for_deletion_ends_when_object_terminates(happens: Any) -> None:
    scenario = CacheScenario()
    scenario.update(1)
    waiting = await assert_waiting(scenario.expectations.wait_for_deletion(KEY, "u"))
    scenario.update(2)  # a change, but not a deletion
    await asyncio.sleep(1)
    assert not waiting.done()
    happens(scenario)
    await waiting
    await scenario.expectations.wait_for_deletion(KEY, "u")  # at once if it was already observed


@pytest.mark.parametrize("happens", [remove_object, replace_object])
async def test_wait_for_removal_ends_when_object_is_removed(happens: Any) -> None:
    scenario = CacheScenario()
    scenario.update(1)
    waiting = await assert_waiting(scenario.expectations.wait_for_removal(KEY, "u"))
    mark_terminating(scenario)
    await asyncio.sleep(1)
    assert not waiting.done()
    happens(scenario)
    await waiting


async def test_wait_for_version_ends_at_that_or_a_later_version() -> None:
    scenario = CacheScenario()
    scenario.update(9)
    waiting = await assert_waiting(scenario.expectations.wait_for_version("11"))
    scenario.update(10)
    await asyncio.sleep(1)
    assert not waiting.done()
    scenario.update(12)
    await waiting


async def test_expectation_times_out() -> None:
    scenario = CacheScenario()
    scenario.update(1)
    with pytest.raises(TimeoutError):
        await scenario.expectations.wait_for_deletion(KEY, "u")
