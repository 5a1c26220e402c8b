"""Calls a webhook: one POST over HTTPS, within its timeout.

Connections are pooled and shared by all webhooks of a server. No proxies, no redirects.
"""

import asyncio
import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from kilonova.local.apiserver.admission.webhooks.client import WebhookResponse
from kilonova.local.apiserver.admission.webhooks.configuration import Webhook
from kilonova.local.apiserver.admission.webhooks.connection_errors import connection_error_message
from kilonova.local.apiserver.admission.webhooks.errors import (
    WebhookCallError,
    error_status_message,
)
from kilonova.local.apiserver.admission.webhooks.service_resolver import (
    NoEndpointError,
    ServiceResolver,
)

RESPONSE_LIMIT = 8 << 20
"""The maximum size of a response: a patch of the largest object, and the envelope."""

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, */*",
    "user-agent": "kilonova-admission",
}


class HttpWebhookClient:
    """Calls webhooks. `close` it at the end."""

    def __init__(self, services: ServiceResolver) -> None:
        self._resolver = services
        self._session: aiohttp.ClientSession | None = None

    async def post(self, webhook: Webhook, review: bytes) -> WebhookResponse:
        """Send a review; raises `WebhookCallError` if there is no readable response."""
        url = f"{webhook.url}?timeout={webhook.timeout}s"
        post = f'failed to call webhook: Post "{url}"'
        try:
            context = _tls_context(webhook.ca_bundle)
        except ssl.SSLError:
            raise WebhookCallError(
                "could not get REST client: unable to load root certificates: "
                "unable to parse bytes as PEM block"
            ) from None
        try:
            async with asyncio.timeout(webhook.timeout):
                response = await self._post(url, context, review)
        except TimeoutError:
            raise WebhookCallError(f"{post}: context deadline exceeded") from None
        except NoEndpointError as error:
            raise WebhookCallError(f"{post}: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise WebhookCallError(f"{post}: {connection_error_message(error)}") from None
        if response.status >= 300:
            message = error_status_message(response.status, response.body, response.content_type)
            raise WebhookCallError(f"failed to call webhook: {message}")
        return response

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, url: str, context: ssl.SSLContext, review: bytes) -> WebhookResponse:
        session = self._open_session()
        async with session.post(
            url,
            data=review,
            ssl=context,
            server_hostname=urlsplit(url).hostname,
            allow_redirects=False,
        ) as reply:
            body = await reply.content.read(RESPONSE_LIMIT + 1)
            while len(body) <= RESPONSE_LIMIT and (more := await reply.content.readany()):
                body += more
            if len(body) > RESPONSE_LIMIT:
                reply.close()
                raise WebhookCallError(
                    f"failed to call webhook: the response is longer than {RESPONSE_LIMIT} bytes"
                )
            return WebhookResponse(
                body, reply.status, reply.headers.get("content-type", "application/json")
            )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver, use_dns_cache=False, limit=0, keepalive_timeout=30
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


@lru_cache(maxsize=200)
def _tls_context(ca_bundle: bytes) -> ssl.SSLContext:
    """Trusts this bundle, or the system's CAs if there is none."""
    context = ssl.create_default_context(cadata=ca_bundle.decode(errors="replace") or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
