"""What lists show of rows: who holds what, and one word for how a thing is."""

from collections.abc import Sequence

import msgspec
import pytest

from kilonova.cli.kindsoflists import GANGS, NODES, WORKLOADS
from kilonova.cli.ownerrows import Owner, OwnerRow, owner_row
from kilonova.cli.views import Tables, gang_views, gpus_of, node_views, workload_views
from kilonova.console.rows import GangGroup, GangRow, NodeRow, PodRow, SetRow


def pod(name: str, **other: object) -> PodRow:
    usual = {"id": f"x/{name}", "phase": "Running", "state": "Running", "workload": "Job/x/j"}
    return PodRow(**usual | {"node": "n", "ready": True} | other)  # type: ignore[arg-type]


def waiting(name: str, **other: object) -> PodRow:
    return pod(name, phase="Pending", state="Pending", node="", ready=False, **other)


def ended(name: str, phase: str, **other: object) -> PodRow:
    return pod(name, phase=phase, state=phase, ready=False, **other)


NODE = NodeRow(id="n", ready=True, cpu=4, ram=1 << 30, gpus=8, price=2.0)


@pytest.mark.parametrize(
    ("row", "held"),
    [
        (pod("whole", gpus=2, devices=((0, 1.0), (1, 1.0))), 2),
        (pod("part", devices=((0, 0.5),)), 0.5),
        (pod("untold", gpus=3), 3),
        (waiting("late", gpus=3), 0),
        (ended("done", "Succeeded", gpus=3), 0),
    ],
    ids=lambda value: value.id if isinstance(value, PodRow) else "",
)
def test_who_holds_gpus(row: PodRow, held: float):
    assert gpus_of(row) == held


def test_a_node_counts_only_pods_that_stand_on_it():
    pods = [pod("a", gpus=2), ended("b", "Failed", gpus=2), pod("c", node="other", gpus=1)]
    (view,) = node_views(Tables(nodes=[NODE], pods=pods))
    assert (view.pods, view.gpus_held, view.gpus) == (1, 2, 8)


@pytest.mark.parametrize(
    ("ready", "cordoned", "status"),
    [(True, False, "Ready"), (False, False, "NotReady"), (True, True, "Ready,Cordoned")],
)
def test_the_status_of_a_node(ready: bool, cordoned: bool, status: str):
    node = NodeRow(id="n", ready=ready, cordoned=cordoned, cpu=1, ram=1)
    assert node_views(Tables(nodes=[node]))[0].status == status


def test_a_gang_knows_its_pods_also_those_that_are_not_there_yet():
    groups = (GangGroup("g", 2, ("x/a", "x/b", "x/later")),)
    gang = GangRow(id="x/gang", phase="Starting", groups=groups, prefers="rack")
    pods = [pod("a", gpus=4, node="n2"), waiting("b", gpus=4)]
    (view,) = gang_views(Tables(gangs=[gang], pods=pods))
    assert (view.pods, view.ready, view.gpus, view.nodes) == (3, 1, 8, ["n2"])
    assert (view.queue, view.topology) == ("default", "prefers rack")


STATES: dict[str, Sequence[PodRow]] = {
    "Running": [pod("a"), pod("b")],
    "Starting": [pod("a"), pod("b", ready=False)],
    "Waiting": [pod("a"), waiting("b")],
    "Completed": [ended("a", "Succeeded")],
    "Failed": [ended("a", "Succeeded"), ended("b", "Failed")],
    "Terminating": [pod("a", state="Terminating")],
}


@pytest.mark.parametrize(("status", "pods"), STATES.items(), ids=STATES)
def test_a_workload_is_as_its_pods_are(status: str, pods: Sequence[PodRow]):
    assert workload_views(Tables(pods=pods))[0].status == status


def test_pods_that_ended_do_not_count_while_others_run():
    pods = [pod("a", gpus=1), ended("b", "Failed", gpus=1)]
    (view,) = workload_views(Tables(pods=pods))
    assert (view.status, view.gpus) == ("Running", 1)


