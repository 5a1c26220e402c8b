"""Who we are to an API server: credentials that last, that are re-read, that are fetched.

A transport asks for the current credential before each request and, when the server answers
401, says so once: the credential is then read or fetched anew.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kilonova.kube.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Credential:
    """What goes with a request: an Authorization header, a client certificate, or both."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """The credential to use now."""
        ...

    def refused(self, credential: Credential) -> bool:
        """The server does not take this one; True if asking again may give a better one."""
        ...


class FixedCredentials:
    """A credential that never changes: anonymous, a token, a password, a certificate."""

    def __init__(self, credential: Credential | None = None) -> None:
        self._credential = credential or Credential()

    async def current(self) -> Credential:
        return self._credential

    def refused(self, credential: Credential) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that somebody else keeps fresh, as the kubelet does in pods.

    Read again once a minute, and at once after a refusal.
    """

    def __init__(
        self,
        path: Path,
        *,
        certificate: bytes = b"",
        key: bytes = b"",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._key = key
        self._now = now
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        now = self._now()
        if self._credential is None or now - self._read_at >= _TOKEN_SECONDS:
            self._credential = self._read()
            self._read_at = now
        return self._credential

    def refused(self, credential: Credential) -> bool:
        self._credential = None
        return True

    def _read(self) -> Credential:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            raise ConfigError(
                str(self._path), f"the token cannot be read: {error.strerror}"
            ) from error
        if not token:
            raise ConfigError(str(self._path), "the token is empty")
        return bearer(token, self._certificate, self._key)


_TOKEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A credential from a plug-in; `expires` is in seconds since the epoch, None for never."""

    credential: Credential
    expires: float | None = None


class FetchedCredentials:
    """Credentials that a plug-in hands out, kept until they expire or are refused.

    Tasks that ask at the same time share one call of the plug-in.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[Fetched]], *, now: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._now = now
        self._fetched: Fetched | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._fetched is None or self._expired(self._fetched):
                self._fetched = await self._fetch()
            return self._fetched.credential

    def refused(self, credential: Credential) -> bool:
        # Another task may have fetched a new one since this one was sent.
        if self._fetched is not None and self._fetched.credential is credential:
            self._fetched = None
        return True

    def _expired(self, fetched: Fetched) -> bool:
        return fetched.expires is not None and self._now() >= fetched.expires


def bearer(token: str, certificate: bytes = b"", key: bytes = b"") -> Credential:
    """A token as a credential."""
    return Credential(f"Bearer {token}", certificate, key)


def basic(username: str, password: str) -> Credential:
    """A user name and a password as a credential."""
    return Credential("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())
