"""Answers a registry's challenges: Basic with a login, Bearer with a token of its token server.

A registry that requires credentials answers 401 and specifies where to get a token, and for what.
Tokens are kept until the registry rejects them.
"""

import re
from collections.abc import Mapping

import aiohttp
import msgspec

from kilonova.objectstore.errors import AccessDenied, StoreNotUsable, Unavailable
from kilonova.objectstore.oci.credentials import VARIABLE, Login, RegistryCredentials
from kilonova.objectstore.oci.location import OciLocation

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_CLIENT = "kilonova"


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""


class RegistryAuthorization:
    """The `Authorization` of requests to one repository, by what they may do."""

    def __init__(self, location: OciLocation, credentials: RegistryCredentials) -> None:
        self._location = location
        self._credentials = credentials
        self._values: dict[str, str] = {}

    def get(self, actions: str) -> str:
        """The value of the header so far; empty before the first challenge."""
        return self._values.get(actions, "")

    async def answer(self, session: aiohttp.ClientSession, challenge: str, actions: str) -> str:
        """A new value for a challenge; `AccessDenied` if there is no login that the token server
        accepts."""
        scheme, _, rest = challenge.partition(" ")
        login = self._credentials.find(self._location.registry)
        match scheme.lower():
            case "basic":
                if login is None:
                    raise self.denied(None)
                value = login.basic
            case "bearer":
                parameters = dict(_PARAMETER.findall(rest))
                value = f"Bearer {await self._fetch_token(session, parameters, login, actions)}"
            case _:
                problem = f"the registry requires authentication of an unknown kind: {scheme!r}"
                raise StoreNotUsable(self._location.name, problem)
        self._values[actions] = value
        return value

    def denied(self, login: Login | None, detail: str = "") -> AccessDenied:
        """The error of a request that is not authorized."""
        registry = self._location.registry
        if login is None:
            problem = "the registry requires credentials, and none were found"
            fix = f"log in with `docker login {registry}`, or set {VARIABLE}=USER:PASSWORD"
        else:
            problem = f"the registry rejects the credentials of user {login.user!r}"
            fix = f"check the password, and what the user may do in {self._location.repository}"
        return AccessDenied(self._location.name, f"{problem}{detail and f' ({detail})'}", fix)

    def find_login(self) -> Login | None:
        """The login that requests are made with."""
        return self._credentials.find(self._location.registry)

    async def _fetch_token(
        self,
        session: aiohttp.ClientSession,
        parameters: Mapping[str, str],
        login: Login | None,
        actions: str,
    ) -> str:
        realm, service = parameters.get("realm", ""), parameters.get("service", "")
        if not realm.startswith("https://") and not self._location.plain_http:
            problem = f"the registry names a token server without TLS: {realm!r}"
            raise StoreNotUsable(self._location.name, problem, "set plain-http=true to allow it")
        scope = f"repository:{self._location.repository}:{actions}"
        if login is not None and login.refresh_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": login.refresh_token,
                "service": service,
                "scope": scope,
                "client_id": _CLIENT,
            }
            request = session.post(realm, data=form)
        else:
            headers = {} if login is None else {"authorization": login.basic}
            query = {"service": service, "scope": scope}
            request = session.get(realm, params=query, headers=headers)
        async with request as reply:
            if reply.status in (401, 403):
                raise self.denied(login)
            if reply.status != 200:
                raise Unavailable(realm, f"the token server answers with {reply.status}")
            body = await reply.read()
        try:
            token = msgspec.json.decode(body, type=_Token)
        except msgspec.DecodeError:
            raise Unavailable(realm, "the token server's answer is not JSON") from None
        return token.token or token.access_token
