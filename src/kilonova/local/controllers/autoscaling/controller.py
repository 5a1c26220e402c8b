"""The horizontal pod autoscaler: every fifteen seconds, as many replicas as metrics ask for."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    ApiStatusError,
    Client,
    Controller,
    KubeError,
    Reflector,
    Resource,
    Result,
    Watch,
)
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.autoscaling.measure import Measure, Measured, Situation, Unmeasured
from kilonova.local.controllers.autoscaling.metrics import MetricsReader
from kilonova.local.controllers.autoscaling.objects import (
    AUTOSCALERS,
    Autoscaler,
    AutoscalerStatus,
)
from kilonova.local.controllers.autoscaling.pace import History, Moment, paced
from kilonova.local.controllers.autoscaling.proposals import Tolerances
from kilonova.local.controllers.autoscaling.telling import Telling
from kilonova.local.controllers.indexes import add_index_once
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.scales import NoScale, Scale, ScaleReader
from kilonova.local.errors import ApiError
from kilonova.local.selectors import LabelSelector, parse_label_selector

_EVERY = 15.0
_WORKERS = 5
_BY_NAMESPACE = "namespace"


@dataclass(slots=True)
class _Memory:
    due: float
    history: History = field(default_factory=History)
    selector: LabelSelector | None = None


class AutoscalerController:
    """Scales what autoscalers point at."""

    def __init__(
        self,
        client: Client,
        autoscalers: Reflector[Autoscaler],
        pods: Reflector[Pod],
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._autoscalers = autoscalers
        self._pods = pods
        self._events = events
        self._clock = clock
        self._scales = ScaleReader(client)
        self._measure = Measure(MetricsReader(client))
        self._memory: dict[Key, _Memory] = {}
        add_index_once(pods.store, _BY_NAMESPACE, lambda pod: (pod.metadata.namespace,))

    def controller(self) -> Controller:
        watches = [Watch(self._autoscalers)]
        return Controller("autoscalers", self._reconcile, watches, workers=_WORKERS)

    async def _reconcile(self, key: Key) -> Result | None:
        found = self._autoscalers.store.get(key)
        if found is None:
            self._memory.pop(key, None)
            return None
        now = self._clock.monotonic()
        memory = self._memory.setdefault(key, _Memory(now + _EVERY))
        if memory.due > now:
            return Result(memory.due - now)
        memory.due = now + _EVERY
        telling = Telling(found, self._clock.now())
        await self._advance(key, found, memory, telling)
        await self._write(found, telling.status)
        self._tell(found, telling)
        return Result(_EVERY)

    async def _advance(
        self, key: Key, found: Autoscaler, memory: _Memory, telling: Telling
    ) -> None:
        """One round: read the scale, measure, decide, scale; `telling` takes down what happens."""
        wanted = found.spec.scale_target_ref
        try:
            resource = await self._scales.resource(wanted.group, wanted.kind)
            scale = await self._scales.read(resource, wanted.name, found.metadata.namespace)
        except (NoScale, KubeError) as problem:
            telling.no_scale(_text(problem))
            return
        telling.got_scale()
        current, spec = scale.spec.replicas, found.spec
        if not memory.history.recommended:
            memory.history = History((Moment(self._clock.monotonic(), current),))
        statuses: list[JsonObject] = []
        reason = ""
        if current == 0:
            telling.disabled()
            desired = 0
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < spec.min_replicas:
            desired, reason = spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        else:
            best = await self._measured(key, found, scale, telling, statuses)
            if best is None:
                telling.numbers(current, found.status.desired_replicas, statuses)
                return
            pace = paced(spec, current, best.replicas, memory.history, self._clock.monotonic())
            memory.history = pace.history
            telling.paced(pace)
            desired = pace.replicas
            if best.replicas > current:
                reason = f"{best.name} above target"
            elif best.replicas < current:
                reason = "All metrics below target"
        if desired != current:
            scaled = await self._scale(found, resource, desired, reason, telling)
            if not scaled:
                telling.numbers(current, found.status.desired_replicas, statuses)
                return
            now = self._clock.monotonic()
            memory.history = memory.history.scaled(current, desired, spec.behavior, now)
        telling.numbers(current, desired, statuses)

    async def _measured(
        self,
        key: Key,
        found: Autoscaler,
        scale: Scale,
        telling: Telling,
        statuses: list[JsonObject],
    ) -> Measured | None:
        """The metric that asks for most; None where that cannot be known."""
        pods = self._selected(key, found, scale.status.selector, telling)
        if pods is None:
            return None
        situation = Situation(
            found.metadata.namespace,
            scale.status.selector,
            pods,
            scale.spec.replicas,
            scale.status.replicas,
            Tolerances.of(found.spec.behavior),
            self._clock.now(),
        )
        best: Measured | None = None
        failed: list[Unmeasured] = []
        for metric in found.spec.metrics:
            try:
                measured = await self._measure.of(metric, situation)
            except Unmeasured as problem:
                failed.append(problem)
                telling.warn(problem.reason, problem.problem)
                statuses.append({"type": ""})
                continue
            statuses.append(measured.status)
            if best is None or not best.replicas or measured.replicas > best.replicas:
                best = measured
        if best is None or (failed and best.replicas < situation.wanted):
            telling.unmeasured(failed, len(found.spec.metrics))
            return None
        telling.active(best.name)
        return best

    def _selected(
        self, key: Key, found: Autoscaler, selector: str, telling: Telling
    ) -> list[Pod] | None:
        """The pods of a scale's selector, if they are this autoscaler's alone."""
        if not selector:
            telling.no_selector()
            return None
        try:
            parsed = parse_label_selector(selector)
        except ApiError as problem:
            telling.bad_selector(problem.message)
            return None
        self._memory[key].selector = parsed
        namespace = found.metadata.namespace
        in_namespace = self._pods.store.find(_BY_NAMESPACE, namespace)
        pods = [pod for pod in in_namespace if parsed.matches(pod.metadata.labels)]
        rivals = [
            other
            for other, memory in self._memory.items()
            if other[0] == namespace
            and memory.selector is not None
            and any(memory.selector.matches(pod.metadata.labels) for pod in pods)
        ]
        if len(rivals) > 1:
            telling.ambiguous(selector, ["/".join(rival) for rival in rivals])
            return None
        return pods

    async def _scale(
        self,
        found: Autoscaler,
        resource: Resource[Any],
        desired: int,
        reason: str,
        telling: Telling,
    ) -> bool:
        name, namespace = found.spec.scale_target_ref.name, found.metadata.namespace
        try:
            await self._client.set_scale(resource, name, namespace, desired)
        except KubeError as problem:
            telling.not_scaled(desired, reason, _text(problem))
            return False
        telling.scaled(desired, reason)
        return True

    async def _write(self, found: Autoscaler, status: AutoscalerStatus) -> None:
        if status == found.status:
            return
        known = found.metadata
        body: JsonObject = msgspec.to_builtins(status)
        if not status.current_replicas:
            body["currentReplicas"] = None
        patch = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": body,
        }
        await self._client.patch(
            AUTOSCALERS, known.name, patch, known.namespace, subresource="status"
        )

    def _tell(self, found: Autoscaler, telling: Telling) -> None:
        known = found.metadata
        about = Reference.to(AUTOSCALERS, known.name, known.namespace, known.uid)
        for reason, message, warning in telling.events:
            self._events.event(about, reason, message, warning=warning)


def _text(problem: Exception) -> str:
    return problem.message if isinstance(problem, ApiStatusError) else str(problem)
