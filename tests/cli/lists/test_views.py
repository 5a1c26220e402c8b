"""Views of rows: GPUs in use, states, and reasons."""

from dataclasses import replace

import msgspec
import pytest

from kilonova.cli.lists.definitions import GANGS, NODES, WORKLOADS
from kilonova.cli.lists.views import Tables, gang_views, node_views, workload_views
from kilonova.console.objects import Job, ReplicatedWorkload
from kilonova.console.rows.model import (
    GangGroup,
    GangRow,
    NodeRow,
    OwnerRow,
    PodRow,
    SetClique,
    SetRow,
)
from kilonova.console.rows.owners import deployment_row, job_row


def pod(name: str, **other: object) -> PodRow:
    defaults = {"id": f"x/{name}", "phase": "Running", "state": "Running", "workload": "Job/x/j"}
    return PodRow(**defaults | {"node": "n", "ready": True} | other)  # type: ignore[arg-type]


def pending(name: str, **other: object) -> PodRow:
    return pod(name, phase="Pending", state="Pending", node="", ready=False, **other)


def ended(name: str, phase: str, **other: object) -> PodRow:
    return pod(name, phase=phase, state=phase, ready=False, **other)


NODE = NodeRow(id="n", ready=True, cpu=4, memory=1 << 30, gpus=8, price=2.0)


@pytest.mark.parametrize(
    ("row", "held"),
    [
        (pod("whole", gpus=2, devices=((0, 1.0), (1, 1.0))), 2),
        (pod("part", devices=((0, 0.5),)), 0.5),
        (pod("unassigned", gpus=3), 3),
        (pending("late", gpus=3), 0),
        (ended("done", "Succeeded", gpus=3), 0),
    ],
    ids=lambda value: value.id if isinstance(value, PodRow) else "",
)
def test_gpus_that_a_pod_uses(row: PodRow, held: float):
    assert row.allocated_gpus == held


def test_node_counts_only_pods_bound_to_it():
    pods = [pod("a", gpus=2), ended("b", "Failed", gpus=2), pod("c", node="other", gpus=1)]
    (view,) = node_views(Tables(nodes=[NODE], pods=pods))
    assert (view.pods, view.gpus_allocated, view.gpus) == (1, 2, 8)


@pytest.mark.parametrize(
    ("ready", "cordoned", "status"),
    [(True, False, "Ready"), (False, False, "NotReady"), (True, True, "Ready,Cordoned")],
)
def test_status_of_a_node(ready: bool, cordoned: bool, status: str):
    node = NodeRow(id="n", ready=ready, cordoned=cordoned, cpu=1, memory=1)
    assert node_views(Tables(nodes=[node]))[0].status == status


def test_node_state_unknown_and_lost_gpu():
    unknown = NodeRow(id="n", ready=False, unknown=True, cpu=1, memory=1)
    lost_gpu = NodeRow(id="n", ready=True, lost=(3,), cordoned=True, cpu=1, memory=1)
    assert [node_views(Tables(nodes=[each]))[0].status for each in (unknown, lost_gpu)] == [
        "Unknown",
        "Ready,GPULost,Cordoned",
    ]


def test_gang_counts_pods_that_do_not_exist_yet():
    groups = (GangGroup("g", 2, ("x/a", "x/b", "x/later")),)
    gang = GangRow(id="x/gang", phase="Starting", groups=groups, preferred_topology="rack")
    pods = [pod("a", gpus=4, node="n2"), pending("b", gpus=4)]
    (view,) = gang_views(Tables(gangs=[gang], pods=pods))
    assert (view.pods, view.ready, view.gpus, view.nodes) == (3, 1, 8, ["n2"])
    assert (view.queue, view.topology) == ("default", "prefers rack")


def test_terminated_pods_do_not_count_while_others_run():
    pods = [pod("a", gpus=1), ended("b", "Failed", gpus=1)]
    (view,) = workload_views(Tables(pods=pods))
    assert (view.status, view.gpus) == ("Running", 1)


def test_price_of_a_workload_is_that_of_its_used_gpus():
    pods = [pod("a", devices=((0, 1.0), (1, 0.25))), pending("b", gpus=4)]
    (view,) = workload_views(Tables(nodes=[NODE], pods=pods))
    assert (view.price, view.unpriced_gpus) == (2.5, 0)


def test_used_gpus_without_a_price_are_counted_beside_the_price():
    pods = [pod("a", devices=((0, 1.0),)), pod("b", node="odd", devices=((0, 1.0), (1, 0.5)))]
    (view,) = workload_views(Tables(nodes=[NODE], pods=pods))
    assert (view.price, view.unpriced_gpus) == (2.0, 1.5)


def test_set_without_pods_is_listed_with_its_reason():
    set_ = SetRow(id="x/s", replicas=1, cliques=(SetClique(name="w", replicas=1, min=1),))
    gang = GangRow(id="x/s-0", phase="Pending", groups=(), set="x/s", pending_reason="no capacity")
    (view,) = workload_views(Tables(sets=[set_], gangs=[gang]))
    assert (view.kind, view.name, view.status, view.why) == (
        "PodCliqueSet",
        "s",
        "Pending",
        "no capacity",
    )


