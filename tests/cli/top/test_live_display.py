"""`kilonova top` in a terminal, on a changing cluster."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.cli.terminal import TerminalSession
from tests.harness.queue_status import wait_for_queue_status
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.harness.embedded_scheduler import pod

FLEET = """
nodes:
- {name: a, count: 2, gpu: {model: H100, count: 8}}
- {name: b, count: 1, gpu: {model: L4, count: 1}}
"""


@pytest.fixture(scope="module")
def fleet(cluster_command: Kilonova) -> Path:
    """A cluster of three nodes with one unschedulable pod, which its queue reports."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "topped"
    done = cluster_command.detach(data, "--no-demo", "--no-console", "--nodes", file)
    assert done.code == 0, done.err
    asyncio.run(_create(data, pod("vast", 64)))
    asyncio.run(_wait_for_pending_gang(data))
    return data


async def _create(data: Path, body: dict[str, object]) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.create(PODS, body, "default")


async def _wait_for_pending_gang(data: Path) -> None:
    async with connect(data / "kubeconfig") as client:
        await wait_for_queue_status(client, "default", pendingGangs=1)


@pytest.fixture
def top(cluster_command: Kilonova, fleet: Path) -> Iterator[TerminalSession]:
    """`kilonova top` in a terminal."""
    command = cluster_command.command("top", "--data", fleet)
    with TerminalSession(command, cluster_command.environment()) as session:
        session.wait_on_screen("3/3 nodes ready")
        yield session


def test_top_shows_the_default_queue_as_queues_does(cluster_command: Kilonova, fleet: Path):
    (row,) = cluster_command("queues", "--no-headers", "--data", fleet).out.splitlines()
    name, _, _, used, _, _, pending, _ = row.split()
    output = cluster_command("top", "--once", "--data", fleet).out
    (line,) = output.partition("QUEUES\n")[2].splitlines()
    words = line.split()
    assert (words[0], words[2], words[-2]) == (name, used, pending)
    assert (name, pending) == ("default", "1")


def test_top_follows_the_cluster(top: TerminalSession, fleet: Path):
    assert "GPUs 0/17 used" in top.screen()
    asyncio.run(_create(fleet, pod("eight", 8)))
    top.wait_on_screen("GPUs 8/17 used")
    top.wait_on_screen("████████       8/8  eight")
    asyncio.run(_cordon(fleet, "b-0"))
    top.wait_on_screen("Ready,Cordoned")


async def _cordon(data: Path, node: str) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.patch(NODES, node, {"spec": {"unschedulable": True}})


def test_keys_switch_pages_filter_and_quit(top: TerminalSession):
    top.type("\t")
    top.wait_on_screen("[workloads]")
    top.wait_on_screen("default/vast")
    top.type("/nothing")
    top.wait_on_screen("No workloads match 'nothing'.")
    top.type("\x1b")
    top.wait_on_screen("default/vast")
    top.type("\x1b[C")
    top.wait_on_screen("[queues]")
    top.type("q")
    assert top.wait_for_exit() == 0
    _assert_terminal_restored(top)


def test_keys_of_another_encoding_are_ignored(top: TerminalSession):
    top.type("é".encode("latin-1"))
    top.resize(100, 6)
    top.wait_on_screen("lines 1")
    top.type("2")
    top.wait_on_screen("[workloads]")


def test_smaller_terminal_gets_a_smaller_frame(top: TerminalSession):
    top.resize(50, 6)
    top.signal(signal.SIGWINCH)
    top.wait_on_screen("lines 1–3 of 5")
    assert max(map(len, top.screen().splitlines())) <= 50


def test_ctrl_c_exits_quietly_and_restores_the_terminal(top: TerminalSession):
    top.type("\x03")
    assert top.wait_for_exit() == 130
    _assert_terminal_restored(top)
    assert "Traceback" not in top.output


def test_termination_signal_restores_the_terminal(top: TerminalSession):
    top.signal(signal.SIGTERM)
    assert top.wait_for_exit() == 0
    _assert_terminal_restored(top)


def test_ctrl_z_restores_the_terminal_until_resumed(top: TerminalSession):
    top.type("\x1a")
    top.wait_for_output("\x1b[?1049l")
    top.wait_until_stopped()
    top.signal(signal.SIGCONT)
    top.type("\t")
    top.wait_on_screen("[workloads]")


def _assert_terminal_restored(top: TerminalSession) -> None:
    """Normal screen, cursor, and terminal attributes."""
    top.wait_for_output("\x1b[?25h\x1b[?1049l")
    assert top.modes() == top.before


def test_without_a_terminal_it_prints_once_without_colours(cluster_command: Kilonova, fleet: Path):
    done = cluster_command("top", "--data", fleet)
    assert done.code == 0, done.err
    assert "3/3 nodes ready" in done.out
    assert "default/vast" in done.out
    assert "\x1b" not in done.out
    assert "Not a terminal" in done.err
    assert cluster_command("top", "--once", "--data", fleet).err == ""


def test_unreachable_server_is_reported_on_the_normal_screen(
    cluster_command: Kilonova, fleet: Path
):
    config = (fleet / "kubeconfig").read_text()
    server = next(line for line in config.splitlines() if "server:" in line)
    kubeconfig = cluster_command.home / "unreachable"
    kubeconfig.write_text(config.replace(server, "    server: https://127.0.0.1:1"))
    command = cluster_command.command("top", "--kubeconfig", kubeconfig)
    with TerminalSession(command, cluster_command.environment()) as session:
        assert session.wait_for_exit() == 1
        session.wait_for_output("the cluster does not answer")
        assert "\x1b[?1049h" not in session.output


def test_top_reports_an_unreachable_server(cluster_command: Kilonova, tmp_path: Path):
    data = tmp_path / "unreachable"
    words = ("--no-demo", "--no-console", "--no-operator", "--no-scheduler")
    assert cluster_command.detach(data, *words).code == 0
    command = cluster_command.command("top", "--data", data)
    with TerminalSession(command, cluster_command.environment()) as session:
        session.wait_on_screen("0/0 nodes ready")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        session.wait_on_screen("not up to date")
        session.type("q")
        assert session.wait_for_exit() == 0
