"""`kilonova run console`: the link that it prints, its token, and what is wrong told before."""

import asyncio
import json
import re
import socket
import stat
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.harness.access import Access
from tests.harness.embedded import EmbeddedServer
from tests.harness.process import ServerProcess
from tests.local.embedded_cluster import PODS

LINK = re.compile(r"The console is at (http://127\.0\.0\.1:\d+/)\?token=([\w-]+)\n")


@pytest.fixture
def embedded(embedded_server: EmbeddedServer) -> Access:
    return embedded_server.access


@contextmanager
def started(kilonova: Kilonova, access: Access, folder: Path, *options: str) -> Generator[Path]:
    """A console that has begun to serve; what it printed and logged is in the file."""
    words = ("run", "console", "--kubeconfig", str(access.kubeconfig), "--port", "0")
    command = [*kilonova.command(), *words, "--health-port", "0", *options]
    log = folder / "console.log"
    process = ServerProcess("console", command, log, kilonova.environment())
    try:
        process.wait_until(lambda: '"server": "console"' in spaced(log.read_text()))
        yield log
    finally:
        process.stop(grace=20)


def spaced(text: str) -> str:
    return text.replace('":"', '": "')


def test_it_prints_a_link_that_works(kilonova: Kilonova, embedded: Access, tmp_path: Path) -> None:
    with started(kilonova, embedded, tmp_path) as log:
        found = LINK.search(log.read_text())
        assert found is not None
        address, token = found.groups()
        asked = urllib.request.Request(
            f"{address}api/stream", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=10) as reply:
            assert reply.readline() == b"event: hello\n"
            hello = json.loads(reply.readline().removeprefix(b"data: "))
        assert (hello["actions"], bool(hello["cluster"])) == (False, True)
        assert hello["schedulers"] == ["default-scheduler", "kilonova-scheduler"]


def test_it_says_why_as_the_command_does_also_where_up_runs(
    kilonova: Kilonova, embedded: Access, tmp_path: Path
) -> None:
    asyncio.run(_wanting(embedded))
    words = ("why", "wanting", "--kubeconfig", embedded.kubeconfig)
    (said, *_) = kilonova(*words).out.splitlines()
    with started(kilonova, embedded, tmp_path) as log:
        found = LINK.search(log.read_text())
        assert found is not None
        address, token = found.groups()
        asked = urllib.request.Request(
            f"{address}api/why?namespace=default&name=wanting",
            headers={"authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(asked, timeout=20) as reply:
            assert json.load(reply)["text"].splitlines()[0] == said


async def _wanting(access: Access) -> None:
    """A pod that names no scheduler, and wants more than there is."""
    amounts = {"nvidia.com/gpu": "9"}
    container = {"name": "c", "image": "x", "resources": {"limits": amounts}}
    body = {"metadata": {"name": "wanting"}, "spec": {"containers": [container]}}
    async with connect(access.kubeconfig) as client:
        await client.create(PODS, body, "default")


def test_a_token_is_made_once_and_never_logged(
    kilonova: Kilonova, embedded: Access, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    with started(kilonova, embedded, tmp_path, "--token-file", str(file)) as log:
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token not in log.read_text()
    with started(kilonova, embedded, tmp_path, "--token-file", str(file)):
        assert file.read_text().strip() == token


def test_what_is_wrong_is_said_before_it_begins(
    kilonova: Kilonova, embedded: Access, tmp_path: Path
) -> None:
    words = ("run", "console", "--kubeconfig", embedded.kubeconfig, "--health-port", "0")
    weak = tmp_path / "weak"
    weak.write_text("1234")
    done = kilonova(*words, "--token-file", weak)
    assert done.code == 1
    assert f"{weak}: a console's token is 16 to 512 letters" in done.err
    done = kilonova(*words, "--token-file", tmp_path / "nowhere" / "token")
    assert (done.code, "token cannot be used: No such file or directory" in done.err) == (1, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = kilonova(*words, "--port", str(port))
    assert done.code == 1
    assert f"port {port} of 127.0.0.1 cannot be had (Address already in use): choose" in done.err
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        done = kilonova(*words, "--port", "0", "--health-port", str(port))
    assert done.code == 1
    assert f"--health-port {port} cannot be had (Address already in use): choose" in done.err
