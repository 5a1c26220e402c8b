"""Pods and gangs that manifests would bring about, beside what controllers really make of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kilonova.api.crds import definitions
from kilonova.api.grove import ClusterTopologyBinding
from kilonova.cli.drafts import Drafting, Drafts
from kilonova.cli.failure import CommandFailed
from kilonova.cli.manifests import Manifest, read_manifests
from kilonova.kube.resource import plain
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.taints import Taint, tolerates
from kilonova.scheduler.objects import GANGS, PODS
from kilonova.scheduler.reading.pods import shape_of
from tests.local.embedded_cluster import DEFINITIONS, eventually, running, virtual_time
from tests.scheduler.scheduling import make_priority
from tests.workloads.operator_cluster import operating

NOW = "2026-05-01T00:00:00Z"
EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"
SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
TOPOLOGIES = plain(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)


def drafted(
    *bodies: dict[str, Any],
    priorities: dict[str, int] | None = None,
    process_nodes: Sequence[Node] = (),
) -> Drafts:
    drafting = Drafting(NOW, priorities or {}, {}, process_nodes=process_nodes)
    drafting.take(Manifest(body["kind"], body, "here") for body in bodies)
    return drafting.drafts


def template(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], **spec}}


def owner(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def required(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A required node affinity to nodes of one kind."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {name: {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (owner("Pod", **template()["spec"]), 1),
        (owner("Deployment", template=template()), 1),
        (owner("Deployment", replicas=3, template=template()), 3),
        (owner("StatefulSet", replicas=0, template=template()), 0),
        (owner("ReplicaSet", replicas=2, template=template()), 2),
        (owner("Job", template=template()), 1),
        (owner("Job", parallelism=4, template=template()), 4),
        (owner("Job", parallelism=4, completions=2, template=template()), 2),
        (owner("Service"), 0),
    ],
)
def test_as_many_pods_come_as_controllers_make(body: dict[str, Any], count: int):
    assert len(drafted(body).pods) == count


def test_a_drafted_pod_asks_for_its_limits():
    (pod,) = drafted(owner("Deployment", template=template())).pods
    assert pod.key == "default/x-0"
    assert pod.metadata.labels == {"app": "x"}
    assert ("nvidia.com/gpu", 2) in shape_of(pod).requests


@pytest.mark.parametrize(
    ("spec", "tolerated"),
    [
        ({}, False),
        ({"containers": [{"name": "main", "command": ["sh"]}]}, True),
        ({"containers": [{"name": "main", "command": ["sh"]}, {"name": "side"}]}, False),
        ({"nodeSelector": {"kilonova.dev/node-kind": "process"}}, True),
        ({"nodeSelector": {"kilonova.dev/node-kind": "simulated"}}, False),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, False),
        ({"affinity": {"podAntiAffinity": {}}}, False),
        ({"affinity": required("kubernetes.io/hostname", "In", "here")}, True),
        ({"affinity": required("kubernetes.io/hostname", "In", "there")}, False),
        ({"affinity": required("kubernetes.io/arch", "In", "amd64")}, False),
        ({"affinity": required("gpu", "DoesNotExist")}, False),
    ],
)
def test_a_drafted_pod_tolerates_a_node_that_pulls_no_images_as_a_real_one_would(
    spec: dict[str, Any], tolerated: bool
):
    body = owner("Deployment", template=template(**spec))
    labels = {
        "kilonova.dev/node-kind": "process",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "here",
        "kubernetes.io/os": "linux",
    }
    (pod,) = drafted(body, process_nodes=[Node("here", labels=labels)]).pods
    taint = Taint("kilonova.dev/images", "NoSchedule", "not-pulled")
    assert tolerates(shape_of(pod).tolerations, taint) == tolerated


def test_pods_of_classes_that_never_preempt_never_do():
    named = owner("Deployment", template=template(priorityClassName="high"))
    for never, policy in ((("high",), "Never"), ((), "")):
        drafting = Drafting(NOW, {"high": 7}, {}, never_preempting=never)
        drafting.take([Manifest("Deployment", named, "here")])
        assert {pod.spec.preemption_policy for pod in drafting.drafts.pods} == {policy}


def test_priorities_are_those_of_their_classes():
    named = owner("Deployment", template=template(priorityClassName="high"))
    drafts = drafted(named, priorities={"high": 7})
    assert drafts.pods[0].spec.priority == 7
    unknown = drafted(named)
    assert unknown.pods[0].spec.priority == 0
    assert "here: the PriorityClass high is not known; taken as 0" in unknown.notes


def test_what_is_read_otherwise_than_written_is_noted_once():
    gated = template(schedulingGates=[{"name": "wait"}])
    drafts = drafted(owner("Deployment", replicas=3, template=gated), owner("DaemonSet"))
    assert drafts.notes == [
        "here: its gates are taken to be open",
        "here: its pods name default-scheduler; planned as if kilonova-scheduler did it",
        "here: a DaemonSet is not planned",
    ]


def test_what_is_not_planned_with_is_noted():
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    spec = template(volumes=[claim], resourceClaims=[{"name": "g"}])
    notes = drafted(owner("Deployment", template=spec)).notes
    assert "here: its volumes are not looked at" in notes
    assert "here: its device claims are not looked at" in notes


_CLIQUE = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": {"containers": []}}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (owner("Deployment"), "Deployment x has no template"),
        (owner("Deployment", replicas=-1, template=template()), "spec.replicas is -1"),
        (owner("Deployment", replicas=2 * 10**9, template=template()), "a number from 0 to 100000"),
        (
            owner("PodCliqueSet", replicas=2 * 10**9, template={"cliques": [_CLIQUE]}),
            "PodCliqueSet: spec.replicas: Invalid value: 2000000000",
        ),
        (owner("Job", parallelism="two", template=template()), "spec.parallelism is 'two'"),
        (
            owner("Pod", containers="none"),
            "Pod: Expected `array`, got `str` - at `$.spec.containers`",
        ),
        (owner("PodGang"), "PodGang: Object missing required field `podgroups`"),
        (owner("PodCliqueSet"), "PodCliqueSet: Object missing required field"),
        (owner("Queue", limit=3), "Queue: Expected `object`, got `int` - at `$.spec.limit`"),
    ],
)
def test_what_can_not_be_read_is_named(body: dict[str, Any], said: str):
    with pytest.raises(CommandFailed) as caught:
        drafted(body)
    assert str(caught.value).startswith("here: ")
    assert said in str(caught.value)


def test_lists_and_several_documents_are_read(tmp_path: Path):
    file = tmp_path / "all.yaml"
    pods = [owner("Pod", containers=[]) for _ in range(2)]
    file.write_text("---\n" + yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": pods}))
    assert [each.where for each in read_manifests([file])] == [
        f"{file}, document 1, items[0]",
        f"{file}, document 1, items[1]",
    ]


@virtual_time
@pytest.mark.parametrize("name", ["agentic", "disaggregated", "multi-node", "training"])
async def test_a_set_comes_to_what_the_operator_makes_of_it(name: str) -> None:
    manifests = read_manifests([EXAMPLES / f"{name}.yaml"])
    async with running() as cluster, operating(cluster):
        client = cluster.client("tester")
        for definition in definitions():
            await client.create(DEFINITIONS, definition)
        await make_priority(client, "interactive", 5)
        bindings: dict[str, ClusterTopologyBinding] = {}
        for each in manifests:
            if each.kind == "ClusterTopologyBinding":
                made = await client.create(TOPOLOGIES, each.body)
                bindings[each.name] = msgspec.convert(made, ClusterTopologyBinding)
        drafting = Drafting(NOW, {"interactive": 5}, bindings)
        drafting.take(manifests)
        drafts = drafting.drafts
        for each in manifests:
            if each.kind == "PodCliqueSet":
                await client.create(SETS, each.body, "default")

        async def all_there() -> bool:
            return len((await client.list(PODS, "default")).items) == len(drafts.pods)

        await eventually(all_there)
        pods = {pod.key: pod for pod in (await client.list(PODS, "default")).items}
        gangs = {each.metadata.name: each for each in (await client.list(GANGS, "default")).items}
    assert {pod.key for pod in drafts.pods} == pods.keys()
    for pod in drafts.pods:
        assert shape_of(pod) == shape_of(pods[pod.key])
        assert pod.spec.priority == pods[pod.key].spec.priority
    assert {each.metadata.name: each.spec for each in drafts.gangs} == {
        key: each.spec for key, each in gangs.items()
    }
