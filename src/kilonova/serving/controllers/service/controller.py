"""The controller of InferenceServices. A key is a service."""

from collections.abc import Iterator, Sequence
from typing import Any

from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, InferenceServiceStatus
from kilonova.kube import (
    Backoff,
    Controller,
    Key,
    NotFound,
    Reflector,
    Result,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken
from kilonova.kube.owner_references import is_controlled_by
from kilonova.kube.status import StatusThrottle, StatusWriter, find_condition, has_same_content
from kilonova.serving.builders.gateway_secret import read_token
from kilonova.serving.builders.identity import Identity
from kilonova.serving.caches import BY_INGRESS_HOST, BY_SERVICE
from kilonova.serving.context import ServingContext
from kilonova.serving.controllers.service.desire import desire
from kilonova.serving.controllers.service.event_handlers import list_watches
from kilonova.serving.controllers.service.observed import (
    LiveObject,
    ObservedService,
    Problem,
    StaticConfig,
)
from kilonova.serving.controllers.service.status import ACCEPTED, READY, build_status
from kilonova.serving.controllers.service.tokens import TokenStore
from kilonova.serving.controllers.service.writer import ServiceWriter
from kilonova.serving.ingress_hosts import get_ingress_host, select_host_owner
from kilonova.serving.providers import GatewayProblems
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES, DataObject

_WORKERS = 4
_BACKOFF = Backoff(0.005, 30.0)
"""What refuses objects, such as a quota, is not watched: that it is gone is found by retrying."""
_RECHECK_SECONDS = 30.0
"""How often a problem is looked at again whose end no event reports."""
_STATIC_CONFIG_SECONDS = 10.0
"""How often the ConfigMap of a service is read: as Secrets, by its name alone."""
_UNBOUND_SECONDS = 0.5
"""How soon the address of the control plane is asked for again, which starts beside this."""
_STATIC_CONFIG_KEY = "envoy.yaml"


def build_service_controller(
    context: ServingContext, gateway_problems: GatewayProblems | None = None
) -> Controller:
    """Build the controller; the caches must be running."""
    reconciler = _ServiceReconciler(context, gateway_problems)
    controller = Controller(
        "inferenceservice",
        reconciler.reconcile,
        list_watches(context.caches),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    if gateway_problems is not None:
        gateway_problems.add_listener(controller.queue.add)
    return controller


class _ServiceReconciler:
    def __init__(self, context: ServingContext, gateway_problems: GatewayProblems | None) -> None:
        self._context = context
        self._caches = context.caches
        self._gateway_problems = gateway_problems
        self._tokens = TokenStore(context)
        self._writer = ServiceWriter(context)
        self._status = StatusWriter(
            context.client, INFERENCE_SERVICES, Expectations(context.caches.services)
        )
        self._throttle = StatusThrottle(context.settings.status_write_interval, context.monotonic)

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one service."""
        service = self._caches.services.store.get(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            self._throttle.forget(key)
            return None
        try:
            secret = await self._tokens.ensure(Identity.of(service))
        except NameTaken as error:
            return await self._report(service, Problem("NameTaken", str(error)))
        observed = await self._observe(key, service, secret)
        plan = desire(observed, self._context.settings)
        outcome = await self._writer.apply(service, plan)
        problems = (*plan.problems, *outcome.problems)
        delay = await self._write_status(observed, problems)
        if outcome.error is not None:
            raise outcome.error
        delays = [delay] if delay else []
        if problems:
            delays.append(_RECHECK_SECONDS)
        if service.spec.gateway.static_config is not None:
            delays.append(_STATIC_CONFIG_SECONDS)
        elif not observed.control_plane.port:
            delays.append(_UNBOUND_SECONDS)
        return Result(min(delays)) if delays else None

    async def _observe(
        self, key: Key, service: InferenceService, secret: DataObject
    ) -> ObservedService:
        caches, found = self._caches, self._gateway_problems
        return ObservedService(
            service,
            self._context.get_control_plane(),
            read_token(secret),
            server_sets=caches.server_sets.store.by_index(BY_SERVICE, key),
            pods=caches.pods.store.by_index(BY_SERVICE, key),
            gateway_service=caches.gateway_services.store.get(key),
            objects=[*self._list_objects(key, service)],
            static_config=await self._read_static_config(service),
            host_owner=self._find_host_owner(service),
            gateway_problems=() if found is None else found.list_problems(key),
            is_gateway_closed=found is not None and found.is_closed(key),
        )

    def _list_objects(self, key: Key, service: InferenceService) -> Iterator[LiveObject]:
        caches = self._caches
        kinds: tuple[Reflector[Any], ...] = (
            caches.server_sets,
            caches.deployments,
            caches.gateway_services,
            caches.config_maps,
            *caches.others,
        )
        for kind in kinds:
            for each in kind.store.by_index(BY_SERVICE, key):
                if is_controlled_by(each.metadata, service.metadata):
                    yield LiveObject(kind.resource, each.metadata)

    def _find_host_owner(self, service: InferenceService) -> Metadata | None:
        """The other service that has the host of this one's Ingress."""
        host = get_ingress_host(service)
        if host is None:
            return None
        services = self._caches.services.store.by_index(BY_INGRESS_HOST, host)
        owner = select_host_owner(services)
        if owner is None or owner.metadata.uid == service.metadata.uid:
            return None
        return owner.metadata

    async def _read_static_config(self, service: InferenceService) -> StaticConfig | None:
        reference = service.spec.gateway.static_config
        if reference is None:
            return None
        key, path = reference.key or _STATIC_CONFIG_KEY, "spec.gateway.staticConfig"
        try:
            found = await self._context.client.get(
                CONFIG_MAPS, reference.name, service.metadata.namespace
            )
        except NotFound:
            text = f"{path}: ConfigMap {reference.name} does not exist: create it, or leave it out"
            return StaticConfig(problem=Problem("ConfigMapMissing", text))
        if not found.data.get(key):
            text = f"{path}.key: ConfigMap {reference.name} has no text under {key!r}"
            return StaticConfig(problem=Problem("ConfigMapMissing", text))
        return StaticConfig(found.data[key])

    async def _report(self, service: InferenceService, problem: Problem) -> Result:
        """Report in the status why nothing can be written."""
        observed = ObservedService(service, self._context.get_control_plane(), "")
        await self._write_status(observed, [problem])
        return Result(_RECHECK_SECONDS)

    async def _write_status(self, observed: ObservedService, problems: Sequence[Problem]) -> float:
        """Write the status; returns the seconds until it may be written, 0 if it is."""
        service, context = observed.service, self._context
        status = build_status(observed, problems, context.settings, context.now())
        if status == service.status:
            return 0.0
        key = service.metadata.namespace, service.metadata.name
        if not _is_urgent(service.status, status) and (delay := self._throttle.get_delay(key)):
            return delay
        self._throttle.record_write(key)
        if await self._status.write(service, status) is not None:
            self._record_events(service, status)
        return 0.0

    def _record_events(self, service: InferenceService, status: InferenceServiceStatus) -> None:
        """Report in Events that the phase changed, and what is wrong with the spec."""
        ready = find_condition(status.conditions, READY)
        if status.phase != service.status.phase and status.phase != "Pending" and ready is not None:
            self._writer.record_event(
                service, status.phase, ready.message, is_warning=ready.status == "False"
            )
        old = find_condition(service.status.conditions, ACCEPTED)
        new = find_condition(status.conditions, ACCEPTED)
        if new is not None and new.status == "False" and not has_same_content(old, new):
            self._writer.record_event(service, new.reason, new.message, is_warning=True)


def _is_urgent(old: InferenceServiceStatus, new: InferenceServiceStatus) -> bool:
    """Whether a change of status must not wait: a phase, an address, or what a condition
    reports."""

    def get_facts(status: InferenceServiceStatus) -> object:
        conditions = tuple((each.type, each.status, each.reason) for each in status.conditions)
        return status.phase, status.url, status.observed_generation, conditions

    return get_facts(old) != get_facts(new)
