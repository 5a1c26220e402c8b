"""Queues, reasons, plans and snapshots of a cluster in the background, from the command line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import connect
from kilonova.kube.resource import plain
from tests.cli.command import Kilonova, completed
from tests.scheduler.scheduling import gang, pod

PODS = plain("", "v1", "pods", "Pod", True)
GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    spec:
      schedulerName: kilonova-scheduler
      containers: [{name: main, image: example, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


@pytest.fixture(scope="module")
def busy(cluster: Path) -> Path:
    """A gang waits for room, a pod for its queue; of two pods of others one stands."""
    asyncio.run(_fill(cluster / "kubeconfig"))
    return cluster


async def _fill(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as client:
        await client.create(QUEUES, _queue("research", limit={"nvidia.com/gpu": 2}))
        await client.create(QUEUES, _queue("vision", parent="research"))
        await client.create(QUEUES, _queue("lost", parent="nowhere"))
        asking = pod("asking", 0)
        asking["spec"]["containers"][0]["resources"] = {"limits": {"example.com/fpga": 3}}
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "vision"
        foreign = pod("foreign", 1)
        unnamed = pod("unnamed", 9)
        del foreign["spec"]["schedulerName"], unnamed["spec"]["schedulerName"]
        for each in (
            asking,
            held,
            foreign,
            unnamed,
            *(pod(name, 9, of="wide") for name in ("w0", "w1")),
        ):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        async with asyncio.timeout(30):
            while (await client.get(PODS, "foreign", "default"))["status"]["phase"] != "Running":
                await asyncio.sleep(0.05)


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_queues_are_shown_as_a_tree(cluster_command: Kilonova, busy: Path):
    done = cluster_command("queues", "--data", busy)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0][:3] == ["QUEUE", "DESERVED", "LIMIT"]
    assert [row[0] for row in rows[1:5]] == ["default", "lost", "research", "vision"]
    assert "  vision " in done.out
    assert "no (UnknownParent)" in done.out
    assert rows[3][2] == "2"


def test_queues_say_the_same_in_every_form(cluster_command: Kilonova, busy: Path):
    words = ("queues", "--kubeconfig", busy / "kubeconfig", "-o")
    as_json = json.loads(cluster_command(*words, "json").out)
    assert yaml.safe_load(cluster_command(*words, "yaml").out) == as_json
    vision = next(each for each in as_json if each["name"] == "vision")
    assert vision["parent"] == "research"
    assert vision["waiting"] == ["pod/default/held"]
    assert vision["requested"]["nvidia.com/gpu"] == "4"


def test_one_queue_tells_all(cluster_command: Kilonova, busy: Path):
    done = cluster_command("queues", "lost", "--data", busy)
    assert 'create "nowhere"' in done.out
    wrong = cluster_command("queues", "nobody", "--data", busy)
    assert wrong.code == 1
    assert "there is no queue 'nobody': there are default, lost, research, vision" in wrong.err


def test_a_resource_that_nothing_has_is_refused(cluster_command: Kilonova, busy: Path):
    for more in ((), ("-w",)):
        done = cluster_command("queues", "--resource", "nope", *more, "--data", busy)
        assert (done.code, done.out) == (1, "")
        assert "--resource nope: no node has it, no queue speaks of it and no pod" in done.err
        assert "cpu, " in done.err
    assert cluster_command("queues", "--resource", "memory", "--data", busy).code == 0
    counted = cluster_command("queues", "--resource", "pods", "--data", busy)
    assert "--resource pods: queues do not count pods" in counted.err


def test_a_resource_that_only_pods_request_is_shown(cluster_command: Kilonova, busy: Path):
    done = cluster_command("queues", "--resource", "example.com/fpga", "--data", busy)
    assert done.code == 0, done.err
    assert "Amounts of example.com/fpga." in done.out
    row = next(line.split() for line in done.out.splitlines() if line.startswith("default "))
    assert row[4] == "3"


def test_why_tells_the_limit_and_the_smallest_change(cluster_command: Kilonova, busy: Path):
    done = cluster_command("why", "held", "--data", busy)
    assert done.code == 0, done.err
    assert "(queue vision) waits." in done.out
    assert 'queue "research" may use 2 nvidia.com/gpu' in done.out
    assert 'Smallest change: raise the limit to 4 nvidia.com/gpu in queue "research"' in done.out


@pytest.mark.parametrize("name", ["wide", "podgang/wide", "w1", "pod/w1"])
def test_why_of_a_gang_and_of_its_pods_is_the_same(
    cluster_command: Kilonova, busy: Path, name: str
):
    done = cluster_command("why", name, "-o", "json", "--data", busy)
    found = json.loads(done.out)
    assert (found["gang"], found["state"]) == ("default/wide", "Waiting")
    assert found["explanation"]["binding"]["kind"] == "NoNode"
    assert found["explanation"]["tallies"][0]["available"] == 0


def test_why_of_a_pod_that_stands_tells_where(cluster_command: Kilonova, busy: Path):
    done = cluster_command("why", "foreign", "--data", busy)
    assert done.code == 0, done.err
    assert "has its place: 1 pod on 1 node" in done.out
    assert "Score of " in done.out


def test_in_up_why_knows_pods_that_name_no_scheduler(cluster_command: Kilonova, busy: Path):
    done = cluster_command("why", "unnamed", "--data", busy)
    assert "What binds: no node may take a pod of group unnamed" in done.out, done.err


def test_why_of_nobody_says_what_to_look_at(cluster_command: Kilonova, busy: Path):
    done = cluster_command("why", "nobody", "-n", "team", "--data", busy)
    assert done.code == 1
    assert "no pod or gang 'nobody' in namespace team" in done.err
    assert "see -n, and the schedulerName of the pod" in done.err
    assert len(done.err.splitlines()) == 1


def test_why_in_the_wrong_namespace_names_the_right_one(cluster_command: Kilonova, busy: Path):
    done = cluster_command("why", "wide", "-n", "team", "--data", busy)
    assert done.err.endswith("kilonova-scheduler: did you mean wide -n default?\n")


def test_a_kubeconfig_that_is_not_there_leads_to_no_other_cluster(
    cluster_command: Kilonova, busy: Path, monkeypatch: pytest.MonkeyPatch
):
    usual = cluster_command.environment() | {"XDG_DATA_HOME": str(cluster_command.home / "share")}
    (cluster_command.home / "share" / "kilonova").mkdir(parents=True)
    (cluster_command.home / "share" / "kilonova" / "default").symlink_to(busy)
    monkeypatch.setattr(cluster_command, "environment", lambda: usual)
    assert "h100-0" in cluster_command("nodes").out
    wrong = usual | {"KUBECONFIG": "/nowhere"}
    monkeypatch.setattr(cluster_command, "environment", lambda: wrong)
    done = cluster_command("nodes")
    assert (done.code, done.out) == (1, "")
    assert "/nowhere: there is no kubeconfig" in done.err


def test_a_snapshot_answers_like_the_cluster(cluster_command: Kilonova, busy: Path, tmp_path: Path):
    file = tmp_path / "it.json.gz"
    saved = cluster_command("snapshot", "save", file, "--data", busy)
    assert saved.code == 0, saved.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert "34 nodes, 1 pod on them, 4 gangs waiting" in saved.out
    shown = cluster_command("snapshot", "show", file)
    assert "NVIDIA-H100-80GB-HBM3   8       64" in shown.out
    assert "default/wide" in shown.out
    replayed = json.loads(cluster_command("snapshot", "replay", file, "-o", "json").out)
    assert {each["gang"]: each["reason"] for each in replayed["refused"]} == {
        "default/wide": "NoRoom",
        "pod/default/asking": "NoRoom",
        "pod/default/held": "QueueLimit",
        "pod/default/unnamed": "NoRoom",
    }
    again = cluster_command("snapshot", "replay", file, "-o", "json")
    assert json.loads(again.out) == replayed
    live = cluster_command("why", "wide", "--data", busy).out
    assert cluster_command("why", "wide", "--snapshot", file).out == live


def test_a_snapshot_is_saved_under_the_time_if_no_name_is_given(
    cluster_command: Kilonova, busy: Path
):
    done = cluster_command("snapshot", "save", "--data", busy)
    name = done.out.partition(":")[0]
    assert name.startswith("snapshot-")
    assert name.endswith("Z.json.gz")
    assert cluster_command("snapshot", "show", name, "-o", "json").code == 0


def test_a_plan_says_where_pods_would_go_and_writes_nothing(
    cluster_command: Kilonova, busy: Path, tmp_path: Path
):
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT)
    before = cluster_command.status(busy)["pods"]
    done = cluster_command("plan", "-f", file, "--data", busy, "-o", "json")
    assert done.code == 0, done.err
    placed = json.loads(done.out)["placed"]
    assert [each["pods"][0]["pod"] for each in placed] == ["default/web-0", "default/web-1"]
    assert all(each["pods"][0]["devices"].count(",") == 3 for each in placed)
    assert cluster_command.status(busy)["pods"] == before
    table = cluster_command("plan", "-f", file, "--data", busy)
    assert "default/web-1   nvl72-" in table.out


def test_other_rules_are_read_from_a_file(cluster_command: Kilonova, busy: Path, tmp_path: Path):
    snapshot, rules = tmp_path / "it.json", tmp_path / "rules.yaml"
    cluster_command("snapshot", "save", snapshot, "--data", busy)
    head = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    rules.write_text(f"{head}evictions: false\nweights: {{fit: 80}}\n")
    assert cluster_command("snapshot", "replay", snapshot, "--policy", rules).code == 0
    plan = ("why", "wide", "--snapshot", snapshot, "--config", rules)
    assert cluster_command(*plan).code == 0
    rules.write_text(f"{head}evict: false\n")
    wrong = cluster_command("snapshot", "replay", snapshot, "--policy", rules)
    assert wrong.code == 1
    assert "evict: is no field of SchedulerConfiguration" in wrong.err


def test_names_arecompleted(cluster_command: Kilonova, busy: Path):
    assert completed(cluster_command, ["queues", "--data", str(busy), "re"]) == ["research"]
    assert completed(cluster_command, ["why", "--data", str(busy), "w"]) == ["w0", "w1", "wide"]
    assert completed(cluster_command, ["queues", "--data", str(busy / "none"), "re"]) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("snapshot", "show", "none.json"), "none.json can not be read: No such file"),
        (("snapshot", "replay", "text.json"), "text.json: is no JSON"),
        (("queues", "--snapshot", "text.json"), "text.json: is no JSON"),
        (("queues", "--data", "none"), "nothing runs on none: start it with `kilonova up"),
        (("queues",), "no cluster to look on"),
        (("plan", "-f", "none.yaml"), "none.yaml can not be read: No such file"),
        (("plan", "-f", "text.json"), "text.json, document 1: there is no object in it"),
        (("plan", "-f", "bad.yaml"), "bad.yaml is no YAML"),
        (("plan", "-f", "bare.yaml"), "bare.yaml, document 1: an object needs apiVersion"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(
    kilonova: Kilonova, words: tuple[str, ...], said: str
):
    (kilonova.home / "text.json").write_text("hello")
    (kilonova.home / "bad.yaml").write_text("a: [")
    (kilonova.home / "bare.yaml").write_text("a: 1")
    done = kilonova(*words)
    assert done.code == 1
    assert said in done.err
    assert len(done.err.splitlines()) == 1
