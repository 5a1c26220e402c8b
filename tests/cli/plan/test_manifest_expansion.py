"""Expansion of manifests, compared with what controllers create."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kilonova.api.crds import load_definitions
from kilonova.api.group_kinds import WELL_KNOWN_GROUPS, GroupKind
from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.pods.tolerations import is_tolerated
from kilonova.api.pods.workload_owner import DEPLOYMENT
from kilonova.cli.plan.manifest_expansion import ExpandedObjects, ManifestExpander
from kilonova.cli.plan.manifests import Manifest, read_manifests
from kilonova.component.failure import CommandFailed
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.convert.pods.members import convert_pod_shape
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.taints import Taint
from kilonova.scheduler.objects.core_v1 import GANGS, PODS
from tests.local.embedded_cluster import DEFINITIONS, run_cluster, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import create_priority_class
from tests.workloads.running_operator import running_operator

QUEUES = "scheduling.kilonova.dev"
NOW = "2026-05-01T00:00:00Z"
EXAMPLES = Path(__file__).parents[3] / "examples" / "workloads"
SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
TOPOLOGIES = unstructured_resource(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)


def expand_manifests(
    *bodies: dict[str, Any],
    priorities: dict[str, int] | None = None,
    process_nodes: Sequence[Node] = (),
) -> ExpandedObjects:
    expander = ManifestExpander(NOW, priorities or {}, {}, process_nodes=process_nodes)
    expander.expand(
        Manifest(GroupKind.from_api_version(body["apiVersion"], body["kind"]), body, "here")
        for body in bodies
    )
    return expander.objects


def template(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], **spec}}


def owner(kind: str, group: str | None = None, /, **spec: Any) -> dict[str, Any]:
    group = WELL_KNOWN_GROUPS.get(kind, "") if group is None else group
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def required(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A required node affinity with one expression."""
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
def test_pods_are_expanded_as_controllers_would(body: dict[str, Any], count: int):
    assert len(expand_manifests(body).pods) == count


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "Job", "PodCliqueSet", "PodGroup"])
def test_a_kind_of_another_group_is_not_planned(kind: str):
    expanded = expand_manifests(owner(kind, "example.com", template=template()))
    assert (expanded.pods, expanded.gangs) == ([], [])
    (note,) = expanded.notes
    assert note.startswith(f"here: a {kind}")
    assert "example.com" in note


def test_expanded_pod_requests_its_limits():
    (pod,) = expand_manifests(owner("Deployment", template=template())).pods
    assert pod.key == "default/x-0"
    assert pod.metadata.labels == {"app": "x"}
    assert ("nvidia.com/gpu", 2) in convert_pod_shape(pod).requests


def test_expanded_pod_requests_its_pod_level_limits():
    spec = {**template()["spec"], "resources": {"limits": {"cpu": 3}}}
    (pod,) = expand_manifests(owner("Pod", **spec)).pods
    assert ("cpu", 3000) in convert_pod_shape(pod).requests


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
def test_expanded_pod_tolerates_process_nodes_like_a_real_pod(
    spec: dict[str, Any], tolerated: bool
):
    body = owner("Deployment", template=template(**spec))
    labels = {
        "kilonova.dev/node-kind": "process",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "here",
        "kubernetes.io/os": "linux",
    }
    (pod,) = expand_manifests(body, process_nodes=[Node("here", labels=labels)]).pods
    taint = Taint("kilonova.dev/images", "NoSchedule", "not-pulled")
    assert is_tolerated(taint, convert_pod_shape(pod).tolerations) == tolerated


def test_preemption_policy_is_that_of_the_priority_class():
    named = owner("Deployment", template=template(priorityClassName="high"))
    for never, policy in ((("high",), "Never"), ((), "")):
        expander = ManifestExpander(NOW, {"high": 7}, {}, never_preempting=never)
        expander.expand([Manifest(DEPLOYMENT, named, "here")])
        assert {pod.spec.preemption_policy for pod in expander.objects.pods} == {policy}


