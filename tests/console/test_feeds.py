"""How changes reach viewers: once for all, coalesced, bounded; in virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from kilonova.console.feeds import Feed
from kilonova.console.noderows import node_row
from kilonova.console.objects import NODES, Node
from kilonova.console.rows import NodeRow
from kilonova.console.tables import Table
from kilonova.console.troubles import Troubles
from kilonova.console.viewers import Greeting, Viewers
from kilonova.kube import ConnectionFailed, KubeError, Store
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time


class Stage:
    """A table of nodes, and how often their rows were made."""

    def __init__(self, nodes: int = 0, *, filled: bool = True) -> None:
        self.made = 0
        self.odd: set[str] = set()
        """Nodes of which no row can be made."""
        self.store: Store[Node] = Store(Node)
        for number in range(nodes):
            self.put(number)
        self.store.synced = filled
        self.table = Table("nodes", NODES, self._row)
        feed = Feed(self.table, self.store)
        self.troubles = Troubles(now=lambda: 5.0)
        self.viewers = Viewers(
            Greeting("1", "test", False, ["kilonova-scheduler"]), [feed], [], self.troubles
        )

    def put(self, number: int, version: int = 0) -> None:
        taints = [{"key": f"v{version}", "effect": "NoSchedule"}]
        body = {"metadata": {"name": f"n{number}"}, "spec": {"taints": taints}}
        self.store.put(msgspec.convert(body, Node))

    def _row(self, node: Node) -> NodeRow:
        self.made += 1
        if node.metadata.name in self.odd:
            raise OverflowError("nobody thought of this")
        return node_row(node)

    async def viewer(self) -> AsyncGenerator[bytes]:
        """Somebody who has seen everything."""
        stream = self.viewers.stream()
        told = b""
        while b'"reset":true' not in told or not told.endswith(b"\n\n"):
            told += await anext(stream)
        return stream


def changes(message: bytes) -> list[dict[str, Any]]:
    events = [each.split("\n") for each in message.decode().split("\n\n") if each]
    assert all(each[0] == "event: rows" for each in events)
    return [json.loads(each[1].removeprefix("data: ")) for each in events]


async def test_the_first_change_comes_at_once_and_the_next_a_tenth_of_a_second_later() -> None:
    stage = Stage(2)
    stream = await stage.viewer()
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    start = loop.time()
    stage.put(0, 1)
    (first,) = changes(await anext(stream))
    assert (first["put"][0]["id"], first["gone"]) == ("n0", [])
    assert loop.time() - start < 0.01
    for version in range(2, 20):
        stage.put(1, version)
    stage.store.remove(("", "n0"))
    (second,) = changes(await anext(stream))
    assert [row["taints"] for row in second["put"]] == [["v19:NoSchedule"]]
    assert second["gone"] == ["n0"]
    assert loop.time() - start == pytest.approx(0.1, abs=0.02)
    await stream.aclose()


async def test_a_row_is_made_once_for_all_who_look() -> None:
    stage = Stage(10)
    streams = [await stage.viewer() for _ in range(3)]
    stage.made = 0
    stage.put(4, 1)
    messages = [await anext(stream) for stream in streams]
    assert stage.made == 1
    assert messages[0] == messages[1] == messages[2]
    for stream in streams:
        await stream.aclose()


async def test_nothing_is_done_while_nobody_looks() -> None:
    stage = Stage(10)
    stream = await stage.viewer()
    await stream.aclose()
    stage.made = 0
    for number in range(10):
        stage.put(number, 1)
    await asyncio.sleep(10)
    assert stage.made == 0


async def test_who_does_not_read_costs_no_more_than_the_rows_that_there_are() -> None:
    nodes = 400
    stage = Stage(nodes)
    slow = await stage.viewer()
    for version in range(1, 200):
        for number in range(nodes):
            stage.put(number, version)
        await asyncio.sleep(0.2)
    told = 0
    rows: dict[str, Any] = {}
    while len(rows) < nodes or any(row["taints"] != ["v199:NoSchedule"] for row in rows.values()):
        message = await anext(slow)
        told += len(message)
        for each in changes(message):
            rows.update({row["id"]: row for row in each["put"]})
    assert told < 2_000_000, "some 8 MB would come without a bound"
    await slow.aclose()


async def test_what_changes_while_everything_is_sent_is_not_lost() -> None:
    stage = Stage(1000)
    stream = stage.viewers.stream()
    told = await anext(stream)
    while b'"id":"n0"' not in told:
        told += await anext(stream)
    stage.put(0, 7)
    stage.store.remove(("", "n1"))
    stage.put(2000, 7)
    while b'"gone":["n1"]' not in told:
        told += await anext(stream)
    last = told.rpartition(b"event: rows")[2]
    assert b'"n0"' in last
    assert b'"n2000"' in told
    await stream.aclose()


async def test_an_object_of_which_no_row_can_be_made_is_left_out_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(3)
    stage.odd = {"n1"}
    first, second = await stage.viewer(), stage.viewers.stream()
    told = b""
    while not told.endswith(b"]}\n\n"):
        told += await anext(second)
    assert [row["id"] for row in changes(told.partition(b"\n\n")[2])[0]["put"]] == ["n0", "n2"]
    stage.odd = {"n1", "n2"}
    for version in range(1, 4):
        for number in range(3):
            stage.put(number, version)
        for stream in (first, second):
            (change,) = changes(await anext(stream))
            assert [row["taints"] for row in change["put"]] == [[f"v{version}:NoSchedule"]]
            assert change["gone"] == ["n1", "n2"]
    assert [each.getMessage() for each in caplog.records] == ["no row can be made: left out"] * 2
    stage.odd = set()
    stage.put(1, 9)
    (change,) = changes(await anext(first))
    assert [row["id"] for row in change["put"]] == ["n1"]
    for stream in (first, second):
        await stream.aclose()


async def test_silence_is_broken_every_ten_seconds() -> None:
    stage = Stage(1)
    stream = await stage.viewer()
    start = asyncio.get_running_loop().time()
    assert await anext(stream) == b": still here\n\n"
    assert asyncio.get_running_loop().time() - start == pytest.approx(10)
    await stream.aclose()


async def test_a_table_that_is_not_filled_is_said_to_be_loading() -> None:
    stage = Stage(3, filled=False)
    stream = stage.viewers.stream()
    assert b"event: hello" in await anext(stream)
    assert await anext(stream) == b'event: loading\ndata: {"tables":["nodes"]}\n\n'
    await stream.aclose()


async def test_a_connection_that_breaks_is_told_only_if_it_is_not_mended_at_once() -> None:
    stage = Stage(1)
    stream = await stage.viewer()

    def hear(*errors: KubeError | None) -> None:
        for error in errors:
            stage.troubles.hear(stage.table, error)

    hear(ConnectionFailed("cut"), None, ConnectionFailed("cut"), None)
    assert await anext(stream) == b": still here\n\n"
    hear(ConnectionFailed("cut"), ConnectionFailed("gone"), ConnectionFailed("gone"))
    trouble = (
        b'{"table":"nodes","what":"nodes","reason":"unreachable","message":"gone","since":5.0}'
    )
    assert await anext(stream) == b'event: trouble\ndata: {"tables":[' + trouble + b"]}\n\n"
    assert await anext(stream) == b": still here\n\n"
    hear(None)
    assert await anext(stream) == b'event: trouble\ndata: {"tables":[]}\n\n'
    await stream.aclose()
