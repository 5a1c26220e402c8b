"""The admission handler: a thin shell around the rules."""

from collections.abc import Mapping

from kilonova.api.grove import names as grove_names
from kilonova.api.serving import names
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    Handler,
    deny_invalid,
)
from kilonova.kube.admission.registration import WebhookSet
from kilonova.serving.admission import webhooks
from kilonova.serving.admission.validation import validate_service


def build_handlers() -> Mapping[str, Handler]:
    """The handlers by path, for an `AdmissionServer` or an embedded cluster."""
    return {webhooks.PATH: _validate}


def build_webhook_set() -> WebhookSet:
    """The webhooks, for a server on a cluster."""
    labels = {grove_names.MANAGED_BY: names.MANAGER}
    return WebhookSet(
        webhooks.CONFIGURATION_NAME, labels, webhooks.list_webhooks(), build_handlers()
    )


async def _validate(request: AdmissionRequest) -> AdmissionResponse:
    if request.object is None:
        raise ValueError(f"AdmissionReview of {request.operation} has no object")
    result = validate_service(request.object, request.old_object)
    if result.errors:
        return deny_invalid(*result.errors, warnings=result.warnings, request=request)
    return Allowed(result.warnings)