def test_completed_job_with_a_failed_pod_is_completed():
    done = job("Complete", succeeded=1, failed=1)
    pods = [ended("a", "Failed"), ended("b", "Succeeded")]
    for has_selector in (False, True):
        (view,) = workload_views(Tables(pods=pods, jobs=[done], has_label_selector=has_selector))
        assert (view.status, view.ready, view.pods, view.why) == ("Completed", 1, 1, "")


def test_workload_without_pods_is_listed_unless_a_selector_is_given():
    tables = Tables(jobs=[job()], sets=[SetRow(id="x/s", replicas=1, cliques=())])
    assert [view.name for view in workload_views(tables)] == ["j", "s"]
    assert workload_views(replace(tables, has_label_selector=True)) == []


def test_gang_without_pods_is_listed_and_one_with_pods_belongs_to_their_owner():
    gang = GangRow(id="x/g", phase="Pending", groups=(), pending_reason="no pods")
    (view,) = workload_views(Tables(gangs=[gang]))
    assert (view.kind, view.name, view.status, view.why) == ("PodGang", "g", "Pending", "no pods")
    (view,) = workload_views(Tables(gangs=[gang], pods=[pending("a", gang="x/g")], jobs=[job()]))
    assert (view.kind, view.why) == ("Job", "no pods")


def test_owner_without_pods_shows_its_queue_and_reason():
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    labels = {"scheduling.kilonova.dev/queue": "team"}
    metadata = {"name": "web", "namespace": "x"}
    spec = {"replicas": 1, "template": {"metadata": {"labels": labels}}}
    body = {"metadata": metadata, "spec": spec, "status": {"conditions": [failure]}}
    web = deployment_row(msgspec.convert(body, ReplicatedWorkload))
    (view,) = workload_views(Tables(deployments=[web]))
    assert (view.queue, view.status, view.why) == ("team", "Creating", "exceeded quota")


def test_owner_with_pods_has_their_state():
    (view,) = workload_views(Tables(pods=[pod("a")], jobs=[job()]))
    assert (view.status, view.pods) == ("Running", 1)


def job(*conditions: str, **status: object) -> OwnerRow:
    listed = [{"type": each, "status": "True"} for each in conditions]
    body = {
        "metadata": {"name": "j", "namespace": "x"},
        "status": {"conditions": listed, **status},
    }
    return job_row(msgspec.convert(body, Job))


def test_reason_of_a_workload_is_that_of_its_pods():
    pods = [pod("a"), pending("b", message="no feasible node"), pending("c", reason="Gated")]
    assert workload_views(Tables(pods=pods))[0].why == "no feasible node"


def test_nodes_are_sorted_naturally():
    nodes = [
        NodeRow(id=name, ready=True, cpu=1, memory=1) for name in ("n-10", "n-2", "m", "n-2-a")
    ]
    views = node_views(Tables(nodes=nodes))
    assert [view.name for view in views] == ["m", "n-2", "n-2-a", "n-10"]


def test_user_text_stays_in_its_cell_without_control_characters():
    text = "no capacity\nhere \x1b]0;mine\x07"
    node = NodeRow(id="n", ready=False, cpu=1, memory=1, problem=text)
    (node_view,) = node_views(Tables(nodes=[node]))
    (view,) = workload_views(Tables(pods=[pending("late", message=text)]))
    assert NODES.columns[-1].cell(node_view) == "no capacity here ]0;mine"
    why = WORKLOADS.columns[-1]
    assert why.wide_cell is not None
    assert {why.cell(view), why.wide_cell(view)} == {"no capacity here ]0;mine"}
    (gang,) = gang_views(
        Tables(gangs=[GangRow(id="team/g", phase="Pending", groups=(), required_topology=text)])
    )
    topology = next(each for each in GANGS.columns if each.title == "TOPOLOGY")
    assert topology.cell(gang) == "no capacity here ]0;mine"


def test_owner_whose_pods_belong_to_another_workload_is_not_listed_itself():
    labels = {"jobset.sigs.k8s.io/jobset-name": "sweep"}
    metadata = {"name": "sweep-a-0", "namespace": "x", "labels": labels}
    job = job_row(msgspec.convert({"metadata": metadata}, Job))
    set_ = SetRow(id="x/s", replicas=1, cliques=(), workload="Chat.example.com/x/c")
    pods = [pod("a", workload="JobSet/x/sweep")]
    chat, sweep = workload_views(Tables(pods=pods, jobs=[job], sets=[set_]))
    assert (chat.kind, chat.name, chat.pods) == ("Chat.example.com", "c", 0)
    assert (sweep.kind, sweep.name) == ("JobSet", "sweep")
    assert WORKLOADS.reference(sweep) == "jobset/sweep"


def test_workload_is_listed_by_a_set_that_names_it():
    gang = GangRow(id="x/s-0", phase="Pending", groups=(), set="x/s", pending_reason="full")
    clique = SetClique(name="w", replicas=2, min=2, gpus=4)
    set_ = SetRow(id="x/s", replicas=1, cliques=(clique,), workload="Chat.example.com/x/c")
    (view,) = workload_views(Tables(gangs=[gang], sets=[set_]))
    assert (view.kind, view.name, view.status) == ("Chat.example.com", "c", "Pending")
    assert (view.pods, view.gpus, view.why) == (2, 8, "full")
    assert workload_views(Tables(gangs=[gang], sets=[set_], has_label_selector=True)) == []
