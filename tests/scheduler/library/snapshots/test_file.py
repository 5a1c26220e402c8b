"""Snapshot files round-trip, and give the same decisions everywhere."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, GangAntiAffinity, Group, Member
from kilonova.scheduler.core.model.pod_affinity import (
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
)
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.usage_history import UsageHistory
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.snapshots.file import (
    InvalidSnapshotFile,
    decode_snapshot,
    encode_snapshot,
    load_snapshot_file,
    save_snapshot_file,
)
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import random_clusters as random
from tests.scheduler.harness.snapshots import UNUSED_PATH, example_snapshot

POLICY = PlannerPolicy(random.LEVELS, reserve_after=100.0)


@st.composite
def cluster_snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    """A cluster with running and pending gangs."""
    cluster = Cluster()
    for index in draw(st.permutations(range(4))):
        cluster.snapshot.put_node(draw(random.nodes(f"n{index}")))
    if draw(st.booleans()):
        cluster.snapshot.remove_node("n2")
    specs = draw(random.queues())
    cluster.replace_queues(build_queue_forest(specs))
    cluster.budgets = {name: draw(st.integers(0, 2)) for name in random.BUDGETS}
    planner = Planner(cluster, default_scoring(), POLICY)
    planner.schedule([draw(random.gangs(f"old{index}")) for index in range(3)], 10.0)
    cluster.history = UsageHistory(100.0, 10.0).advance(cluster.used, draw(st.floats(10.0, 500.0)))
    waiting = [draw(random.gangs(f"new{index}", float(index))) for index in range(3)]
    return take_snapshot(cluster, waiting, specs, POLICY, 500.0)


@settings(max_examples=limit_examples(60), deadline=None)
@given(cluster_snapshots())
def test_snapshot_round_trips_and_gives_the_same_decisions(snapshot: ClusterSnapshot) -> None:
    text = encode_snapshot(snapshot)
    decoded = decode_snapshot(text, UNUSED_PATH)
    assert decoded == snapshot
    assert encode_snapshot(decoded) == text
    assert replay_snapshot(decoded) == replay_snapshot(snapshot)


@settings(max_examples=limit_examples(30), deadline=None)
@given(cluster_snapshots())
def test_cluster_restored_from_a_snapshot_gives_an_equal_snapshot(
    snapshot: ClusterSnapshot,
) -> None:
    cluster = snapshot.to_cluster()
    another = take_snapshot(
        cluster, snapshot.pending_gangs, snapshot.queues, snapshot.policy, snapshot.now
    )
    assert another == snapshot


def test_decisions_do_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    path = tmp_path / "it.json.gz"
    save_snapshot_file(example_snapshot(), path)
    program = (
        "import sys, msgspec; from pathlib import Path;"
        "from kilonova.scheduler.library.snapshots.file import encode_snapshot, load_snapshot_file;"
        "from kilonova.scheduler.library.decisions import replay_snapshot;"
        "s = load_snapshot_file(Path(sys.argv[1]));"
        "sys.stdout.buffer.write(encode_snapshot(s) + msgspec.json.encode(replay_snapshot(s)))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, path],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0] == encode_snapshot(example_snapshot()) + msgspec.json.encode(
        replay_snapshot(example_snapshot())
    )


@pytest.mark.parametrize("name", ["it.json", "it.json.gz"])
def test_snapshot_file_with_and_without_gzip(tmp_path: Path, name: str) -> None:
    save_snapshot_file(example_snapshot(), tmp_path / name)
    assert load_snapshot_file(tmp_path / name) == example_snapshot()
    packed = (tmp_path / name).read_bytes().startswith(b"\x1f\x8b")
    assert packed == name.endswith(".gz")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def _change_snapshot_file(change: str) -> bytes:
    whole: Any = json.loads(encode_snapshot(example_snapshot()))
    match change:
        case "foreign":
            whole["kind"] = "List"
        case "newer":
            whole["version"] = 99
        case "older":
            whole["version"] = 0
        case "type":
            whole["nodes"][1]["allocatable"]["cpu"] = "many"
        case "field":
            del whole["nodes"][0]["name"]
        case "part":
            del whole["placements"]
        case "number":
            whole["nodes"][0]["#layout"] = 7
        case "layout":
            whole["layouts"][0]["links"] = [[0, 5, 300]]
        case "row":
            whole["placements"][0]["row"] = 2
        case "twins":
            whole["nodes"][1]["name"] = "a"
        case "share":
            whole["placements"][1]["devices"][0]["milli"] = 1 << 20
        case "device":
            whole["placements"][0]["devices"][0]["index"] = 4
        case _:
            whole["placements"] = []
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not JSON"),
        (b'{"kind": ', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a snapshot: it is not a JSON object"),
        (b"{}", "is not a snapshot: its kind is not 'kilonova-snapshot'"),
        (
            gzip.compress(encode_snapshot(example_snapshot()))[:-20],
            "is invalid: it cannot be decompressed",
        ),
        (_change_snapshot_file("foreign"), "is not a snapshot"),
        (
            _change_snapshot_file("newer"),
            "has version 99, but this kilonova reads versions 1 and 2: read it with a newer",
        ),
        (
            _change_snapshot_file("older"),
            "has version 0, but this kilonova reads versions 1 and 2: save it again",
        ),
        (_change_snapshot_file("type"), "$.nodes[1].allocatable"),
        (_change_snapshot_file("field"), "missing required field `name` - at `$.nodes[0]`"),
        (_change_snapshot_file("part"), "missing required field `placements`"),
        (_change_snapshot_file("number"), "layout 7 does not exist: there are 1"),
        (_change_snapshot_file("layout"), "link 0-5: not two devices"),
        (_change_snapshot_file("row"), "ns/slice is on node 2 of 2"),
        (_change_snapshot_file("twins"), "a is listed twice in nodes"),
        (_change_snapshot_file("device"), "ns/slice has device 4, which does not exist"),
        (_change_snapshot_file("share"), "ns/steady uses more of device 0 than exists"),
        (
            _change_snapshot_file("placements"),
            "ns/slice of gang ns/slice is running but not in placements",
        ),
    ],
)
def test_invalid_file_is_rejected_with_the_position(text: bytes, message: str) -> None:
    with pytest.raises(InvalidSnapshotFile) as caught:
        decode_snapshot(text, UNUSED_PATH)
    assert message in str(caught.value)
    assert str(caught.value).startswith("here: ")


def test_file_of_version_1_is_read() -> None:
    found = load_snapshot_file(Path(__file__).parents[1] / "data" / "snapshot-v1.json")
    expected = example_snapshot()
    web = PodSelector(frozenset({"ns"}), (Requirement("app", "In", ("web",)),), True)
    near = AffinityTerm(web, "rack")
    rules = PodAffinityRules(
        affinity=(near,),
        anti_affinity=(AffinityTerm(web, "zone"),),
        preferred=((5, near),),
        topology_spread=(
            TopologySpread(
                web,
                "rack",
                max_skew=2,
                required=False,
                min_domains=3,
                honors_node_affinity=False,
                honors_taints=True,
                matches_itself=False,
            ),
        ),
        matches_own_affinity=True,
        has_node_affinity=True,
    )
    round_nodes = NodeSelectorTerm((Requirement("shape", "Exists"),))
    shape = Shape(
        (("cpu", 1000), ("pods", 1)),
        node_selector=(("shape", "round"),),
        required_node_terms=((round_nodes,),),
        preferred_node_terms=((7, round_nodes),),
        avoided_nodes=frozenset({"x"}),
        pod_rules=rules,
    )
    member = Member(
        "ns/m",
        shape,
        {"app": "web"},
        ("ns/budget",),
        terminating=True,
        has_controller=False,
    )
    placed = replace(member, pod="ns/steady")
    group = Group("w", (member,), 1, placed_nodes=("a",), placed_members=(placed,), expected_pods=2)
    gang = Gang(
        "ns/rich",
        (group,),
        anti_affinity=GangAntiAffinity(
            "rack", required=True, avoided_nodes=("a",), group_key="key"
        ),
        base_nodes=("a",),
        reservation="reservation/ns/r",
        previous_nodes=("b",),
    )
    assert found == replace(
        expected,
        pending_gangs=(*expected.pending_gangs, gang),
        policy=PlannerPolicy(preemption_enabled=False),
    )
    read = found.pending_gangs[-1].groups[0].members[0]
    assert (read.terminating, read.has_controller) == (True, False)


def test_unknown_score_plugin_is_named() -> None:
    snapshot = replace(example_snapshot(), weights={"topology": 1.0, "taste": 2.0})
    with pytest.raises(ValueError, match="unknown score plugin: taste"):
        replay_snapshot(snapshot)
