"""Authentication by link, cookie or bearer token; and security headers of every reply."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from kilonova.component.console.registered import build_with_contributions
from kilonova.console import Console, ConsoleSettings, Explained, build_console
from kilonova.console.core import CONTRIBUTION
from kilonova.kube import connect
from tests.console.console_page import TOKEN, console_address, http_session, running_console
from tests.harness.embedded_server import EmbeddedServer
from tests.local.embedded_cluster import run_cluster
from tests.workloads.process.operator_process import write_token_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="module")
FRONTEND = Path(__file__).parents[3] / "frontend"
API = ("/api/stream", "/api/why?namespace=a&name=b", "/api/object?table=pods&id=a/b", "/api/none")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console() -> AsyncIterator[Console]:
    async with run_cluster() as cluster, running_console(cluster.client("kilonova")) as console:
        yield console


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def anonymous_session(console: Console) -> AsyncIterator[aiohttp.ClientSession]:
    async with http_session(console, None) as session:
        yield session


@pytest.mark.parametrize("path", API)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer another-token-entirely"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"kilonova-console-1={TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer \u00e9"},
    ],
)
async def test_api_without_token_is_unauthorized(
    anonymous_session: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    async with anonymous_session.get(path, headers=headers) as reply:
        assert reply.status == 401
        assert "kilonova status" in (await reply.json())["message"]


async def test_actions_without_token_are_unauthorized(
    anonymous_session: aiohttp.ClientSession,
) -> None:
    action = {"action": "delete", "table": "pods", "id": "a/b"}
    async with anonymous_session.post("/api/actions", json=action) as reply:
        assert reply.status == 401


@pytest.mark.parametrize(
    "path", ["/", "/workloads/gangs", "/index.html", "/?token=wrong", "/?token="]
)
async def test_page_without_token_explains_where_the_link_is(
    anonymous_session: aiohttp.ClientSession, path: str
) -> None:
    async with anonymous_session.get(path, allow_redirects=False) as reply:
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
        assert "kilonova status" in await reply.text()


async def test_token_moves_from_the_address_to_a_cookie(
    console: Console, anonymous_session: aiohttp.ClientSession
) -> None:
    link = f"{console_address(console)}/fleet?zone=a%20b&token={TOKEN}&colour=cost"
    async with anonymous_session.get(URL(link, encoded=True), allow_redirects=False) as reply:
        assert reply.status == 303
        assert reply.headers["location"] == "/fleet?zone=a+b&colour=cost"
        set_cookie = reply.headers["set-cookie"]
    cookie, *rules = set_cookie.split("; ")
    assert cookie == f"kilonova-console-{console.bind()}={TOKEN}"
    assert rules == ["HttpOnly", "SameSite=Lax", "Path=/"]
    async with anonymous_session.get(
        "/api/none", headers={"cookie": f"other=1; {cookie}"}
    ) as reply:
        assert reply.status == 404


@pytest.mark.parametrize(
    ("host", "named"),
    [("127.0.0.1:9001", "9001"), ("[::1]:9002", "9002"), ("gpus.example", None), ("a:b;c", None)],
)
async def test_consoles_behind_port_forwards_have_cookies_of_their_own(
    console: Console, anonymous_session: aiohttp.ClientSession, host: str, named: str | None
) -> None:
    headers = {"host": host}
    async with anonymous_session.get(
        f"/?token={TOKEN}", headers=headers, allow_redirects=False
    ) as reply:
        cookie = reply.headers["set-cookie"].partition(";")[0]
    assert cookie == f"kilonova-console-{named or console.bind()}={TOKEN}"
    async with anonymous_session.get("/api/none", headers={**headers, "cookie": cookie}) as reply:
        assert reply.status == 404


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("localhost", "localhost")],
)
async def test_link_has_the_address_of_the_console(host: str, reached: str) -> None:
    async with run_cluster() as cluster:
        settings = ConsoleSettings(token=TOKEN, cluster="test", host=host)
        console = build_console(cluster.client("kilonova"), settings)
        port = console.bind()
        assert console.link == f"http://{reached}:{port}/?token={TOKEN}"
        socket.create_connection((reached.strip("[]"), port), timeout=5).close()


async def test_link_does_not_redirect_to_another_host(
    console: Console, anonymous_session: aiohttp.ClientSession
) -> None:
    link = f"{console_address(console)}//elsewhere.example/%5C?token={TOKEN}"
    async with anonymous_session.get(URL(link, encoded=True), allow_redirects=False) as reply:
        assert reply.headers["location"] == "/elsewhere.example/%5C"


async def test_bearer_token_is_accepted(console: Console) -> None:
    async with http_session(console) as session, session.get("/workloads/Job/team/train") as reply:
        assert reply.status == 200
        assert "text/html" in reply.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        *((page.path, 200) for page in CONTRIBUTION.pages),
        ("/workloads/Job/team/train", 200),
        ("/queues/research", 200),
        ("/nodes/n1", 404),
        ("/fleetx", 404),
        ("/none", 404),
        ("/none/workloads", 404),
    ],
)
async def test_unknown_address_is_not_found(console: Console, path: str, status: int) -> None:
    async with http_session(console) as session, session.get(path) as reply:
        assert reply.status == status
        # The page shows the error, with links to the pages.
        assert '<div id="app">' in await reply.text()


async def test_every_page_has_a_view_or_a_table() -> None:
    views = {f"/{file.stem}" for file in (FRONTEND / "src" / "pages").glob("*.tsx")}
    contributions = [CONTRIBUTION]
    build_with_contributions(contributions.extend)
    pages = [page for each in contributions for page in each.pages]
    assert views == {page.path for page in pages if not page.table}


async def test_rejected_credentials_of_the_console_are_not_a_wrong_token(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    kubeconfig = write_token_kubeconfig(embedded_server.access, tmp_path / "kubeconfig", "expired")
    async with (
        connect(kubeconfig) as client,
        running_console(client) as console,
        http_session(console) as session,
        session.get("/api/object?table=nodes&id=n") as reply,
    ):
        assert reply.status == 502
        assert "rejected the console's credentials" in (await reply.json())["message"]


async def test_static_files_are_public_and_cached_by_etag(
    anonymous_session: aiohttp.ClientSession,
) -> None:
    async with anonymous_session.get("/assets/console.js") as reply:
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/javascript")
        assert reply.headers["cache-control"] == "no-cache"
        etag = reply.headers["etag"]
    async with anonymous_session.get(
        "/assets/console.js", headers={"if-none-match": etag}
    ) as reply:
        assert reply.status == 304


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../doors.py",
        "/assets/..%2fdoors.py",
        "/assets/%2e%2e/%2e%2e/doors.py",
        "/assets/none.js",
        "/assets//etc/passwd",
    ],
)
async def test_only_files_of_the_page_are_served(
    console: Console, anonymous_session: aiohttp.ClientSession, path: str
) -> None:
    async with anonymous_session.get(URL(console_address(console) + path, encoded=True)) as reply:
        assert reply.status in (401, 404)
        assert "import" not in await reply.text()


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/assets/none", "/api/none", "/assets/console.js"]
)
async def test_every_response_has_security_headers(
    anonymous_session: aiohttp.ClientSession, path: str
) -> None:
    async with anonymous_session.get(path) as reply:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "no-referrer"
        if path.startswith("/api"):
            assert reply.headers["cache-control"] == "no-store"


async def test_response_of_a_failed_handler_has_security_headers() -> None:
    async def fails(namespace: str, name: str) -> Explained | None:
        raise ZeroDivisionError(namespace + name)

    async with (
        run_cluster() as cluster,
        running_console(cluster.client("kilonova"), explain=fails) as console,
        http_session(console) as session,
        session.get("/api/why?namespace=a&name=b") as reply,
    ):
        assert reply.status == 500
        assert await reply.json() == {"message": "internal server error: see the server's log"}
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"


async def test_rejection_of_a_body_has_security_headers(console: Console) -> None:
    async with (
        http_session(console) as session,
        session.post("/api/actions", data=b"x" * 100_000) as reply,
    ):
        assert reply.status == 413
        assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_other_methods_are_not_allowed(console: Console) -> None:
    async with http_session(console) as session:
        for method, path in (("POST", "/api/stream"), ("GET", "/api/actions"), ("PUT", "/fleet")):
            async with session.request(method, path) as reply:
                assert reply.status == 405


async def test_healthz_needs_no_token(anonymous_session: aiohttp.ClientSession) -> None:
    async with anonymous_session.get("/healthz") as reply:
        assert (reply.status, await reply.text()) == (200, "ok")


@pytest.mark.parametrize("token", ["", "short", "with space and more text", "a" * 15, "ü" * 20])
async def test_weak_or_unsendable_token_is_rejected(token: str) -> None:
    with pytest.raises(ValueError, match="16 to 512 letters"):
        ConsoleSettings(token=token, cluster="c")


async def test_settings_do_not_print_the_token() -> None:
    assert TOKEN not in repr(ConsoleSettings(token=TOKEN, cluster="c"))
