"""Simulated LLM servers behind a gateway, in virtual time.

A server batches continuously, as vLLM does: each step computes one token of every running request,
and a chunk of the prompts of those that have not had their first token. A step takes as long as its
prompt tokens at the prefill rate, and the decoding of the batch, take together.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

import numpy as np


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of the trace."""

    at: float
    prompt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ServerModel:
    """How fast a server is. The defaults are about those of a model with 34 billion parameters in 8
    bits on an H100: prefill is bound by compute, a step of decoding by reading 34 GB of weights."""

    prefill_tokens_per_second: float = 8000.0
    step_seconds: float = 0.02
    step_seconds_per_request: float = 0.0004
    chunk_tokens: int = 2048
    max_batch: int = 32
    startup_seconds: float = 30.0


@dataclass(slots=True)
class _Request:
    arrival: Arrival
    prompt_left: int
    tokens_left: int


@dataclass(slots=True)
class _Server:
    ready_at: float
    started_at: float
    is_draining: bool = False
    is_stepping: bool = False
    waiting: deque[_Request] = field(default_factory=deque[_Request])
    running: list[_Request] = field(default_factory=list[_Request])

    @property
    def in_flight(self) -> int:
        return len(self.waiting) + len(self.running)


@dataclass(slots=True)
class Outcome:
    """What happened to the requests, and what the servers cost."""

    first_token: list[float] = field(default_factory=list[float])
    """Seconds from arrival to the first token."""
    first_token_at: list[float] = field(default_factory=list[float])
    latency: list[float] = field(default_factory=list[float])
    server_seconds: float = 0.0
    """Of servers that start, run and drain."""

    def attainment(self, target: float) -> float:
        """The share of the requests whose first token came within the target."""
        values = np.asarray(self.first_token)
        return float((values <= target).mean()) if len(values) else 1.0


class Cluster:
    """The servers of a group, and the gateway in front of them, which holds requests when there is
    none, and sends each to the server with the fewest."""

    def __init__(self, model: ServerModel, servers: int) -> None:
        self.model = model
        self.now = 0.0
        self.outcome = Outcome()
        self.arrived = 0
        self.held: deque[_Request] = deque()
        self._servers = [_Server(0.0, 0.0) for _ in range(servers)]
        self._events: list[tuple[float, int, _Server]] = []
        self._ids = count()

    @property
    def replicas(self) -> int:
        """The servers that there are to be."""
        return sum(not each.is_draining for each in self._servers)

    @property
    def ready(self) -> int:
        """The servers that get requests."""
        return len(self._list_ready())

    @property
    def in_flight(self) -> int:
        """Requests that servers have."""
        return sum(each.in_flight for each in self._servers)

    @property
    def queued(self) -> int:
        """Requests in the queues of servers."""
        return sum(len(each.waiting) for each in self._servers)

    def arrive(self, arrival: Arrival) -> None:
        """Take a request."""
        self.held.append(_Request(arrival, arrival.prompt, max(1, arrival.tokens)))
        self._dispatch()

    def run_until(self, time: float) -> None:
        """Advance to a time."""
        while self._events and self._events[0][0] <= time:
            self.now, _, server = heapq.heappop(self._events)
            if server.is_stepping:
                self._finish_step(server)
            else:
                self._dispatch()
        self.now = time

    def scale(self, replicas: int) -> None:
        """Add servers, or drain those that were added last."""
        current = [each for each in self._servers if not each.is_draining]
        for _ in range(replicas - len(current)):
            server = _Server(self.now + self.model.startup_seconds, self.now)
            self._servers.append(server)
            heapq.heappush(self._events, (server.ready_at, next(self._ids), server))
        for server in current[replicas:]:
            server.is_draining = True
            self._remove_if_idle(server)

    def finish(self) -> Outcome:
        """Account for the servers that are left."""
        for server in self._servers:
            self.outcome.server_seconds += self.now - server.started_at
        self._servers.clear()
        return self.outcome

    def _list_ready(self) -> list[_Server]:
        return [
            each for each in self._servers if not each.is_draining and each.ready_at <= self.now
        ]

    def _dispatch(self) -> None:
        ready = self._list_ready()
        if not ready:
            return
        while self.held:
            request = self.held.popleft()
            self.arrived += 1
            server = min(ready, key=lambda each: each.in_flight)
            server.waiting.append(request)
            if not server.is_stepping:
                self._start_step(server)

    def _start_step(self, server: _Server) -> None:
        model = self.model
        while server.waiting and len(server.running) < model.max_batch:
            server.running.append(server.waiting.popleft())
        budget = model.chunk_tokens
        prefilled = 0
        decoding = 0
        for request in server.running:
            if not request.prompt_left:
                decoding += 1
            elif budget:
                part = min(budget, request.prompt_left)
                request.prompt_left -= part
                budget -= part
                prefilled += part
        seconds = prefilled / model.prefill_tokens_per_second
        if decoding or not prefilled:
            seconds += model.step_seconds + model.step_seconds_per_request * decoding
        server.is_stepping = True
        heapq.heappush(self._events, (self.now + seconds, next(self._ids), server))

    def _finish_step(self, server: _Server) -> None:
        server.is_stepping = False
        outcome = self.outcome
        for request in list(server.running):
            if request.prompt_left:
                continue
            arrival = request.arrival
            if request.tokens_left == max(1, arrival.tokens):
                outcome.first_token.append(self.now - arrival.at)
                outcome.first_token_at.append(self.now)
            request.tokens_left -= 1
            if not request.tokens_left:
                outcome.latency.append(self.now - arrival.at)
                server.running.remove(request)
        if server.in_flight:
            self._start_step(server)
        elif server.is_draining:
            self._remove_if_idle(server)

    def _remove_if_idle(self, server: _Server) -> None:
        if not server.in_flight:
            self._servers.remove(server)
            self.outcome.server_seconds += self.now - server.started_at
