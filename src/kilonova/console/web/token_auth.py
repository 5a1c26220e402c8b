"""Authentication by token.

A browser sends the token in the link, once: the reply sets a cookie and redirects to the same page
without the token, which keeps it out of the history and of copied addresses. Programs send a bearer
token. Cookies are shared by all ports of a host, hence the port in the cookie's name: the port that
the browser uses, which may be that of a port-forward.
"""

import hmac
import re
from collections.abc import Callable
from urllib.parse import quote, urlencode

from kilonova.console.web.responses import unauthorized_page
from kilonova.kube import Reply, Request

_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{16,512}", re.ASCII)
_PORT_PATTERN = re.compile(r"[0-9]{1,5}", re.ASCII)


def validate_token(token: str) -> str:
    """The token; `ValueError` if it is too short, or not valid in a URL and a cookie."""
    if not _TOKEN_PATTERN.fullmatch(token):
        raise ValueError("a console's token is 16 to 512 letters, digits, `-` and `_`")
    return token


class TokenAuthenticator:
    """Checks tokens in constant time."""

    def __init__(self, token: str, port: Callable[[], int]) -> None:
        self._token = validate_token(token).encode()
        self._port = port

    def is_authenticated(self, request: Request) -> bool:
        """Whether a request has the token, in its cookie or as a bearer token."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._matches_token(bearer.strip()):
            return True
        cookie_name = self._cookie_name(request)
        cookies = request.headers.get("cookie", "").split(";")
        pairs = (each.strip().partition("=") for each in cookies)
        return any(name == cookie_name and self._matches_token(value) for name, _, value in pairs)

    def login_redirect(self, request: Request) -> Reply | None:
        """The reply to a request with a token in its query; None if it has none."""
        offered = request.query_param("token")
        if offered is None:
            return None
        if not self._matches_token(offered):
            return unauthorized_page()
        rest = urlencode([(key, value) for key, value in request.query if key != "token"])
        # A path with two leading slashes would redirect to another host.
        path = "/" + quote(request.path.lstrip("/"))
        token = self._token.decode()
        cookie = f"{self._cookie_name(request)}={token}; HttpOnly; SameSite=Lax; Path=/"
        headers = {
            "location": f"{path}?{rest}" if rest else path,
            "set-cookie": cookie,
            "cache-control": "no-store",
        }
        return Reply(303, b"", headers)

    def _cookie_name(self, request: Request) -> str:
        port = request.headers.get("host", "").rpartition(":")[2]
        return f"kilonova-console-{port if _PORT_PATTERN.fullmatch(port) else self._port()}"

    def _matches_token(self, offered: str) -> bool:
        return hmac.compare_digest(offered.encode(errors="replace"), self._token)
