"""The console of `kilonova up`: its link, its port, and who may do what."""

import json
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import Kilonova


def asked(link: str, path: str, *, body: object = None) -> tuple[int, bytes]:
    """The console's answer to whoever has the link."""
    place, _, token = link.partition("/?token=")
    request = urllib.request.Request(
        place + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_the_link_leads_to_the_console_and_outlives_a_restart(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    done = kilonova.detach(data, "--console")
    link = kilonova.status(data)["console"]
    assert f"console  {link}" in done.out
    assert kilonova.status(data)["rooms"]["console"] == "running"
    assert asked(link, "/healthz")[0] == 200
    assert asked(link.replace("token=", "token=x"), "/api/why?namespace=demo&name=x")[0] == 401
    status, body = asked(link, "/api/why?namespace=demo&name=frontier-0")
    assert (status, "waits." in json.loads(body)["text"]) == (200, True)
    assert json.loads(body)["answer"]["state"] == "Waiting"
    kilonova("down", "--data", data)
    kilonova.detach(data, "--console")
    assert kilonova.status(data)["console"].partition("token=")[2] == link.partition("token=")[2]


def test_only_the_owner_can_read_the_token(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo", "--console")
    for name in ("console-token", "running.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600


def test_a_token_can_be_chosen_and_one_that_will_not_do_is_named(
    kilonova: Kilonova, tmp_path: Path
):
    data = tmp_path / "data"
    data.mkdir()
    file = data / "console-token"
    file.write_text("chosen-by-somebody\n")
    assert kilonova.detach(data, "--no-demo", "--console").code == 0
    assert kilonova.status(data)["console"].endswith("/?token=chosen-by-somebody")
    kilonova("down", "--data", data)
    file.write_text("1234")
    refused = kilonova.detach(data, "--no-demo", "--console")
    assert refused.code == 1
    assert refused.err == (
        f"kilonova: {file}: a console's token is 16 to 512 letters, digits, `-` and `_`: "
        "write such a one, or remove the file\n"
    )


def test_nothing_can_be_done_in_it_unless_that_was_asked_for(kilonova: Kilonova, tmp_path: Path):
    act = {"act": "cordon", "table": "nodes", "id": "h100-0"}
    read_only, acting = tmp_path / "read-only", tmp_path / "acting"
    kilonova.detach(read_only, "--no-demo", "--nodes", "small", "--console")
    status, body = asked(kilonova.status(read_only)["console"], "/api/actions", body=act)
    assert (status, "--allow-actions" in body.decode()) == (403, True)
    kilonova.detach(acting, "--no-demo", "--nodes", "small", "--console", "--allow-actions")
    status, body = asked(kilonova.status(acting)["console"], "/api/actions", body=act)
    assert status == 200, body


def test_the_usual_port_gives_way_and_one_that_was_asked_for_is_refused(
    kilonova: Kilonova, tmp_path: Path
):
    with neighbours() as (api, taken):
        first = kilonova.detach(tmp_path / "first", "--no-demo", "--console", "--port", str(api))
        assert first.code == 0, first.err
        assert f":{taken}/" not in kilonova.status(tmp_path / "first")["console"]
        options = ("--no-demo", "--console", "--console-port", str(taken))
        refused = kilonova.detach(tmp_path / "second", *options)
        assert refused.code == 1
        assert f"port {taken} of 127.0.0.1 cannot be used for the console" in refused.err
        assert "--console-port N" in refused.err
        assert len(refused.err.splitlines()) == 1


@contextmanager
def neighbours() -> Generator[tuple[int, int]]:
    """Two ports next to each other: a free one, and one that somebody has."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port - 1)).close()
            except OSError:
                continue
            yield port - 1, port
            return
