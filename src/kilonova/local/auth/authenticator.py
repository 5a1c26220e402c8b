"""From a request to a user: the certificate first, then the bearer token."""

from collections.abc import Mapping, Sequence

from kilonova.local.auth.peer import Peer, certificate_user
from kilonova.local.auth.static import StaticTokens
from kilonova.local.auth.tokens import InvalidToken, ServiceAccountTokens
from kilonova.local.auth.user import User, authenticated
from kilonova.local.errors import unauthorized

_OPEN_PATHS = frozenset(["/healthz", "/livez", "/readyz", "/version", "/version/"])


class Authenticator:
    """Knows client certificates, static tokens and ServiceAccount tokens."""

    def __init__(
        self, static: StaticTokens | None = None, accounts: ServiceAccountTokens | None = None
    ) -> None:
        self._static = static
        self._accounts = accounts

    def authenticate(self, headers: Mapping[str, str], peer: Peer | None) -> User | None:
        """Who sent these headers (names in lower case); None if they say nothing of it.

        A certificate goes before a token. A token that is not good is a 401, never nobody.
        """
        if peer and (user := certificate_user(peer)):
            return authenticated(user)
        token = _bearer_token(headers.get("authorization", ""))
        if token is None:
            return None
        try:
            return self.review(token)[0]
        except InvalidToken:
            # A client learns nothing of why, and the token is in no message.
            raise unauthorized() from None

    def review(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Whose token it is and for which of the audiences, as a TokenReview asks.

        Raises InvalidToken, with the reason.
        """
        if self._static and (user := self._static.user(token)):
            return authenticated(user), self._own(audiences)
        if self._accounts is None:
            raise InvalidToken("invalid bearer token")
        user, shared = self._accounts.verify(token, audiences)
        return authenticated(user), shared

    def _own(self, audiences: Sequence[str]) -> tuple[str, ...]:
        """A static token says nothing of audiences: it is good for this server's."""
        own = self._accounts.audiences if self._accounts else ()
        shared = tuple(audience for audience in own if audience in audiences)
        if audiences and not shared:
            raise InvalidToken("invalid bearer token")
        return shared or own


def may_be_anonymous(path: str) -> bool:
    """Whether nobody may ask for this path: health and version only."""
    return path in _OPEN_PATHS


def _bearer_token(authorization: str) -> str | None:
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    return rest.partition(" ")[0] or None
