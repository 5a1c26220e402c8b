"""Asking a webhook: one POST over HTTPS, within its time.

Connections are kept and shared by all webhooks of a server. No proxies, no redirects: a review
goes where its configuration says, or nowhere.
"""

import asyncio
import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from kilonova.local.admission.webhooks.caller import Heard
from kilonova.local.admission.webhooks.configuration import Webhook
from kilonova.local.admission.webhooks.failures import CallFailed, answered_with
from kilonova.local.admission.webhooks.reaching import not_reached
from kilonova.local.admission.webhooks.services import NoEndpoint, ServiceDirectory

ANSWER_LIMIT = 8 << 20
"""Bytes of an answer: a patch of the largest object, and room for the rest."""

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, */*",
    "user-agent": "kilonova-admission",
}


class HttpCaller:
    """Asks webhooks. `close` it at the end."""

    def __init__(self, services: ServiceDirectory) -> None:
        self._services = services
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, webhook: Webhook, review: bytes) -> Heard:
        """Send a review; raises `CallFailed` where no answer comes that could be read."""
        url = f"{webhook.url}?timeout={webhook.timeout}s"
        post = f'failed to call webhook: Post "{url}"'
        try:
            context = _context(webhook.ca_bundle)
        except ssl.SSLError:
            raise CallFailed(
                "could not get REST client: unable to load root certificates: "
                "unable to parse bytes as PEM block"
            ) from None
        try:
            async with asyncio.timeout(webhook.timeout):
                heard = await self._post(url, context, review)
        except TimeoutError:
            raise CallFailed(f"{post}: context deadline exceeded") from None
        except NoEndpoint as error:
            raise CallFailed(f"{post}: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallFailed(f"{post}: {not_reached(error)}") from None
        if heard.status >= 300:
            words = answered_with(heard.status, heard.body, heard.content_type)
            raise CallFailed(f"failed to call webhook: {words}")
        return heard

    async def close(self) -> None:
        """Let the connections go."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, url: str, context: ssl.SSLContext, review: bytes) -> Heard:
        session = self._opened()
        async with session.post(
            url,
            data=review,
            ssl=context,
            server_hostname=urlsplit(url).hostname,
            allow_redirects=False,
        ) as reply:
            body = await reply.content.read(ANSWER_LIMIT + 1)
            while len(body) <= ANSWER_LIMIT and (more := await reply.content.readany()):
                body += more
            if len(body) > ANSWER_LIMIT:
                reply.close()
                raise CallFailed(
                    f"failed to call webhook: the answer is longer than {ANSWER_LIMIT} bytes"
                )
            return Heard(body, reply.status, reply.headers.get("content-type", "application/json"))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._services, use_dns_cache=False, limit=0, keepalive_timeout=30
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


@lru_cache(maxsize=200)
def _context(ca_bundle: bytes) -> ssl.SSLContext:
    """Trusts this bundle, or what the machine trusts where there is none."""
    context = ssl.create_default_context(cadata=ca_bundle.decode(errors="replace") or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
