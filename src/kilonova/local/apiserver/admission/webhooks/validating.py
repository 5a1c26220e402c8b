"""Validating webhooks: called concurrently."""

import asyncio
from collections.abc import Callable

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.webhooks.client import WebhookClient
from kilonova.local.apiserver.admission.webhooks.errors import WebhookCallError, call_failed_error
from kilonova.local.apiserver.admission.webhooks.invoker import WebhookInvoker
from kilonova.local.apiserver.admission.webhooks.source import WebhookInvocation, WebhookSource

RESOURCE = "validatingwebhookconfigurations.admissionregistration.k8s.io"

_log = get_logger(__name__)


class ValidatingWebhookPlugin:
    """Calls the webhooks of all ValidatingWebhookConfigurations."""

    def __init__(
        self, context: AdmissionContext, client: WebhookClient, uid: Callable[[], str]
    ) -> None:
        self._source = WebhookSource(context.store, RESOURCE, context)
        self._invoker = WebhookInvoker(context.versions, client, uid)

    async def validate(self, attributes: Attributes) -> None:
        webhooks = self._source.matching_webhooks(attributes)
        if not webhooks:
            return
        matches = (self._source.match(webhook, attributes) for webhook in webhooks)
        calls = [call for call in matches if call is not None]
        if not calls:
            return
        errors = await asyncio.gather(*(self._invoke(call, attributes) for call in calls))
        for error in errors:
            if error is not None:
                raise error

    async def _invoke(self, call: WebhookInvocation, attributes: Attributes) -> ApiError | None:
        try:
            await self._invoker.invoke(call, attributes, mutating=False)
        except ApiError as error:
            return error
        except WebhookCallError as failure:
            if not call.webhook.ignore_failures:
                return call_failed_error(call.webhook.name, failure)
            _log.warning(
                "admission webhook failed, ignored by failurePolicy",
                webhook=call.webhook.name,
                error=str(failure),
            )
        return None
