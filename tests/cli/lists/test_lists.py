"""`kilonova nodes`, `gangs`, `workloads` and `queues` on a cluster in the background."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kilonova.kube import connect
from tests.cli.command import CompletedCommand, Kilonova, complete_words
from tests.cli.terminal import TerminalSession
from tests.harness.queue_status import wait_for_queue_status
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.harness.embedded_scheduler import GANGS, gang, pod

FLEET = """
nodes:
- {name: a, count: 2, gpu: {model: H100, count: 8}}
- {name: b, count: 1, gpu: {model: L4, count: 1}}
"""


@pytest.fixture(scope="module")
def busy_cluster(cluster_command: Kilonova) -> Path:
    """Two nodes with eight GPUs and one with one; a running pod and a pending gang."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "listed"
    done = cluster_command.detach(data, "--no-demo", "--no-console", "--nodes", file)
    assert done.code == 0, done.err
    asyncio.run(_fill(data))
    return data


async def _fill(data: Path) -> None:
    async with connect(data / "kubeconfig") as client:
        running = pod("running", 8)
        running["metadata"]["labels"]["app"] = "web"
        for each in (running, *(pod(name, 9, gang="wide") for name in ("w0", "w1"))):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        async with asyncio.timeout(30):
            while not await _is_settled(client):
                await asyncio.sleep(0.05)
        await wait_for_queue_status(client, "default", allocated={"nvidia.com/gpu": "8"})


async def _is_settled(client) -> bool:
    found = await client.get(PODS, "running", "default")
    conditions = (await client.get(GANGS, "wide", "default")).get("status", {}).get("conditions")
    return found["status"]["phase"] == "Running" and bool(conditions)


def _rows(done: CompletedCommand) -> list[list[str]]:
    assert done.code == 0, done.err
    return [line.split() for line in done.out.splitlines()]


