"""Routes, methods and errors of the web server."""

import aiohttp
import pytest

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving.routing import find_handler, json_reply, require_method
from kilonova.kube.serving.web_server import WebServer
from tests.kube.serving.test_health_and_metrics import serving


@pytest.mark.parametrize(
    ("path", "route"),
    [("/a", "/a"), ("/b/c", "/b/"), ("/b/c/d", "/"), ("/", "/"), ("/x/y", "/"), ("/a/", "/")],
)
async def test_most_specific_route_is_found(path: str, route: str) -> None:
    async def reply(name: str) -> Reply:
        return Reply(200, name.encode())

    routes = {
        name: (lambda _, name=name: reply(name))  # type: ignore[misc]
        for name in ("/a", "/b/", "/")
    }
    handler = find_handler(routes, path)
    assert handler is not None
    assert await handler(Request("GET", path)) == Reply(200, route.encode())
    assert find_handler({"/a": handler}, "/b") is None


async def test_errors_have_the_format_and_the_headers_of_the_server() -> None:
    async def fail(_: Request) -> Reply:
        raise KeyError("secret detail")

    def error_reply(status: int, message: str) -> Reply:
        return json_reply(status, f'{{"status": {status}, "message": "{message}"}}'.encode())

    server = WebServer(
        "s",
        {"/": require_method("POST", fail, error_reply)},
        host="127.0.0.1",
        port=0,
        body_limit=10,
        headers={"x-common": "yes"},
        error_reply=error_reply,
    )
    async with serving(server) as url, aiohttp.ClientSession(url) as http:
        for method, body, status in (
            ("GET", b"", 405),
            ("POST", b"", 500),
            ("POST", b"x" * 11, 413),
        ):
            async with http.request(method, "/", data=body) as reply:
                assert reply.status == status
                assert reply.headers["x-common"] == "yes"
                assert (await reply.json())["status"] == status
                assert reply.headers.get("allow") == ("POST" if status == 405 else None)