def test_a_workload_costs_what_it_holds():
    pods = [pod("a", devices=((0, 1.0), (1, 0.25))), waiting("b", gpus=4)]
    (view,) = workload_views(Tables(nodes=[NODE], pods=pods))
    assert view.price == 2.5


def test_a_set_is_there_before_its_pods_and_tells_why_it_waits():
    set_ = SetRow(id="x/s", replicas=1, cliques=())
    gang = GangRow(id="x/s-0", phase="Pending", groups=(), set="x/s", waits="no room")
    (view,) = workload_views(Tables(sets=[set_], gangs=[gang]))
    assert (view.kind, view.name, view.status, view.why) == (
        "PodCliqueSet",
        "s",
        "Pending",
        "no room",
    )
    empty = SetRow(id="x/s", replicas=0, cliques=())
    assert workload_views(Tables(sets=[empty]))[0].status == "Empty"


OWNERS = {
    "Empty": {"spec": {"replicas": 0}},
    "Pending": {"spec": {"replicas": 2}},
    "Suspended": {"spec": {"parallelism": 1, "suspend": True}},
    "Completed": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    "Failed": {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "late"}]}},
}


@pytest.mark.parametrize(("status", "fields"), OWNERS.items(), ids=OWNERS)
def test_what_makes_pods_is_there_without_any(status: str, fields: dict[str, object]):
    (view,) = workload_views(Tables(jobs=[owner("Job", "j", **fields)]))
    assert (view.kind, view.name, view.status, view.pods) == ("Job", "j", status, 0)
    assert view.why == ("late" if status == "Failed" else "")


def test_what_makes_pods_tells_its_queue_and_why_it_has_none():
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    labels = {"scheduling.kilonova.dev/queue": "team"}
    web = owner(
        "Deployment",
        "web",
        spec={"replicas": 1, "template": {"metadata": {"labels": labels}}},
        status={"conditions": [refused]},
    )
    (view,) = workload_views(Tables(deployments=[web]))
    assert (view.queue, view.status, view.why) == ("team", "Pending", "exceeded quota")


def test_what_has_pods_is_as_they_are():
    job = owner("Job", "j", spec={"parallelism": 1})
    (view,) = workload_views(Tables(pods=[pod("a")], jobs=[job]))
    assert (view.status, view.pods) == ("Running", 1)


def owner(kind: str, name: str, **fields: object) -> OwnerRow:
    metadata = {"name": name, "namespace": "x", "uid": "u", "resourceVersion": "1"}
    return owner_row(kind)(msgspec.convert({"metadata": metadata, **fields}, Owner))


def test_why_of_a_workload_is_what_its_pods_tell():
    pods = [pod("a"), waiting("b", message="no node has room"), waiting("c", reason="Gated")]
    assert workload_views(Tables(pods=pods))[0].why == "no node has room"


def test_nodes_are_in_the_order_of_their_numbers():
    nodes = [NodeRow(id=name, ready=True, cpu=1, ram=1) for name in ("n-10", "n-2", "m", "n-2-a")]
    views = node_views(Tables(nodes=nodes))
    assert [view.name for view in views] == ["m", "n-2", "n-2-a", "n-10"]


def test_what_others_wrote_stays_in_its_cell_and_commands_no_terminal():
    said = "no room\nhere \x1b]0;mine\x07"
    node = NodeRow(id="n", ready=False, cpu=1, ram=1, problem=said)
    (node_view,) = node_views(Tables(nodes=[node]))
    (view,) = workload_views(Tables(pods=[waiting("late", message=said)]))
    assert NODES.columns[-1].cell(node_view) == "no room here ]0;mine"
    why = WORKLOADS.columns[-1]
    assert why.in_wide is not None
    assert {why.cell(view), why.in_wide(view)} == {"no room here ]0;mine"}
    (gang,) = gang_views(
        Tables(gangs=[GangRow(id="team/g", phase="Pending", groups=(), pack=said)])
    )
    topology = next(each for each in GANGS.columns if each.title == "TOPOLOGY")
    assert topology.cell(gang) == "no room here ]0;mine"
