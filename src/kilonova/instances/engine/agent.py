"""The agent's side of the protocol: joins, contributes its shards, and joins again when it must."""

import asyncio
import os
import random
import secrets
from collections.abc import Callable

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
    Pong,
    Refused,
    Shard,
)
from kilonova.instances.engine.settings import AgentSettings
from kilonova.instances.engine.tokens import compute_shard
from kilonova.kube.observability.structured_logging import get_logger

_CONNECT_SECONDS = 5.0
_FIRST_DELAY, _MAX_DELAY = 0.1, 2.0
"""Seconds between two attempts to join: the conductor may start later, or elsewhere."""

log = get_logger(__name__)


class NotAccepted(Exception):
    """The conductor refuses the agent for good: its configuration is wrong."""


class Agent:
    """One agent of an instance.

    It is **ready** when it has joined once: a conductor that restarts does not make its agents
    unready, so that nothing repairs what is not broken. One that is refused is not ready.
    """

    def __init__(
        self,
        settings: AgentSettings,
        metrics: EngineMetrics,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._jitter = jitter
        self._process = secrets.token_hex(8)
        self.is_joined = False
        self.is_ready = False
        self.problem = "not connected yet"
        metrics.agents("joined").set_function(lambda: int(self.is_joined))

    async def run(self) -> None:
        """Join until cancelled; raises `NotAccepted` if that cannot succeed."""
        delay = _FIRST_DELAY
        while True:
            try:
                await self._work()
            except ConnectionLost as error:
                self._report(error)
            if self.is_joined:
                self.is_joined = False
                delay = _FIRST_DELAY
            # So that the agents of a large instance do not all come at the same moment.
            await asyncio.sleep(delay * (0.5 + self._jitter() / 2))
            delay = min(2 * delay, _MAX_DELAY)

    def _report(self, error: ConnectionLost) -> None:
        """Log a cause once, however often it is met."""
        if str(error) != self.problem:
            message = "connection to the conductor lost" if self.is_joined else "not joined"
            log.warning(message, agent=self._settings.index, cause=error)
        self.problem = str(error)

    async def _work(self) -> None:
        """Join, and work until the connection is lost."""
        settings = self._settings
        where = f"{settings.conductor_host}:{settings.conductor_port}"
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                streams = await asyncio.open_connection(
                    settings.conductor_host, settings.conductor_port
                )
        except TimeoutError:
            problem = f"conductor {where}: no connection within {_CONNECT_SECONDS:.0f} s"
            raise ConnectionLost(problem) from None
        except OSError as error:
            # asyncio's own message has the address once more, as Python writes it.
            text = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConnectionLost(f"conductor {where}: {text.lower()}") from None
        connection = Connection(*streams)
        try:
            silence = await self._join(connection) * MISSED_HEARTBEATS
            while True:
                self._answer(connection, await connection.receive(silence))
        finally:
            connection.close()

    async def _join(self, connection: Connection) -> float:
        """Join; the seconds between two heartbeats of the conductor."""
        settings = self._settings
        connection.send(
            Join(VERSION, settings.model, settings.agents, settings.index, self._process)
        )
        match await connection.receive(_CONNECT_SECONDS):
            case Joined(heartbeat=heartbeat):
                self.is_joined = self.is_ready = True
                self.problem = ""
                self._metrics.joins("Joined").inc()
                log.info("joined", agent=settings.index, conductor=connection.peer)
                return heartbeat
            case Refused() as refused:
                self.is_ready = False
                self._metrics.joins(refused.reason).inc()
                if refused.is_permanent:
                    raise NotAccepted(refused.message)
                raise ConnectionLost(refused.message)
            case _:
                raise ConnectionLost("the conductor's answer is neither joined nor refused")

    def _answer(self, connection: Connection, message: object) -> None:
        match message:
            case Compute(id=id, context=context):
                settings = self._settings
                value = compute_shard(settings.model, settings.index, settings.agents, context)
                self._metrics.shards.inc()
                connection.send(Shard(id, value))
            case Ping():
                connection.send(Pong())
            case _:
                raise ConnectionLost("a message of the conductor is not one that agents answer")
