"""What lists show of rows: who holds what, and one word for how a thing is."""

from dataclasses import replace

import msgspec
import pytest

from kilonova.cli.kindsoflists import GANGS, NODES, WORKLOADS
from kilonova.cli.views import Tables, gang_views, node_views, workload_views
from kilonova.console.ownerrows import Job, Replicated, deployment_row, job_row
from kilonova.console.rows import GangGroup, GangRow, NodeRow, OwnerRow, PodRow, SetClique, SetRow


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
    assert row.held == held


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


def test_a_node_that_does_not_report_is_unknown_and_one_that_lost_a_gpu_says_so():
    silent = NodeRow(id="n", ready=False, unknown=True, cpu=1, ram=1)
    lossy = NodeRow(id="n", ready=True, lost=(3,), cordoned=True, cpu=1, ram=1)
    assert [node_views(Tables(nodes=[each]))[0].status for each in (silent, lossy)] == [
        "Unknown",
        "Ready,GPULost,Cordoned",
    ]


def test_a_gang_knows_its_pods_also_those_that_are_not_there_yet():
    groups = (GangGroup("g", 2, ("x/a", "x/b", "x/later")),)
    gang = GangRow(id="x/gang", phase="Starting", groups=groups, prefers="rack")
    pods = [pod("a", gpus=4, node="n2"), waiting("b", gpus=4)]
    (view,) = gang_views(Tables(gangs=[gang], pods=pods))
    assert (view.pods, view.ready, view.gpus, view.nodes) == (3, 1, 8, ["n2"])
    assert (view.queue, view.topology) == ("default", "prefers rack")


def test_pods_that_ended_do_not_count_while_others_run():
    pods = [pod("a", gpus=1), ended("b", "Failed", gpus=1)]
    (view,) = workload_views(Tables(pods=pods))
    assert (view.status, view.gpus) == ("Running", 1)


def test_a_workload_costs_what_it_holds():
    pods = [pod("a", devices=((0, 1.0), (1, 0.25))), waiting("b", gpus=4)]
    (view,) = workload_views(Tables(nodes=[NODE], pods=pods))
    assert view.price == 2.5


def test_a_set_is_there_before_its_pods_and_tells_why_it_waits():
    set_ = SetRow(id="x/s", replicas=1, cliques=(SetClique(name="w", replicas=1, min=1),))
    gang = GangRow(id="x/s-0", phase="Pending", groups=(), set="x/s", waits="no room")
    (view,) = workload_views(Tables(sets=[set_], gangs=[gang]))
    assert (view.kind, view.name, view.status, view.why) == (
        "PodCliqueSet",
        "s",
        "Waiting",
        "no room",
    )


def test_a_completed_job_is_shown_as_such_although_a_pod_of_it_failed():
    done = job("Complete", succeeded=1, failed=1)
    pods = [ended("a", "Failed"), ended("b", "Succeeded")]
    for selected in (False, True):
        (view,) = workload_views(Tables(pods=pods, jobs=[done], are_selected=selected))
        assert (view.status, view.ready, view.pods, view.why) == ("Completed", 1, 1, "")


def test_what_has_no_pods_is_there_unless_pods_were_chosen_by_labels():
    tables = Tables(jobs=[job()], sets=[SetRow(id="x/s", replicas=1, cliques=())])
    assert [view.name for view in workload_views(tables)] == ["j", "s"]
    assert workload_views(replace(tables, are_selected=True)) == []


def test_a_gang_without_pods_is_there_and_one_with_pods_is_what_made_them():
    gang = GangRow(id="x/g", phase="Pending", groups=(), waits="no pods")
    (view,) = workload_views(Tables(gangs=[gang]))
    assert (view.kind, view.name, view.status, view.why) == ("PodGang", "g", "Waiting", "no pods")
    (view,) = workload_views(Tables(gangs=[gang], pods=[waiting("a", gang="x/g")], jobs=[job()]))
    assert (view.kind, view.why) == ("Job", "no pods")


def test_what_makes_pods_tells_its_queue_and_why_it_has_none():
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    labels = {"scheduling.kilonova.dev/queue": "team"}
    metadata = {"name": "web", "namespace": "x"}
    spec = {"replicas": 1, "template": {"metadata": {"labels": labels}}}
    body = {"metadata": metadata, "spec": spec, "status": {"conditions": [refused]}}
    web = deployment_row(msgspec.convert(body, Replicated))
    (view,) = workload_views(Tables(deployments=[web]))
    assert (view.queue, view.status, view.why) == ("team", "Pending", "exceeded quota")


def test_what_has_pods_is_as_they_are():
    (view,) = workload_views(Tables(pods=[pod("a")], jobs=[job()]))
    assert (view.status, view.pods) == ("Running", 1)


def job(*conditions: str, **status: object) -> OwnerRow:
    told = [{"type": each, "status": "True"} for each in conditions]
    body = {
        "metadata": {"name": "j", "namespace": "x"},
        "status": {"conditions": told, **status},
    }
    return job_row(msgspec.convert(body, Job))


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
