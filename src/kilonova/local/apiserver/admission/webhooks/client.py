"""The client of webhooks; the HTTP client is imported with the first call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kilonova.local.apiserver.admission.webhooks.configuration import Webhook
from kilonova.local.apiserver.storage import RevisionStore

if TYPE_CHECKING:
    from kilonova.local.apiserver.admission.webhooks.http_client import HttpWebhookClient


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The HTTP response of a webhook."""

    body: bytes
    status: int
    content_type: str


class WebhookClient:
    """Calls webhooks, by URL or through the stored Services. `close` it at the end.

    Most clusters have no webhook, and an HTTP client takes a tenth of a second to import.
    """

    def __init__(self, store: RevisionStore) -> None:
        self._store = store
        self._http: HttpWebhookClient | None = None

    async def post(self, webhook: Webhook, review: bytes) -> WebhookResponse:
        """Send a review; raises `WebhookCallError` if there is no readable response."""
        if self._http is None:
            from kilonova.local.apiserver.admission.webhooks.http_client import HttpWebhookClient
            from kilonova.local.apiserver.admission.webhooks.service_resolver import ServiceResolver

            self._http = HttpWebhookClient(ServiceResolver(self._store))
        return await self._http.post(webhook, review)

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None
