"""Containers and the commands in them are in the pod network, and keep their routes."""

import pytest

from kilonova.local.kubelets import Output
from tests.local.process.keeper.site import Site, collected, kill

SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
server = http.server.HTTPServer(("0.0.0.0", 8089), Answer)
print("ready", flush=True)
server.serve_forever()
"""
CLIENT = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=9).read().decode())"
ROUTE = {"address": "10.96.7.7", "port": 80, "protocol": "TCP", "sticky": False}


@pytest.fixture
async def servers(site: Site) -> dict[str, str]:
    """Two at one port, by name."""
    assert (await site.runtime.capabilities()).network
    ids: dict[str, str] = {}
    for number, name in enumerate(("one", "two"), 1):
        state = await site.start("python3", "-c", SERVER, name, address=f"127.64.9.{number}")
        await site.until_printed(state.id, "ready")
        ids[name] = state.id
    return ids


async def test_each_pod_has_its_ports(site: Site, servers: dict[str, str]) -> None:
    assert len(servers) == 2
    for number, name in enumerate(("one", "two"), 1):
        url = f"http://127.64.9.{number}:8089"
        state = await site.run("python3", "-c", CLIENT, url, address="127.64.9.9")
        assert site.text(state.id) == f"{name}\n"


async def test_a_command_in_a_container_has_its_localhost(
    site: Site, servers: dict[str, str]
) -> None:
    command = ["python3", "-c", CLIENT, "http://127.0.0.1:8089"]
    process = await site.runtime.execute(servers["two"], command, stdin=False, tty=False)
    assert await collected(process) == {Output.STDOUT: b"two\n"}


async def test_routes_outlive_the_keeper(site: Site) -> None:
    await site.runtime.set_routes([{**ROUTE, "backends": [["127.64.9.1", 8089]]}])
    kill(site.keeper_pid())
    server = await site.start("python3", "-c", SERVER, "one", address="127.64.9.1")
    await site.until_printed(server.id, "ready")
    client = await site.run("python3", "-c", CLIENT, "http://10.96.7.7", address="127.64.9.9")
    assert site.text(client.id) == "one\n"
