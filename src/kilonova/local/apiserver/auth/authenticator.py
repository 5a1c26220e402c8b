"""Authenticates a request: by the client certificate first, then by the bearer token."""

from collections.abc import Mapping, Sequence

from kilonova.local.apimachinery.errors import unauthorized
from kilonova.local.apiserver.auth.client_certificates import PeerCertificate, certificate_user
from kilonova.local.apiserver.auth.service_account_tokens import (
    InvalidToken,
    ServiceAccountTokenIssuer,
)
from kilonova.local.apiserver.auth.static_tokens import StaticTokens
from kilonova.local.apiserver.auth.user import User, add_authenticated_group
from kilonova.local.apiserver.endpoints.request_info import RequestInfo

_ANONYMOUS_PATHS = frozenset(["/healthz", "/livez", "/readyz", "/version", "/version/"])


class Authenticator:
    """Accepts client certificates, static tokens and ServiceAccount tokens."""

    def __init__(
        self, static: StaticTokens | None = None, accounts: ServiceAccountTokenIssuer | None = None
    ) -> None:
        self._static_tokens = static
        self._service_account_tokens = accounts

    def authenticate(self, headers: Mapping[str, str], peer: PeerCertificate | None) -> User | None:
        """The user of these headers (names in lower case); None without credentials.

        A certificate has precedence over a token. An invalid token is a 401, never anonymous.
        """
        if peer and (user := certificate_user(peer)):
            return add_authenticated_group(user)
        token = _parse_bearer_token(headers.get("authorization", ""))
        if token is None:
            return None
        try:
            return self.review_token(token)[0]
        except InvalidToken:
            # The reason is not sent to the client, and the token appears in no message.
            raise unauthorized() from None

    def review_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> tuple[User, tuple[str, ...]]:
        """The user of a token and the audiences it is valid for, as a TokenReview requests.

        Raises InvalidToken, with the reason.
        """
        if self._static_tokens and (user := self._static_tokens.find_user(token)):
            return add_authenticated_group(user), self._intersect_audiences(audiences)
        if self._service_account_tokens is None:
            raise InvalidToken("invalid bearer token")
        user, shared = self._service_account_tokens.verify(token, audiences)
        return add_authenticated_group(user), shared

    def _intersect_audiences(self, audiences: Sequence[str]) -> tuple[str, ...]:
        """A static token has no audiences: it is valid for this server's."""
        own = self._service_account_tokens.audiences if self._service_account_tokens else ()
        shared = tuple(audience for audience in own if audience in audiences)
        if audiences and not shared:
            raise InvalidToken("invalid bearer token")
        return shared or own


def allows_anonymous(info: RequestInfo) -> bool:
    """Whether the path is open to anonymous requests: health and version only."""
    return info.path in _ANONYMOUS_PATHS


def _parse_bearer_token(authorization: str) -> str | None:
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    return rest.partition(" ")[0] or None
