"""The conductor's side of the protocol: the agents that have joined, and their shards."""

import asyncio
import itertools
import socket
from dataclasses import dataclass, field

from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.protocol import (
    MISSED_HEARTBEATS,
    VERSION,
    Compute,
    Connection,
    ConnectionLost,
    Join,
    Joined,
    Ping,
    Refused,
    Shard,
)
from kilonova.instances.engine.settings import ConductorSettings
from kilonova.kube.observability.structured_logging import get_logger

_JOIN_SECONDS = 5.0
"""How long a connection may be silent before it joins."""

log = get_logger(__name__)


class AgentsMissing(Exception):
    """Some agents have not joined, or were lost: the instance cannot answer."""

    def __init__(self, missing: tuple[int, ...], agents: int) -> None:
        self.missing = missing
        self.agents = agents
        named = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        noun = "agent" if len(missing) == 1 else "agents"
        super().__init__(f"the instance is not ready: {noun} {named} of {agents} missing")


@dataclass(eq=False, slots=True)
class _Member:
    """An agent that has joined, and the shards that are awaited from it."""

    join: Join
    connection: Connection
    awaited: dict[int, asyncio.Future[int]] = field(
        default_factory=dict[int, "asyncio.Future[int]"]
    )


class Conductor:
    """Lets agents join, and asks all of them for the shards of a token."""

    def __init__(self, settings: ConductorSettings, metrics: EngineMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._members: dict[int, _Member] = {}
        self._ids = itertools.count(1)
        self._silence = settings.heartbeat * MISSED_HEARTBEATS
        self._connections: set[asyncio.Task[None]] = set()
        metrics.agents("joined").set_function(lambda: len(self._members))
        metrics.agents("expected").set(settings.agents)

    @property
    def missing(self) -> tuple[int, ...]:
        """The indices of the agents that have not joined."""
        return tuple(each for each in range(self._settings.agents) if each not in self._members)

    async def run(self, listener: socket.socket) -> None:
        """Accept agents until cancelled; then close all connections."""
        server = await asyncio.start_server(self._accept, sock=listener)
        log.info("agents may join", port=listener.getsockname()[1], agents=self._settings.agents)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for task in list(self._connections):
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def compute_shards(self, context: str) -> list[int]:
        """The shards of all agents for the next token; `AgentsMissing` if one has not joined, or
        is lost meanwhile."""
        self.require_all()
        id = next(self._ids)
        members = list(self._members.values())
        futures: list[asyncio.Future[int]] = []
        for member in members:
            future = asyncio.get_running_loop().create_future()
            member.awaited[id] = future
            futures.append(future)
            member.connection.send(Compute(id, context))
        try:
            # Ends in any case: an agent that does not answer is lost, and its futures with it.
            return await asyncio.gather(*futures)
        finally:
            for member, future in zip(members, futures, strict=True):
                member.awaited.pop(id, None)
                future.cancel()

    def require_all(self) -> None:
        """Raise `AgentsMissing` unless all agents have joined."""
        if missing := self.missing:
            raise AgentsMissing(missing, self._settings.agents)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve_connection(Connection(reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_connection(self, connection: Connection) -> None:
        try:
            await self._serve(connection)
        except ConnectionLost as error:
            log.info("connection lost before the agent joined", peer=connection.peer, cause=error)
        finally:
            connection.close()

    async def _serve(self, connection: Connection) -> None:
        join = await connection.receive(_JOIN_SECONDS)
        refused = self._check(join)
        if refused is not None or not isinstance(join, Join):
            refused = refused or Refused("InvalidMessage", "the first message is not a join")
            self._metrics.joins(refused.reason).inc()
            log.warning("agent refused", peer=connection.peer, cause=refused.message)
            connection.send(refused)
            return
        former = self._members.pop(join.index, None)
        if former is not None:
            self._drop(former)
        member = self._members[join.index] = _Member(join, connection)
        self._metrics.joins("Joined").inc()
        connection.send(Joined(self._settings.heartbeat))
        missing = len(self.missing)
        log.info("agent joined", agent=join.index, peer=connection.peer, missing=missing)
        heartbeat = asyncio.create_task(self._send_heartbeats(connection))
        try:
            await self._receive_shards(member)
        except ConnectionLost as error:
            log.warning("agent lost", agent=join.index, peer=connection.peer, cause=error)
            self._metrics.losses.inc()
        finally:
            heartbeat.cancel()
            if self._members.get(join.index) is member:
                del self._members[join.index]
            self._drop(member)

    def _check(self, join: object) -> Refused | None:
        settings = self._settings
        if not isinstance(join, Join):
            return None
        if join.version != VERSION:
            message = f"the agent speaks version {join.version}, and the conductor {VERSION}"
            return Refused("VersionMismatch", f"{message}: use one image for both")
        if join.model != settings.model:
            message = f"the agent has model {join.model!r}, and the conductor {settings.model!r}"
            return Refused("ModelMismatch", message)
        if join.agents != settings.agents:
            message = f"the agent expects {join.agents} agents, and the conductor {settings.agents}"
            return Refused("AgentsMismatch", message)
        if not 0 <= join.index < settings.agents:
            message = f"index {join.index} is out of range: use 0 to {settings.agents - 1}"
            return Refused("IndexOutOfRange", message)
        holder = self._members.get(join.index)
        if holder is not None and holder.join.process != join.process:
            message = f"agent {join.index} has joined already, from {holder.connection.peer}"
            return Refused("IndexTaken", message)
        return None

    async def _receive_shards(self, member: _Member) -> None:
        while True:
            message = await member.connection.receive(self._silence)
            if isinstance(message, Shard):
                future = member.awaited.pop(message.id, None)
                if future is not None and not future.done():
                    future.set_result(message.value)

    async def _send_heartbeats(self, connection: Connection) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat)
            connection.send(Ping())

    def _drop(self, member: _Member) -> None:
        """Close the connection of a member; what is awaited from it fails."""
        member.connection.close()
        awaited, member.awaited = member.awaited, {}
        for future in awaited.values():
            if not future.done():
                missing = (member.join.index,)
                future.set_exception(AgentsMissing(missing, self._settings.agents))
