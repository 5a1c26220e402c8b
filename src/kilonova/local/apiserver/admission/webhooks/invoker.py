"""Calls one webhook for one write."""

from collections.abc import Callable

from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.request import admission_request
from kilonova.local.apiserver.admission.version_conversion import VersionConverter
from kilonova.local.apiserver.admission.webhooks.client import WebhookClient
from kilonova.local.apiserver.admission.webhooks.errors import (
    WebhookCallError,
    denied_error,
    dry_run_unsupported_error,
)
from kilonova.local.apiserver.admission.webhooks.review import (
    ReviewResponse,
    encode_review,
    read_response,
)
from kilonova.local.apiserver.admission.webhooks.source import WebhookInvocation


class WebhookInvoker:
    """Calls webhooks; `uid` generates the uid of a review."""

    def __init__(
        self, versions: VersionConverter, client: WebhookClient, uid: Callable[[], str]
    ) -> None:
        self._versions = versions
        self._client = client
        self._uid = uid

    async def invoke(
        self, call: WebhookInvocation, attributes: Attributes, *, mutating: bool
    ) -> ReviewResponse:
        """The response of the webhook, if it allows the write.

        Raises ApiError if it denies the request, `WebhookCallError` if the call fails.
        """
        webhook, kind = call.webhook, call.kind
        if attributes.dry_run and not webhook.allows_dry_run:
            raise dry_run_unsupported_error(webhook.name)
        if not webhook.accepts_v1:
            raise WebhookCallError(
                "could not create admission objects: webhook does not accept known "
                "AdmissionReview versions (v1)"
            )
        uid, part = self._uid(), attributes.target.subresource
        review = encode_review(
            uid,
            admission_request(attributes, kind),
            self._versions.to_version(attributes.obj, kind, part),
            self._versions.to_version(attributes.old, kind, part),
        )
        http_response = await self._client.post(webhook, review)
        response = read_response(http_response, uid, mutating=mutating)
        attributes.warnings += response.warnings
        if not response.allowed:
            raise denied_error(webhook.name, response.result)
        return response
