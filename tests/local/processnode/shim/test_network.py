"""Containers and exec sessions are in the pod network, and keep their routes."""

import pytest

from kilonova.local.kubelet_api import OutputStream
from tests.local.processnode.shim.shim_site import ShimSite, collect_output, kill

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
async def servers(shim_site: ShimSite) -> dict[str, str]:
    """Two at one port, by name."""
    assert (await shim_site.runtime.capabilities()).network
    ids: dict[str, str] = {}
    for number, name in enumerate(("one", "two"), 1):
        state = await shim_site.start("python3", "-c", SERVER, name, address=f"127.64.9.{number}")
        await shim_site.wait_for_output(state.id, "ready")
        ids[name] = state.id
    return ids


async def test_each_pod_has_its_ports(shim_site: ShimSite, servers: dict[str, str]) -> None:
    assert len(servers) == 2
    for number, name in enumerate(("one", "two"), 1):
        url = f"http://127.64.9.{number}:8089"
        state = await shim_site.run("python3", "-c", CLIENT, url, address="127.64.9.9")
        assert shim_site.text(state.id) == f"{name}\n"


async def test_a_command_in_a_container_has_its_localhost(
    shim_site: ShimSite, servers: dict[str, str]
) -> None:
    command = ["python3", "-c", CLIENT, "http://127.0.0.1:8089"]
    process = await shim_site.runtime.execute(servers["two"], command, stdin=False, tty=False)
    assert await collect_output(process) == {OutputStream.STDOUT: b"two\n"}


async def test_routes_outlive_the_shim(shim_site: ShimSite) -> None:
    await shim_site.runtime.set_routes([{**ROUTE, "backends": [["127.64.9.1", 8089]]}])
    kill(shim_site.shim_pid())
    server = await shim_site.start("python3", "-c", SERVER, "one", address="127.64.9.1")
    await shim_site.wait_for_output(server.id, "ready")
    client = await shim_site.run("python3", "-c", CLIENT, "http://10.96.7.7", address="127.64.9.9")
    assert shim_site.text(client.id) == "one\n"
