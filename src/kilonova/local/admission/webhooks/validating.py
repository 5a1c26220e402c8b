"""Webhooks that may refuse: all at once."""

import asyncio
from collections.abc import Callable

from kilonova.kube.logging import get_logger
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.webhooks.asking import Asker
from kilonova.local.admission.webhooks.caller import Caller
from kilonova.local.admission.webhooks.failures import CallFailed, call_failed
from kilonova.local.admission.webhooks.source import Call, WebhookSource
from kilonova.local.errors import ApiError

RESOURCE = "validatingwebhookconfigurations.admissionregistration.k8s.io"

_log = get_logger(__name__)


class ValidatingWebhooks:
    """Asks the webhooks of all ValidatingWebhookConfigurations."""

    def __init__(self, scope: Scope, caller: Caller, uid: Callable[[], str]) -> None:
        self._source = WebhookSource(scope.store, RESOURCE, scope)
        self._asker = Asker(scope.versions, caller, uid)

    async def validate(self, attributes: Attributes) -> None:
        webhooks = self._source.concerned(attributes)
        if not webhooks:
            return
        asked = (self._source.call(webhook, attributes) for webhook in webhooks)
        calls = [call for call in asked if call is not None]
        if not calls:
            return
        refusals = await asyncio.gather(*(self._refusal(call, attributes) for call in calls))
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    async def _refusal(self, call: Call, attributes: Attributes) -> ApiError | None:
        try:
            await self._asker.ask(call, attributes, mutating=False)
        except ApiError as error:
            return error
        except CallFailed as failure:
            if not call.webhook.fails_open:
                return call_failed(call.webhook.name, failure)
            _log.warning("webhook failed, going on", webhook=call.webhook.name, why=str(failure))
        return None
