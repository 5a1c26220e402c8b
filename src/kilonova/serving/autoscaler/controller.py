"""The autoscaler's controller. A key is a service.

It decides whenever there are new figures, when a request is held, and when the service or its
servers change; it writes through `/scale`, and what it decided and why into `status.scaling`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from kilonova.api.serving import InferenceService, ScalingStatus, ServerGroup, names
from kilonova.kube import ChangeWatch, Controller, Key, NotFound, Priority, Resource, Runnable
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.status import StatusThrottle, apply_status
from kilonova.serving.autoscaler.decision import decide
from kilonova.serving.autoscaler.metrics import AutoscalerMetrics
from kilonova.serving.autoscaler.model import Decision, Observation, ScalingMemory
from kilonova.serving.autoscaler.status import (
    build_load,
    build_scaling_status,
    encode_scaling,
    is_decision_changed,
)
from kilonova.serving.caches import BY_SERVICE, list_service_keys
from kilonova.serving.context import ServingContext
from kilonova.serving.providers import HeldRequests, SignalSource
from kilonova.serving.resources import INFERENCE_SERVICES, ServerSet
from kilonova.serving.signals import GroupSignals, ServiceSignals
from kilonova.serving.signals.targets import count_ready_servers

FIELD_MANAGER = "kilonova-serving-autoscaler"
_RESYNC_SECONDS = 30.0
_MAX_AGE_INTERVALS = 15
"""Figures older than so many intervals are not known any more."""
_LOAD_WRITE_FACTOR = 2
"""How many times less often a status is written for figures than for a decision."""

_log = get_logger(__name__)


def build_autoscaler(
    context: ServingContext,
    source: SignalSource,
    held: HeldRequests,
    registry: CollectorRegistry | None = None,
) -> tuple[Runnable, ...]:
    """The runnables: they write, so only the elected leader runs them."""
    autoscaler = _Autoscaler(context, source, held, AutoscalerMetrics(registry))
    controller = Controller(
        "inferenceservice-autoscaler",
        autoscaler.reconcile,
        [
            ChangeWatch(context.caches.services, _list_changed_services),
            ChangeWatch(context.caches.server_sets, _list_changed_owners),
        ],
        resync_period=_RESYNC_SECONDS,
        runtime_metrics=context.runtime_metrics,
    )
    source.add_listener(lambda key: controller.queue.add(key))
    held.add_listener(lambda key: controller.queue.add(key, Priority.HIGH))
    return (controller,)


def _list_changed_services(
    old: InferenceService | None, new: InferenceService | None
) -> Iterator[Key]:
    """A service that was created, changed or deleted; a status is no change."""
    changed = new or old
    assert changed is not None
    if old is None or new is None or old.metadata.generation != new.metadata.generation:
        yield changed.metadata.namespace, changed.metadata.name


def _list_changed_owners(old: ServerSet | None, new: ServerSet | None) -> Iterable[Key]:
    changed = new or old
    assert changed is not None
    return list_service_keys(changed.metadata)


@dataclass(slots=True)
class _GroupState:
    """What is known of a group beside what the caches show."""

    memory: ScalingMemory | None = None
    written: tuple[str, int] | None = None
    """A number that was written, and the version of the object before."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, and what was observed of it."""

    spec: ServerGroup
    servers: ServerSet | None
    observation: Observation


