"""The verbs as endpoints of a web server.

kube-scheduler shows the text of an answer only where the protocol has a place for it: the `Error`
of `filter` and `bind`. What is wrong with a pod is therefore the reason of every node, what is
wrong with us is an `Error`, and what is no message of the protocol is answered with 400.
"""

import time
from collections.abc import Awaitable, Callable

import msgspec
from prometheus_client import CollectorRegistry, Histogram

from kilonova.kube.transport import Reply, Request
from kilonova.kube.webserver import Endpoint
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.scores import Scoring
from kilonova.scheduler.extender import wire
from kilonova.scheduler.extender.binding import Binding, Refused
from kilonova.scheduler.extender.explaining import explain
from kilonova.scheduler.extender.judging import judge, member_asked
from kilonova.scheduler.extender.levels import levels
from kilonova.scheduler.extender.preempting import worth_evicting
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.world import World

BODY_LIMIT = 32 * 1024 * 1024
"""Bytes of a request: some two thousand whole nodes, or any number of names."""

_NOT_FILLED = "the extender has not read the cluster yet"
_EXPLAINED = 20
_MOST_EXPLAINED = 10_000
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

Verb = Callable[[bytes], Awaitable[bytes]]


class Verbs:
    """Answers what kube-scheduler asks, from memory."""

    def __init__(
        self,
        world: World,
        rooms: Rooms,
        scoring: Scoring,
        binding: Binding,
        synced: Callable[[], bool],
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._world = world
        self._snapshot = world.cluster.snapshot
        self._rooms = rooms
        self._scoring = scoring
        self._binding = binding
        self._synced = synced
        self._seconds = Histogram(
            "kilonova_extender_seconds",
            "Time to answer a verb of the scheduler extender",
            ("verb",),
            registry=registry,
            buckets=_SECONDS,
        )

    def endpoints(self) -> dict[str, Endpoint]:
        """By path."""
        return {
            "/filter": self._posted(self._filter, has_error=True),
            "/prioritize": self._posted(self._prioritize),
            "/preempt": self._posted(self._preempt),
            "/bind": self._posted(self._bind, has_error=True),
            "/explain": self._explain,
            "/": _unknown,
        }

    async def _filter(self, body: bytes) -> bytes:
        asked = wire.read_candidates(body)
        member = member_asked(asked.pod)
        if isinstance(member, NotYet):
            reasons = dict.fromkeys(asked.names, member.message)
            return wire.filter_result(asked, unresolvable=reasons)
        found = judge(self._snapshot, self._rooms, member.shape, asked.names)
        return wire.filter_result(asked, found.passed, found.failed, found.unresolvable)

    async def _prioritize(self, body: bytes) -> bytes:
        asked = wire.read_candidates(body)
        member = member_asked(asked.pod)
        if isinstance(member, NotYet):
            return wire.priorities(dict.fromkeys(asked.names, 0))
        return wire.priorities(
            levels(self._snapshot, self._rooms, self._scoring, member.shape, asked.names)
        )

    async def _preempt(self, body: bytes) -> bytes:
        asked = wire.read_preemption(body)
        member = member_asked(asked.pod)
        if isinstance(member, NotYet):
            return wire.preemption_result({})
        self._world.refresh()
        cluster, find = self._world.cluster, self._world.find
        return wire.preemption_result(
            worth_evicting(cluster, self._rooms, find, member.shape, asked.victims)
        )

    async def _bind(self, body: bytes) -> bytes:
        try:
            await self._binding.bind(wire.read_binding(body))
        except Refused as refused:
            return wire.error(str(refused))
        return wire.error("")

    async def _explain(self, request: Request) -> Reply:
        if request.method != "GET":
            return _failed(405, "ask with GET /explain?pod=NAMESPACE/NAME", allow="GET")
        key, number = request.param("pod"), request.param("nodes") or str(_EXPLAINED)
        if key is None or key.count("/") != 1:
            return _failed(400, f"pod={key or ''}: write pod=NAMESPACE/NAME")
        if not (number.isascii() and number.isdecimal() and int(number) <= _MOST_EXPLAINED):
            return _failed(400, f"nodes={number}: write a number up to {_MOST_EXPLAINED}")
        if not self._synced():
            return _failed(503, _NOT_FILLED)
        pod = self._world.find(key)
        if pod is None:
            return _failed(404, f"there is no pod {key}")
        said = explain(self._snapshot, self._rooms, self._scoring, pod, int(number))
        return _json(200, msgspec.json.encode(said))

    def _posted(self, verb: Verb, *, has_error: bool = False) -> Endpoint:
        async def endpoint(request: Request) -> Reply:
            if request.method != "POST":
                return _failed(405, f"{request.path} is asked with POST", allow="POST")
            if not self._synced():
                return _failed(200 if has_error else 503, _NOT_FILLED)
            begin = time.perf_counter()
            try:
                return _json(200, await verb(request.body))
            except wire.Malformed as problem:
                return _failed(400, str(problem))
            finally:
                self._seconds.labels(request.path[1:]).observe(time.perf_counter() - begin)

        return endpoint


async def _unknown(request: Request) -> Reply:
    verbs = "filter, prioritize, preempt, bind; and GET /explain"
    return _failed(404, f"no verb {request.path[1:]!r}: there are {verbs}")


def _failed(status: int, message: str, *, allow: str = "") -> Reply:
    reply = _json(status, wire.error(message))
    if allow:
        reply.headers["allow"] = allow
    return reply


def _json(status: int, body: bytes) -> Reply:
    return Reply(status, body, {"content-type": "application/json"})
