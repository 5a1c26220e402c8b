"""Webhooks that may change the object: one after the other, each sees what the last one made."""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube.logging import get_logger
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.webhooks.asking import Asker
from kilonova.local.admission.webhooks.caller import Caller
from kilonova.local.admission.webhooks.failures import CallFailed, call_failed, internal_error
from kilonova.local.admission.webhooks.source import Call, WebhookSource
from kilonova.local.errors import ApiError
from kilonova.local.patch import PatchError, copied, json_patch, same

RESOURCE = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

_log = get_logger(__name__)


class MutatingWebhooks:
    """Asks the webhooks of all MutatingWebhookConfigurations.

    In the second round only those are asked that have been before, want it, and before whom the
    object changed.
    """

    def __init__(self, scope: Scope, caller: Caller, uid: Callable[[], str]) -> None:
        self._source = WebhookSource(scope.store, RESOURCE, scope)
        self._versions = scope.versions
        self._asker = Asker(scope.versions, caller, uid)

    async def mutate(self, attributes: Attributes) -> None:
        webhooks = self._source.concerned(attributes)
        if not webhooks:
            return
        rounds = attributes.rounds
        if rounds.second and not same(rounds.seen, attributes.obj):
            rounds.object_changed()
        for webhook in webhooks:
            call = self._source.call(webhook, attributes)
            if call is None or (rounds.second and webhook.id not in rounds.again):
                continue
            try:
                if await self._ask(call, attributes):
                    rounds.object_changed()
            except CallFailed as failure:
                if not webhook.fails_open:
                    raise call_failed(webhook.name, failure) from None
                _log.warning("webhook failed, going on", webhook=webhook.name, why=str(failure))
            if webhook.asked_again:
                rounds.asked.add(webhook.id)
        if rounds.wanted:
            rounds.seen = copied(attributes.obj)

    async def _ask(self, call: Call, attributes: Attributes) -> bool:
        """Whether the webhook changed the object."""
        response = await self._asker.ask(call, attributes, mutating=True)
        if response.patch is None:
            return False
        part = attributes.target.subresource
        shown = self._versions.shown(attributes.obj, call.kind, part)
        if shown is None:
            raise internal_error(
                f'admission webhook "{call.webhook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        patched = _patched(shown, response.patch)
        changed = not same(patched, shown)
        try:
            attributes.obj = self._versions.stored(patched, call.kind, part)
        except ApiError as error:
            _, _, words = error.message.partition(" cannot be handled as a ")
            raise internal_error(words.partition(": ")[2] or error.message) from None
        return changed


def _patched(shown: JsonObject, operations: list[Any]) -> JsonObject:
    """The object after the patch; who owns which field is not for webhooks to say."""
    try:
        patched: JsonObject = json_patch(shown, operations)
    except PatchError as error:
        raise internal_error(error.detail or error.message) from None
    owners = shown.get("metadata", {}).get("managedFields")
    if owners is not None and isinstance(patched.get("metadata"), dict):
        patched["metadata"]["managedFields"] = copied(owners)
    return patched
