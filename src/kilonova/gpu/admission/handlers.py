"""Admission handlers: thin shells around defaults and rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import names
from kilonova.gpu.admission import webhooks
from kilonova.gpu.admission.defaults import apply_defaults
from kilonova.gpu.admission.validation import validate_strategy, validate_workload
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    Handler,
    Mutated,
    deny_invalid,
)
from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.kube.admission.registration import WebhookSet


def build_handlers(settings: ControllerSettings | None = None) -> Mapping[str, Handler]:
    """The handlers by path, for an `AdmissionServer` or an embedded cluster."""
    handlers = _Handlers(settings or ControllerSettings())
    return {
        webhooks.DEFAULTS_PATH: handlers.default_workload,
        webhooks.WORKLOAD_PATH: handlers.validate_workload,
        webhooks.STRATEGY_PATH: handlers.validate_strategy,
    }


def build_webhook_set() -> WebhookSet:
    """The webhooks, for a server on a cluster."""
    labels = {grove_names.MANAGED_BY: names.MANAGER}
    return WebhookSet(
        webhooks.CONFIGURATION_NAME, labels, webhooks.list_webhooks(), build_handlers()
    )


@dataclass(frozen=True, slots=True)
class _Handlers:
    settings: ControllerSettings

    async def default_workload(self, request: AdmissionRequest) -> AdmissionResponse:
        return Mutated(apply_defaults(_get_object(request)))

    async def validate_workload(self, request: AdmissionRequest) -> AdmissionResponse:
        result = validate_workload(_get_object(request), request.old_object, self.settings)
        return _to_response(request, result)

    async def validate_strategy(self, request: AdmissionRequest) -> AdmissionResponse:
        return _to_response(request, validate_strategy(_get_object(request)))


def _get_object(request: AdmissionRequest) -> JsonObject:
    if request.object is None:
        raise ValueError(f"AdmissionReview of {request.operation} has no object")
    return request.object


def _to_response(request: AdmissionRequest, result: ValidationResult) -> AdmissionResponse:
    if result.errors:
        return deny_invalid(*result.errors, warnings=result.warnings, request=request)
    return Allowed(result.warnings)
