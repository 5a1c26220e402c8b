"""The verbs of the extender as HTTP request handlers.

kube-scheduler shows a message only in the `Error` of `filter` and `bind`. So an invalid pod is
reported as the reason of every node, a failure of the extender as an `Error`, and a body that is
not a message of the protocol is answered with 400.
"""

import time
from collections.abc import Awaitable, Callable

import msgspec
from prometheus_client import CollectorRegistry, Histogram

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving.routing import RequestHandler, json_reply, require_method
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.scoring.plugins import Scoring
from kilonova.scheduler.extender import messages
from kilonova.scheduler.extender.explanation import explain
from kilonova.scheduler.extender.node_filter import convert_requested_pod, filter_nodes
from kilonova.scheduler.extender.pod_binder import BindError, PodBinder
from kilonova.scheduler.extender.preemption import select_preemption_nodes
from kilonova.scheduler.extender.priorities import prioritize_nodes

BODY_LIMIT = 32 * 1024 * 1024
"""Maximum size of a request in bytes: about two thousand complete nodes, or any number of names."""

_NOT_SYNCED = "the extender's caches have not synced yet"
_DEFAULT_EXPLAINED_NODES = 20
_MAX_EXPLAINED_NODES = 10_000
_DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

VerbHandler = Callable[[bytes], Awaitable[bytes]]


class ExtenderHandlers:
    """Answers the verbs from memory."""

    def __init__(
        self,
        cache: SchedulerCache,
        feasibility: FeasibilityCache,
        scoring: Scoring,
        binder: PodBinder,
        has_synced: Callable[[], bool],
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._cache = cache
        self._snapshot = cache.cluster.snapshot
        self._feasibility = feasibility
        self._scoring = scoring
        self._binder = binder
        self._has_synced = has_synced
        self._duration = Histogram(
            "kilonova_extender_seconds",
            "Duration of a request to the scheduler extender, by verb.",
            ("verb",),
            registry=registry,
            buckets=_DURATION_BUCKETS,
        )

    def routes(self) -> dict[str, RequestHandler]:
        """The handlers by path."""
        return {
            "/filter": self._post_handler(self._filter, has_error=True),
            "/prioritize": self._post_handler(self._prioritize),
            "/preempt": self._post_handler(self._preempt),
            "/bind": self._post_handler(self._bind, has_error=True),
            "/explain": require_method("GET", self._explain, error_reply),
            "/": _unknown_verb,
        }

    async def _filter(self, body: bytes) -> bytes:
        args = messages.decode_args(body)
        member = convert_requested_pod(args.pod)
        if isinstance(member, GangNotReady):
            reasons = dict.fromkeys(args.node_names, member.message)
            return messages.encode_filter_result(args, unresolvable=reasons)
        result = filter_nodes(self._snapshot, self._feasibility, member.shape, args.node_names)
        return messages.encode_filter_result(
            args, result.feasible, result.failed, result.unresolvable
        )

    async def _prioritize(self, body: bytes) -> bytes:
        args = messages.decode_args(body)
        member = convert_requested_pod(args.pod)
        if isinstance(member, GangNotReady):
            return messages.encode_priorities(dict.fromkeys(args.node_names, 0))
        return messages.encode_priorities(
            prioritize_nodes(
                self._snapshot, self._feasibility, self._scoring, member.shape, args.node_names
            )
        )

    async def _preempt(self, body: bytes) -> bytes:
        args = messages.decode_preemption_args(body)
        member = convert_requested_pod(args.pod)
        if isinstance(member, GangNotReady):
            return messages.encode_preemption_result({})
        self._cache.refresh()
        cluster, find_pod = self._cache.cluster, self._cache.find_pod
        return messages.encode_preemption_result(
            select_preemption_nodes(
                cluster, self._feasibility, find_pod, member.shape, args.victims
            )
        )

    async def _bind(self, body: bytes) -> bytes:
        try:
            await self._binder.bind(messages.decode_binding_args(body))
        except BindError as error:
            return messages.encode_error(str(error))
        return messages.encode_error("")

    async def _explain(self, request: Request) -> Reply:
        key, limit = (
            request.query_param("pod"),
            request.query_param("nodes") or str(_DEFAULT_EXPLAINED_NODES),
        )
        if key is None or key.count("/") != 1:
            return error_reply(400, f"pod={key or ''}: use pod=NAMESPACE/NAME")
        if not (limit.isascii() and limit.isdecimal() and int(limit) <= _MAX_EXPLAINED_NODES):
            return error_reply(400, f"nodes={limit}: use a number up to {_MAX_EXPLAINED_NODES}")
        if not self._has_synced():
            return error_reply(503, _NOT_SYNCED)
        pod = self._cache.find_pod(key)
        if pod is None:
            return error_reply(404, f"pod {key} not found")
        report = explain(self._snapshot, self._feasibility, self._scoring, pod, int(limit))
        return json_reply(200, msgspec.json.encode(report))

    def _post_handler(self, verb: VerbHandler, *, has_error: bool = False) -> RequestHandler:
        async def handle(request: Request) -> Reply:
            if not self._has_synced():
                return error_reply(200 if has_error else 503, _NOT_SYNCED)
            start = time.perf_counter()
            try:
                return json_reply(200, await verb(request.body))
            except messages.InvalidMessage as error:
                return error_reply(400, str(error))
            finally:
                self._duration.labels(request.path[1:]).observe(time.perf_counter() - start)

        return require_method("POST", handle, error_reply)


async def _unknown_verb(request: Request) -> Reply:
    verbs = "filter, prioritize, preempt, bind; and GET /explain"
    return error_reply(404, f"unknown verb {request.path[1:]!r}: use {verbs}")


def error_reply(status: int, message: str) -> Reply:
    """An error in the format of the extender protocol."""
    return json_reply(status, messages.encode_error(message))
