"""What is refused before a connection is upgraded, and what a client is told."""

import pytest

from tests.local.streaming.scene import Scene

BASE = "/api/v1/namespaces/default/pods"


async def _said(scene: Scene, *words: str) -> str:
    ended = await scene.run(*words)
    assert ended.code == 1
    return ended.err.decode().strip()


async def test_kubectl_tells_what_the_server_says(scene: Scene) -> None:
    await scene.pod("one")
    await scene.pod("two", containers=("a", "b"))
    await scene.pod("dead", state="terminated")
    await scene.pod("lost", node="nobody")
    told = {
        "no such pod": await _said(scene, "exec", "none", "--", "true"),
        "no such container": await _said(scene, "exec", "one", "-c", "x", "--", "true"),
        "dead": await _said(scene, "exec", "dead", "--", "true"),
        "nobody": await _said(scene, "exec", "lost", "--", "true"),
    }
    # How kubectl introduces what the server says, and what it adds, depends on its version.
    said = {
        "no such pod": 'pods "none" not found',
        "no such container": "container x is not valid for pod one",
        "dead": 'container not found ("main")',
        "nobody": 'node "nobody" does not answer',
    }
    assert {each: words for each, words in said.items() if words in told[each]} == said, told


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
async def test_a_plain_request_gets_a_plain_refusal(
    scene: Scene, path: str, code: int, message: str
) -> None:
    await scene.pod("one")
    await scene.pod("two", containers=("a", "b"))
    await scene.pod("waiting", node="")
    for method in ("GET", "POST"):
        answer = await scene.raw(method, f"{BASE}/{path}")
        assert (answer.status, answer.json["message"]) == (code, message)


async def test_other_methods_are_not_allowed(scene: Scene) -> None:
    await scene.pod("one")
    answer = await scene.raw("PUT", f"{BASE}/one/exec?command=true&stdout=1")
    assert answer.status == 405


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
async def test_a_protocol_that_we_do_not_speak_is_refused(
    scene: Scene, headers: dict[str, str], code: int, words: str
) -> None:
    await scene.pod("one")
    path = f"{BASE}/one/exec?command=true&stdout=1"
    answer = await scene.raw("GET", path, {"Connection": "Upgrade", **headers})
    assert answer.status == code
    assert words in answer.json["message"]
    assert not scene.machine.started
