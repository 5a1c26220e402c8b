"""Answers of the console: JSON, pages, and the headers that all of them have."""

import msgspec

from kilonova.kube import Reply

HEADERS = {
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
"""What protects who reads an answer; every one has them."""

_NO_STORE = {"cache-control": "no-store"}

_REFUSAL = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Kilonova</title>
<h1>This is a Kilonova console.</h1>
<p>To see it, open the link that <code>kilonova status</code> prints, or that
<code>kilonova run console</code> printed when it started: the link holds the token.</p>
</html>
"""


class Refused(Exception):
    """A request that is answered with no, in words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def as_json(value: object, status: int = 200) -> Reply:
    """An answer for the page."""
    return Reply(
        status, msgspec.json.encode(value), {"content-type": "application/json", **_NO_STORE}
    )


def message(text: str, status: int = 200) -> Reply:
    """An answer in words."""
    return as_json({"message": text}, status)


def refusal_page() -> Reply:
    """For people who come without the token."""
    headers = {"content-type": "text/html; charset=utf-8", **_NO_STORE}
    return Reply(401, _REFUSAL.encode(), headers)