def test_priority_is_that_of_the_priority_class():
    named = owner("Deployment", template=template(priorityClassName="high"))
    expanded = expand_manifests(named, priorities={"high": 7})
    assert expanded.pods[0].spec.priority == 7
    unknown = expand_manifests(named)
    assert unknown.pods[0].spec.priority == 0
    assert "here: PriorityClass high does not exist; using priority 0" in unknown.notes


def test_deviations_are_noted_once():
    gated = template(schedulingGates=[{"name": "wait"}])
    expanded = expand_manifests(owner("Deployment", replicas=3, template=gated), owner("DaemonSet"))
    assert expanded.notes == [
        "here: its scheduling gates are ignored",
        "here: its schedulerName is default-scheduler; planned as if it were kilonova-scheduler",
        "here: a DaemonSet is not planned",
    ]


def test_ignored_constraints_are_noted():
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    spec = template(volumes=[claim], resourceClaims=[{"name": "g"}])
    notes = expand_manifests(owner("Deployment", template=spec)).notes
    assert "here: its volumes are ignored" in notes
    assert "here: its device claims are ignored" in notes


_CLIQUE = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": {"containers": []}}}


_TOO_MUCH = {"name": "main", "resources": {"requests": {"memory": "lots"}}}


@pytest.mark.parametrize(
    ("body", "message"),
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
        (
            owner("Pod", containers=["none"]),
            "Pod: Expected `object`, got `str` - at `$.spec.containers[0]`",
        ),
        (
            owner("Pod", containers=[_TOO_MUCH], resources={"limits": {"cpu": 3}}),
            "Pod: spec: resources: quantities must match the regular expression",
        ),
        (owner("PodGang"), "PodGang: Object missing required field `podgroups`"),
        (owner("PodCliqueSet"), "PodCliqueSet: Object missing required field"),
        (
            owner("Queue", QUEUES, limit=3),
            f"Queue.{QUEUES}: Expected `object`, got `int` - at `$.spec.limit`",
        ),
    ],
)
def test_invalid_manifests_are_rejected_with_their_location(body: dict[str, Any], message: str):
    with pytest.raises(CommandFailed) as caught:
        expand_manifests(body)
    assert str(caught.value).startswith("here: ")
    assert message in str(caught.value)


def test_lists_and_multiple_documents_are_read(tmp_path: Path):
    file = tmp_path / "all.yaml"
    pods = [owner("Pod", containers=[]) for _ in range(2)]
    file.write_text("---\n" + yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": pods}))
    assert [each.location for each in read_manifests([file])] == [
        f"{file}, document 1, items[0]",
        f"{file}, document 1, items[1]",
    ]


@virtual_time
@pytest.mark.parametrize("name", ["agentic", "disaggregated", "multi-node", "training"])
async def test_set_expands_as_the_operator_does(name: str) -> None:
    manifests = read_manifests([EXAMPLES / f"{name}.yaml"])
    async with run_cluster() as cluster, running_operator(cluster):
        client = cluster.client("tester")
        for definition in load_definitions():
            await client.create(DEFINITIONS, definition)
        await create_priority_class(client, "interactive", 5)
        bindings: dict[str, ClusterTopologyBinding] = {}
        for each in manifests:
            if each.kind == "ClusterTopologyBinding":
                made = await client.create(TOPOLOGIES, each.body)
                bindings[each.name] = msgspec.convert(made, ClusterTopologyBinding)
        expander = ManifestExpander(NOW, {"interactive": 5}, bindings)
        expander.expand(manifests)
        expanded = expander.objects
        for each in manifests:
            if each.kind == "PodCliqueSet":
                await client.create(SETS, each.body, "default")

        async def all_created() -> bool:
            return len((await client.list(PODS, "default")).items) == len(expanded.pods)

        await wait_for_condition(all_created)
        pods = {pod.key: pod for pod in (await client.list(PODS, "default")).items}
        gangs = {each.metadata.name: each for each in (await client.list(GANGS, "default")).items}
    assert {pod.key for pod in expanded.pods} == pods.keys()
    for pod in expanded.pods:
        assert convert_pod_shape(pod) == convert_pod_shape(pods[pod.key])
        assert pod.spec.priority == pods[pod.key].spec.priority
    assert {each.metadata.name: each.spec for each in expanded.gangs} == {
        key: each.spec for key, each in gangs.items()
    }
