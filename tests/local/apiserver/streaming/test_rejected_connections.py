"""Connections that are rejected before the upgrade, and the message to the client."""

import pytest

from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

BASE = "/api/v1/namespaces/default/pods"


async def _error_message(streaming_cluster: StreamingCluster, *words: str) -> str:
    ended = await streaming_cluster.run(*words)
    assert ended.code == 1
    return ended.err.decode().strip()


@pytest.mark.usefixtures("kubectl_path")
async def test_kubectl_shows_the_servers_message(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("one")
    await streaming_cluster.pod("two", containers=("a", "b"))
    await streaming_cluster.pod("dead", state="terminated")
    await streaming_cluster.pod("lost", node="nobody")
    reported = {
        "no such pod": await _error_message(streaming_cluster, "exec", "none", "--", "true"),
        "no such container": await _error_message(
            streaming_cluster, "exec", "one", "-c", "x", "--", "true"
        ),
        "dead": await _error_message(streaming_cluster, "exec", "dead", "--", "true"),
        "nobody": await _error_message(streaming_cluster, "exec", "lost", "--", "true"),
    }
    # The text that kubectl adds to the server's message depends on its version.
    received = {
        "no such pod": 'pods "none" not found',
        "no such container": "container x is not valid for pod one",
        "dead": 'container not found ("main")',
        "nobody": 'node "nobody" is not reachable',
    }
    assert {
        each: words for each, words in received.items() if words in reported[each]
    } == received, reported


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("one/exec?command=true&stdout=1", 400, "Upgrade request required"),
        ("one/exec?command=true", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("one/exec?stdout=1", 400, "you must specify at least one command for the container"),
        (
            "two/exec?command=true&stdout=1",
            400,
            "a container name must be specified for pod two, choose one of: [a b]",
        ),
        ("waiting/exec?command=true&stdout=1", 400, "pod waiting does not have a host assigned"),
        ("waiting/portforward", 400, "pod waiting does not have a host assigned"),
        ("one/portforward", 400, "Upgrade request required"),
        ("none/attach?stdout=1", 404, 'pods "none" not found'),
    ],
)
async def test_request_without_upgrade_is_rejected(
    streaming_cluster: StreamingCluster, path: str, code: int, message: str
) -> None:
    await streaming_cluster.pod("one")
    await streaming_cluster.pod("two", containers=("a", "b"))
    await streaming_cluster.pod("waiting", node="")
    for method in ("GET", "POST"):
        response = await streaming_cluster.raw(method, f"{BASE}/{path}")
        assert (response.status, response.json["message"]) == (code, message)


async def test_other_methods_are_not_allowed(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("one")
    response = await streaming_cluster.raw("PUT", f"{BASE}/one/exec?command=true&stdout=1")
    assert response.status == 405


@pytest.mark.parametrize(
    ("headers", "code", "words"),
    [
        ({"Upgrade": "h2c"}, 400, 'cannot upgrade to "h2c"'),
        ({"Upgrade": "websocket"}, 400, "not a WebSocket handshake"),
        (
            {
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "Sec-WebSocket-Protocol": "v9.channel.k8s.io",
            },
            403,
            "client supports [v9.channel.k8s.io]",
        ),
        (
            {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v9"},
            403,
            "client supports [v9], server accepts [v4.channel.k8s.io]",
        ),
    ],
)
async def test_unsupported_protocol_is_rejected(
    streaming_cluster: StreamingCluster, headers: dict[str, str], code: int, words: str
) -> None:
    await streaming_cluster.pod("one")
    path = f"{BASE}/one/exec?command=true&stdout=1"
    response = await streaming_cluster.raw("GET", path, {"Connection": "Upgrade", **headers})
    assert response.status == code
    assert words in response.json["message"]
    assert not streaming_cluster.machine.started
