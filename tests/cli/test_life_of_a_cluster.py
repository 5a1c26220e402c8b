"""Up and down: in the background, in the foreground, at a terminal, and again on old data."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from kilonova.local.folder import Folder
from kilonova.local.nodes.fleets import FLEETS
from tests.cli.command import Kilonova
from tests.cli.forked import Done, run_forked
from tests.harness.access import Access
from tests.harness.embedded import EmbeddedServer


def test_up_says_how_to_use_the_cluster(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    done = kilonova.detach(data)
    assert done.code == 0, done.err
    assert "The cluster is ready" in done.out
    assert "nodes    34 (34 ready)" in done.out
    assert f"export KUBECONFIG={data / 'kubeconfig'}" in done.out
    assert "kubectl get nodes" in done.out
    assert f"kilonova down --data {data}" in done.out


def test_down_ends_the_process_before_it_returns(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    pid = kilonova.status(data)["pid"]
    done = kilonova("down", "--data", data)
    assert (done.code, done.out) == (0, f"Stopped. The data stays in {data}.\n")
    assert not is_alive(pid)
    status = kilonova("status", "--data", data)
    assert status.code == 3
    assert "not running: it was stopped at 20" in status.out
    assert kilonova.status(data)["stopped"]["reason"] == "asked"


def test_down_without_waiting_only_asks(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    done = kilonova("down", "--no-wait", "--data", data)
    assert done.code == 0
    assert done.out.startswith("Asked process")
    assert kilonova("down", "--data", data).code == 0
    assert kilonova("status", "--data", data).code == 3


def test_down_is_content_when_nothing_runs(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("down", "--data", tmp_path / "data")
    assert (done.code, done.out) == (0, f"Nothing runs on {tmp_path / 'data'}.\n")


def test_a_bare_cluster_has_no_nodes(kilonova: Kilonova, tmp_path: Path):
    done = kilonova.detach(tmp_path / "data", "--no-demo")
    assert "nodes    0 (0 ready)" in done.out


def test_nodes_come_from_the_fleet_file(kilonova: Kilonova, tmp_path: Path):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: [{name: small, count: 3}]")
    kilonova.detach(tmp_path / "data", "--nodes", "fleet.yaml", "--durability", "normal")
    assert kilonova.status(tmp_path / "data")["nodes"] == {"total": 3, "ready": 3}


def test_a_large_fleet_and_its_demo_are_there_when_the_command_returns(
    kilonova: Kilonova, tmp_path: Path
):
    kilonova.detach(tmp_path / "data", "--nodes", "large")
    assert kilonova.status(tmp_path / "data")["nodes"] == {"total": 2000, "ready": 2000}
    shown = kilonova("workloads", "-n", "demo", "-o", "name", "--data", tmp_path / "data")
    assert "podcliqueset/pretrain" in shown.out


def test_the_shell_offers_every_fleet_that_has_a_name_and_files(kilonova: Kilonova, tmp_path: Path):
    (tmp_path / "mine.yaml").touch()
    offered = subprocess.run(
        kilonova.command(),
        env=kilonova.environment()
        | {
            "_KILONOVA_COMPLETE": "complete_bash",
            "COMP_WORDS": "kilonova up --nodes ",
            "COMP_CWORD": "3",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered.stdout.split() == [*FLEETS, "mine.yaml"]


def test_a_restart_goes_on_with_the_data(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    path = "/api/v1/namespaces/default/configmaps"
    created = access(data).ask("POST", path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    before = kilonova.status(data)["resourceVersion"]
    kilonova("down", "--data", data)
    kilonova.detach(data, "--no-demo")
    assert access(data).ask("GET", f"{path}/kept") == (200, created[1])
    assert kilonova.status(data)["resourceVersion"] >= before


def test_what_a_killed_process_left_misleads_nobody(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    pid = kilonova.status(data)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert kilonova("down", "--data", data).out.startswith("Nothing runs on")
    status = kilonova("status", "--data", data)
    assert status.code == 3
    assert f"not running: process {pid} was killed or crashed" in status.out
    assert kilonova.status(data)["stopped"]["reason"] == "killed"
    kilonova.detach(data, "--no-demo")
    assert kilonova.status(data)["pid"] != pid
    assert kilonova.status(data)["stopped"] is None


def test_commands_about_a_cluster_follow_the_kubeconfig_that_is_in_its_folder(
    kilonova: Kilonova, tmp_path: Path
):
    data, other = tmp_path / "data", tmp_path / "other"
    kilonova.detach(data, "--no-demo")
    named = kilonova.environment() | {"KUBECONFIG": str(data / "kubeconfig")}

    def ask(*words: str, **more: str) -> Done:
        return run_forked([*words], named | more, kilonova.home)

    assert f"data        {data}\n" in ask("status").out
    assert str(data) in ask("doctor").out
    assert str(other) in ask("status", "--data", str(other)).out
    assert str(other) in ask("status", KILONOVA_DATA_DIR=str(other)).out
    elsewhere = tmp_path / "config"
    elsewhere.write_bytes((data / "kubeconfig").read_bytes())
    assert ask("status", KUBECONFIG=str(elsewhere)).code == 3
    several = f"{tmp_path / 'none'}:{data / 'kubeconfig'}"
    assert ask("status", KUBECONFIG=several).code == 0
    assert ask("down").out == f"Stopped. The data stays in {data}.\n"


def test_status_tells_why_a_cluster_failed(kilonova: Kilonova, tmp_path: Path):
    folder = Folder(tmp_path / "data")
    folder.acquire()
    folder.will_stop("failed", "store.db: no space left on device")
    folder.release()
    done = kilonova("status", "--data", folder.path)
    assert done.code == 3
    assert "not running: it failed at 20" in done.out
    assert ": store.db: no space left on device\n" in done.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_foreground_in_good_order(tmp_path: Path, number: signal.Signals):
    with EmbeddedServer.start(tmp_path / "data") as server:
        os.kill(server.process.pid, number)
        assert server.process.wait() == 0
    assert not (tmp_path / "data" / "running.json").exists()
    assert server.process.log.read_text().rstrip().splitlines().count("Stopping.") == 1


def test_control_c_at_a_terminal_ends_it(kilonova: Kilonova, tmp_path: Path):
    person, terminal = pty.openpty()
    command = kilonova.command("up", "--no-demo", "--port", "0", "--data", tmp_path / "data")
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=kilonova.environment(),
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(terminal), os.O_RDWR)),
    )
    os.close(terminal)
    shown = read_until(person, b"Ctrl-C stops it")
    os.write(person, b"\x03")
    shown += read_until(person, b"Stopping.")
    assert process.wait(30) == 0
    os.close(person)
    assert b"The cluster is ready" in shown
    assert b"Traceback" not in shown


def read_until(terminal: int, wanted: bytes) -> bytes:
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 4096)
    return shown


def access(data: Path) -> Access:
    return Access.from_kubeconfig(data / "kubeconfig", data.parent / "admin")


def is_alive(pid: int) -> bool:
    """Whether it runs; one that ended, and that nobody has asked after, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
