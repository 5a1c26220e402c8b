"""In-process webhooks: review handlers that are called without a socket.

An operator that runs inside an embedded cluster handles the same reviews as one that serves them
over TLS, with the same messages, but without a webhook configuration or certificates.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.kube.admission import AdmissionRequest, AdmissionResponse, Denied, Mutated
from kilonova.kube.admission.in_process import InProcessWebhook, Operation
from kilonova.kube.admission.review import encode_response
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.matching import (
    RuleAttributes,
    WebhookRule,
    split_resource,
)
from kilonova.local.apiserver.admission.request import admission_request
from kilonova.local.apiserver.admission.webhooks.errors import (
    WebhookCallError,
    call_failed_error,
    denied_error,
)

_TIMEOUT_SECONDS = 10.0

_log = get_logger(__name__)


WebhookFactory = Callable[[Callable[[str], Client]], Sequence[InProcessWebhook]]
"""Creates webhooks, given a factory for clients of the cluster."""

_Request = tuple[str, str, str, Operation]
"""What a rule matches: group, resource, subresource and operation."""


class InProcessWebhooks:
    """Calls handlers of this process, in order: to mutate an object, then to validate it."""

    def __init__(
        self,
        context: AdmissionContext,
        webhooks: Sequence[InProcessWebhook],
        uid: Callable[[], str],
    ) -> None:
        self._context = context
        self._mutating = _RuleIndex(each for each in webhooks if each.mutating)
        self._validating = _RuleIndex(each for each in webhooks if not each.mutating)
        self._uid = uid

    async def mutate(self, attributes: Attributes) -> None:
        for webhook in self._matching(self._mutating, attributes):
            response = await self._call(webhook, attributes)
            if isinstance(response, Mutated):
                self._store_mutated(response.object, attributes)

    async def validate(self, attributes: Attributes) -> None:
        for webhook in self._matching(self._validating, attributes):
            await self._call(webhook, attributes)

    def _matching(self, webhooks: "_RuleIndex", attributes: Attributes) -> list[InProcessWebhook]:
        target = attributes.target
        kind = target.kind
        found = webhooks.match((kind.group, kind.plural, target.subresource, attributes.operation))
        return [] if found and self._context.is_server_request(attributes) else found

    async def _call(self, webhook: InProcessWebhook, attributes: Attributes) -> AdmissionResponse:
        """The response of the handler, unless it denies the request."""
        review = self._make_review(attributes)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                response = await webhook.handler(review)
        except TimeoutError:
            raise call_failed_error(
                webhook.name, WebhookCallError("context deadline exceeded")
            ) from None
        except Exception as error:
            _log.exception(
                "in-process admission webhook failed", webhook=webhook.name, name=attributes.name
            )
            raise call_failed_error(webhook.name, WebhookCallError(repr(error))) from error
        attributes.warnings += response.warnings
        if isinstance(response, Denied):
            # Encoded as over the network.
            encoded = msgspec.json.decode(encode_response("", b"", response), type=JsonObject)
            raise denied_error(webhook.name, encoded["response"]["status"])
        return response

    def _make_review(self, attributes: Attributes) -> AdmissionRequest:
        """The request, with copies of the objects: a handler may change them."""
        kind, part = attributes.target.kind, attributes.target.subresource
        fields: JsonObject = {"uid": self._uid(), **admission_request(attributes, kind)}
        review = msgspec.convert(fields, AdmissionRequest)
        review.object = deep_copy(self._context.versions.to_version(attributes.obj, kind, part))
        review.old_object = deep_copy(self._context.versions.to_version(attributes.old, kind, part))
        return review

    def _store_mutated(self, mutated: JsonObject, attributes: Attributes) -> None:
        """Take over the mutated object; webhooks cannot change managed fields."""
        metadata: JsonObject = (attributes.obj or {}).get("metadata") or {}
        owners = metadata.get("managedFields")
        if owners is not None and isinstance(mutated.get("metadata"), dict):
            mutated["metadata"]["managedFields"] = deep_copy(owners)
        target = attributes.target
        attributes.obj = self._context.versions.to_storage(mutated, target.kind, target.subresource)


class _RuleIndex:
    """Webhooks in order, and which of them match a request: looked up once, as rules never change.

    It grows to at most the served resources times operations.
    """

    def __init__(self, webhooks: Iterable[InProcessWebhook]) -> None:
        self._webhooks = list(webhooks)
        self._found: dict[_Request, list[InProcessWebhook]] = {}

    def match(self, request: _Request) -> list[InProcessWebhook]:
        """The webhooks to call; not to be changed."""
        found = self._found.get(request)
        if found is None:
            found = [each for each in self._webhooks if _matches(each, request)]
            self._found[request] = found
        return found


def _matches(webhook: InProcessWebhook, request: _Request) -> bool:
    group, resource, subresource, operation = request
    rule = WebhookRule(
        frozenset(webhook.operations),
        frozenset([webhook.group]),
        frozenset("*"),
        (split_resource(webhook.resource),),
    )
    return rule.matches(RuleAttributes(operation, group, "", resource, subresource))
