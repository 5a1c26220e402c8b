"""Mutating webhooks: called one after the other, each on the result of the previous one."""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.patch import PatchError, deep_copy, json_equal, json_patch
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.webhooks.client import WebhookClient
from kilonova.local.apiserver.admission.webhooks.errors import (
    WebhookCallError,
    call_failed_error,
    webhook_internal_error,
)
from kilonova.local.apiserver.admission.webhooks.invoker import WebhookInvoker
from kilonova.local.apiserver.admission.webhooks.source import WebhookInvocation, WebhookSource

RESOURCE = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

_log = get_logger(__name__)


class MutatingWebhookPlugin:
    """Calls the webhooks of all MutatingWebhookConfigurations.

    The second pass calls only those that were called before, have reinvocationPolicy IfNeeded, and
    after which the object changed.
    """

    def __init__(
        self, context: AdmissionContext, client: WebhookClient, uid: Callable[[], str]
    ) -> None:
        self._source = WebhookSource(context.store, RESOURCE, context)
        self._versions = context.versions
        self._invoker = WebhookInvoker(context.versions, client, uid)

    async def mutate(self, attributes: Attributes) -> None:
        webhooks = self._source.matching_webhooks(attributes)
        if not webhooks:
            return
        reinvocation = attributes.reinvocation
        if reinvocation.is_reinvocation and not json_equal(
            reinvocation.last_object, attributes.obj
        ):
            reinvocation.object_changed()
        for webhook in webhooks:
            call = self._source.match(webhook, attributes)
            if call is None or (
                reinvocation.is_reinvocation and webhook.id not in reinvocation.to_reinvoke
            ):
                continue
            try:
                if await self._invoke(call, attributes):
                    reinvocation.object_changed()
            except WebhookCallError as failure:
                if not webhook.ignore_failures:
                    raise call_failed_error(webhook.name, failure) from None
                _log.warning(
                    "admission webhook failed, ignored by failurePolicy",
                    webhook=webhook.name,
                    error=str(failure),
                )
            if webhook.reinvocable:
                reinvocation.invoked.add(webhook.id)
        if reinvocation.is_needed:
            reinvocation.last_object = deep_copy(attributes.obj)

    async def _invoke(self, call: WebhookInvocation, attributes: Attributes) -> bool:
        """Whether the webhook changed the object."""
        response = await self._invoker.invoke(call, attributes, mutating=True)
        if response.patch is None:
            return False
        part = attributes.target.subresource
        converted = self._versions.to_version(attributes.obj, call.kind, part)
        if converted is None:
            raise webhook_internal_error(
                f'admission webhook "{call.webhook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        patched = _apply_patch(converted, response.patch)
        changed = not json_equal(patched, converted)
        try:
            attributes.obj = self._versions.to_storage(patched, call.kind, part)
        except ApiError as error:
            _, _, message = error.message.partition(" cannot be handled as a ")
            raise webhook_internal_error(message.partition(": ")[2] or error.message) from None
        return changed


def _apply_patch(obj: JsonObject, operations: list[Any]) -> JsonObject:
    """The object after the patch; webhooks cannot change managed fields."""
    try:
        patched: JsonObject = json_patch(obj, operations)
    except PatchError as error:
        raise webhook_internal_error(error.detail or error.message) from None
    owners = obj.get("metadata", {}).get("managedFields")
    if owners is not None and isinstance(patched.get("metadata"), dict):
        patched["metadata"]["managedFields"] = deep_copy(owners)
    return patched
