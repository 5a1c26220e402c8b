"""Who may look: whoever has the token.

It comes in the link, once: the answer puts it into a cookie and sends the browser to the same page
without it, so that it stays out of the history and out of what is copied from the address bar.
Programs send it as a bearer token. Cookies do not tell ports apart, hence the port in its name: the
one that the browser knows, which a port-forward may have chosen.
"""

import hmac
import re
from collections.abc import Callable
from urllib.parse import quote, urlencode

from kilonova.console.replies import refusal_page
from kilonova.kube import Reply, Request

_FORM = re.compile(r"[A-Za-z0-9_-]{16,512}", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


def checked_token(token: str) -> str:
    """The token; `ValueError` if it can be guessed, or cannot stand in a link and a cookie."""
    if not _FORM.fullmatch(token):
        raise ValueError("a console's token is 16 to 512 letters, digits, `-` and `_`")
    return token


class Gate:
    """Checks tokens, in a time that does not depend on how much of one is right."""

    def __init__(self, token: str, port: Callable[[], int]) -> None:
        self._token = checked_token(token).encode()
        self._port = port

    def admits(self, request: Request) -> bool:
        """Whether a request has the token, in its cookie or as a bearer token."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_right(bearer.strip()):
            return True
        mine = self._cookie_name(request)
        cookies = request.headers.get("cookie", "").split(";")
        pairs = (each.strip().partition("=") for each in cookies)
        return any(name == mine and self._is_right(value) for name, _, value in pairs)

    def entrance(self, request: Request) -> Reply | None:
        """The answer to a request with a token in its address; None if it has none there."""
        offered = request.param("token")
        if offered is None:
            return None
        if not self._is_right(offered):
            return refusal_page()
        rest = urlencode([(key, value) for key, value in request.query if key != "token"])
        # One slash only: two would lead to another host.
        place = "/" + quote(request.path.lstrip("/"))
        token = self._token.decode()
        cookie = f"{self._cookie_name(request)}={token}; HttpOnly; SameSite=Lax; Path=/"
        headers = {
            "location": f"{place}?{rest}" if rest else place,
            "set-cookie": cookie,
            "cache-control": "no-store",
        }
        return Reply(303, b"", headers)

    def _cookie_name(self, request: Request) -> str:
        port = request.headers.get("host", "").rpartition(":")[2]
        return f"kilonova-console-{port if _PORT.fullmatch(port) else self._port()}"

    def _is_right(self, offered: str) -> bool:
        return hmac.compare_digest(offered.encode(errors="replace"), self._token)
