"""What a member writes and reports, as tables."""

import pytest
from msgspec.structs import replace

from kilonova.api.fleet import AcceleratorCount
from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineDeploymentSpec,
    InferenceEngineDeploymentStatus,
    InstancePhase,
    names,
)
from kilonova.api.meta import Metadata
from kilonova.fleet.documents import Desired, DesiredDeployment, Relocation
from kilonova.fleet.member.accelerators import AcceleratorUsage
from kilonova.fleet.member.observation import observe_deployments
from kilonova.fleet.member.plan import RELOCATION, Applied, build_manifest, plan_changes
from kilonova.fleet.member.resources import (
    Amount,
    Container,
    ContainerResources,
    Instance,
    InstanceSpec,
    InstanceStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kilonova.kube import Store

KEY = ("team", "chat")
SPEC = EngineSpec(model="m", target_agents=2)
WANTED = DesiredDeployment(
    namespace="team",
    name="chat",
    global_deployment="chat",
    release="v1",
    template=SPEC,
    replicas=2,
)


def deployment(
    generation: int = 1, annotations: dict[str, str] | None = None, observed: int = 1
) -> InferenceEngineDeployment:
    return InferenceEngineDeployment(
        Metadata(
            "chat",
            "uid",
            "1",
            namespace="team",
            generation=generation,
            labels={names.GLOBAL_DEPLOYMENT: "chat"},
            annotations=annotations or {},
        ),
        InferenceEngineDeploymentSpec(replicas=2, release="v1", template=SPEC),
        InferenceEngineDeploymentStatus(
            observed_generation=observed,
            replicas=2,
            ready_replicas=1,
            updated_replicas=2,
            unallocatable=1,
            additional_replicas=3,
            additional_replicas_message="enough",
        ),
    )


def desired(*deployments: DesiredDeployment, epoch: int = 7) -> Desired:
    return Desired(cluster="a", epoch=epoch, sequence=1, deployments=deployments)


APPLIED = Applied(WANTED, "uid", 1, 7)
CASES = {
    "what does not exist is created": ({}, {}, desired(WANTED), True),
    "after a restart it is applied once": ({KEY: deployment()}, {}, desired(WANTED), True),
    "then it is left alone": ({KEY: deployment()}, {KEY: APPLIED}, desired(WANTED), False),
    "a change by others is undone": (
        {KEY: deployment(generation=2)},
        {KEY: APPLIED},
        desired(WANTED),
        True,
    ),
    "a change is applied": (
        {KEY: deployment()},
        {KEY: APPLIED},
        desired(replace(WANTED, replicas=3)),
        True,
    ),
    "another reason is not": (
        {KEY: deployment()},
        {KEY: APPLIED},
        desired(replace(WANTED, reason="why")),
        False,
    ),
    "a new epoch is": ({KEY: deployment()}, {KEY: APPLIED}, desired(WANTED, epoch=8), True),
}


@pytest.mark.parametrize(("existing", "applied", "wanted", "changes"), CASES.values(), ids=CASES)
def test_what_differs_is_applied(
    existing: dict[tuple[str, str], InferenceEngineDeployment],
    applied: dict[tuple[str, str], Applied],
    wanted: Desired,
    changes: bool,
) -> None:
    plan = plan_changes(wanted, existing, applied)
    assert bool(plan.apply) is changes
    assert plan.delete == ()


def test_what_is_not_desired_is_deleted() -> None:
    found = deployment()
    assert plan_changes(desired(), {KEY: found}, {}).delete == (found,)


def test_relocation_is_reported_once() -> None:
    moved = replace(WANTED, replicas=1, relocation=Relocation(2, 1, "b (1)"))
    before = deployment(annotations={RELOCATION: "1"})
    assert plan_changes(desired(moved), {KEY: before}, {}).relocations
    manifest = build_manifest(moved, 7)
    assert manifest["metadata"]["annotations"][RELOCATION] == "2"
    after = deployment(annotations=manifest["metadata"]["annotations"])
    assert plan_changes(desired(moved), {KEY: after}, {}).relocations == ()


def test_manifest_has_label_epoch_and_template() -> None:
    manifest = build_manifest(WANTED, 7)
    assert manifest["metadata"]["labels"][names.GLOBAL_DEPLOYMENT] == "chat"
    assert manifest["metadata"]["annotations"][names.FLEET_EPOCH] == "7"
    assert manifest["spec"] == {
        "replicas": 2,
        "release": "v1",
        "template": {
            "model": "m",
            "targetAgents": 2,
        },
    }


def instance(name: str, phase: InstancePhase, release: str = "v1") -> Instance:
    return Instance(
        Metadata(name, name, "1", namespace="team", labels={names.DEPLOYMENT: "chat"}),
        InstanceSpec(release),
        InstanceStatus(phase),
    )


def test_instances_are_counted_by_phase_and_release() -> None:
    phases: list[InstancePhase] = ["Ready", "Starting", "Repairing", "Allocating", "Failed"]
    instances = [instance(f"i{index}", phase) for index, phase in enumerate(phases)]
    instances.append(instance("old", "Ready", "v0"))
    (observed,) = observe_deployments([deployment()], lambda key: instances, {})
    assert (observed.replicas, observed.placed, observed.ready) == (6, 4, 1)
    assert (observed.failing, observed.unallocatable) == (1, 1)
    assert observed.additional_replicas == 3
    assert [(each.release, each.replicas, each.ready) for each in observed.releases] == [
        ("v0", 1, 1),
        ("v1", 5, 1),
    ]


def test_what_was_said_about_a_former_template_is_not_reported() -> None:
    (observed,) = observe_deployments([deployment(generation=2)], lambda key: [], {})
    assert observed.additional_replicas is None
    assert observed.updated == 0


def test_deployment_that_cannot_be_written_is_reported_with_its_problem() -> None:
    (observed,) = observe_deployments([], lambda key: [], {KEY: "quota exceeded"})
    assert (observed.name, observed.problems) == ("chat", ("quota exceeded",))


def pod(name: str, node: str, gpus: int, phase: str = "Running") -> Pod:
    requests: dict[str, Amount] = {
        "example.com/tpu": gpus,
        "cpu": "4",
        "kubernetes.io/batteries": 1,
    }
    container = Container(ContainerResources(requests))
    return Pod(
        Metadata(name, name, "1", namespace="team"), PodSpec(node, (container,)), PodStatus(phase)
    )


def test_free_accelerators_follow_pods_and_nodes() -> None:
    nodes, pods = Store(Node), Store(Pod)
    for name, unschedulable in (("n1", False), ("n2", True)):
        allocatable: dict[str, Amount] = {
            "example.com/tpu": "8",
            "cpu": "64",
            "kubernetes.io/batteries": 1,
        }
        nodes.put(Node(Metadata(name, name, "1"), NodeSpec(unschedulable), NodeStatus(allocatable)))
    pods.put(pod("one", "n1", 2))
    usage = AcceleratorUsage(nodes, pods)
    assert usage.count() == (AcceleratorCount("example.com/tpu", 16, 6),)
    pods.put(pod("two", "n1", 4))
    pods.put(pod("waiting", "", 4))
    assert usage.count() == (AcceleratorCount("example.com/tpu", 16, 2),)
    pods.put(pod("one", "n1", 2, "Succeeded"))
    pods.remove(("team", "two"))
    assert usage.count() == (AcceleratorCount("example.com/tpu", 16, 8),)
