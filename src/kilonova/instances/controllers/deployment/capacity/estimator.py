"""Estimates the capacity for deployments: how many more instances the cluster has a place for.

Whenever the cluster has changed, the answer for each deployment is computed again, at most every
few seconds, and less often where it takes long. On a large cluster that runs in a thread: snapshots
are values. Whether an updated instance would fit in the place of outdated ones is asked just before
these are deleted.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from kilonova.api.inference_engine import EngineSpec, InferenceEngineDeployment, names
from kilonova.artifacts.builds import Build, BuildError
from kilonova.instances.allocation import GROUP as ALLOCATION_GROUP
from kilonova.instances.allocation import AllocationConstraints, AllocationRequest
from kilonova.instances.allocation.strategies import STRATEGIES
from kilonova.instances.builders.engine import InvalidSpec, resolve_engine
from kilonova.instances.builders.identity import Identity
from kilonova.instances.caches import list_levels
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.capacity.count import (
    CapacityQuestion,
    count_instances,
    without_instances,
)
from kilonova.instances.controllers.deployment.observed import CapacityEstimate
from kilonova.instances.plugins import PluginFailed, PluginSet
from kilonova.kube import Key
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.library.snapshots.live import LiveSnapshots
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot

T = TypeVar("T")

_MAX_COPIES = 100
"""More additional instances are not counted."""
_INTERVAL_SECONDS = 2.0
_COST_FACTOR = 20.0
"""The pause after a computation is this many times as long as it took."""
_MAX_BUILDS = 100
"""More of them are not kept."""
_MAX_INLINE_NODES = 200
"""A larger cluster is computed in a thread."""

_log = get_logger(__name__)


@dataclass(slots=True)
class _Asked:
    """A deployment, and the last answer."""

    deployment: InferenceEngineDeployment
    template: EngineSpec
    answer: CapacityEstimate | None = None


class CapacityEstimator:
    """Answers for deployments. A `Runnable`, as are the snapshots."""

    name = "instance capacity"

    def __init__(
        self,
        context: ControllerContext,
        snapshots: LiveSnapshots,
        enqueue: Callable[[Key], None],
    ) -> None:
        """`enqueue` is called with a deployment's key when its answer has changed."""
        self._context = context
        self._snapshots = snapshots
        self._enqueue = enqueue
        self._asked: dict[Key, _Asked] = {}
        self._wakeup = asyncio.Event()
        self._builds: dict[str, Build] = {}
        self._strategies = PluginSet(ALLOCATION_GROUP, STRATEGIES, AllocationConstraints)

    def get(
        self, deployment: InferenceEngineDeployment, template: EngineSpec
    ) -> CapacityEstimate | None:
        """The last answer for a template of a deployment; None if there is none yet."""
        key = deployment.metadata.namespace, deployment.metadata.name
        known = self._asked.get(key)
        if known is not None and known.template == template:
            known.deployment = deployment
            return known.answer
        self._asked[key] = _Asked(deployment, template)
        self._wakeup.set()
        return None

    def forget(self, key: Key) -> None:
        """Ask no more for a deployment."""
        self._asked.pop(key, None)

    async def estimate_replacement(
        self,
        deployment: InferenceEngineDeployment,
        template: EngineSpec,
        without: Collection[Key],
    ) -> CapacityEstimate | None:
        """Whether an instance would fit if others were gone; None if that is not known."""
        snapshot = self._snapshots.take()
        if snapshot is None:
            return None
        gone = frozenset(without)
        reduced = await self._compute(snapshot, lambda: without_instances(snapshot, gone))
        return await self._estimate(deployment, template, reduced, limit=1, preempts=True)

    async def run(self) -> None:
        """Compute answers until cancelled."""
        version, pause = -1, 0.0
        while True:
            await self._wait_for_question(pause)
            has_changed = self._snapshots.version != version
            wanted = [
                key for key, each in self._asked.items() if has_changed or each.answer is None
            ]
            pause = _INTERVAL_SECONDS
            if not wanted:
                continue
            version, started = self._snapshots.version, self._context.monotonic()
            snapshot = self._snapshots.take()
            if snapshot is None:
                version = -1
                continue
            for key in wanted:
                await self._answer(key, snapshot)
            elapsed = self._context.monotonic() - started
            pause = max(_INTERVAL_SECONDS, _COST_FACTOR * elapsed)

    async def _wait_for_question(self, pause: float) -> None:
        """Wait; a new question shortens the wait for the next change, not the pause."""
        await asyncio.sleep(pause)
        self._wakeup.clear()
        if any(each.answer is None for each in self._asked.values()):
            return
        try:
            async with asyncio.timeout(_INTERVAL_SECONDS):
                await self._wakeup.wait()
        except TimeoutError:
            return

    async def _answer(self, key: Key, snapshot: ClusterSnapshot) -> None:
        asked = self._asked.get(key)
        if asked is None:
            return
        answer = await self._estimate(
            asked.deployment, asked.template, snapshot, limit=_MAX_COPIES, preempts=False
        )
        before, asked.answer = asked.answer, answer
        same = before is not None and (before.additional, before.message) == (
            answer.additional,
            answer.message,
        )
        if not same and self._asked.get(key) is asked:
            self._enqueue(key)

    async def _estimate(
        self,
        deployment: InferenceEngineDeployment,
        template: EngineSpec,
        snapshot: ClusterSnapshot,
        *,
        limit: int,
        preempts: bool,
    ) -> CapacityEstimate:
        now = self._context.now()
        try:
            question = await self._build_question(deployment, template, limit, preempts)
        except (InvalidSpec, BuildError, PluginFailed) as error:
            return CapacityEstimate(0, str(error), now)
        count, message = await self._compute(snapshot, lambda: count_instances(snapshot, question))
        return CapacityEstimate(count, message, now)

    async def _build_question(
        self,
        deployment: InferenceEngineDeployment,
        template: EngineSpec,
        limit: int,
        preempts: bool,
    ) -> CapacityQuestion:
        known, settings = deployment.metadata, self._context.settings
        caches = self._context.caches
        labels = {names.DEPLOYMENT: known.name}
        if template.release:
            labels[names.RELEASE] = template.release
        identity = Identity(known.namespace, names.instance(known.name, "next"), labels=labels)
        engine = resolve_engine(template, await self._load_build(template))
        request = AllocationRequest(
            identity.namespace,
            identity.name,
            labels,
            template,
            engine.agents,
            engine.resource,
            engine.count,
            list_levels(caches, settings.topology_levels),
            0,
            caches.nodes.store.objects,
        )
        constraints = await self._strategies.call(template.allocation.strategy, request)
        return CapacityQuestion(
            identity, engine, constraints, settings.scheduler_name, limit, preempts
        )

    async def _load_build(self, template: EngineSpec) -> Build | None:
        """The build of a template. Builds are immutable: one is loaded once."""
        load, name = self._context.settings.load_build, template.build
        if load is None or not name:
            return None
        if name not in self._builds:
            build = await load(name)
            while len(self._builds) >= _MAX_BUILDS:
                self._builds.pop(next(iter(self._builds)))
            self._builds[name] = build
        return self._builds[name]

    async def _compute(self, snapshot: ClusterSnapshot, function: Callable[[], T]) -> T:
        if len(snapshot.nodes) <= _MAX_INLINE_NODES:
            return function()
        return await asyncio.to_thread(function)
