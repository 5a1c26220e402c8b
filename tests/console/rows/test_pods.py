"""Rows of pods."""

import json
from typing import Any

import msgspec
import pytest

from kilonova.api.group_kinds import GroupKind
from kilonova.api.times import parse_time
from kilonova.console.objects import Pod
from kilonova.console.rows.pods import pod_row
from kilonova.local.apiserver.kinds.core.pods.columns import pod_cells
from tests.console.console_page import to_wire

NOW = parse_time("2026-05-01T00:00:00Z")
RUNNING = {"running": {"startedAt": "2026-05-01T00:00:10Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def body(
    *, status: Any = None, spec: Any = None, labels: Any = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "team", "labels": labels or {}, **metadata},
        "spec": {"containers": [{"name": "main"}], **(spec or {})},
        "status": {"phase": "Pending", **(status or {})},
    }


def row_on_wire(pod: dict[str, Any]) -> Any:
    return to_wire(pod_row(msgspec.json.decode(json.dumps(pod), type=Pod)))


def container(state: Any, **more: Any) -> Any:
    return {"name": "main", "state": state, **more}


def init(state: Any, name: str = "prepare", **more: Any) -> Any:
    return {"name": name, "state": state, **more}


WITH_INIT = {"initContainers": [{"name": "prepare"}, {"name": "side", "restartPolicy": "Always"}]}

GATED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
"""The condition that remains after gates are removed, until a scheduler observes the pod."""
STATES: list[tuple[str, dict[str, Any]]] = [
    ("Pending", body()),
    ("SchedulingGated", body(spec={"schedulingGates": [{"name": "g"}]}, status=GATED)),
    ("Pending", body(status=GATED)),
    (
        "ContainerCreating",
        body(
            status={"containerStatuses": [container({"waiting": {"reason": "ContainerCreating"}})]}
        ),
    ),
    (
        "Running",
        body(status={"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)]}),
    ),
    (
        "CrashLoopBackOff",
        body(
            status={
                "phase": "Running",
                "containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}})],
            }
        ),
    ),
    ("Completed", body(status={"phase": "Succeeded", "containerStatuses": [container(DONE)]})),
    (
        "Error",
        body(
            status={
                "phase": "Failed",
                "containerStatuses": [
                    container({"terminated": {"exitCode": 1, "reason": "Error"}})
                ],
            }
        ),
    ),
    (
        "ExitCode:3",
        body(
            status={
                "phase": "Failed",
                "containerStatuses": [container({"terminated": {"exitCode": 3}})],
            }
        ),
    ),
    (
        "Signal:9",
        body(
            status={
                "phase": "Failed",
                "containerStatuses": [container({"terminated": {"exitCode": 0, "signal": 9}})],
            }
        ),
    ),
    ("Evicted", body(status={"phase": "Failed", "reason": "Evicted", "message": "no memory"})),
    (
        "Init:0/2",
        body(spec=WITH_INIT, status={"initContainerStatuses": [init({"running": {}})]}),
    ),
    (
        "Init:1/2",
        body(
            spec=WITH_INIT,
            status={"initContainerStatuses": [init(DONE), init({"running": {}}, "side")]},
        ),
    ),
    (
        "Init:ErrImagePull",
        body(
            spec=WITH_INIT,
            status={"initContainerStatuses": [init({"waiting": {"reason": "ErrImagePull"}})]},
        ),
    ),
    (
        "Init:ExitCode:2",
        body(
            spec=WITH_INIT,
            status={"initContainerStatuses": [init({"terminated": {"exitCode": 2}})]},
        ),
    ),
    (
        "PodInitializing",
        body(
            spec=WITH_INIT,
            status={
                "initContainerStatuses": [init(DONE), init(RUNNING, "side", started=True)],
                "containerStatuses": [container({"waiting": {"reason": "PodInitializing"}})],
            },
        ),
    ),
    (
        "NotReady",
        body(
            status={
                "phase": "Running",
                "containerStatuses": [container(DONE), container(RUNNING, ready=True)],
            }
        ),
    ),
    (
        "Running",
        body(
            status={
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [container(DONE), container(RUNNING, ready=True)],
            }
        ),
    ),
    ("Terminating", body(deletionTimestamp="2026-05-01T00:00:00Z", status={"phase": "Running"})),
    (
        "Unknown",
        body(deletionTimestamp="2026-05-01T00:00:00Z", status={"reason": "NodeLost"}),
    ),
]


@pytest.mark.parametrize(("state", "pod"), STATES)
def test_state_is_that_of_kubectl(state: str, pod: dict[str, Any]) -> None:
    assert row_on_wire(pod)["state"] == state
    assert pod_cells(pod, NOW)[2] == state


def test_pod_of_a_set_has_its_gang_clique_and_queue() -> None:
    row = row_on_wire(
        body(
            labels={
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "disagg",
                "grove.io/podgang": "disagg-0",
                "grove.io/podclique": "disagg-0-decode",
                "scheduling.kilonova.dev/queue": "research",
            },
            ownerReferences=[owner("PodClique", "disagg-0-decode")],
        )
    )
    assert row["gang"] == "team/disagg-0"
    assert row["set"] == "team/disagg"
    assert row["clique"] == "team/disagg-0-decode"
    assert row["workload"] == "PodCliqueSet/team/disagg"
    assert row["queue"] == "research"


def owner(kind: str, name: str) -> dict[str, Any]:
    group = GroupKind.parse(kind)
    version = f"{group.group}/v1" if group else "v1"
    kind = group.kind if group else kind
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("labels", "owners", "workload"),
    [
        ({}, [], "Pod/team/p"),
        ({}, [owner("Job", "train")], "Job/team/train"),
        ({"pod-template-hash": "5d4f"}, [owner("ReplicaSet", "web-5d4f")], "Deployment/team/web"),
        ({}, [owner("ReplicaSet", "web")], "ReplicaSet/team/web"),
        ({"app.kubernetes.io/part-of": "suite"}, [], "Pod/team/p"),
        ({}, [owner("RayCluster.ray.io", "ray.v2")], "RayCluster.ray.io/team/ray.v2"),
        ({"kilonova.dev/workload": "Chat.x.io_c"}, [owner("Job", "j")], "Chat.x.io/team/c"),
        # The API server does not validate kind and name of an owner.
        ({}, [owner("a/b", "c/d")], "Pod/team/p"),
        ({}, [owner("Job", "\x1b]0;mine\x07")], "Pod/team/p"),
        ({}, [owner("<b>", "50%")], "Pod/team/p"),
    ],
)
def test_workload_is_the_top_level_controller(
    labels: Any, owners: list[dict[str, Any]], workload: str
) -> None:
    assert row_on_wire(body(labels=labels, ownerReferences=owners))["workload"] == workload


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("0,1", [[0, 1.0], [1, 1.0]]),
        ("3:500", [[3, 0.5]]),
        ("2:1g.10gb@4", [[2, 0.143]]),
        ("2:7g.80gb@0", [[2, 1.0]]),
        ("nonsense", None),
    ],
)
def test_devices_have_their_share(text: str, devices: Any) -> None:
    row = row_on_wire(body(annotations={"gpu.kilonova.dev/devices": text}))
    assert row.get("devices") == devices


