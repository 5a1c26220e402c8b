"""Pods that leave their command to an image stay off the process node, which pulls none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.api.imagetaint import TOLERATION
from kilonova.kube import Request
from kilonova.local.controllers.nodes.imagetaint import needs_toleration
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.nodes.process.commands import can_run
from tests.local.process.kubelet.process_cluster import ProcessCluster, process_cluster

LABELS = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/hostname": "here",
    "kilonova.dev/node-kind": "process",
}
IMAGE_ONLY = {"containers": [{"name": "c", "image": "nginx"}]}


def affinity(**term: Any) -> Any:
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> Any:
    return {"key": key, "operator": operator, "values": [*values]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, False),
        ({"nodeSelector": {"kilonova.dev/node-kind": "process"}}, True),
        ({"nodeSelector": {"kilonova.dev/node-kind": "sim"}}, False),
        ({"nodeSelector": {"kubernetes.io/hostname": "here"}}, True),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, False),
        ({"affinity": affinity(matchFields=[expression("metadata.name", "In", "here")])}, True),
        ({"affinity": affinity(matchFields=[expression("metadata.name", "In", "there")])}, False),
        (
            {
                "affinity": affinity(
                    matchExpressions=[expression("kilonova.dev/node-kind", "In", "process")]
                )
            },
            True,
        ),
        (
            {
                "affinity": affinity(
                    matchExpressions=[expression("nvidia.com/gpu.product", "DoesNotExist")]
                )
            },
            False,
        ),
        # There is nothing to add where the scheduler is not asked, or the taint is tolerated.
        ({"nodeName": "here"}, False),
        (
            {
                "nodeSelector": {"kilonova.dev/node-kind": "process"},
                "tolerations": [{"operator": "Exists"}],
            },
            False,
        ),
    ],
)
def test_a_pod_without_a_command_is_accepted_only_if_it_selects_the_node(
    spec: Any, expected: bool
) -> None:
    assert needs_toleration({**IMAGE_ONLY, **spec}, "here", LABELS, can_run) == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, False),
        ({"args": ["sh"]}, False),
        ({"command": ["sh", "-c", "true"]}, True),
        ({"command": ["/bin/sh"]}, True),
        ({"command": ["./sh"], "workingDir": "/bin"}, True),
        ({"command": ["no-such-program"]}, False),
        ({"command": ["/no/such/program"]}, False),
        ({"command": ["/etc/passwd"]}, False),
        ({"command": ["sh"], "env": [{"name": "PATH", "value": "/no/such/folder"}]}, False),
        # What a container finds only when it starts is taken to be there.
        ({"command": ["$(PROGRAM)"]}, True),
        ({"command": ["/app/run"], "volumeMounts": [{"mountPath": "/app"}]}, True),
        ({"command": ["/apps/run"], "volumeMounts": [{"mountPath": "/app"}]}, False),
    ],
)
def test_a_pod_can_run_if_the_machine_has_its_programs(container: Any, expected: bool) -> None:
    runs = {"name": "other", "command": ["sh"]}
    assert can_run({"containers": [container]}) == expected
    assert can_run({"containers": [runs, container]}) == expected
    assert can_run({"initContainers": [container], "containers": [runs]}) == expected


async def created(place: ProcessCluster, name: str, container: Any = None, **spec: Any) -> None:
    """Create a pod that a scheduler has to place; it takes all of a simulated node."""
    whole = {"name": "main", "resources": {"requests": {"cpu": "1"}}, **(container or {})}
    await place.create(name, whole, nodeName="", **spec)


async def test_a_plain_pod_runs_on_another_node_or_waits_and_says_why(tmp_path: Path) -> None:
    fleet = Fleet(nodes=(NodeGroup("tiny", count=1, cpu="1", start="0ms"),))
    async with process_cluster(tmp_path / "data", fleet=fleet) as place:
        await created(place, "plain")
        pod = await place.until_phase("plain", "Running")
        assert pod["spec"]["nodeName"] == "tiny-0"
        await created(place, "second")
        pod = await place.until("second", lambda pod: pod["status"].get("conditions"))
        (condition,) = pod["status"]["conditions"]
        assert "untolerated taint {kilonova.dev/images: not-pulled}" in condition["message"]
        assert "nodeName" not in pod["spec"]
        # What this machine can run overflows to it, and what selects it is accepted as it is.
        await created(place, "command", {"command": ["sleep", "100"]})
        pod = await place.until_phase("command", "Running")
        assert pod["spec"]["nodeName"] == place.node
        assert TOLERATION in pod["spec"]["tolerations"]
        selector = {"kilonova.dev/node-kind": "process"}
        await place.create("chosen", {"name": "main"}, nodeName="", nodeSelector=selector)
        await place.until("chosen", lambda pod: pod["spec"].get("nodeName") == place.node)


async def test_where_there_is_no_other_node_the_api_warns(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as place:
        body = {"metadata": {"name": "plain"}, "spec": IMAGE_ONLY}
        kind = {"content-type": "application/json"}
        path = "/api/v1/namespaces/default/pods"
        request = Request("POST", path, [], kind, msgspec.json.encode(body))
        reply = await place.client.send(request)
        assert reply.status == 201
        assert f'container \\"c\\" has no command: node {place.node}' in reply.headers["warning"]
        assert "; give every container a command, or start" in reply.headers["warning"]
        container = {"name": "c", "image": "example", "command": ["no-such-command"]}
        body = {"metadata": {"name": "absent"}, "spec": {"containers": [container]}}
        reply = await place.client.send(replace(request, body=msgspec.json.encode(body)))
        assert reply.status == 201
        warning = reply.headers["warning"]
        assert "the command of a container is not found on this machine: node" in warning
        assert "; give every container a command that this machine has, or start" in warning