class _Autoscaler:
    def __init__(
        self,
        context: ServingContext,
        source: SignalSource,
        held: HeldRequests,
        metrics: AutoscalerMetrics,
    ) -> None:
        self._context = context
        self._caches = context.caches
        self._source = source
        self._held = held
        self._metrics = metrics
        self._states: dict[Key, dict[str, _GroupState]] = {}
        self._throttle = StatusThrottle(
            _LOAD_WRITE_FACTOR * context.settings.status_write_interval, context.monotonic
        )

    async def reconcile(self, key: Key) -> None:
        """Decide for all groups of a service."""
        service = self._caches.services.store.get(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            self._states.pop(key, None)
            self._metrics.keep_groups(key, frozenset())
            return
        groups = frozenset(each.name for each in service.spec.servers)
        states = self._states.setdefault(key, {})
        for gone in states.keys() - groups:
            del states[gone]
        self._metrics.keep_groups(key, groups)
        entries: list[ScalingStatus] = []
        for group in self._observe(key, service, states):
            entries.append(await self._scale(key, service, group, states[group.spec.name]))
        await self._write_status(key, service, entries)

    def _observe(
        self, key: Key, service: InferenceService, states: dict[str, _GroupState]
    ) -> list[_Group]:
        signals = self._find_signals(key)
        ready = count_ready_servers(self._caches.pods.store.by_index(BY_SERVICE, key))
        found: list[_Group] = []
        for spec in service.spec.servers:
            state = states.setdefault(spec.name, _GroupState())
            name = names.build_server_set(service.metadata.name, spec.name)
            servers = self._caches.server_sets.store.get((key[0], name))
            observation = Observation(
                now=self._context.monotonic(),
                time=self._context.now(),
                replicas=_count_replicas(spec, servers, state),
                ready=ready.get(spec.name, 0),
                signals=None if signals is None else signals.groups.get(spec.name),
                is_complete=signals is not None and signals.is_complete,
                held=self._held.count(key, spec.name),
                metric=None if signals is None else signals.queries.get(spec.name),
                problems=() if signals is None else signals.problems,
            )
            found.append(_Group(spec, servers, observation))
        return found

    def _find_signals(self, key: Key) -> ServiceSignals | None:
        """The latest figures, unless they are old."""
        signals = self._source.latest(key)
        max_age = _MAX_AGE_INTERVALS * self._context.settings.scrape_interval
        if signals is None or self._context.monotonic() - signals.at > max_age:
            return None
        return signals

    async def _scale(
        self, key: Key, service: InferenceService, group: _Group, state: _GroupState
    ) -> ScalingStatus:
        spec, observation = group.spec, group.observation
        scaling, replicas = spec.autoscaling, observation.replicas
        result = replicas, "Fixed", f"no autoscaling: {replicas} servers"
        if scaling is not None and scaling.scaler != "Builtin":
            result = replicas, "External", f"a {scaling.scaler} decides: {replicas} servers"
        elif scaling is not None:
            decision = decide(scaling, observation, state.memory, paused=service.spec.paused)
            state.memory = decision.memory
            result = decision.desired, decision.mode, decision.message
            if group.servers is not None and decision.desired != replicas:
                await self._write_scale(service, group, state, decision)
        self._metrics.set_group(
            key,
            spec.name,
            desired=result[0],
            ready=observation.ready,
            in_flight=_count_in_flight(observation.signals),
            held=observation.held,
        )
        load = build_load(observation.signals, observation.held)
        old = next((each for each in service.status.scaling if each.name == spec.name), None)
        return build_scaling_status(spec.name, result, load, old, observation.time)

    async def _write_scale(
        self, service: InferenceService, group: _Group, state: _GroupState, decision: Decision
    ) -> None:
        servers, replicas = group.servers, group.observation.replicas
        assert servers is not None
        known = servers.metadata
        resource: Resource[ServerSet] = self._caches.server_sets.resource
        try:
            await self._context.client.set_scale(
                resource, known.name, known.namespace, decision.desired
            )
        except NotFound:
            return  # deleted meanwhile; it is created again with the number to start with
        state.written = known.resource_version, decision.desired
        self._metrics.count_change(replicas, decision.desired)
        self._record_event(service, group.spec.name, replicas, decision)

    def _record_event(
        self, service: InferenceService, group: str, replicas: int, decision: Decision
    ) -> None:
        desired = decision.desired
        reason = "ScaledUp" if desired > replicas else "ScaledDown" if desired else "ScaledToZero"
        known = service.metadata
        text = f"Scaled {group} from {replicas} to {desired}: {decision.message}"
        self._context.recorder.event(self._context.refer_to(service), reason, text)
        _log.info(
            "servers scaled",
            service=f"{known.namespace}/{known.name}",
            group=group,
            replicas=replicas,
            desired=desired,
            cause=decision.message,
        )

    async def _write_status(
        self, key: Key, service: InferenceService, entries: list[ScalingStatus]
    ) -> None:
        """Write the status: a decision at once, figures less often."""
        old = service.status.scaling
        if list(old) == entries:
            return
        if not is_decision_changed(old, entries) and self._throttle.get_delay(key):
            return  # the next figures come soon
        self._throttle.record_write(key)
        await apply_status(
            self._context.client,
            INFERENCE_SERVICES,
            service.metadata,
            encode_scaling(entries),
            field_manager=FIELD_MANAGER,
        )


def _count_replicas(spec: ServerGroup, servers: ServerSet | None, state: _GroupState) -> int:
    """The servers that there are to be: as written last, until the cache shows a later version."""
    if servers is None:
        return spec.replicas if spec.replicas is not None else 1
    if state.written is not None and state.written[0] == servers.metadata.resource_version:
        return state.written[1]
    state.written = None
    return servers.spec.replicas


def _count_in_flight(signals: GroupSignals | None) -> int | None:
    if signals is None or signals.in_flight is None:
        return None
    return signals.in_flight + (signals.pending or 0)
