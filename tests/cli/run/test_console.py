"""`kilonova run console`: its link, its token, and errors before the start."""

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
from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import ServerProcess
from tests.local.embedded_cluster import PODS

LINK = re.compile(r"The console is at (http://127\.0\.0\.1:\d+/)\?token=([\w-]+)\n")


@pytest.fixture
def embedded_access(embedded_server: EmbeddedServer) -> ServerAccess:
    return embedded_server.access


@contextmanager
def running_console(
    kilonova: Kilonova, access: ServerAccess, directory: Path, *options: str
) -> Generator[Path]:
    """A serving console; yields the file with its output and log."""
    words = ("run", "console", "--kubeconfig", str(access.kubeconfig), "--port", "0")
    command = [*kilonova.command(), *words, "--health-port", "0", *options]
    log = directory / "console.log"
    process = ServerProcess("console", command, log, kilonova.environment())
    try:
        process.wait_until(lambda: '"server": "console"' in collapse_spaces(log.read_text()))
        yield log
    finally:
        process.stop(grace=20)


def collapse_spaces(text: str) -> str:
    return text.replace('":"', '": "')


def test_printed_link_works(
    kilonova: Kilonova, embedded_access: ServerAccess, tmp_path: Path
) -> None:
    with running_console(kilonova, embedded_access, tmp_path) as log:
        found = LINK.search(log.read_text())
        assert found is not None
        address, token = found.groups()
        request = urllib.request.Request(
            f"{address}api/stream", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.readline() == b"event: hello\n"
            hello = json.loads(reply.readline().removeprefix(b"data: "))
        assert (hello["actions"], bool(hello["cluster"])) == (False, True)
        assert hello["schedulers"] == ["default-scheduler", "kilonova-scheduler"]


def test_explanations_match_the_why_command(
    kilonova: Kilonova, embedded_access: ServerAccess, tmp_path: Path
) -> None:
    asyncio.run(_create_unschedulable_pod(embedded_access))
    words = ("why", "unschedulable", "--kubeconfig", embedded_access.kubeconfig)
    (first_line, *_) = kilonova(*words).out.splitlines()
    with running_console(kilonova, embedded_access, tmp_path) as log:
        found = LINK.search(log.read_text())
        assert found is not None
        address, token = found.groups()
        request = urllib.request.Request(
            f"{address}api/why?namespace=default&name=unschedulable",
            headers={"authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=20) as reply:
            assert json.load(reply)["text"].splitlines()[0] == first_line


async def _create_unschedulable_pod(access: ServerAccess) -> None:
    """A pod without schedulerName that requests more GPUs than any node has."""
    amounts = {"nvidia.com/gpu": "9"}
    container = {"name": "c", "image": "x", "resources": {"limits": amounts}}
    body = {"metadata": {"name": "unschedulable"}, "spec": {"containers": [container]}}
    async with connect(access.kubeconfig) as client:
        await client.create(PODS, body, "default")


def test_token_is_created_once_and_never_logged(
    kilonova: Kilonova, embedded_access: ServerAccess, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    with running_console(kilonova, embedded_access, tmp_path, "--token-file", str(file)) as log:
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token not in log.read_text()
    with running_console(kilonova, embedded_access, tmp_path, "--token-file", str(file)):
        assert file.read_text().strip() == token


def test_problems_are_reported_before_start(
    kilonova: Kilonova, embedded_access: ServerAccess, tmp_path: Path
) -> None:
    words = ("run", "console", "--kubeconfig", embedded_access.kubeconfig, "--health-port", "0")
    weak = tmp_path / "weak"
    weak.write_text("1234")
    done = kilonova(*words, "--token-file", weak)
    assert done.code == 1
    assert f"{weak}: a console's token is 16 to 512 letters" in done.err
    done = kilonova(*words, "--token-file", tmp_path / "nowhere" / "token")
    assert (done.code, "token cannot be used: No such file or directory" in done.err) == (1, True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = kilonova(*words, "--port", str(port))
    assert done.code == 1
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use): choose" in done.err
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
        done = kilonova(*words, "--port", "0", "--health-port", str(port))
    assert done.code == 1
    assert f"--health-port {port} cannot be used (Address already in use): choose" in done.err
