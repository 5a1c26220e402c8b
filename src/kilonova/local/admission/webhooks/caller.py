"""Whoever asks webhooks; the HTTP client is loaded with the first question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kilonova.local.admission.webhooks.configuration import Webhook
from kilonova.local.storage import Store

if TYPE_CHECKING:
    from kilonova.local.admission.webhooks.calling import HttpCaller


@dataclass(frozen=True, slots=True)
class Heard:
    """What a webhook answered."""

    body: bytes
    status: int
    content_type: str


class Caller:
    """Asks webhooks, by URL or through the Services of a store. `close` it at the end.

    Most clusters have no webhook, and an HTTP client takes a tenth of a second to load.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._http: HttpCaller | None = None

    async def ask(self, webhook: Webhook, review: bytes) -> Heard:
        """Send a review; raises `CallFailed` where no answer comes that could be read."""
        if self._http is None:
            from kilonova.local.admission.webhooks.calling import HttpCaller
            from kilonova.local.admission.webhooks.services import ServiceDirectory

            self._http = HttpCaller(ServiceDirectory(self._store))
        return await self._http.ask(webhook, review)

    async def close(self) -> None:
        """Let the connections go."""
        if self._http is not None:
            await self._http.close()
            self._http = None
