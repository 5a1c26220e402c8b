"""Watches on the embedded and on the real API server."""

import json
from contextlib import closing
from http.client import HTTPSConnection
from typing import Any

from tests.conftest import Api


def events(api: Api, query: str) -> list[Any]:
    access = api.access
    path = f"/api/v1/namespaces/{api.namespace}/configmaps?watch=1&timeoutSeconds=1&{query}"
    connection = HTTPSConnection(access.host, access.port, timeout=30, context=access.ssl_context())
    with closing(connection):
        connection.request("GET", path)
        reply = connection.getresponse()
        text = reply.read()
        assert reply.status == 200, text
        return [json.loads(line) for line in text.splitlines()]


def test_watch_from_a_future_version_waits_for_it(api: Api) -> None:
    assert events(api, "resourceVersion=99999999") == []