def test_nodes_show_held_gpus(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(cluster_command("nodes", "--data", busy_cluster))
    assert rows[0] == ["NAME", "STATUS", "RACK", "GPUS", "PRODUCT", "PODS", "AGE"]
    assert [row[0] for row in rows[1:]] == ["a-0", "a-1", "b-0"]
    assert sorted(row[3] for row in rows[1:]) == ["0/1", "0/8", "8/8"]


def test_the_wide_table_has_more_columns(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(cluster_command("nodes", "-o", "wide", "--data", busy_cluster))
    columns = "BLOCK ZONE CPU MEMORY MACHINE PRICE NODE-PRICE PROBLEM"
    assert rows[0][7:] == columns.split()
    assert rows[1][12:14] == ["$6.88", "$55.04"]
    assert rows[3][12:14] == ["$0.80", "$0.80"]


@pytest.mark.parametrize("kind", ["nodes", "gangs", "workloads"])
def test_all_output_formats_agree(cluster_command: Kilonova, busy_cluster: Path, kind: str):
    def run(output_format: str) -> str:
        return cluster_command(kind, "-o", output_format, "--data", busy_cluster).out

    listed = json.loads(run("json"))
    assert yaml.safe_load(run("yaml")) == listed
    names = [each["name"] for each in listed]
    assert names == [line.partition("/")[2] for line in run("name").splitlines()]
    table = run("table").splitlines()
    assert [name for name, line in zip(names, table[1:], strict=True) if name in line] == names


def test_json_has_every_field_always(cluster_command: Kilonova, busy_cluster: Path):
    gangs = json.loads(cluster_command("gangs", "-o", "json", "--data", busy_cluster).out)
    keys = "namespace name phase pods ready gpus queue nodes topology score why set created"
    assert set(gangs[0]) == set(keys.split())
    assert (gangs[0]["phase"], gangs[0]["pods"], gangs[0]["gpus"]) == ("Pending", 2, 18)
    nodes = json.loads(cluster_command("nodes", "-o", "json", "--data", busy_cluster).out)
    assert nodes[2]["gpusAllocated"] == 0


def test_gangs_shorten_the_reason_except_in_wide(cluster_command: Kilonova, busy_cluster: Path):
    table = cluster_command("gangs", "--data", busy_cluster).out
    wide = cluster_command("gangs", "-o", "wide", "--data", busy_cluster).out
    assert "…" in table
    assert "nodes are available" not in table
    assert "nodes are available" in wide


def test_pods_without_owner_are_listed_as_workloads(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(cluster_command("workloads", "--data", busy_cluster))
    assert [row[:3] for row in rows[1:]] == [
        ["Pod", "running", "Running"],
        ["Pod", "w0", "Pending"],
        ["Pod", "w1", "Pending"],
    ]


def test_names_select_rows(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(
        cluster_command("nodes", "node/b-0", "a-1", "--no-headers", "--data", busy_cluster)
    )
    assert [row[0] for row in rows] == ["a-1", "b-0"]
    missing = cluster_command("gangs", "nix", "-n", "team", "--data", busy_cluster)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "kilonova: there is no gang 'nix' in namespace team: see -n and -A\n"


def test_selector_filters_by_labels(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(
        cluster_command("nodes", "-l", "nvidia.com/gpu.product=L4", "--data", busy_cluster)
    )
    assert [row[0] for row in rows[1:]] == ["b-0"]
    found = _rows(cluster_command("workloads", "-l", "app=web", "-A", "--data", busy_cluster))
    assert [row[:3] for row in found[1:]] == [["default", "Pod", "running"]]
    wrong = cluster_command("nodes", "-l", "a in", "--data", busy_cluster)
    assert wrong.code == 2
    assert len(wrong.err.splitlines()) == 1


def test_lists_are_sorted_by_a_column(cluster_command: Kilonova, busy_cluster: Path):
    rows = _rows(cluster_command("nodes", "--sort-by", "status", "--data", busy_cluster))
    assert [row[0] for row in rows[1:]] == ["a-0", "a-1", "b-0"]
    rows = _rows(cluster_command("workloads", "--sort-by", "gpus", "--data", busy_cluster))
    assert rows[-1][1] == "running"
    wrong = cluster_command("nodes", "--sort-by", "size", "--data", busy_cluster)
    assert wrong.code == 2
    assert "there is no column 'size' to sort by: use one of name, status" in wrong.err


def test_default_namespace_is_that_of_the_context(cluster_command: Kilonova, busy_cluster: Path):
    config = yaml.safe_load((busy_cluster / "kubeconfig").read_text())
    config["contexts"][0]["context"]["namespace"] = "team"
    file = cluster_command.home / "team"
    file.write_text(yaml.safe_dump(config))
    done = cluster_command("gangs", "--kubeconfig", file)
    assert (done.code, done.out) == (0, "")
    assert done.err == "There are no gangs in namespace team.\n"
    why = cluster_command("why", "wide", "--kubeconfig", file)
    assert "in namespace team" in why.err
    assert cluster_command("gangs", "-n", "default", "--kubeconfig", file).err == ""


def test_no_objects_are_an_empty_json_list(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("gangs", "-n", "team", "-o", "json", "--data", busy_cluster)
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


def test_states_are_coloured_only_on_terminals(cluster_command: Kilonova, busy_cluster: Path):
    words = ("nodes", "a-0", "--data", busy_cluster)
    assert "\x1b" not in cluster_command(*words).out
    assert "\x1b[32mReady" in cluster_command(*words, variables={"CLICOLOR_FORCE": "1"}).out
    with TerminalSession(cluster_command.command(*words), cluster_command.environment()) as session:
        assert session.wait_for_exit() == 0
        session.wait_for_output("\x1b[32mReady\x1b[0m")
    plain = cluster_command.environment() | {"NO_COLOR": "1"}
    with TerminalSession(cluster_command.command(*words), plain) as session:
        assert session.wait_for_exit() == 0
        session.wait_for_output("Ready")
        assert "\x1b" not in session.output


@contextmanager
def _watching(kilonova: Kilonova, *words: str | Path) -> Generator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        kilonova.command(*words),
        env=kilonova.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def _set_cordoned(data: Path, node: str, cordoned: bool) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.patch(NODES, node, {"spec": {"unschedulable": cordoned}})


async def _create_or_delete_node(data: Path, name: str, exists: bool) -> None:
    async with connect(data / "kubeconfig") as client:
        if exists:
            await client.create(NODES, {"metadata": {"name": name}})
        else:
            await client.delete(NODES, name)


def test_watch_prints_changes_and_exits_silently_on_ctrl_c(
    cluster_command: Kilonova, busy_cluster: Path
):
    with _watching(cluster_command, "nodes", "-w", "--data", busy_cluster) as process:
        assert process.stdout is not None
        head = [process.stdout.readline().split() for _ in range(4)]
        assert [row[0] for row in head] == ["NAME", "a-0", "a-1", "b-0"]
        asyncio.run(_set_cordoned(busy_cluster, "b-0", True))
        assert process.stdout.readline().split()[:2] == ["b-0", "Ready,Cordoned"]
        asyncio.run(_set_cordoned(busy_cluster, "b-0", False))
        assert process.stdout.readline().split()[:2] == ["b-0", "Ready"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (130, "", "")


def test_json_watch_prints_one_line_per_change_and_deletions(
    cluster_command: Kilonova, busy_cluster: Path
):
    with _watching(cluster_command, "nodes", "-w", "-o", "json", "--data", busy_cluster) as process:
        assert process.stdout is not None
        names = [json.loads(process.stdout.readline())["name"] for _ in range(3)]
        assert names == ["a-0", "a-1", "b-0"]
        asyncio.run(_create_or_delete_node(busy_cluster, "guest", exists=True))
        assert json.loads(process.stdout.readline())["status"] == "Unknown"
        asyncio.run(_create_or_delete_node(busy_cluster, "guest", exists=False))
        last = json.loads(process.stdout.readline())
        while last["status"] != "Deleted":
            last = json.loads(process.stdout.readline())
        assert last["name"] == "guest"


def test_watch_on_a_terminal_redraws_in_place(cluster_command: Kilonova, busy_cluster: Path):
    command = cluster_command.command("nodes", "-w", "--data", busy_cluster)
    with TerminalSession(command, cluster_command.environment()) as session:
        session.wait_for_output("b-0")
        asyncio.run(_set_cordoned(busy_cluster, "b-0", True))
        session.wait_for_output("Ready,Cordoned")
        assert "\x1b[4A" in session.output
        session.type("\x03")
        assert session.wait_for_exit() == 130
        assert "Traceback" not in session.output
    asyncio.run(_set_cordoned(busy_cluster, "b-0", False))


@pytest.mark.parametrize("words", [("nodes",), ("nodes", "-o", "json"), ("--help",)], ids=" ".join)
def test_closed_pipe_is_no_error(
    cluster_command: Kilonova, busy_cluster: Path, words: tuple[str, ...]
):
    reading, writing = os.pipe()
    os.close(reading)
    environment = cluster_command.environment() | {"KUBECONFIG": str(busy_cluster / "kubeconfig")}
    done = subprocess.run(
        cluster_command.command(*words),
        env=environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""


def test_names_are_completed_in_every_list(cluster_command: Kilonova, busy_cluster: Path):
    def complete(*words: str) -> list[str]:
        kubeconfig = str(busy_cluster / "kubeconfig")
        return complete_words(cluster_command, words, {"KUBECONFIG": kubeconfig})

    assert complete("nodes", "a-") == ["a-0", "a-1"]
    assert complete("gangs", "w") == ["wide"]
    assert complete("gangs", "-n", "kube-s") == ["kube-system"]
    assert complete("nodes", "--context", "k") == ["kilonova"]
    assert complete("nodes", "-o", "w") == ["wide"]


def test_plan_uses_the_given_namespace_as_default(cluster_command: Kilonova, busy_cluster: Path):
    file = cluster_command.home / "new.yaml"
    body = pod("new", 1)
    del body["metadata"]["namespace"]
    file.write_text(yaml.safe_dump(body))
    done = cluster_command("plan", "-f", file, "-n", "team", "-o", "json", "--data", busy_cluster)
    assert done.code == 0, done.err
    placed = [one["pod"] for each in json.loads(done.out)["placed"] for one in each["pods"]]
    assert placed == ["team/new"]


def test_queues_have_the_output_formats_of_other_lists(
    cluster_command: Kilonova, busy_cluster: Path
):
    assert cluster_command("queues", "-o", "name", "--data", busy_cluster).out == "queue/default\n"
    assert cluster_command("queues", "default", "-o", "name", "--data", busy_cluster).out == (
        "queue/default\n"
    )
    rows = _rows(cluster_command("queues", "--no-headers", "--data", busy_cluster))
    assert [row[0] for row in rows] == ["default"]
    assert "WEIGHT" in cluster_command("queues", "-o", "wide", "--data", busy_cluster).out


def test_watch_of_queues_prints_changed_usage(cluster_command: Kilonova, busy_cluster: Path):
    with _watching(cluster_command, "queues", "-w", "--data", busy_cluster) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[0] == "QUEUE"
        before = process.stdout.readline().split()
        assert (before[0], before[3]) == ("default", "8")
        asyncio.run(_create(busy_cluster, pod("one-more", 1)))
        after = process.stdout.readline().split()
        while after[3] != "9":
            after = process.stdout.readline().split()
        asyncio.run(_delete(busy_cluster, "one-more"))
    wrong = cluster_command("queues", "default", "-w", "--data", busy_cluster)
    assert wrong.code == 2
    assert "give no name" in wrong.err


def test_watched_queues_have_the_keys_of_the_list(cluster_command: Kilonova, busy_cluster: Path):
    [listed] = json.loads(cluster_command("queues", "-o", "json", "--data", busy_cluster).out)
    with _watching(
        cluster_command, "queues", "-w", "-o", "json", "--data", busy_cluster
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()).keys() == listed.keys()


def test_watched_queues_stay_while_the_server_is_unreachable(
    cluster_command: Kilonova, tmp_path: Path
):
    data = tmp_path / "unreachable"
    words = ("--no-demo", "--no-console", "--no-operator")
    assert cluster_command.detach(data, *words).code == 0
    command = cluster_command.command("queues", "-w", "--data", data)
    with TerminalSession(command, cluster_command.environment()) as session:
        session.wait_for_output("default")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        session.wait_for_output("Not up to date, retrying")
        session.type("\x03")
        assert session.wait_for_exit() == 130


def test_piped_watch_reports_an_unreachable_server(cluster_command: Kilonova, tmp_path: Path):
    data = tmp_path / "gone"
    words = ("--no-demo", "--no-console", "--no-operator")
    assert cluster_command.detach(data, *words).code == 0
    with _watching(cluster_command, "nodes", "-w", "--data", data) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("NAME")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        assert process.stderr.readline().startswith("kilonova: Not up to date, retrying: ")


async def _create(data: Path, body: dict[str, object]) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.create(PODS, body, "default")


async def _delete(data: Path, name: str) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.delete(PODS, name, "default", grace_period_seconds=0)


def test_watch_exits_quietly_when_its_pipe_closes(cluster_command: Kilonova, busy_cluster: Path):
    with _watching(cluster_command, "nodes", "-w", "--data", busy_cluster) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        asyncio.run(_set_cordoned(busy_cluster, "b-0", True))
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == ""
        process.stdout = None
    asyncio.run(_set_cordoned(busy_cluster, "b-0", False))
