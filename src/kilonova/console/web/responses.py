"""Replies of the console: JSON, HTML, and common headers."""

import msgspec

from kilonova.kube import Reply
from kilonova.kube.serving import routing

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every reply."""

_NO_STORE = {"cache-control": "no-store"}

_UNAUTHORIZED_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Kilonova</title>
<h1>This is a Kilonova console.</h1>
<p>To see it, open the link that <code>kilonova status</code> prints, or that
<code>kilonova run console</code> printed when it started: the link contains the token.</p>
</html>
"""


class RequestRejected(Exception):
    """A request that is rejected with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def json_reply(value: object, status: int = 200) -> Reply:
    """A JSON reply that is not cached."""
    reply = routing.json_reply(status, msgspec.json.encode(value))
    reply.headers.update(_NO_STORE)
    return reply


def error_reply(status: int, message: str) -> Reply:
    """An error as the page expects it."""
    return json_reply({"message": message}, status)


def unauthorized_page() -> Reply:
    """The HTML reply to a request without a valid token."""
    headers = {"content-type": "text/html; charset=utf-8", **_NO_STORE}
    return Reply(401, _UNAUTHORIZED_HTML.encode(), headers)
