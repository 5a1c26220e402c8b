"""Admission handlers: thin shells around defaults and rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.instances.admission import webhooks
from kilonova.instances.admission.defaults import apply_defaults
from kilonova.instances.admission.engine import EngineRules
from kilonova.instances.admission.validation import (
    validate_deployment,
    validate_instance,
    validate_release,
)
from kilonova.instances.artifact_sources import TOKENIZERS_VARIABLE, ArtifactSources
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    Handler,
    Mutated,
    deny_invalid,
)
from kilonova.kube.admission.field_errors import ValidationResult, invalid_value
from kilonova.kube.admission.registration import WebhookSet

_Validate = Callable[[JsonObject, JsonObject | None, EngineRules], ValidationResult]


def build_handlers(
    rules: EngineRules | None = None, sources: ArtifactSources | None = None
) -> Mapping[str, Handler]:
    """The handlers by path, for an `AdmissionServer` or an embedded cluster."""
    known = rules or EngineRules()
    artifacts = sources or ArtifactSources()
    return {
        webhooks.DEFAULTS_PATH: _default_deployment,
        webhooks.DEPLOYMENT_PATH: _Validator(validate_deployment, known).handle,
        webhooks.INSTANCE_PATH: _Validator(validate_instance, known).handle,
        webhooks.RELEASE_PATH: _ReleaseValidator(known, artifacts).handle,
    }


def build_webhook_set() -> WebhookSet:
    """The webhooks, for a server on a cluster."""
    labels = {grove_names.MANAGED_BY: names.MANAGER}
    handlers = build_handlers(sources=ArtifactSources.from_environment())
    return WebhookSet(webhooks.CONFIGURATION_NAME, labels, webhooks.list_webhooks(), handlers)


@dataclass(frozen=True, slots=True)
class _Validator:
    validate: _Validate
    rules: EngineRules

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        result = self.validate(_get_object(request), request.old_object, self.rules)
        if result.errors:
            return deny_invalid(*result.errors, warnings=result.warnings, request=request)
        return Allowed(result.warnings)


@dataclass(frozen=True, slots=True)
class _ReleaseValidator:
    """Releases name tokenizers, which are verified once: a release is immutable."""

    rules: EngineRules
    sources: ArtifactSources

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        result = validate_release(_get_object(request), request.old_object, self.rules)
        tokenizer: str = _get_object(request).get("spec", {}).get("tokenizer", "")
        if tokenizer and request.old_object is None and not result.errors:
            result = await self._verify_tokenizer(tokenizer, result)
        if result.errors:
            return deny_invalid(*result.errors, warnings=result.warnings, request=request)
        return Allowed(result.warnings)

    async def _verify_tokenizer(self, name: str, result: ValidationResult) -> ValidationResult:
        if not self.sources.tokenizers:
            warning = f"spec.tokenizer is not verified: {TOKENIZERS_VARIABLE} names no store"
            return ValidationResult(result.errors, (*result.warnings, warning))
        problem = await self.sources.find_tokenizer_problem(name)
        if not problem:
            return result
        return ValidationResult((invalid_value("spec.tokenizer", name, problem),), result.warnings)


async def _default_deployment(request: AdmissionRequest) -> AdmissionResponse:
    return Mutated(apply_defaults(_get_object(request)))


def _get_object(request: AdmissionRequest) -> JsonObject:
    if request.object is None:
        raise ValueError(f"AdmissionReview of {request.operation} has no object")
    return request.object
