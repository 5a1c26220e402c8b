"""`kilonova nodes`, `gangs` and `workloads` on a cluster in the background."""

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
from tests.cli.command import Done, Kilonova
from tests.cli.terminal import Typing
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.scheduling import GANGS, gang, pod

FLEET = """
nodes:
- {name: a, count: 2, gpu: {model: H100, count: 8}}
- {name: b, count: 1, gpu: {model: L4, count: 1}}
"""


@pytest.fixture(scope="module")
def busy(cluster_command: Kilonova) -> Path:
    """Two nodes with eight GPUs and one with one; a pod that stands, and a gang that waits."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "listed"
    done = cluster_command.detach(data, "--no-demo", "--no-console", "--nodes", file)
    assert done.code == 0, done.err
    asyncio.run(_fill(data))
    return data


async def _fill(data: Path) -> None:
    async with connect(data / "kubeconfig") as client:
        standing = pod("standing", 8)
        standing["metadata"]["labels"]["app"] = "web"
        for each in (standing, *(pod(name, 9, of="wide") for name in ("w0", "w1"))):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        async with asyncio.timeout(30):
            while not await _is_settled(client):
                await asyncio.sleep(0.05)


async def _is_settled(client) -> bool:
    found = await client.get(PODS, "standing", "default")
    waits = (await client.get(GANGS, "wide", "default")).get("status", {}).get("conditions")
    return found["status"]["phase"] == "Running" and bool(waits)


def _rows(done: Done) -> list[list[str]]:
    assert done.code == 0, done.err
    return [line.split() for line in done.out.splitlines()]


def test_nodes_say_how_many_gpus_are_held(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("nodes", "--data", busy))
    assert rows[0] == ["NAME", "STATUS", "RACK", "GPUS", "PRODUCT", "PODS", "AGE"]
    assert [row[0] for row in rows[1:]] == ["a-0", "a-1", "b-0"]
    assert sorted(row[3] for row in rows[1:]) == ["0/1", "0/8", "8/8"]


def test_the_wide_table_has_more_columns(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("nodes", "-o", "wide", "--data", busy))
    assert rows[0][7:] == ["BLOCK", "ZONE", "CPU", "MEMORY", "PRICE", "PROBLEM"]
    assert rows[3][11] == "$0.80"


@pytest.mark.parametrize("kind", ["nodes", "gangs", "workloads"])
def test_every_form_says_the_same(cluster_command: Kilonova, busy: Path, kind: str):
    def said(form: str) -> str:
        return cluster_command(kind, "-o", form, "--data", busy).out

    listed = json.loads(said("json"))
    assert yaml.safe_load(said("yaml")) == listed
    names = [each["name"] for each in listed]
    assert names == [line.partition("/")[2] for line in said("name").splitlines()]
    table = said("table").splitlines()
    assert [name for name, line in zip(names, table[1:], strict=True) if name in line] == names


def test_json_has_every_field_always(cluster_command: Kilonova, busy: Path):
    gangs = json.loads(cluster_command("gangs", "-o", "json", "--data", busy).out)
    keys = "namespace name phase pods ready gpus queue nodes topology score why set created"
    assert set(gangs[0]) == set(keys.split())
    assert (gangs[0]["phase"], gangs[0]["pods"], gangs[0]["gpus"]) == ("Pending", 2, 18)
    nodes = json.loads(cluster_command("nodes", "-o", "json", "--data", busy).out)
    assert nodes[2]["gpusHeld"] == 0


def test_gangs_say_shortly_why_they_wait_and_widely_all_of_it(
    cluster_command: Kilonova, busy: Path
):
    shortly = cluster_command("gangs", "--data", busy).out
    widely = cluster_command("gangs", "-o", "wide", "--data", busy).out
    assert "…" in shortly
    assert "nodes are available" not in shortly
    assert "nodes are available" in widely


def test_pods_are_shown_as_what_they_belong_to(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("workloads", "--data", busy))
    assert [row[:3] for row in rows[1:]] == [
        ["Pod", "standing", "Running"],
        ["Pod", "w0", "Waiting"],
        ["Pod", "w1", "Waiting"],
    ]


def test_names_that_are_given_choose(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("nodes", "node/b-0", "a-1", "--no-headers", "--data", busy))
    assert [row[0] for row in rows] == ["a-1", "b-0"]
    missing = cluster_command("gangs", "nix", "-n", "team", "--data", busy)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "kilonova: there is no gang 'nix' in namespace team: see -n and -A\n"


def test_a_selector_chooses_by_labels(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("nodes", "-l", "nvidia.com/gpu.product=L4", "--data", busy))
    assert [row[0] for row in rows[1:]] == ["b-0"]
    found = _rows(cluster_command("workloads", "-l", "app=web", "-A", "--data", busy))
    assert [row[:3] for row in found[1:]] == [["default", "Pod", "standing"]]
    wrong = cluster_command("nodes", "-l", "a in", "--data", busy)
    assert wrong.code == 2
    assert len(wrong.err.splitlines()) == 1


def test_lists_are_sorted_by_a_column(cluster_command: Kilonova, busy: Path):
    rows = _rows(cluster_command("nodes", "--sort-by", "status", "--data", busy))
    assert [row[0] for row in rows[1:]] == ["a-0", "a-1", "b-0"]
    rows = _rows(cluster_command("workloads", "--sort-by", "gpus", "--data", busy))
    assert rows[-1][1] == "standing"
    wrong = cluster_command("nodes", "--sort-by", "size", "--data", busy)
    assert wrong.code == 2
    assert "there is no column 'size' to sort by: take one of name, status" in wrong.err


def test_the_namespace_is_that_of_the_context(cluster_command: Kilonova, busy: Path):
    config = yaml.safe_load((busy / "kubeconfig").read_text())
    config["contexts"][0]["context"]["namespace"] = "team"
    file = cluster_command.home / "team"
    file.write_text(yaml.safe_dump(config))
    done = cluster_command("gangs", "--kubeconfig", file)
    assert (done.code, done.out) == (0, "")
    assert done.err == "There are no gangs in namespace team.\n"
    why = cluster_command("why", "wide", "--kubeconfig", file)
    assert "in namespace team" in why.err
    assert cluster_command("gangs", "-n", "default", "--kubeconfig", file).err == ""


def test_nothing_is_an_empty_list_for_programs(cluster_command: Kilonova, busy: Path):
    done = cluster_command("gangs", "-n", "team", "-o", "json", "--data", busy)
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


def test_states_are_coloured_only_where_somebody_sees_them(
    cluster_command: Kilonova, busy: Path, monkeypatch: pytest.MonkeyPatch
):
    words = ("nodes", "a-0", "--data", busy)
    assert "\x1b" not in cluster_command(*words).out
    with Typing(cluster_command.command(*words), cluster_command.environment()) as typing:
        assert typing.ends() == 0
        typing.hears("\x1b[32mReady\x1b[0m")
    plain = cluster_command.environment() | {"NO_COLOR": "1"}
    with Typing(cluster_command.command(*words), plain) as typing:
        assert typing.ends() == 0
        typing.hears("Ready")
        assert "\x1b" not in typing.said
    forced = cluster_command.environment() | {"CLICOLOR_FORCE": "1"}
    monkeypatch.setattr(cluster_command, "environment", lambda: forced)
    assert "\x1b[32mReady" in cluster_command(*words).out


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


async def _mark(data: Path, node: str, cordoned: bool) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.patch(NODES, node, {"spec": {"unschedulable": cordoned}})


async def _node(data: Path, name: str, there: bool) -> None:
    async with connect(data / "kubeconfig") as client:
        if there:
            await client.create(NODES, {"metadata": {"name": name}})
        else:
            await client.delete(NODES, name)


def test_a_watch_appends_what_changed_and_ends_silently(cluster_command: Kilonova, busy: Path):
    with _watching(cluster_command, "nodes", "-w", "--data", busy) as process:
        assert process.stdout is not None
        head = [process.stdout.readline().split() for _ in range(4)]
        assert [row[0] for row in head] == ["NAME", "a-0", "a-1", "b-0"]
        asyncio.run(_mark(busy, "b-0", True))
        assert process.stdout.readline().split()[:2] == ["b-0", "Ready,Cordoned"]
        asyncio.run(_mark(busy, "b-0", False))
        assert process.stdout.readline().split()[:2] == ["b-0", "Ready"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (130, "", "")


def test_a_watch_in_json_is_a_line_for_each_and_tells_what_is_gone(
    cluster_command: Kilonova, busy: Path
):
    with _watching(cluster_command, "nodes", "-w", "-o", "json", "--data", busy) as process:
        assert process.stdout is not None
        names = [json.loads(process.stdout.readline())["name"] for _ in range(3)]
        assert names == ["a-0", "a-1", "b-0"]
        asyncio.run(_node(busy, "guest", there=True))
        assert json.loads(process.stdout.readline())["status"] == "Unknown"
        asyncio.run(_node(busy, "guest", there=False))
        last = json.loads(process.stdout.readline())
        while last["status"] != "Deleted":
            last = json.loads(process.stdout.readline())
        assert last["name"] == "guest"


def test_a_watch_on_a_terminal_draws_in_place(cluster_command: Kilonova, busy: Path):
    command = cluster_command.command("nodes", "-w", "--data", busy)
    with Typing(command, cluster_command.environment()) as typing:
        typing.hears("b-0")
        asyncio.run(_mark(busy, "b-0", True))
        typing.hears("Ready,Cordoned")
        assert "\x1b[4A" in typing.said
        typing.type("\x03")
        assert typing.ends() == 130
        assert "Traceback" not in typing.said
    asyncio.run(_mark(busy, "b-0", False))


@pytest.mark.parametrize("words", [("nodes",), ("nodes", "-o", "json"), ("--help",)], ids=" ".join)
def test_a_reader_that_leaves_is_no_error(
    cluster_command: Kilonova, busy: Path, words: tuple[str, ...]
):
    reading, writing = os.pipe()
    os.close(reading)
    environment = cluster_command.environment() | {"KUBECONFIG": str(busy / "kubeconfig")}
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


def test_names_are_completed_in_every_list(cluster_command: Kilonova, busy: Path):
    def offered(*words: str) -> list[str]:
        environment = cluster_command.environment() | {
            "_KILONOVA_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["kilonova", *words]),
            "COMP_CWORD": str(len(words)),
            "KUBECONFIG": str(busy / "kubeconfig"),
        }
        done = subprocess.run(
            cluster_command.command(), env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout.split()

    assert offered("nodes", "a-") == ["a-0", "a-1"]
    assert offered("gangs", "w") == ["wide"]
    assert offered("gangs", "-n", "kube-s") == ["kube-system"]
    assert offered("nodes", "--context", "k") == ["kilonova"]
    assert offered("nodes", "-o", "w") == ["wide"]


def test_a_plan_puts_what_names_no_namespace_where_it_is_told(
    cluster_command: Kilonova, busy: Path
):
    file = cluster_command.home / "new.yaml"
    body = pod("new", 1)
    del body["metadata"]["namespace"]
    file.write_text(yaml.safe_dump(body))
    done = cluster_command("plan", "-f", file, "-n", "team", "-o", "json", "--data", busy)
    assert done.code == 0, done.err
    placed = [one["pod"] for each in json.loads(done.out)["placed"] for one in each["pods"]]
    assert placed == ["team/new"]


def test_queues_have_the_forms_of_other_lists(cluster_command: Kilonova, busy: Path):
    assert cluster_command("queues", "-o", "name", "--data", busy).out == "queue/default\n"
    assert cluster_command("queues", "default", "-o", "name", "--data", busy).out == (
        "queue/default\n"
    )
    bare = _rows(cluster_command("queues", "--no-headers", "--data", busy))
    assert [row[0] for row in bare] == ["default"]
    assert "WEIGHT" in cluster_command("queues", "-o", "wide", "--data", busy).out


def test_queues_are_watched(cluster_command: Kilonova, busy: Path):
    with _watching(cluster_command, "queues", "-w", "--data", busy) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[0] == "QUEUE"
        before = process.stdout.readline().split()
        assert (before[0], before[3]) == ("default", "8")
        asyncio.run(_create(busy, pod("one-more", 1)))
        after = process.stdout.readline().split()
        while after[3] != "9":
            after = process.stdout.readline().split()
        asyncio.run(_delete(busy, "one-more"))
    wrong = cluster_command("queues", "default", "-w", "--data", busy)
    assert wrong.code == 2
    assert "give no name" in wrong.err


def test_watched_queues_have_the_keys_of_the_list(cluster_command: Kilonova, busy: Path):
    [listed] = json.loads(cluster_command("queues", "-o", "json", "--data", busy).out)
    with _watching(cluster_command, "queues", "-w", "-o", "json", "--data", busy) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()).keys() == listed.keys()


def test_watched_queues_stay_while_the_server_is_away(cluster_command: Kilonova, tmp_path: Path):
    data = tmp_path / "away"
    words = ("--no-demo", "--no-console", "--no-operator")
    assert cluster_command.detach(data, *words).code == 0
    command = cluster_command.command("queues", "-w", "--data", data)
    with Typing(command, cluster_command.environment()) as typing:
        typing.hears("default")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        typing.hears("Not up to date, trying again")
        typing.type("\x03")
        assert typing.ends() == 130


def test_a_watch_that_is_piped_says_so_while_the_server_is_away(
    cluster_command: Kilonova, tmp_path: Path
):
    data = tmp_path / "gone"
    words = ("--no-demo", "--no-console", "--no-operator")
    assert cluster_command.detach(data, *words).code == 0
    with _watching(cluster_command, "nodes", "-w", "--data", data) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("NAME")
        os.kill(cluster_command.status(data)["pid"], signal.SIGKILL)
        assert process.stderr.readline().startswith("kilonova: Not up to date, trying again: ")


async def _create(data: Path, body: dict[str, object]) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.create(PODS, body, "default")


async def _delete(data: Path, name: str) -> None:
    async with connect(data / "kubeconfig") as client:
        await client.delete(PODS, name, "default", grace=0)


def test_a_watch_ends_in_silence_when_its_reader_leaves(cluster_command: Kilonova, busy: Path):
    with _watching(cluster_command, "nodes", "-w", "--data", busy) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        asyncio.run(_mark(busy, "b-0", True))
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == ""
        process.stdout = None
    asyncio.run(_mark(busy, "b-0", False))
