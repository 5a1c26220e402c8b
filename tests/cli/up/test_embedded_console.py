"""The console of `kilonova up`: its link, port, token and actions."""

import json
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import Kilonova


def send_request(link: str, path: str, *, body: object = None) -> tuple[int, bytes]:
    """Send a request with the token of the link."""
    address, _, token = link.partition("/?token=")
    request = urllib.request.Request(
        address + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_link_works_and_its_token_outlives_a_restart(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    done = kilonova.detach(data, "--console")
    link = kilonova.status(data)["console"]
    assert f"console  {link}" in done.out
    assert kilonova.status(data)["components"]["console"] == "running"
    assert send_request(link, "/healthz")[0] == 200
    assert (
        send_request(link.replace("token=", "token=x"), "/api/why?namespace=demo&name=x")[0] == 401
    )
    status, body = send_request(link, "/api/why?namespace=demo&name=frontier-0")
    assert (status, "is pending." in json.loads(body)["text"]) == (200, True)
    assert json.loads(body)["answer"]["state"] == "Unschedulable"
    kilonova("down", "--data", data)
    kilonova.detach(data, "--console")
    assert kilonova.status(data)["console"].partition("token=")[2] == link.partition("token=")[2]


def test_only_the_owner_can_read_the_token(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo", "--console")
    for name in ("console-token", "running.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600


def test_token_can_be_chosen_and_an_invalid_one_is_rejected(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    file = data / "console-token"
    file.write_text("chosen-by-the-user\n")
    assert kilonova.detach(data, "--no-demo", "--console").code == 0
    assert kilonova.status(data)["console"].endswith("/?token=chosen-by-the-user")
    kilonova("down", "--data", data)
    file.write_text("1234")
    rejected = kilonova.detach(data, "--no-demo", "--console")
    assert rejected.code == 1
    assert rejected.err == (
        f"kilonova: {file}: a console's token is 16 to 512 letters, digits, `-` and `_`: "
        "write a valid one, or remove the file\n"
    )


def test_actions_are_disabled_by_default(kilonova: Kilonova, tmp_path: Path):
    act = {"action": "cordon", "table": "nodes", "id": "h100-0"}
    read_only, acting = tmp_path / "read-only", tmp_path / "acting"
    kilonova.detach(read_only, "--no-demo", "--nodes", "small", "--console")
    status, body = send_request(kilonova.status(read_only)["console"], "/api/actions", body=act)
    assert (status, "--allow-actions" in body.decode()) == (403, True)
    kilonova.detach(acting, "--no-demo", "--nodes", "small", "--console", "--allow-actions")
    status, body = send_request(kilonova.status(acting)["console"], "/api/actions", body=act)
    assert status == 200, body


def test_default_port_falls_back_and_an_explicit_one_is_rejected(
    kilonova: Kilonova, tmp_path: Path
):
    with adjacent_ports() as (api, occupied):
        first = kilonova.detach(tmp_path / "first", "--no-demo", "--console", "--port", str(api))
        assert first.code == 0, first.err
        assert f":{occupied}/" not in kilonova.status(tmp_path / "first")["console"]
        options = ("--no-demo", "--console", "--console-port", str(occupied))
        rejected = kilonova.detach(tmp_path / "second", *options)
        assert rejected.code == 1
        assert f"port {occupied} of 127.0.0.1 cannot be used for the console" in rejected.err
        assert "--console-port N" in rejected.err
        assert len(rejected.err.splitlines()) == 1


@contextmanager
def adjacent_ports() -> Generator[tuple[int, int]]:
    """Two adjacent ports: a free one, and one in use."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port - 1)).close()
            except OSError:
                continue
            yield port - 1, port
            return
