"""`kilonova top` in a terminal, on a cluster that changes."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.cli.terminal import Typing
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.scheduling import pod

FLEET = """
nodes:
- {name: a, count: 2, gpu: {model: H100, count: 8}}
- {name: b, count: 1, gpu: {model: L4, count: 1}}
"""


@pytest.fixture(scope="module")
def fleet(cluster_command: Kilonova) -> Path:
    """A cluster of three nodes, with nothing on it but a pod that can have no place."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "topped"
    done = cluster_command.detach(data, "--no-demo", "--no-console", "--nodes", file)
    assert done.code == 0, done.err
    asyncio.run(_create(data, pod("vast", 64)))
    return data


async def _create(data: Path, body: dict[str, object]) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.create(PODS, body, "default")


@pytest.fixture
def top(cluster_command: Kilonova, fleet: Path) -> Iterator[Typing]:
    """`kilonova top` in a terminal."""
    command = cluster_command.command("top", "--data", fleet)
    with Typing(command, cluster_command.environment()) as typing:
        typing.sees("3/3 nodes ready")
        yield typing


def test_top_follows_the_cluster(top: Typing, fleet: Path):
    assert "GPUs 0/17 held" in top.screen()
    asyncio.run(_create(fleet, pod("eight", 8)))
    top.sees("GPUs 8/17 held")
    top.sees("████████       8/8  eight")
    asyncio.run(_cordon(fleet, "b-0"))
    top.sees("Ready,Cordoned")


def test_top_shows_the_usual_queue_as_queues_does(cluster_command: Kilonova, fleet: Path):
    (row,) = cluster_command("queues", "--no-headers", "--data", fleet).out.splitlines()
    name, _, _, used, _, _, pending, _ = row.split()
    drawn = cluster_command("top", "--once", "--data", fleet).out
    (line,) = drawn.partition("QUEUES\n")[2].splitlines()
    words = line.split()
    assert (words[0], words[2], words[-2]) == (name, used, pending)
    assert (name, pending) == ("default", "1")


async def _cordon(data: Path, node: str) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.patch(NODES, node, {"spec": {"unschedulable": True}})


def test_keys_turn_pages_filter_and_leave(top: Typing):
    top.type("\t")
    top.sees("[workloads]")
    top.sees("default/vast")
    top.type("/nothing")
    top.sees("No workloads match 'nothing'.")
    top.type("\x1b")
    top.sees("default/vast")
    top.type("\x1b[C")
    top.sees("[queues]")
    top.type("q")
    assert top.ends() == 0
    _is_given_back(top)


def test_keys_of_another_encoding_are_passed_over(top: Typing):
    top.type("é".encode("latin-1"))
    top.resize(100, 6)
    top.sees("lines 1")
    top.type("2")
    top.sees("[workloads]")


def test_a_smaller_terminal_gets_a_smaller_picture(top: Typing):
    top.resize(50, 6)
    top.signal(signal.SIGWINCH)
    top.sees("lines 1–3 of 5")
    assert max(map(len, top.screen().splitlines())) <= 50


def test_ctrl_c_ends_in_silence_and_gives_the_terminal_back(top: Typing):
    top.type("\x03")
    assert top.ends() == 130
    _is_given_back(top)
    assert "Traceback" not in top.said


def test_a_signal_to_end_gives_the_terminal_back(top: Typing):
    top.signal(signal.SIGTERM)
    assert top.ends() == 0
    _is_given_back(top)


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(top: Typing):
    top.type("\x1a")
    top.hears("\x1b[?1049l")
    top.stops()
    top.signal(signal.SIGCONT)
    top.type("\t")
    top.sees("[workloads]")


def _is_given_back(top: Typing) -> None:
    """The usual screen, the cursor, and keys as they were before."""
    top.hears("\x1b[?25h\x1b[?1049l")
    assert top.modes() == top.before


def test_without_a_terminal_it_prints_once_without_colours(cluster_command: Kilonova, fleet: Path):
    done = cluster_command("top", "--data", fleet)
    assert done.code == 0, done.err
    assert "3/3 nodes ready" in done.out
    assert "default/vast" in done.out
    assert "\x1b" not in done.out
    assert "no terminal" in done.err
    assert cluster_command("top", "--once", "--data", fleet).err == ""


def test_a_server_that_does_not_answer_is_told_on_the_usual_screen(
    cluster_command: Kilonova, fleet: Path
):
    config = (fleet / "kubeconfig").read_text()
    server = next(line for line in config.splitlines() if "server:" in line)
    gone = cluster_command.home / "gone"
    gone.write_text(config.replace(server, "    server: https://127.0.0.1:1"))
    command = cluster_command.command("top", "--kubeconfig", gone)
    with Typing(command, cluster_command.environment()) as typing:
        assert typing.ends() == 1
        typing.hears("the cluster does not answer")
        assert "\x1b[?1049h" not in typing.said


def test_top_says_so_while_the_server_is_away(cluster_command: Kilonova, tmp_path: Path):
    data = tmp_path / "away"
    words = ("--no-demo", "--no-console", "--no-operator", "--no-scheduler")
    assert cluster_command.detach(data, *words).code == 0
    command = cluster_command.command("top", "--data", data)
    with Typing(command, cluster_command.environment()) as typing:
        typing.sees("0/0 nodes ready")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        typing.sees("not up to date")
        typing.type("q")
        assert typing.ends() == 0
