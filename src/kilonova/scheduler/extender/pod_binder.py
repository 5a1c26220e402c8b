"""Binds pods to the nodes that kube-scheduler chose, and assigns their GPU devices.

The node is checked again, the devices are selected and the pod is assumed, all without an await;
then the binding is written. While the outcome is unknown, because the API server does not answer or
fails, the pod stays assumed and the write is retried, even after kube-scheduler's call timed out:
it gets an error and calls again later. So no device is ever assigned twice.
"""

import asyncio
from itertools import count

from kilonova.api.gpu.annotations import DEVICES
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Client,
    Conflict,
    KubeError,
    Store,
)
from kilonova.kube.election import LeadershipLost
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.gpu.assignment import assign_devices
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.extender.messages import BindingArgs
from kilonova.scheduler.extender.node_filter import convert_requested_pod, rejection_reason
from kilonova.scheduler.failures.binding_rejections import is_permanent_rejection
from kilonova.scheduler.objects.core_v1 import PODS, Pod

_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(0.1, 5.0)
_TIMEOUT_SECONDS = 4.0
"""Less than the five seconds after which kube-scheduler gives up by default."""


class BindError(Exception):
    """A pod was not bound; the message appears in its events."""


class PodBinder:
    """Writes bindings, each in a task of its own."""

    def __init__(
        self, client: Client, cache: SchedulerCache, feasibility: FeasibilityCache, pods: Store[Pod]
    ) -> None:
        self._client = client
        self._cache = cache
        self._feasibility = feasibility
        self._pods = pods
        self._pending_bindings: dict[str, asyncio.Task[None]] = {}

    async def bind(self, args: BindingArgs) -> None:
        """Bind a pod; raises `BindError` if it cannot be bound, or the outcome is unknown."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                pod = await self._wait_for_pod(args)
                if pod.spec.node_name == args.node:
                    return
                await asyncio.shield(self._start_binding(pod, args))
        except TimeoutError:
            raise BindError(self._timeout_message(args)) from None

    def _timeout_message(self, args: BindingArgs) -> str:
        if args.pod_key in self._pending_bindings:
            return f"the API server has not answered: {args.pod_key} is still being bound"
        return f"{args.pod_key} is not in the extender's cache yet"

    async def _wait_for_pod(self, args: BindingArgs) -> Pod:
        """The pod, as soon as the cache shows it: kube-scheduler's cache may be ahead."""
        pod = self._find_pod(args)
        if pod is not None:
            return pod
        changed = asyncio.Event()
        unsubscribe = self._pods.add_event_handler(lambda old, new: changed.set())
        try:
            while (pod := self._find_pod(args)) is None:
                await changed.wait()
                changed.clear()
            return pod
        finally:
            unsubscribe()

    def _find_pod(self, args: BindingArgs) -> Pod | None:
        pod = self._cache.find_pod(args.pod_key)
        return pod if pod is not None and args.uid in ("", pod.metadata.uid) else None

    def _start_binding(self, pod: Pod, args: BindingArgs) -> asyncio.Task[None]:
        """Assume the pod and start the write. Nothing is awaited here."""
        if pod.key in self._pending_bindings:
            raise BindError(f"{pod.key} is already being bound")
        placement = self._assume_pod(pod, args.node)
        task = asyncio.create_task(
            self._write_binding(pod, placement, args.node), name=f"bind {pod.key}"
        )
        self._pending_bindings[pod.key] = task
        task.add_done_callback(lambda done: self._finish_binding(pod.key, done))
        return task

    def _finish_binding(self, key: str, task: asyncio.Task[None]) -> None:
        del self._pending_bindings[key]
        if not task.cancelled():
            # The caller may have timed out; retrieve the exception so that asyncio does not log it.
            task.exception()

    def _assume_pod(self, pod: Pod, node: str) -> PodPlacement:
        if pod.spec.node_name:
            raise BindError(f"{pod.key} is already bound to node {pod.spec.node_name}")
        if pod.metadata.deletion_timestamp or pod.ended:
            raise BindError(f"{pod.key} is terminating or has ended")
        member = convert_requested_pod(pod)
        if isinstance(member, GangNotReady):
            raise BindError(member.message)
        snapshot = self._cache.cluster.snapshot
        if pod.key in snapshot.placements:
            raise BindError(f"{pod.key} is already assumed on a node")
        reason = rejection_reason(snapshot, self._feasibility, member.shape, node)
        if reason:
            raise BindError(f"node {node} is no longer feasible: {reason}")
        row = snapshot.row(node)
        devices = assign_devices(snapshot, row, member.shape, 1)[0]
        return self._cache.assume_pod(pod, member, row, devices)

    async def _write_binding(self, pod: Pod, placement: PodPlacement, node: str) -> None:
        for failures in count(1):
            try:
                await self._send_binding(pod, placement, node, is_retry=failures > 1)
                return
            except KubeError as error:
                if isinstance(error, LeadershipLost) or (
                    isinstance(error, ApiStatusError) and is_permanent_rejection(error)
                ):
                    self._cache.forget_assumed([placement])
                    raise BindError(f"the API server rejected the binding: {error}") from error
                _log.warning("binding failed, retrying", pod=pod.key, node=node, error=str(error))
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))

    async def _send_binding(
        self, pod: Pod, placement: PodPlacement, node: str, *, is_retry: bool
    ) -> None:
        meta, devices = pod.metadata, encode_devices(placement.devices)
        annotations = {DEVICES: devices} if devices else None
        try:
            await self._client.bind(
                meta.name, meta.namespace, node, uid=meta.uid, annotations=annotations
            )
        except Conflict:
            # The conflict may come from our previous attempt, whose answer was lost.
            if not is_retry:
                raise
            found = await self._client.get(PODS, meta.name, meta.namespace)
            assigned = found.metadata.annotations.get(DEVICES, "")
            if (found.metadata.uid, found.spec.node_name, assigned) != (meta.uid, node, devices):
                raise
