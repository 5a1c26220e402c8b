"""Admission handlers: thin shells around the defaults and rules.

Topologies and queues are read from the API server, not from a cache: a topology and a set that
names it may be applied together, and the set must not be rejected because a watch lags.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    FieldError,
    Handler,
    Mutated,
    deny_invalid,
)
from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.workloads import resources
from kilonova.workloads.admission import webhooks
from kilonova.workloads.admission.authorizer import (
    EXEMPT_SYSTEM_USERS,
    authorize_change,
    find_protecting_set,
)
from kilonova.workloads.admission.defaults import apply_defaults, warn_about_zero_replicas
from kilonova.workloads.admission.manifests import decode_set
from kilonova.workloads.admission.validation.clustertopology import validate_topology
from kilonova.workloads.admission.validation.podcliqueset import (
    ValidationContext,
    validate_create,
    validate_update,
)
from kilonova.workloads.admission.validation.schedulers import get_volcano_queue
from kilonova.workloads.admission.validation.topology_constraints import list_topology_names
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.volcano import VOLCANO_QUEUES
from kilonova.workloads.settings import OperatorSettings

_T = TypeVar("_T")


def build_handlers(
    client: Client, settings: OperatorSettings, *, operator: str
) -> Mapping[str, Handler]:
    """The handlers by path, for an `AdmissionServer` or an embedded cluster.

    `operator` is the operator's own user name, which the authorizer exempts.
    """
    handlers = _AdmissionHandlers(
        client, settings, frozenset((operator, *settings.exempt_users, *EXEMPT_SYSTEM_USERS))
    )
    routes: dict[str, Handler] = {
        webhooks.DEFAULTS_PATH: handlers.default_set,
        webhooks.VALIDATION_PATH: handlers.validate_set,
        webhooks.TOPOLOGY_PATH: handlers.validate_topology,
    }
    if settings.authorizer:
        routes[webhooks.AUTHORIZER_PATH] = handlers.authorize_change
    return routes


@dataclass(frozen=True, slots=True)
class _AdmissionHandlers:
    client: Client
    settings: OperatorSettings
    exempt_users: frozenset[str]

    async def default_set(self, request: AdmissionRequest) -> AdmissionResponse:
        obj = _get_submitted_object(request)
        return Mutated(apply_defaults(obj, request.old_object), warn_about_zero_replicas(obj))

    async def validate_set(self, request: AdmissionRequest) -> AdmissionResponse:
        obj = _get_submitted_object(request)
        topologies, queues = await self._get_topology_levels(obj), await self._get_queue_states(obj)
        context = ValidationContext(self.settings, topologies, queues)
        if request.old_object is None:
            return _to_response(request, validate_create(obj, context))
        return _to_response(request, validate_update(request.old_object, obj, context))

    async def validate_topology(self, request: AdmissionRequest) -> AdmissionResponse:
        return _to_response(
            request, validate_topology(_get_submitted_object(request), self.settings)
        )

    async def authorize_change(self, request: AdmissionRequest) -> AdmissionResponse:
        key = find_protecting_set(request, self.exempt_users)
        if key is None:
            return Allowed()
        found = await self._get_or_none(resources.SETS, key[1], key[0])
        return authorize_change(request, key, None if found is None else found.metadata.annotations)

    async def _get_topology_levels(self, obj: JsonObject) -> dict[str, tuple[str, ...]]:
        manifest = decode_set(obj)
        if isinstance(manifest, FieldError):
            return {}
        levels: dict[str, tuple[str, ...]] = {}
        for name in list_topology_names(manifest.template):
            topology = await self._get_or_none(resources.TOPOLOGY_BINDINGS, name)
            if topology is not None:
                levels[name] = tuple(level.domain for level in topology.spec.levels)
        return levels

    async def _get_queue_states(self, obj: JsonObject) -> dict[str, str | None] | None:
        """The state of the Volcano queue that a set names, if Volcano is enabled."""
        manifest = decode_set(obj)
        if isinstance(manifest, FieldError) or VOLCANO not in self.settings.backends:
            return None
        queue = get_volcano_queue(manifest, self.settings.schedulers)
        if queue is None:
            return None
        found = await self._get_or_none(VOLCANO_QUEUES, queue)
        return {queue: None if found is None else found.status.state}

    async def _get_or_none(
        self, resource: Resource[_T], name: str, namespace: str | None = None
    ) -> _T | None:
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None


def _get_submitted_object(request: AdmissionRequest) -> JsonObject:
    if request.object is None:
        raise ValueError(f"AdmissionReview of {request.operation} has no object")
    return request.object


def _to_response(request: AdmissionRequest, result: ValidationResult) -> AdmissionResponse:
    if result.errors:
        return deny_invalid(*result.errors, warnings=result.warnings, request=request)
    return Allowed(result.warnings)
