"""Who is let in, by the link, a cookie or a bearer token; and what protects every answer."""

import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from kilonova.console import Console, ConsoleSettings, Explained, build_console
from kilonova.console.files import PAGES
from kilonova.kube import connect
from tests.console.looking import TOKEN, address, browser, console_on
from tests.harness.embedded import EmbeddedServer
from tests.local.embedded_cluster import running
from tests.workloads.process.operator_process import token_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="module")
FRONTEND = Path(__file__).parents[2] / "frontend"
API = ("/api/stream", "/api/why?namespace=a&name=b", "/api/object?table=pods&id=a/b", "/api/none")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console() -> AsyncIterator[Console]:
    async with running() as cluster, console_on(cluster.client("kilonova")) as console:
        yield console


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stranger(console: Console) -> AsyncIterator[aiohttp.ClientSession]:
    async with browser(console, None) as session:
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
async def test_without_the_token_the_api_says_nothing(
    stranger: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    async with stranger.get(path, headers=headers) as reply:
        assert reply.status == 401
        assert "kilonova status" in (await reply.json())["message"]


async def test_without_the_token_nothing_is_done(stranger: aiohttp.ClientSession) -> None:
    action = {"act": "delete", "table": "pods", "id": "a/b"}
    async with stranger.post("/api/actions", json=action) as reply:
        assert reply.status == 401


@pytest.mark.parametrize(
    "path", ["/", "/workloads/gangs", "/index.html", "/?token=wrong", "/?token="]
)
async def test_without_the_token_a_page_says_where_the_link_is(
    stranger: aiohttp.ClientSession, path: str
) -> None:
    async with stranger.get(path, allow_redirects=False) as reply:
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
        assert "kilonova status" in await reply.text()


async def test_the_link_becomes_a_cookie_and_leaves_the_address(
    console: Console, stranger: aiohttp.ClientSession
) -> None:
    link = f"{address(console)}/fleet?zone=a%20b&token={TOKEN}&colour=cost"
    async with stranger.get(URL(link, encoded=True), allow_redirects=False) as reply:
        assert reply.status == 303
        assert reply.headers["location"] == "/fleet?zone=a+b&colour=cost"
        set_cookie = reply.headers["set-cookie"]
    cookie, *rules = set_cookie.split("; ")
    assert cookie == f"kilonova-console-{console.bind()}={TOKEN}"
    assert rules == ["HttpOnly", "SameSite=Lax", "Path=/"]
    async with stranger.get("/api/none", headers={"cookie": f"other=1; {cookie}"}) as reply:
        assert reply.status == 404


@pytest.mark.parametrize(
    ("host", "named"),
    [("127.0.0.1:9001", "9001"), ("[::1]:9002", "9002"), ("gpus.example", None), ("a:b;c", None)],
)
async def test_behind_port_forwards_each_console_has_a_cookie_of_its_own(
    console: Console, stranger: aiohttp.ClientSession, host: str, named: str | None
) -> None:
    seen = {"host": host}
    async with stranger.get(f"/?token={TOKEN}", headers=seen, allow_redirects=False) as reply:
        cookie = reply.headers["set-cookie"].partition(";")[0]
    assert cookie == f"kilonova-console-{named or console.bind()}={TOKEN}"
    async with stranger.get("/api/none", headers={**seen, "cookie": cookie}) as reply:
        assert reply.status == 404


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("localhost", "localhost")],
)
async def test_the_link_leads_to_where_the_console_listens(host: str, reached: str) -> None:
    async with running() as cluster:
        settings = ConsoleSettings(token=TOKEN, cluster="test", host=host)
        console = build_console(cluster.client("kilonova"), settings)
        port = console.bind()
        assert console.link == f"http://{reached}:{port}/?token={TOKEN}"
        socket.create_connection((reached.strip("[]"), port), timeout=5).close()


async def test_the_link_leads_to_no_other_host(
    console: Console, stranger: aiohttp.ClientSession
) -> None:
    link = f"{address(console)}//elsewhere.example/%5C?token={TOKEN}"
    async with stranger.get(URL(link, encoded=True), allow_redirects=False) as reply:
        assert reply.headers["location"] == "/elsewhere.example/%5C"


