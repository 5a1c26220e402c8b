"""Webhooks of this process: handlers of reviews that are called without a socket.

An operator that runs inside an embedded cluster answers the same reviews as one that serves
them over TLS, with the same words. Nobody has to be reached, so there is nothing to configure
and no certificate to trust.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.kube.admission import Answer, Denied, Handler, Mutated, Review
from kilonova.kube.admission.review import encode_answer
from kilonova.kube.logging import get_logger
from kilonova.local.admission.chain import Attributes, Operation
from kilonova.local.admission.request import admission_request
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.webhooks.failures import CallFailed, call_failed, denied
from kilonova.local.patch import copied

_SECONDS = 10.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InProcessWebhook:
    """A handler, and what it is asked about: operations on a resource, not on its subresources.

    `mutating` ones are asked first, and may change the object.
    """

    name: str
    handler: Handler
    group: str
    resource: str
    operations: Collection[Operation]
    mutating: bool = False


WebhooksOf = Callable[[Callable[[str], Client]], Sequence[InProcessWebhook]]
"""Makes webhooks, given what makes clients of the cluster that asks them."""

_ByResource = dict[tuple[str, str], list[InProcessWebhook]]


class InProcessWebhooks:
    """Asks handlers of this process, in their order: to change an object, then to refuse it."""

    def __init__(
        self, scope: Scope, webhooks: Sequence[InProcessWebhook], uid: Callable[[], str]
    ) -> None:
        self._scope = scope
        self._mutating = _by_resource(each for each in webhooks if each.mutating)
        self._validating = _by_resource(each for each in webhooks if not each.mutating)
        self._uid = uid

    async def mutate(self, attributes: Attributes) -> None:
        for webhook in self._concerned(self._mutating, attributes):
            answer = await self._asked(webhook, attributes)
            if isinstance(answer, Mutated):
                self._take(answer.object, attributes)

    async def validate(self, attributes: Attributes) -> None:
        for webhook in self._concerned(self._validating, attributes):
            await self._asked(webhook, attributes)

    def _concerned(
        self, webhooks: _ByResource, attributes: Attributes
    ) -> Sequence[InProcessWebhook]:
        kind = attributes.target.kind
        found = webhooks.get((kind.group, kind.plural))
        if found is None or attributes.target.subresource or self._scope.is_own(attributes):
            return ()
        return [each for each in found if attributes.operation in each.operations]

    async def _asked(self, webhook: InProcessWebhook, attributes: Attributes) -> Answer:
        """What it answers, if it does not refuse."""
        review = self._review(attributes)
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await webhook.handler(review)
        except TimeoutError:
            raise call_failed(webhook.name, CallFailed("context deadline exceeded")) from None
        except Exception as error:
            _log.exception("review failed", webhook=webhook.name, name=attributes.name)
            raise call_failed(webhook.name, CallFailed(repr(error))) from error
        attributes.warnings += answer.warnings
        if isinstance(answer, Denied):
            # As it would be told over a wire.
            told = msgspec.json.decode(encode_answer("", b"", answer), type=JsonObject)
            raise denied(webhook.name, told["response"]["status"])
        return answer

    def _review(self, attributes: Attributes) -> Review:
        """The question, with copies of the objects: a handler may change what it is given."""
        kind, part = attributes.target.kind, attributes.target.subresource
        asked: JsonObject = {"uid": self._uid(), **admission_request(attributes, kind)}
        review = msgspec.convert(asked, Review)
        review.object = copied(self._scope.versions.shown(attributes.obj, kind, part))
        review.old_object = copied(self._scope.versions.shown(attributes.old, kind, part))
        return review

    def _take(self, made: JsonObject, attributes: Attributes) -> None:
        """The object as it was made; who owns which field is not for webhooks to say."""
        metadata: JsonObject = (attributes.obj or {}).get("metadata") or {}
        owners = metadata.get("managedFields")
        if owners is not None and isinstance(made.get("metadata"), dict):
            made["metadata"]["managedFields"] = copied(owners)
        target = attributes.target
        attributes.obj = self._scope.versions.stored(made, target.kind, target.subresource)


def _by_resource(webhooks: Iterable[InProcessWebhook]) -> _ByResource:
    found: _ByResource = {}
    for each in webhooks:
        found.setdefault((each.group, each.resource), []).append(each)
    return found
