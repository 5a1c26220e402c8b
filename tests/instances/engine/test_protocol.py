"""Conductor and agents over loopback connections: what is lost, refused, or sent by others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from kilonova.instances.engine.agent import Agent, NotAccepted
from kilonova.instances.engine.conductor import AgentsMissing, Conductor
from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.protocol import (
    VERSION,
    Compute,
    Connection,
    ConnectionLost,
    Join,
    Joined,
    Message,
    Refused,
    Shard,
)
from kilonova.instances.engine.settings import AgentSettings, ConductorSettings
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.http_server import open_listener

PATIENCE = 30.0


@asynccontextmanager
async def run_conductor(
    agents: int = 1, heartbeat: float = 5.0, port: int = 0
) -> AsyncGenerator[tuple[Conductor, int]]:
    """A conductor, and the port that agents join."""
    settings = ConductorSettings(model="tiny", agents=agents, heartbeat=heartbeat)
    conductor = Conductor(settings, EngineMetrics(Metrics()))
    listener = open_listener("127.0.0.1", port, 16)
    port = listener.getsockname()[1]
    task = asyncio.create_task(conductor.run(listener))
    try:
        yield conductor, port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def connect(port: int) -> Connection:
    return Connection(*await asyncio.open_connection("127.0.0.1", port))


async def join(port: int, index: int = 0, process: str = "one") -> tuple[Connection, Message]:
    """Join as an agent, and the answer."""
    connection = await connect(port)
    connection.send(Join(VERSION, "tiny", 1, index, process))
    return connection, await connection.receive(PATIENCE)


async def wait_until_missing(conductor: Conductor, *indices: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while conductor.missing != indices:
            await asyncio.sleep(0.005)


async def test_shards_of_all_agents_are_collected() -> None:
    async with run_conductor() as (conductor, port):
        connection, joined = await join(port)
        assert joined == Joined(5.0)
        asked = asyncio.create_task(conductor.compute_shards("context"))
        match await connection.receive(PATIENCE):
            case Compute(id=id, context="context"):
                connection.send(Shard(id + 1, 1))  # of another request: ignored
                connection.send(Shard(id, 42))
            case other:
                raise AssertionError(f"unexpected: {other}")
        assert await asked == [42]
        connection.close()


async def test_agent_that_leaves_fails_what_waits_for_it() -> None:
    async with run_conductor() as (conductor, port):
        connection, _ = await join(port)
        asked = asyncio.create_task(conductor.compute_shards("context"))
        await connection.receive(PATIENCE)
        connection.close()
        with pytest.raises(AgentsMissing, match="agent 0 of 1 missing"):
            await asked
        await wait_until_missing(conductor, 0)


async def test_silent_agent_is_lost() -> None:
    async with run_conductor(heartbeat=0.05) as (conductor, port):
        connection, _ = await join(port)
        await wait_until_missing(conductor, 0)
        connection.close()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Join(VERSION + 1, "tiny", 1, 0, "p"), "VersionMismatch"),
        (Join(VERSION, "other", 1, 0, "p"), "ModelMismatch"),
        (Join(VERSION, "tiny", 2, 0, "p"), "AgentsMismatch"),
        (Join(VERSION, "tiny", 1, 1, "p"), "IndexOutOfRange"),
        (Join(VERSION, "tiny", 1, -1, "p"), "IndexOutOfRange"),
        (Shard(1, 1), "InvalidMessage"),
    ],
)
async def test_what_does_not_belong_is_refused(message: Message, reason: str) -> None:
    async with run_conductor() as (conductor, port):
        connection = await connect(port)
        connection.send(message)
        match await connection.receive(PATIENCE):
            case Refused() as refused:
                assert (refused.reason, refused.is_permanent) == (reason, True)
            case other:
                raise AssertionError(f"unexpected: {other}")
        with pytest.raises(ConnectionLost, match="the connection was closed"):
            await connection.receive(PATIENCE)
        assert conductor.missing == (0,)
        connection.close()


async def test_index_joins_once_but_its_process_may_join_anew() -> None:
    async with run_conductor() as (conductor, port):
        first, _ = await join(port, process="one")
        second, refused = await join(port, process="two")
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.is_permanent) == ("IndexTaken", False)
        anew, joined = await join(port, process="one")
        assert isinstance(joined, Joined)
        with pytest.raises(ConnectionLost):
            await first.receive(PATIENCE)
        # The end of the former connection does not take the index from the new one.
        assert conductor.missing == ()
        for each in (first, second, anew):
            each.close()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x02{]", b"\0\0\0\x02{}", b""])
async def test_other_traffic_is_dropped(data: bytes) -> None:
    async with run_conductor() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()
        connection, joined = await join(port)
        assert isinstance(joined, Joined)
        connection.close()


def build_agent(port: int, **changes: object) -> Agent:
    fields: dict[str, object] = {
        "model": "tiny",
        "agents": 1,
        "index": 0,
        "conductor_host": "127.0.0.1",
        "conductor_port": port,
        **changes,
    }
    settings = AgentSettings(**fields)  # type: ignore[arg-type]
    return Agent(settings, EngineMetrics(Metrics()), jitter=lambda: 0.0)


async def test_agent_stays_ready_without_its_conductor_and_joins_again() -> None:
    async with run_conductor() as (conductor, port):
        agent = build_agent(port)
        assert not agent.is_ready
        running = asyncio.create_task(agent.run())
        await wait_until_missing(conductor)
        while not agent.is_joined:
            await asyncio.sleep(0.005)
        assert agent.is_ready
    async with asyncio.timeout(PATIENCE):
        while agent.is_joined:
            await asyncio.sleep(0.005)
    assert agent.is_ready
    async with run_conductor(port=port) as (conductor, _):
        await wait_until_missing(conductor)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_agent_that_is_not_accepted_ends() -> None:
    async with run_conductor() as (_, port):
        agent = build_agent(port, model="other")
        with pytest.raises(NotAccepted, match="the conductor 'tiny'"):
            await agent.run()
        assert not agent.is_ready


async def test_agent_leaves_a_conductor_that_is_silent() -> None:
    joins: asyncio.Queue[Message] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        await joins.put(await connection.receive(PATIENCE))
        connection.send(Joined(heartbeat=0.02))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    agent = build_agent(server.sockets[0].getsockname()[1])
    running = asyncio.create_task(agent.run())
    async with asyncio.timeout(PATIENCE):
        first, second = await joins.get(), await joins.get()
    assert isinstance(first, Join)
    assert first == second
    assert agent.problem.startswith("no message within")
    running.cancel()
    server.close()
    await asyncio.gather(running, return_exceptions=True)
