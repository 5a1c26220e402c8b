"""Credentials for an API server: fixed, read from a file, or fetched from an exec plug-in.

A transport requests the current credential before each request. When the server answers 401, it
invalidates the credential once: the credential is then read or fetched again.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kilonova.kube.client.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a request: an Authorization header, a client certificate, or both."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


class CredentialSource(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """The credential to use now."""
        ...

    def invalidate(self, credential: Credential) -> bool:
        """Report a rejected credential; True if `current` may return another one now."""
        ...


class FixedCredentials:
    """A credential that never changes: anonymous, a token, a password, a certificate."""

    def __init__(self, credential: Credential | None = None) -> None:
        self._credential = credential or Credential()

    async def current(self) -> Credential:
        return self._credential

    def invalidate(self, credential: Credential) -> bool:
        return False


class TokenFileCredentials:
    """A bearer token in a file that another process rotates, as the kubelet does in pods.

    Read again once a minute, and at once after a rejection.
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
        if self._credential is None or now - self._read_at >= _TOKEN_REFRESH_SECONDS:
            self._credential = self._read_token()
            self._read_at = now
        return self._credential

    def invalidate(self, credential: Credential) -> bool:
        self._credential = None
        return True

    def _read_token(self) -> Credential:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            raise ConfigError(
                str(self._path), f"the token cannot be read: {error.strerror}"
            ) from error
        if not token:
            raise ConfigError(str(self._path), "the token is empty")
        return bearer_credential(token, self._certificate, self._key)


_TOKEN_REFRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FetchedCredential:
    """A credential from a plug-in; `expires` is in seconds since the epoch, None for never."""

    credential: Credential
    expires: float | None = None


class FetchedCredentials:
    """Credentials from a plug-in, cached until they expire or are rejected.

    Concurrent tasks share one call of the plug-in.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[FetchedCredential]],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._now = now
        self._fetched: FetchedCredential | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._fetched is None or self._is_expired(self._fetched):
                self._fetched = await self._fetch()
            return self._fetched.credential

    def invalidate(self, credential: Credential) -> bool:
        # Another task may have fetched a new one since this one was sent.
        if self._fetched is not None and self._fetched.credential is credential:
            self._fetched = None
        return True

    def _is_expired(self, fetched: FetchedCredential) -> bool:
        return fetched.expires is not None and self._now() >= fetched.expires


def bearer_credential(token: str, certificate: bytes = b"", key: bytes = b"") -> Credential:
    """A bearer token as a credential."""
    return Credential(f"Bearer {token}", certificate, key)


def basic_credential(username: str, password: str) -> Credential:
    """A user name and a password as a credential."""
    return Credential("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())