def test_mig_instances_are_named_by_device_profile_and_start() -> None:
    row = row_on_wire(body(annotations={"gpu.kilonova.dev/devices": "0,2:1g.10gb@4,3:2g.20gb@0"}))
    assert row["migInstances"] == [[2, "1g.10gb", 4], [3, "2g.20gb", 0]]
    assert len(row["devices"]) == 3


def test_requests_are_the_sum_of_containers_or_the_largest_init_container() -> None:
    def asks(**amounts: str) -> Any:
        return {"resources": {"requests": {k.replace("_", "/"): v for k, v in amounts.items()}}}

    spec = {
        "containers": [
            {"name": "a", "resources": {"requests": {"nvidia.com/gpu": "2", "cpu": "1"}}},
            {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", **asks(cpu="500m")},
            {"name": "i", **asks(cpu="4", memory="1Gi")},
        ],
    }
    row = row_on_wire(body(spec=spec))
    assert (row["gpus"], row["cpu"], row["memory"]) == (3, 4.5, 1 << 30)


def test_requests_include_pod_level_requests_and_overhead() -> None:
    resources = {"requests": {"nvidia.com/gpu": "2", "cpu": "1", "memory": "1Gi"}}
    spec = {
        "containers": [{"name": "a", "resources": resources}],
        "resources": {"requests": {"cpu": "8"}},
        "overhead": {"cpu": "500m", "memory": "1Gi"},
    }
    row = row_on_wire(body(spec=spec))
    assert (row["gpus"], row["cpu"], row["memory"]) == (2, 8.5, 2 << 30)


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (
            body(
                status={
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "no node has 9 GPUs",
                        }
                    ]
                }
            ),
            "Unschedulable",
            "no node has 9 GPUs",
        ),
        (
            body(
                status={
                    "containerStatuses": [
                        container({"waiting": {"reason": "ErrImagePull", "message": "no image"}})
                    ]
                }
            ),
            "ErrImagePull",
            "no image",
        ),
        (
            body(status={"phase": "Failed", "reason": "Evicted", "message": "the node was low"}),
            "Evicted",
            "the node was low",
        ),
        (
            body(
                status={
                    "phase": "Failed",
                    "containerStatuses": [
                        container({"terminated": {"exitCode": 2, "reason": "Error"}})
                    ],
                }
            ),
            "Error",
            "container main exited with 2",
        ),
        (
            body(status={"phase": "Running", "containerStatuses": [container(RUNNING)]}),
            None,
            None,
        ),
    ],
)
def test_reason_of_waiting_and_failed_pods(
    pod: Any, reason: str | None, message: str | None
) -> None:
    row = row_on_wire(pod)
    assert (row.get("reason"), row.get("message")) == (reason, message)


def test_timestamps_of_the_pod_lifecycle() -> None:
    def condition(type_: str, second: int) -> dict[str, str]:
        moment = f"2026-05-01T00:00:0{second}Z"
        return {"type": type_, "status": "True", "lastTransitionTime": moment}

    ended = {
        "terminated": {
            "exitCode": 0,
            "startedAt": "2026-05-01T00:00:03Z",
            "finishedAt": "2026-05-01T00:00:09Z",
        }
    }
    row = row_on_wire(
        body(
            creationTimestamp="2026-05-01T00:00:01Z",
            status={
                "phase": "Succeeded",
                "conditions": [condition("PodScheduled", 2), condition("Ready", 4)],
                "containerStatuses": [container(ended, restartCount=2)],
            },
        )
    )
    base = NOW.timestamp()
    times = [
        row[name] - base for name in ("created", "scheduled", "started", "readyAt", "finished")
    ]
    assert times == [1, 2, 3, 4, 9]
    assert (row["restarts"], row["ready"]) == (2, True)
