"""Up and down: in the background, in the foreground, on a terminal, and again with old data."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from kilonova.local.data_directory import DataDirectory
from kilonova.local.simnodes.fleet.presets import FLEET_PRESETS
from tests.cli.command import CompletedCommand, Kilonova, complete_words
from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer


def test_up_prints_how_to_use_the_cluster(kilonova: Kilonova, tmp_path: Path):
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
    assert (done.code, done.out) == (0, f"Stopped. The data is kept in {data}.\n")
    assert not is_alive(pid)
    status = kilonova("status", "--data", data)
    assert status.code == 3
    assert "not running: it was stopped at 20" in status.out
    assert kilonova.status(data)["stopped"]["reason"] == "requested"


def test_down_without_waiting_only_sends_the_signal(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    done = kilonova("down", "--no-wait", "--data", data)
    assert done.code == 0
    assert done.out.startswith("Asked process")
    assert kilonova("down", "--data", data).code == 0
    assert kilonova("status", "--data", data).code == 3


def test_down_succeeds_when_nothing_runs(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("down", "--data", tmp_path / "data")
    assert (done.code, done.out) == (0, f"No cluster is running in {tmp_path / 'data'}.\n")


def test_cluster_without_demo_has_no_nodes(kilonova: Kilonova, tmp_path: Path):
    done = kilonova.detach(tmp_path / "data", "--no-demo")
    assert "nodes    0 (0 ready)" in done.out


def test_nodes_come_from_the_fleet_file(kilonova: Kilonova, tmp_path: Path):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: [{name: small, count: 3}]")
    kilonova.detach(tmp_path / "data", "--nodes", "fleet.yaml", "--durability", "normal")
    assert kilonova.status(tmp_path / "data")["nodes"] == {"total": 3, "ready": 3}


def test_large_fleet_and_its_demo_are_ready_when_up_returns(kilonova: Kilonova, tmp_path: Path):
    kilonova.detach(tmp_path / "data", "--nodes", "large")
    assert kilonova.status(tmp_path / "data")["nodes"] == {"total": 2000, "ready": 2000}
    listed = kilonova("workloads", "-n", "demo", "-o", "name", "--data", tmp_path / "data")
    assert "podcliqueset/pretrain" in listed.out


def test_fleet_names_and_files_are_completed(kilonova: Kilonova, tmp_path: Path):
    (tmp_path / "mine.yaml").touch()
    assert complete_words(kilonova, ["up", "--nodes", ""]) == [*FLEET_PRESETS, "mine.yaml"]


def test_restart_continues_with_the_data(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    path = "/api/v1/namespaces/default/configmaps"
    created = access(data).request("POST", path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    before = kilonova.status(data)["resourceVersion"]
    kilonova("down", "--data", data)
    kilonova.detach(data, "--no-demo")
    assert access(data).request("GET", f"{path}/kept") == (200, created[1])
    assert kilonova.status(data)["resourceVersion"] >= before


def test_records_of_a_killed_process_are_ignored(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    kilonova.detach(data, "--no-demo")
    pid = kilonova.status(data)["pid"]
    process = psutil.Process(pid)
    process.kill()
    process.wait(timeout=30)
    assert kilonova("down", "--data", data).out.startswith("No cluster is running in")
    status = kilonova("status", "--data", data)
    assert status.code == 3
    assert f"not running: process {pid} was killed or crashed" in status.out
    assert kilonova.status(data)["stopped"]["reason"] == "killed"
    kilonova.detach(data, "--no-demo")
    assert kilonova.status(data)["pid"] != pid
    assert kilonova.status(data)["stopped"] is None


def test_commands_use_the_data_directory_of_the_kubeconfig(kilonova: Kilonova, tmp_path: Path):
    data, other = tmp_path / "data", tmp_path / "other"
    kilonova.detach(data, "--no-demo")
    default = {"KUBECONFIG": str(data / "kubeconfig")}

    def run(*words: str, **variables: str) -> CompletedCommand:
        return kilonova(*words, variables=default | variables)

    assert f"data        {data}\n" in run("status").out
    assert str(data) in run("doctor").out
    assert str(other) in run("status", "--data", str(other)).out
    assert str(other) in run("status", KILONOVA_DATA_DIR=str(other)).out
    elsewhere = tmp_path / "config"
    elsewhere.write_bytes((data / "kubeconfig").read_bytes())
    assert run("status", KUBECONFIG=str(elsewhere)).code == 3
    several = f"{tmp_path / 'none'}:{data / 'kubeconfig'}"
    assert run("status", KUBECONFIG=several).code == 0
    assert run("down").out == f"Stopped. The data is kept in {data}.\n"


def test_status_reports_why_a_cluster_failed(kilonova: Kilonova, tmp_path: Path):
    directory = DataDirectory(tmp_path / "data")
    directory.acquire()
    directory.set_stop_reason("failed", "store.db: no space left on device")
    directory.release()
    done = kilonova("status", "--data", directory.path)
    assert done.code == 3
    assert "not running: it failed at 20" in done.out
    assert ": store.db: no space left on device\n" in done.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_foreground_gracefully(tmp_path: Path, number: signal.Signals):
    with EmbeddedServer.start(tmp_path / "data") as server:
        os.kill(server.process.pid, number)
        assert server.process.wait() == 0
    assert not (tmp_path / "data" / "running.json").exists()
    assert server.process.log.read_text().rstrip().splitlines().count("Stopping.") == 1


def test_ctrl_c_on_a_terminal_stops_the_cluster(kilonova: Kilonova, tmp_path: Path):
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
    output = read_until(person, b"Ctrl-C stops it")
    os.write(person, b"\x03")
    output += read_until(person, b"Stopping.")
    assert process.wait(30) == 0
    os.close(person)
    assert b"The cluster is ready" in output
    assert b"Traceback" not in output


def read_until(terminal: int, wanted: bytes) -> bytes:
    output = b""
    while wanted not in output:
        output += os.read(terminal, 4096)
    return output


def access(data: Path) -> ServerAccess:
    return ServerAccess.from_kubeconfig(data / "kubeconfig", data.parent / "admin")


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
