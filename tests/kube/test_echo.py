"""Waiting until a cache shows what was written. Virtual time."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from kilonova.kube import Reflector
from kilonova.kube.echo import Echo
from kilonova.kube.resource import Resource
from tests.kube.wire import Wire, client_on

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


class Scene:
    """A cache that is filled by hand, as its watch would."""

    def __init__(self) -> None:
        cache = Reflector(client_on(Wire([])), THINGS)
        self.store = cache.store
        self.echo = Echo(cache)

    def show(self, version: int, uid: str = "u", **more: str) -> None:
        self.store.put(Thing(Meta("thing", "ns", uid, str(version), **more)))

    def remove(self) -> None:
        self.store.remove(KEY)


async def waits(asked: Awaitable[None]) -> "asyncio.Future[None]":
    """The same, which has had every chance to return and has not."""
    waiting = asyncio.ensure_future(asked)
    await asyncio.sleep(1)
    assert not waiting.done()
    return waiting


def leave(scene: Scene) -> None:
    scene.remove()


def begin_to_leave(scene: Scene) -> None:
    scene.show(3, deletion_timestamp="2026-01-01T00:00:00Z")


def be_another(scene: Scene) -> None:
    scene.show(3, uid="v")


@pytest.mark.parametrize("happens", [leave, begin_to_leave, be_another])
async def test_a_deletion_is_waited_for_until_it_is_seen(happens: Any) -> None:
    scene = Scene()
    scene.show(1)
    waiting = await waits(scene.echo.of_deletion(KEY, "u"))
    scene.show(2)  # a change, but no deletion
    await asyncio.sleep(1)
    assert not waiting.done()
    happens(scene)
    await waiting
    await scene.echo.of_deletion(KEY, "u")  # and at once where it has been seen


@pytest.mark.parametrize("happens", [leave, be_another])
async def test_a_departure_is_waited_for_until_the_object_is_gone(happens: Any) -> None:
    scene = Scene()
    scene.show(1)
    waiting = await waits(scene.echo.of_departure(KEY, "u"))
    begin_to_leave(scene)
    await asyncio.sleep(1)
    assert not waiting.done()
    happens(scene)
    await waiting


async def test_a_version_is_waited_for_until_it_or_a_later_one_is_seen() -> None:
    scene = Scene()
    scene.show(9)
    waiting = await waits(scene.echo.of_version("11"))
    scene.show(10)
    await asyncio.sleep(1)
    assert not waiting.done()
    scene.show(12)
    await waiting


async def test_what_is_never_seen_fails_in_the_end() -> None:
    scene = Scene()
    scene.show(1)
    with pytest.raises(TimeoutError):
        await scene.echo.of_deletion(KEY, "u")
