"""Tables of `kubectl get`: columns, rows and their objects."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.local.apiserver.endpoints.tables import partial_metadata, render_table
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy, PrinterColumn
from kilonova.local.apiserver.schema.node import Schema

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KINDS = {(kind.group, kind.version, kind.kind): kind for kind in builtin_kinds()}


def rows(kind: Kind, *objects: Any, include: str = "Metadata") -> Any:
    made = render_table(kind, objects, include_object=include, now=NOW, list_meta={})
    return made["rows"]


def cells(kind: str, obj: Any, group: str = "", version: str = "v1") -> dict[str, Any]:
    """The cells of the object by column name."""
    metadata = {"name": "x", "creationTimestamp": "2026-01-02T03:00:00Z"}
    obj = {**obj, "metadata": {**metadata, **obj.get("metadata", {})}}
    served = KINDS[group, version, kind]
    made = render_table(served, [obj], include_object="None", now=NOW, list_meta={})
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


def pod(phase: str, *containers: Any, init: Any = (), **more: Any) -> Any:
    """A pod with container statuses, as (state, ready, restarts)."""

    def statuses(provided: Any) -> list[Any]:
        return [
            {"name": f"c{index}", "state": state, "ready": ready, "restartCount": restarts}
            for index, (state, ready, restarts) in enumerate(provided)
        ]

    names = [{"name": f"c{index}"} for index in range(max(len(containers), 1))]
    spec = {"containers": names, "initContainers": [{"name": f"c{i}"} for i in range(len(init))]}
    status = {
        "phase": phase,
        "containerStatuses": statuses(containers),
        "initContainerStatuses": statuses(init),
        **more.pop("status", {}),
    }
    return {"spec": spec, "status": status, **more}


def gated(pod: Any) -> Any:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "g"}]}}


RUNNING = {"running": {}}
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff"}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
GATED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
DELETED = {"deletionTimestamp": "2026-01-02T03:04:00Z"}


@pytest.mark.parametrize(
    ("provided", "ready", "status", "restarts"),
    [
        (pod("Pending"), "0/1", "Pending", "0"),
        (gated(pod("Pending", status=GATED)), "0/1", "SchedulingGated", "0"),
        (pod("Pending", status=GATED), "0/1", "Pending", "0"),
        (pod("Running", (RUNNING, True, 2)), "1/1", "Running", "2"),
        (pod("Running", (CRASHING, False, 5)), "0/1", "CrashLoopBackOff", "5"),
        (pod("Succeeded", (ENDED, False, 0)), "0/1", "Completed", "0"),
        (pod("Failed", (FAILED, False, 0)), "0/1", "Error", "0"),
        (pod("Failed", ({"terminated": {"exitCode": 2}}, False, 0)), "0/1", "ExitCode:2", "0"),
        (
            pod("Failed", ({"terminated": {"exitCode": 2, "signal": 9}}, False, 0)),
            "0/1",
            "Signal:9",
            "0",
        ),
        (
            pod("Running", (ENDED, False, 0), (RUNNING, True, 0), status=READY),
            "1/2",
            "Running",
            "0",
        ),
        (pod("Running", (ENDED, False, 0), (RUNNING, True, 0)), "1/2", "NotReady", "0"),
        (pod("Failed", status={"reason": "Evicted"}), "0/1", "Evicted", "0"),
        (pod("Running", (RUNNING, True, 0), metadata=DELETED), "1/1", "Terminating", "0"),
        (pod("Succeeded", (ENDED, False, 0), metadata=DELETED), "0/1", "Completed", "0"),
        (
            pod("Running", metadata=DELETED, status={"reason": "NodeLost"}),
            "0/1",
            "Unknown",
            "0",
        ),
        (pod("Pending", init=[(RUNNING, False, 1)]), "0/1", "Init:0/1", "1"),
        (pod("Pending", init=[(CRASHING, False, 1)]), "0/1", "Init:CrashLoopBackOff", "1"),
        (pod("Pending", init=[(ENDED, False, 0), (FAILED, False, 0)]), "0/1", "Init:Error", "0"),
    ],
)
def test_pod_status_column(provided, ready, status, restarts) -> None:
    found = cells("Pod", provided)
    assert (found["Ready"], found["Status"], found["Restarts"]) == (ready, status, restarts)


def test_restarts_column_shows_the_last_restart() -> None:
    provided = pod("Running", (RUNNING, True, 3))
    provided["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"finishedAt": "2026-01-02T03:03:05Z"}
    }
    assert cells("Pod", provided)["Restarts"] == "3 (60s ago)"


def test_sidecars_count_as_containers() -> None:
    provided = pod("Running", (RUNNING, True, 0), init=[(RUNNING, True, 1)])
    provided["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    provided["status"]["initContainerStatuses"][0]["started"] = True
    found = cells("Pod", provided)
    assert (found["Ready"], found["Status"], found["Restarts"]) == ("2/2", "Running", "1")


def test_wide_columns_of_a_pod() -> None:
    provided = pod("Running", (RUNNING, True, 0))
    provided["spec"].update(nodeName="n1", readinessGates=[{"conditionType": "Ready"}])
    provided["status"].update(podIPs=[{"ip": "10.0.0.9"}], **READY)
    found = cells("Pod", provided)
    assert [found[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "10.0.0.9",
        "n1",
        "<none>",
        "1/1",
    ]


def test_completed_pod_has_a_row_condition() -> None:
    (row,) = rows(KINDS["", "v1", "Pod"], {**pod("Succeeded"), "metadata": {"name": "p"}})
    assert row["conditions"][0]["type"] == "Completed"
    assert row["conditions"][0]["reason"] == "Succeeded"


@pytest.mark.parametrize(
    ("kind", "group", "obj", "expected"),
    [
        (
            "Node",
            "",
            {
                "metadata": {
                    "labels": {"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "w"}
                },
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "a"},
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                },
            },
            {
                "Status": "Ready,SchedulingDisabled",
                "Roles": "gpu,w",
                "Version": "v1",
                "Internal-IP": "10.0.0.1",
                "External-IP": "<none>",
                "OS-Image": "<unknown>",
                "Kernel-Version": "6 (a)",
            },
        ),
        ("Node", "", {}, {"Status": "Unknown", "Roles": "<none>"}),
        (
            "Deployment",
            "apps",
            {
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"b": "c", "a": "b"}},
                    "template": {"spec": {"containers": [{"name": "x", "image": "i"}]}},
                },
                "status": {"readyReplicas": 2, "updatedReplicas": 1},
            },
            {
                "Ready": "2/3",
                "Up-to-date": 1,
                "Available": 0,
                "Age": "4m5s",
                "Containers": "x",
                "Images": "i",
                "Selector": "a=b,b=c",
            },
        ),
        (
            "Service",
            "",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.3"],
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                }
            },
            {"Cluster-IP": "10.0.0.3", "External-IP": "<none>", "Port(s)": "80:30080/TCP"},
        ),
        ("Service", "", {"spec": {"type": "LoadBalancer"}}, {"External-IP": "<pending>"}),
        (
            "Job",
            "batch",
            {
                "spec": {"completions": 5},
                "status": {
                    "succeeded": 5,
                    "startTime": "2026-01-02T03:00:00Z",
                    "completionTime": "2026-01-02T03:01:00Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "5/5", "Duration": "60s"},
        ),
        (
            "Job",
            "batch",
            {"spec": {"parallelism": 3}},
            {"Status": "Running", "Completions": "0/1 of 3", "Duration": ""},
        ),
        (
            "Event",
            "",
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "message": " hello\n",
                "eventTime": "2026-01-02T03:04:00.000000Z",
                "series": {"count": 4, "lastObservedTime": "2026-01-02T03:04:03.000000Z"},
                "reportingComponent": "scheduler",
                "reportingInstance": "s-1",
            },
            {
                "Last Seen": "2s",
                "First Seen": "5s",
                "Object": "pod/p",
                "Message": "hello",
                "Count": 4,
                "Source": "scheduler, s-1",
            },
        ),
        (
            "Event",
            "events.k8s.io",
            {
                "regarding": {"kind": "Pod", "name": "p"},
                "note": "n",
                "deprecatedLastTimestamp": "2026-01-02T03:04:00Z",
            },
            {"Last Seen": "5s", "Object": "pod/p", "Message": "n", "Count": 1},
        ),
        (
            "HorizontalPodAutoscaler",
            "autoscaling",
            {
                "spec": {
                    "maxReplicas": 3,
                    "targetCPUUtilizationPercentage": 50,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                },
                "status": {"currentCPUUtilizationPercentage": 20},
            },
            {"Reference": "Deployment/d", "Targets": "cpu: 20%/50%", "MaxPods": 3},
        ),
        (
            "EndpointSlice",
            "discovery.k8s.io",
            {"ports": [], "endpoints": [{"addresses": [f"10.0.0.{i}"]} for i in range(5)]},
            {"Ports": "<unset>", "Endpoints": "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more..."},
        ),
        (
            "ResourceQuota",
            "",
            {"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            {"Request": "pods: 1/5", "Limit": "limits.cpu: 0/2"},
        ),
        (
            "ResourceClaim",
            "resource.k8s.io",
            {"status": {"allocation": {"devices": {}}, "reservedFor": [{}]}},
            {"State": "allocated,reserved"},
        ),
        ("Role", "rbac.authorization.k8s.io", {}, {"Created At": "2026-01-02T03:00:00Z"}),
    ],
)
def test_cells_match_kubernetes(kind: str, group: str, obj: Any, expected: Any) -> None:
    found = cells(kind, obj, group)
    assert {name: found[name] for name in expected} == expected


def test_printer_columns_have_descriptions() -> None:
    made = render_table(
        KINDS["", "v1", "Pod"], [], include_object="Metadata", now=NOW, list_meta={"a": "b"}
    )
    assert made["metadata"] == {"a": "b"}
    assert made["rows"] == []
    name, ready = made["columnDefinitions"][:2]
    assert (name["format"], name["priority"]) == ("name", 0)
    assert name["description"].startswith("Name must be unique within a namespace.")
    assert ready["description"].startswith("The aggregate readiness state of this pod")
    assert made["columnDefinitions"][5]["priority"] == 1


def test_builtin_columns_have_descriptions_as_in_kubernetes() -> None:
    blank = [
        (kind.kind, column["name"])
        for kind in KINDS.values()
        for column in render_table(kind, [], include_object="None", now=NOW, list_meta={})[
            "columnDefinitions"
        ]
        if not column["description"]
    ]
    assert blank == [("RuntimeClass", "Handler")]


@pytest.mark.parametrize(
    ("include", "carried"),
    [
        ("None", None),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}),
        ("Object", {"kind": "ConfigMap", "data": {"a": "b"}}),
    ],
)
def test_row_includes_the_requested_object(include: str, carried: Any) -> None:
    obj = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    (row,) = rows(KINDS["", "v1", "ConfigMap"], obj, include=include)
    expected = carried and {**carried, "metadata": {"name": "c"}}
    assert row["object"] == expected


def test_partial_metadata_has_only_metadata() -> None:
    found = partial_metadata({"kind": "Pod", "metadata": {"name": "a"}, "spec": {}})
    assert found == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "a"},
    }


def test_dates_of_custom_kinds_are_printed_as_ages() -> None:
    behavior = KindStrategy()
    behavior.columns = (
        PrinterColumn("When", "date", lambda obj, _: obj.get("when")),
        PrinterColumn("Wide", "string", lambda obj, _: obj.get("wide"), priority=1),
    )
    kind = Kind(
        "g", "v1", "Gadget", "gadgets", "gadget", True, (), Schema, behavior, is_custom=True
    )
    found = rows(
        kind, {"metadata": {}, "when": "2026-01-02T03:00:00Z"}, {"metadata": {}}, include="None"
    )
    assert [row["cells"] for row in found] == [["4m5s", None], [None, None]]


def test_kind_without_columns_has_name_and_age() -> None:
    kind = Kind(
        "g", "v1", "Gadget", "gadgets", "gadget", True, (), Schema, KindStrategy(), is_custom=True
    )
    obj = {"metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:00:00Z"}}
    assert rows(kind, obj)[0]["cells"] == ["a", "4m5s"]
