"""Binds the pods of a placed gang, after its victims terminated and its claims were allocated.

The pods of a gang are bound concurrently, once all of them still exist and the victims on their
nodes have terminated. A binding that fails transiently is retried until it succeeds, so a gang is
completed however long the API server is unavailable. A binding fails for good if the pod is deleted
or has another node, if the API server rejects it, or if the server keeps failing on it while it
answers otherwise. The rejection is reported, and the pod avoids that node for a while.
"""

import asyncio
import time
from itertools import count

from kilonova.api.gpu.annotations import DEVICES
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    ConnectionFailed,
    NotFound,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.binding.claim_allocations import ClaimAllocationWriter
from kilonova.scheduler.binding.results import BindingResultRecorder
from kilonova.scheduler.binding.volume_binder import VolumeBinder
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.eviction.victim_waiter import VictimWaiter
from kilonova.scheduler.failures.binding_rejections import BindingRejection, is_permanent_rejection
from kilonova.scheduler.objects.core_v1 import PODS, Pod

_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(0.1, 5.0)
_MAX_SERVER_ERRORS = 12
"""Server errors of one binding, within about half a minute, before it counts as rejected."""


class Binder:
    """A runnable that binds placements, each in a task of its own."""

    name = "binder"

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        victim_waiter: VictimWaiter,
        allocations: ClaimAllocationWriter,
        volume_binder: VolumeBinder,
        results: BindingResultRecorder,
    ) -> None:
        self._client = context.client
        self._cache = cache
        self._victim_waiter = victim_waiter
        self._slots = context.write_slots
        self._allocations = allocations
        self._volume_binder = volume_binder
        self._results = results
        self._metrics = context.metrics
        self._errors = context.errors
        self._in_flight = context.bindings_in_flight
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """Tasks in progress, and whether they already write bindings."""
        self._changed = asyncio.Event()
        self._stopping = False

    def bind(self, placement: GangPlacement) -> None:
        """Start binding a placement whose pods are already assumed."""
        task = asyncio.create_task(
            self._bind_containing_errors(placement), name=f"bind {placement.gang.name}"
        )
        self._tasks[task] = False
        self._in_flight.count += 1
        task.add_done_callback(self._task_done)

    def stop(self) -> None:
        """Let `run` return once the bindings in progress are written."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Run until stopped."""
        try:
            while not (self._stopping and not any(self._tasks.values())):
                await self._changed.wait()
                self._changed.clear()
        finally:
            for task in self._tasks:
                task.cancel()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        self._in_flight.count -= 1
        self._changed.set()

    async def _bind_containing_errors(self, placement: GangPlacement) -> None:
        """Bind a gang; an unexpected error costs this gang its attempt.

        Pods whose binding was written before the error keep their capacity, and victims that were
        not evicted yet stay.
        """
        try:
            await self._bind(placement)
        except Exception as error:
            self._errors.report("binding", placement.gang.name, error)
            names = self._cache.cluster.snapshot.names
            failed = [
                pod_placement
                for pod_placement in placement.pods
                if (pod := self._cache.find_pod(pod_placement.pod)) is None
                or not await self._is_bound_to(pod, names[pod_placement.row])
            ]
            self._finish_binding(placement, failed)
            self._cache.keep_unevicted_victims(placement)

    async def _bind(self, placement: GangPlacement) -> None:
        clear_result = not self._stopping and await self._victim_waiter.clear_victims(placement)
        if isinstance(clear_result, GangPlacement):
            self.bind(clear_result)  # placed on other nodes without these victims
            return
        if not clear_result or not self._is_still_valid(placement):
            self._finish_binding(placement, list(placement.pods))
            return
        # Releasing devices and provisioning volumes may take long; a stop in between is harmless.
        written = await self._allocations.write(placement.pods)
        written = written and await self._volume_binder.bind_volumes(placement.pods)
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = True
        failed, rejected = list(placement.pods), list[BindingRejection]()
        if written and self._is_still_valid(placement):
            self._cache.begin_binding(placement.pods)
            if len(placement.pods) == 1:
                results = [await self._bind_measured(placement.pods[0])]
            else:
                results = await asyncio.gather(*map(self._bind_measured, placement.pods))
            placements_and_results = zip(placement.pods, results, strict=True)
            failed = [
                pod_placement
                for pod_placement, result in placements_and_results
                if result is not True
            ]
            rejected = [result for result in results if isinstance(result, BindingRejection)]
        await self._allocations.release(failed)
        self._finish_binding(placement, failed, rejected)

    def _is_still_valid(self, placement: GangPlacement) -> bool:
        """Whether every pod is still unbound and still fits its node."""
        return all(
            self._cache.find_unbound_pod(pod_placement) is not None
            and self._cache.still_fits(pod_placement)
            for pod_placement in placement.pods
        )

    def _finish_binding(
        self,
        placement: GangPlacement,
        failed: list[PodPlacement],
        rejected: list[BindingRejection] | None = None,
    ) -> None:
        self._cache.finish_binding(placement, failed)
        self._results.record(placement, failed, rejected or [])

    async def _bind_measured(self, pod_placement: PodPlacement) -> bool | BindingRejection:
        start = time.perf_counter()
        result = await self._bind_pod(pod_placement)
        self._metrics.observe_binding(result is True, time.perf_counter() - start)
        return result

    async def _bind_pod(self, pod_placement: PodPlacement) -> bool | BindingRejection:
        """Bind one pod: whether it is bound, or the API server's rejection."""
        pod = self._cache.find_unbound_pod(pod_placement)
        if pod is None:
            return False
        node = self._cache.cluster.snapshot.names[pod_placement.row]
        annotations = (
            {DEVICES: encode_devices(pod_placement.devices)} if pod_placement.devices else None
        )
        meta = pod.metadata
        errors = 0
        for failures in count(1):
            try:
                async with self._slots:
                    await self._client.bind(
                        meta.name, meta.namespace, node, uid=meta.uid, annotations=annotations
                    )
                return True
            except (NotFound, Conflict) as error:
                _log.warning(
                    "binding conflicts with the pod in the API",
                    pod=pod_placement.pod,
                    node=node,
                    error=str(error),
                )
                return await self._is_bound_to(pod, node)
            except ApiStatusError as error:
                errors += error.code >= 500
                if is_permanent_rejection(error) or errors >= _MAX_SERVER_ERRORS:
                    _log.warning(
                        "binding rejected by the API server",
                        pod=pod_placement.pod,
                        node=node,
                        error=str(error),
                    )
                    is_bound = await self._is_bound_to(pod, node)
                    return is_bound or BindingRejection(pod_placement.pod, node, str(error))
                _log.warning(
                    "binding failed, retrying", pod=pod_placement.pod, node=node, error=str(error)
                )
            except ConnectionFailed as error:
                _log.warning(
                    "binding failed, retrying", pod=pod_placement.pod, node=node, error=str(error)
                )
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
            if self._cache.find_unbound_pod(pod_placement) is None or not self._cache.still_fits(
                pod_placement
            ):
                return await self._is_bound_to(pod, node)
        raise AssertionError

    async def _is_bound_to(self, pod: Pod, node: str) -> bool:
        """Whether the API shows the pod on the node, as after an attempt whose answer was lost; the
        cache may be behind."""
        meta = pod.metadata
        for failures in count(1):
            try:
                found = await self._client.get(PODS, meta.name, meta.namespace)
                return found.metadata.uid == meta.uid and found.spec.node_name == node
            except NotFound:
                return False
            except (ConnectionFailed, ApiStatusError):
                await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
        raise AssertionError