async def test_a_bearer_token_will_do(console: Console) -> None:
    async with browser(console) as session, session.get("/workloads/Job/team/train") as reply:
        assert reply.status == 200
        assert "text/html" in reply.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, 200) for path in PAGES),
        ("/workloads/Job/team/train", 200),
        ("/queues/research", 200),
        ("/nodes/n1", 404),
        ("/fleetx", 404),
        ("/none", 404),
        ("/none/workloads", 404),
    ],
)
async def test_an_address_that_no_page_has_is_not_found(
    console: Console, path: str, status: int
) -> None:
    async with browser(console) as session, session.get(path) as reply:
        assert reply.status == status
        # The page itself says so, with the way to the others.
        assert '<div id="app">' in await reply.text()


async def test_the_server_knows_the_pages_that_there_are() -> None:
    source = (FRONTEND / "src" / "pages" / "index.ts").read_text()
    listed = re.findall(r'\{ path: "([^"]+)"[^}]*?(, hasDetails: true)? \}', source)
    assert {path: bool(details) for path, details in listed} | {"/": False} == PAGES


async def test_a_cluster_that_does_not_know_the_console_is_not_taken_for_a_wrong_token(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    kubeconfig = token_kubeconfig(embedded_server.access, tmp_path / "kubeconfig", "expired")
    async with (
        connect(kubeconfig) as client,
        console_on(client) as console,
        browser(console) as session,
        session.get("/api/object?table=nodes&id=n") as reply,
    ):
        assert reply.status == 502
        assert "the cluster refuses the console" in (await reply.json())["message"]


async def test_code_is_public_and_sent_again_only_when_it_changed(
    stranger: aiohttp.ClientSession,
) -> None:
    async with stranger.get("/assets/console.js") as reply:
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/javascript")
        assert reply.headers["cache-control"] == "no-cache"
        etag = reply.headers["etag"]
    async with stranger.get("/assets/console.js", headers={"if-none-match": etag}) as reply:
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
    console: Console, stranger: aiohttp.ClientSession, path: str
) -> None:
    async with stranger.get(URL(address(console) + path, encoded=True)) as reply:
        assert reply.status in (401, 404)
        assert "import" not in await reply.text()


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/assets/none", "/api/none", "/assets/console.js"]
)
async def test_every_answer_protects_who_reads_it(
    stranger: aiohttp.ClientSession, path: str
) -> None:
    async with stranger.get(path) as reply:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "no-referrer"
        if path.startswith("/api"):
            assert reply.headers["cache-control"] == "no-store"


async def test_the_answer_of_a_door_that_failed_protects_who_reads_it_too() -> None:
    async def fails(namespace: str, name: str) -> Explained | None:
        raise ZeroDivisionError(namespace + name)

    async with (
        running() as cluster,
        console_on(cluster.client("kilonova"), explain=fails) as console,
        browser(console) as session,
        session.get("/api/why?namespace=a&name=b") as reply,
    ):
        assert reply.status == 500
        assert await reply.json() == {"message": "the console failed: its log says how"}
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"


async def test_the_refusal_of_a_body_protects_who_reads_it_too(console: Console) -> None:
    async with (
        browser(console) as session,
        session.post("/api/actions", data=b"x" * 100_000) as reply,
    ):
        assert reply.status == 413
        assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_other_methods_are_refused(console: Console) -> None:
    async with browser(console) as session:
        for method, path in (("POST", "/api/stream"), ("GET", "/api/actions"), ("PUT", "/fleet")):
            async with session.request(method, path) as reply:
                assert reply.status == 405


async def test_health_is_told_to_everybody(stranger: aiohttp.ClientSession) -> None:
    async with stranger.get("/healthz") as reply:
        assert (reply.status, await reply.text()) == (200, "ok")


@pytest.mark.parametrize("token", ["", "short", "with space and more text", "a" * 15, "ü" * 20])
async def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="16 to 512 letters"):
        ConsoleSettings(token=token, cluster="c")


async def test_settings_do_not_print_the_token() -> None:
    assert TOKEN not in repr(ConsoleSettings(token=TOKEN, cluster="c"))
