"""`kilonova queues`, `why`, `plan` and `snapshot` on a cluster in the background."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import connect
from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import Kilonova, complete_words
from tests.harness.queue_status import wait_for_queue_status
from tests.scheduler.harness.embedded_scheduler import gang, pod

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)

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
def busy_cluster(cluster: Path) -> Path:
    """An unschedulable gang, a pod that waits for its queue, and two pods without schedulerName,
    one of which runs."""
    asyncio.run(_fill(cluster / "kubeconfig"))
    return cluster


async def _fill(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as client:
        await client.create(QUEUES, _queue("research", limit={"nvidia.com/gpu": 2}))
        await client.create(QUEUES, _queue("vision", parent="research"))
        await client.create(QUEUES, _queue("lost", parent="nowhere"))
        requesting = pod("requesting", 0)
        requesting["spec"]["containers"][0]["resources"] = {"limits": {"example.com/fpga": 3}}
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "vision"
        foreign = pod("foreign", 1)
        unnamed = pod("unnamed", 9)
        del foreign["spec"]["schedulerName"], unnamed["spec"]["schedulerName"]
        for each in (
            requesting,
            held,
            foreign,
            unnamed,
            *(pod(name, 9, gang="wide") for name in ("w0", "w1")),
        ):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        async with asyncio.timeout(30):
            while (await client.get(PODS, "foreign", "default"))["status"]["phase"] != "Running":
                await asyncio.sleep(0.05)
        await wait_for_queue_status(client, "default", requested={"example.com/fpga": "3"})
        await wait_for_queue_status(client, "vision", requested={"nvidia.com/gpu": "4"})
        await wait_for_queue_status(client, "lost")


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_queues_are_shown_as_a_tree(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("queues", "--data", busy_cluster)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0][:3] == ["QUEUE", "DESERVED", "LIMIT"]
    assert [row[0] for row in rows[1:5]] == ["default", "lost", "research", "vision"]
    assert "  vision " in done.out
    assert "no (QueueParentNotFound)" in done.out
    assert rows[3][2] == "2"


def test_queue_output_formats_agree(cluster_command: Kilonova, busy_cluster: Path):
    words = ("queues", "--kubeconfig", busy_cluster / "kubeconfig", "-o")
    as_json = json.loads(cluster_command(*words, "json").out)
    assert yaml.safe_load(cluster_command(*words, "yaml").out) == as_json
    vision = next(each for each in as_json if each["name"] == "vision")
    assert vision["parent"] == "research"
    assert vision["pendingGangNames"] == ["pod/default/held"]
    assert vision["requested"]["nvidia.com/gpu"] == "4"


def test_single_queue_shows_all_details(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("queues", "lost", "--data", busy_cluster)
    assert 'create "nowhere"' in done.out
    wrong = cluster_command("queues", "nobody", "--data", busy_cluster)
    assert wrong.code == 1
    assert "there is no queue 'nobody': there are default, lost, research, vision" in wrong.err


def test_unknown_resource_is_rejected(cluster_command: Kilonova, busy_cluster: Path):
    for more in ((), ("-w",)):
        done = cluster_command("queues", "--resource", "nope", *more, "--data", busy_cluster)
        assert (done.code, done.out) == (1, "")
        assert "--resource nope: no node has it, no queue names it and no pod" in done.err
        assert "cpu, " in done.err
    assert cluster_command("queues", "--resource", "memory", "--data", busy_cluster).code == 0
    counted = cluster_command("queues", "--resource", "pods", "--data", busy_cluster)
    assert "--resource pods: queues do not count pods" in counted.err


def test_resource_requested_only_by_pods_is_shown(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("queues", "--resource", "example.com/fpga", "--data", busy_cluster)
    assert done.code == 0, done.err
    assert "Amounts of example.com/fpga." in done.out
    row = next(line.split() for line in done.out.splitlines() if line.startswith("default "))
    assert row[4] == "3"


def test_why_reports_the_limit_and_the_smallest_change(
    cluster_command: Kilonova, busy_cluster: Path
):
    done = cluster_command("why", "held", "--data", busy_cluster)
    assert done.code == 0, done.err
    assert "(queue vision) is pending." in done.out
    assert 'queue "research" may use 2 nvidia.com/gpu' in done.out
    assert 'Smallest change: raise the limit to 4 nvidia.com/gpu in queue "research"' in done.out


@pytest.mark.parametrize("name", ["wide", "podgang/wide", "w1", "pod/w1"])
def test_why_of_a_gang_equals_that_of_its_pods(
    cluster_command: Kilonova, busy_cluster: Path, name: str
):
    done = cluster_command("why", name, "-o", "json", "--data", busy_cluster)
    found = json.loads(done.out)
    assert (found["gang"], found["state"]) == ("default/wide", "Unschedulable")
    assert found["explanation"]["blockingConstraint"]["kind"] == "NoMatchingNode"
    assert found["explanation"]["diagnoses"][0]["available"] == 0


def test_why_of_a_placed_pod_reports_its_node(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("why", "foreign", "--data", busy_cluster)
    assert done.code == 0, done.err
    assert "is placed: 1 pod on 1 node" in done.out
    assert "Score of " in done.out


def test_why_in_up_explains_pods_of_the_default_scheduler(
    cluster_command: Kilonova, busy_cluster: Path
):
    done = cluster_command("why", "unnamed", "--data", busy_cluster)
    assert "Blocked by: no node is feasible for a pod of group unnamed" in done.out, done.err


def test_why_of_an_unknown_name_suggests_what_to_check(
    cluster_command: Kilonova, busy_cluster: Path
):
    done = cluster_command("why", "nobody", "-n", "team", "--data", busy_cluster)
    assert done.code == 1
    assert "no pod or gang 'nobody' in namespace team" in done.err
    assert "check -n and the schedulerName of the pod" in done.err
    assert len(done.err.splitlines()) == 1


def test_why_in_the_wrong_namespace_names_the_right_one(
    cluster_command: Kilonova, busy_cluster: Path
):
    done = cluster_command("why", "wide", "-n", "team", "--data", busy_cluster)
    assert done.err.endswith("kilonova-scheduler: did you mean wide -n default?\n")


def test_missing_kubeconfig_does_not_fall_back_to_another_cluster(
    cluster_command: Kilonova, busy_cluster: Path, monkeypatch: pytest.MonkeyPatch
):
    default = cluster_command.environment() | {"XDG_DATA_HOME": str(cluster_command.home / "share")}
    (cluster_command.home / "share" / "kilonova").mkdir(parents=True)
    (cluster_command.home / "share" / "kilonova" / "default").symlink_to(busy_cluster)
    monkeypatch.setattr(cluster_command, "environment", lambda: default)
    assert "h100-0" in cluster_command("nodes").out
    wrong = default | {"KUBECONFIG": "/nowhere"}
    monkeypatch.setattr(cluster_command, "environment", lambda: wrong)
    done = cluster_command("nodes")
    assert (done.code, done.out) == (1, "")
    assert "/nowhere: no kubeconfig was found" in done.err


def test_snapshot_gives_the_same_answers_as_the_cluster(
    cluster_command: Kilonova, busy_cluster: Path, tmp_path: Path
):
    file = tmp_path / "it.json.gz"
    saved = cluster_command("snapshot", "save", file, "--data", busy_cluster)
    assert saved.code == 0, saved.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert "34 nodes, 1 pod placed, 4 gangs pending" in saved.out
    summary = cluster_command("snapshot", "show", file)
    assert "NVIDIA-H100-80GB-HBM3   8       64" in summary.out
    assert "default/wide" in summary.out
    replayed = json.loads(cluster_command("snapshot", "replay", file, "-o", "json").out)
    assert {each["gang"]: each["reason"] for each in replayed["rejected"]} == {
        "default/wide": "InsufficientCapacity",
        "pod/default/requesting": "InsufficientCapacity",
        "pod/default/held": "QueueLimitReached",
        "pod/default/unnamed": "InsufficientCapacity",
    }
    again = cluster_command("snapshot", "replay", file, "-o", "json")
    assert json.loads(again.out) == replayed
    live = cluster_command("why", "wide", "--data", busy_cluster).out
    assert cluster_command("why", "wide", "--snapshot", file).out == live


def test_default_name_of_a_snapshot_has_the_time(cluster_command: Kilonova, busy_cluster: Path):
    done = cluster_command("snapshot", "save", "--data", busy_cluster)
    name = done.out.partition(":")[0]
    assert name.startswith("snapshot-")
    assert name.endswith("Z.json.gz")
    assert cluster_command("snapshot", "show", name, "-o", "json").code == 0


def test_plan_reports_placements_and_writes_nothing(
    cluster_command: Kilonova, busy_cluster: Path, tmp_path: Path
):
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT)
    before = cluster_command.status(busy_cluster)["pods"]
    done = cluster_command("plan", "-f", file, "--data", busy_cluster, "-o", "json")
    assert done.code == 0, done.err
    placed = json.loads(done.out)["placed"]
    assert [each["pods"][0]["pod"] for each in placed] == ["default/web-0", "default/web-1"]
    assert all(each["pods"][0]["devices"].count(",") == 3 for each in placed)
    assert cluster_command.status(busy_cluster)["pods"] == before
    table = cluster_command("plan", "-f", file, "--data", busy_cluster)
    assert "default/web-1   nvl72-" in table.out


def test_policy_and_config_files_replace_the_policy(
    cluster_command: Kilonova, busy_cluster: Path, tmp_path: Path
):
    snapshot, policy = tmp_path / "it.json", tmp_path / "policy.yaml"
    cluster_command("snapshot", "save", snapshot, "--data", busy_cluster)
    head = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    policy.write_text(f"{head}evictions: false\nweights: {{fit: 80}}\n")
    assert cluster_command("snapshot", "replay", snapshot, "--policy", policy).code == 0
    why = ("why", "wide", "--snapshot", snapshot, "--config", policy)
    assert cluster_command(*why).code == 0
    policy.write_text(f"{head}evict: false\n")
    wrong = cluster_command("snapshot", "replay", snapshot, "--policy", policy)
    assert wrong.code == 1
    assert "evict: unknown field of SchedulerConfiguration" in wrong.err


def test_names_are_completed(cluster_command: Kilonova, busy_cluster: Path):
    assert complete_words(cluster_command, ["queues", "--data", str(busy_cluster), "re"]) == [
        "research"
    ]
    assert complete_words(cluster_command, ["why", "--data", str(busy_cluster), "w"]) == [
        "w0",
        "w1",
        "wide",
    ]
    assert (
        complete_words(cluster_command, ["queues", "--data", str(busy_cluster / "none"), "re"])
        == []
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("snapshot", "show", "none.json"), "none.json cannot be read: No such file"),
        (("snapshot", "replay", "text.json"), "text.json: is not JSON"),
        (("queues", "--snapshot", "text.json"), "text.json: is not JSON"),
        (("queues", "--data", "none"), "no cluster is running in none: start it with `kilonova up"),
        (("queues",), "no cluster to read from"),
        (("plan", "-f", "none.yaml"), "none.yaml cannot be read: No such file"),
        (("plan", "-f", "text.json"), "text.json, document 1: is not an object"),
        (("plan", "-f", "bad.yaml"), "bad.yaml is not YAML"),
        (("plan", "-f", "bare.yaml"), "bare.yaml, document 1: an object needs apiVersion"),
    ],
)
def test_failures_are_reported_in_one_line(
    kilonova: Kilonova, words: tuple[str, ...], message: str
):
    (kilonova.home / "text.json").write_text("hello")
    (kilonova.home / "bad.yaml").write_text("a: [")
    (kilonova.home / "bare.yaml").write_text("a: 1")
    done = kilonova(*words)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.splitlines()) == 1
