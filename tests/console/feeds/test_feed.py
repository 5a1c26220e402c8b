"""Delivery of changes to viewers: encoded once, coalesced, bounded; in virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from kilonova.component.console import Table
from kilonova.console.feeds.feed import Feed
from kilonova.console.feeds.table_errors import TableErrors
from kilonova.console.feeds.viewers import ServerInfo, Viewers
from kilonova.console.objects import NODES, Node
from kilonova.console.rows.model import NodeRow
from kilonova.console.rows.nodes import node_row
from kilonova.kube import ConnectionFailed, KubeError, Store
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time


class FeedFixture:
    """A feed of nodes that counts computed rows."""

    def __init__(self, nodes: int = 0, *, synced: bool = True) -> None:
        self.computed = 0
        self.malformed: set[str] = set()
        """Nodes whose row cannot be computed."""
        self.store: Store[Node] = Store(Node)
        for number in range(nodes):
            self.put(number)
        self.store.has_synced = synced
        self.table = Table("nodes", NODES, self._row)
        feed = Feed(self.table, self.store)
        self.table_errors = TableErrors(now=lambda: 5.0)
        self.viewers = Viewers(
            ServerInfo("1", "test", False, ["kilonova-scheduler"]), [feed], [], self.table_errors
        )

    def put(self, number: int, version: int = 0) -> None:
        taints = [{"key": f"v{version}", "effect": "NoSchedule"}]
        body = {"metadata": {"name": f"n{number}"}, "spec": {"taints": taints}}
        self.store.put(msgspec.convert(body, Node))

    def _row(self, node: Node) -> NodeRow:
        self.computed += 1
        if node.metadata.name in self.malformed:
            raise OverflowError("malformed")
        return node_row(node)

    async def viewer(self) -> AsyncGenerator[bytes]:
        """The stream of a viewer that has received the snapshot."""
        stream = self.viewers.stream()
        data = b""
        while b'"reset":true' not in data or not data.endswith(b"\n\n"):
            data += await anext(stream)
        return stream


def changes(message: bytes) -> list[dict[str, Any]]:
    events = [each.split("\n") for each in message.decode().split("\n\n") if each]
    assert all(each[0] == "event: rows" for each in events)
    return [json.loads(each[1].removeprefix("data: ")) for each in events]


async def test_first_change_is_sent_at_once_and_the_next_after_100_ms() -> None:
    fixture = FeedFixture(2)
    stream = await fixture.viewer()
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    start = loop.time()
    fixture.put(0, 1)
    (first,) = changes(await anext(stream))
    assert (first["upserted"][0]["id"], first["deleted"]) == ("n0", [])
    assert loop.time() - start < 0.01
    for version in range(2, 20):
        fixture.put(1, version)
    fixture.store.remove(("", "n0"))
    (second,) = changes(await anext(stream))
    assert [row["taints"] for row in second["upserted"]] == [["v19:NoSchedule"]]
    assert second["deleted"] == ["n0"]
    assert loop.time() - start == pytest.approx(0.1, abs=0.02)
    await stream.aclose()


async def test_row_is_encoded_once_for_all_viewers() -> None:
    fixture = FeedFixture(10)
    streams = [await fixture.viewer() for _ in range(3)]
    fixture.computed = 0
    fixture.put(4, 1)
    messages = [await anext(stream) for stream in streams]
    assert fixture.computed == 1
    assert messages[0] == messages[1] == messages[2]
    for stream in streams:
        await stream.aclose()


async def test_no_work_without_viewers() -> None:
    fixture = FeedFixture(10)
    stream = await fixture.viewer()
    await stream.aclose()
    fixture.computed = 0
    for number in range(10):
        fixture.put(number, 1)
    await asyncio.sleep(10)
    assert fixture.computed == 0


async def test_slow_viewer_has_bounded_cost() -> None:
    nodes = 400
    fixture = FeedFixture(nodes)
    slow = await fixture.viewer()
    for version in range(1, 200):
        for number in range(nodes):
            fixture.put(number, version)
        await asyncio.sleep(0.2)
    received = 0
    rows: dict[str, Any] = {}
    while len(rows) < nodes or any(row["taints"] != ["v199:NoSchedule"] for row in rows.values()):
        message = await anext(slow)
        received += len(message)
        for each in changes(message):
            rows.update({row["id"]: row for row in each["upserted"]})
    assert received < 2_000_000, "about 8 MB without a bound"
    await slow.aclose()


async def test_changes_during_the_snapshot_are_not_lost() -> None:
    fixture = FeedFixture(1000)
    stream = fixture.viewers.stream()
    data = await anext(stream)
    while b'"id":"n0"' not in data:
        data += await anext(stream)
    fixture.put(0, 7)
    fixture.store.remove(("", "n1"))
    fixture.put(2000, 7)
    while b'"deleted":["n1"]' not in data:
        data += await anext(stream)
    last = data.rpartition(b"event: rows")[2]
    assert b'"n0"' in last
    assert b'"n2000"' in data
    await stream.aclose()


async def test_unencodable_object_is_omitted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = FeedFixture(3)
    fixture.malformed = {"n1"}
    first, second = await fixture.viewer(), fixture.viewers.stream()
    data = b""
    while not data.endswith(b"]}\n\n"):
        data += await anext(second)
    assert [row["id"] for row in changes(data.partition(b"\n\n")[2])[0]["upserted"]] == ["n0", "n2"]
    fixture.malformed = {"n1", "n2"}
    for version in range(1, 4):
        for number in range(3):
            fixture.put(number, version)
        for stream in (first, second):
            (change,) = changes(await anext(stream))
            assert [row["taints"] for row in change["upserted"]] == [[f"v{version}:NoSchedule"]]
            assert change["deleted"] == ["n1", "n2"]
    assert [each.getMessage() for each in caplog.records] == [
        "object omitted from table: its row cannot be computed"
    ] * 2
    fixture.malformed = set()
    fixture.put(1, 9)
    (change,) = changes(await anext(first))
    assert [row["id"] for row in change["upserted"]] == ["n1"]
    for stream in (first, second):
        await stream.aclose()


async def test_keepalive_every_ten_seconds() -> None:
    fixture = FeedFixture(1)
    stream = await fixture.viewer()
    start = asyncio.get_running_loop().time()
    assert await anext(stream) == b": heartbeat\n\n"
    assert asyncio.get_running_loop().time() - start == pytest.approx(10)
    await stream.aclose()


async def test_unsynced_table_is_reported_as_loading() -> None:
    fixture = FeedFixture(3, synced=False)
    stream = fixture.viewers.stream()
    assert b"event: hello" in await anext(stream)
    assert await anext(stream) == b'event: loading\ndata: {"tables":["nodes"]}\n\n'
    await stream.aclose()


async def test_broken_connection_is_reported_only_if_the_retry_fails() -> None:
    fixture = FeedFixture(1)
    stream = await fixture.viewer()

    def report(*errors: KubeError | None) -> None:
        for error in errors:
            fixture.table_errors.report(fixture.table, error)

    report(ConnectionFailed("cut"), None, ConnectionFailed("cut"), None)
    assert await anext(stream) == b": heartbeat\n\n"
    report(ConnectionFailed("cut"), ConnectionFailed("gone"), ConnectionFailed("gone"))
    error = (
        b'{"table":"nodes","resource":"nodes","reason":"unreachable","message":"gone","since":5.0}'
    )
    assert await anext(stream) == b'event: table-errors\ndata: {"tables":[' + error + b"]}\n\n"
    assert await anext(stream) == b": heartbeat\n\n"
    report(None)
    assert await anext(stream) == b'event: table-errors\ndata: {"tables":[]}\n\n'
    await stream.aclose()
