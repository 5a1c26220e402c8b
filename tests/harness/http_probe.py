"""Plain HTTP requests to servers of tests."""

import urllib.error
import urllib.request


def fetch(url: str, body: bytes | None = None, method: str | None = None) -> tuple[int, bytes]:
    """Status and body of one request; an error status is an answer like any other."""
    request = urllib.request.Request(url, body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


def is_serving(url: str) -> bool:
    """Whether the server answers with 200."""
    try:
        return fetch(url)[0] == 200
    except OSError:
        return False
