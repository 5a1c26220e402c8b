"""Pods whose command is in an image are not scheduled to the process node, which pulls none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.api.nodes.image_taint import TOLERATION
from kilonova.kube import Request
from kilonova.local.objects.image_taint import needs_toleration
from kilonova.local.processnode.executables import ProgramFinder
from kilonova.local.processnode.images import ImageTable
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.local.processnode.kubelet.process_cluster import ProcessCluster, process_cluster

LABELS = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/hostname": "here",
    "kilonova.dev/node-kind": "process",
}
FINDER = ProgramFinder(ImageTable(()))
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
        # Nothing is added if the pod is not scheduled, or tolerates the taint.
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
    assert needs_toleration({**IMAGE_ONLY, **spec}, "here", LABELS, FINDER.can_run_pod) == expected


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
        # What is only known when a container starts is assumed to exist.
        ({"command": ["$(PROGRAM)"]}, True),
        ({"command": ["/app/run"], "volumeMounts": [{"mountPath": "/app"}]}, True),
        ({"command": ["/apps/run"], "volumeMounts": [{"mountPath": "/app"}]}, False),
    ],
)
def test_a_pod_can_run_if_the_machine_has_its_programs(container: Any, expected: bool) -> None:
    runs = {"name": "other", "command": ["sh"]}
    assert FINDER.can_run_pod({"containers": [container]}) == expected
    assert FINDER.can_run_pod({"containers": [runs, container]}) == expected
    assert FINDER.can_run_pod({"initContainers": [container], "containers": [runs]}) == expected


async def created(place: ProcessCluster, name: str, container: Any = None, **spec: Any) -> None:
    """Create a pod to be scheduled; it requests all of a simulated node."""
    whole = {"name": "main", "resources": {"requests": {"cpu": "1"}}, **(container or {})}
    await place.create(name, whole, nodeName="", **spec)


async def test_plain_pod_runs_on_another_node_or_stays_pending_with_the_taint(
    tmp_path: Path,
) -> None:
    fleet = Fleet(nodes=(NodeGroup("tiny", count=1, cpu="1", start="0ms"),))
    async with process_cluster(tmp_path / "data", fleet=fleet) as place:
        await created(place, "plain")
        pod = await place.wait_for_phase("plain", "Running")
        assert pod["spec"]["nodeName"] == "tiny-0"
        await created(place, "second")
        pod = await place.wait_until("second", lambda pod: pod["status"].get("conditions"))
        (condition,) = pod["status"]["conditions"]
        assert "untolerated taint {kilonova.dev/images: not-pulled}" in condition["message"]
        assert "nodeName" not in pod["spec"]
        # What this machine can run overflows to it, and what selects it is accepted unchanged.
        await created(place, "command", {"command": ["sleep", "100"]})
        pod = await place.wait_for_phase("command", "Running")
        assert pod["spec"]["nodeName"] == place.node
        assert TOLERATION in pod["spec"]["tolerations"]
        selector = {"kilonova.dev/node-kind": "process"}
        await place.create("chosen", {"name": "main"}, nodeName="", nodeSelector=selector)
        await place.wait_until("chosen", lambda pod: pod["spec"].get("nodeName") == place.node)


async def test_api_warns_if_there_is_no_other_node(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as place:
        body = {"metadata": {"name": "plain"}, "spec": IMAGE_ONLY}
        kind = {"content-type": "application/json"}
        path = "/api/v1/namespaces/default/pods"
        request = Request("POST", path, [], kind, msgspec.json.encode(body))
        reply = await place.client.send(request)
        assert reply.status == 201
        warning = reply.headers["warning"]
        unknown = "the image table does not specify what image nginx runs"
        problem = f'container \\"c\\" has no command, and {unknown}'
        assert f"{problem}: node {place.node} runs commands of this machine" in warning
        assert "define how its image is run here (kilonova up --images FILE)" in warning
        container = {"name": "c", "image": "example", "command": ["no-such-command"]}
        body = {"metadata": {"name": "absent"}, "spec": {"containers": [container]}}
        reply = await place.client.send(replace(request, body=msgspec.json.encode(body)))
        assert reply.status == 201
        warning = reply.headers["warning"]
        problem = 'container \\"c\\" runs no-such-command, which is not found on this machine'
        assert f"{problem}: node" in warning
        assert "; give every container a command that this machine has, define how" in warning


IMAGES = """
images:
- image: ghcr.io/acme/hello
  entrypoint: [sh, -c]
  cmd: ['greet "$GREETING from $PWD"; exec sleep 1000']
  env: {GREETING: hello}
  workingDir: /tmp
  programs: {greet: echo, absent: no-such-command}
- image: ghcr.io/acme/absent
  entrypoint: [no-such-command]
"""


async def test_a_pod_of_the_image_table_runs_if_its_program_exists(tmp_path: Path) -> None:
    images = tmp_path / "images.yaml"
    images.write_text(IMAGES)
    fleet = Fleet(nodes=(NodeGroup("tiny", count=1, cpu="1", start="0ms"),))
    async with process_cluster(tmp_path / "data", fleet=fleet, images=images) as place:
        await created(place, "first", {"image": "ghcr.io/acme/hello:1"})
        pod = await place.wait_for_phase("first", "Running")
        assert pod["spec"]["nodeName"] == "tiny-0", "another node is preferred"
        await created(place, "hello", {"image": "ghcr.io/acme/hello:1"})
        pod = await place.wait_for_phase("hello", "Running")
        assert pod["spec"]["nodeName"] == place.node
        assert await place.wait_for_log("hello", "\n") == "hello from /tmp\n"
        await created(place, "absent", {"image": "ghcr.io/acme/absent:1"})
        pod = await place.wait_until("absent", lambda pod: pod["status"].get("conditions"))
        (condition,) = pod["status"]["conditions"]
        assert "untolerated taint {kilonova.dev/images: not-pulled}" in condition["message"]
