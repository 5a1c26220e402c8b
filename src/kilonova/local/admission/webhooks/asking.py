"""One webhook asked about one write."""

from collections.abc import Callable

from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.request import admission_request
from kilonova.local.admission.versions import Versions
from kilonova.local.admission.webhooks.caller import Caller
from kilonova.local.admission.webhooks.failures import CallFailed, denied, no_dry_run
from kilonova.local.admission.webhooks.review import Response, encoded_review, read_response
from kilonova.local.admission.webhooks.source import Call


class Asker:
    """Asks webhooks; `uid` makes the id of a review."""

    def __init__(self, versions: Versions, caller: Caller, uid: Callable[[], str]) -> None:
        self._versions = versions
        self._caller = caller
        self._uid = uid

    async def ask(self, call: Call, attributes: Attributes, *, mutating: bool) -> Response:
        """What the webhook answered, if it allows the write.

        Raises ApiError where it refuses, `CallFailed` where it cannot be asked.
        """
        webhook, kind = call.webhook, call.kind
        if attributes.dry_run and not webhook.allows_dry_run:
            raise no_dry_run(webhook.name)
        if not webhook.speaks_v1:
            raise CallFailed(
                "could not create admission objects: webhook does not accept known "
                "AdmissionReview versions (v1)"
            )
        uid, part = self._uid(), attributes.target.subresource
        review = encoded_review(
            uid,
            admission_request(attributes, kind),
            self._versions.shown(attributes.obj, kind, part),
            self._versions.shown(attributes.old, kind, part),
        )
        heard = await self._caller.ask(webhook, review)
        response = read_response(heard, uid, mutating=mutating)
        attributes.warnings += response.warnings
        if not response.allowed:
            raise denied(webhook.name, response.result)
        return response
