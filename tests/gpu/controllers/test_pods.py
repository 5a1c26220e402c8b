"""What pods, gang and Service of a workload are, as tables."""

from typing import Any

import msgspec
import pytest

from kilonova.api.kgwe import GPUWorkload
from kilonova.gpu.controllers.gpuworkload.affinity import ReferencedPod
from kilonova.gpu.controllers.gpuworkload.gang import build_gang, build_service
from kilonova.gpu.controllers.gpuworkload.pods import build_pod, compute_template_hash
from kilonova.gpu.controllers.gpuworkload.split import build_split
from kilonova.gpu.controllers.settings import ControllerSettings
from tests.api.manifests import value_at
from tests.gpu.controllers.manifests import TRAINER, workload

GPUS = "spec.gpuRequirements"
POD = "spec.podTemplate.spec"
CONSTRAINTS = "spec.constraints"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def decode(gpus: int = 8, changes: Any = None) -> GPUWorkload:
    body = workload(gpus=gpus, changes=changes)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return msgspec.convert(body, GPUWorkload)


def pod_of(gpus: int = 8, changes: Any = None, *, pods: int = 1, rank: int = 0, **more: Any) -> Any:
    found = decode(gpus, changes)
    split = build_split(found.spec, pods)
    return build_pod(found, split, rank, ControllerSettings(), **more)


def environment_of(pod: Any, container: int = 0) -> dict[str, str]:
    variables = pod["spec"]["containers"][container].get("env", [])
    return {each["name"]: each.get("value", "") for each in variables}


def test_pod_names_its_workload_gang_and_rank() -> None:
    pod = pod_of(16, pods=2, rank=1, incarnation=3)
    metadata = pod["metadata"]
    assert metadata["name"] == "job-1-r3"
    assert metadata["labels"] == {
        "app.kubernetes.io/managed-by": "kilonova-gpu",
        "grove.io/podclique-pod-index": "1",
        "grove.io/podgang": "gw-job",
        "kgwe.nvidia.io/incarnation": "3",
        "kgwe.nvidia.io/workload": "job",
        "kgwe.nvidia.io/workload-type": "Training",
        "kilonova.dev/workload": "GPUWorkload_job",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("GPUWorkload", "u", True)
    assert pod["spec"]["hostname"] == "job-1"
    assert pod["spec"]["subdomain"] == "gw-job"
    assert pod["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]
    assert pod["spec"]["schedulerName"] == "kilonova-scheduler"


def test_template_is_kept_but_for_our_labels() -> None:
    template = {
        "metadata": {
            "labels": {"app": "a", "kgwe.nvidia.io/workload": "other"},
            "annotations": {"note": "b"},
        },
        "spec": {
            "containers": [TRAINER],
            "schedulerName": "mine",
            "hostNetwork": True,
            "schedulingGates": [{"name": "example.com/wait"}],
        },
    }
    pod = pod_of(changes={"spec.podTemplate": template})
    assert pod["metadata"]["labels"]["app"] == "a"
    assert pod["metadata"]["labels"]["kgwe.nvidia.io/workload"] == "job"
    assert pod["metadata"]["annotations"]["note"] == "b"
    assert pod["spec"]["schedulerName"] == "mine"
    assert pod["spec"]["hostNetwork"] is True
    gates = [each["name"] for each in pod["spec"]["schedulingGates"]]
    assert gates == ["example.com/wait", "grove.io/podgang-pending-creation"]


REQUIREMENTS: dict[str, tuple[Any, dict[str, str]]] = {
    "model": ({f"{GPUS}.gpuModel": "H100,H200"}, {"model": "H100,H200"}),
    "memory in decimal GB": ({f"{GPUS}.minMemoryGB": 80}, {"min-memory": "76293"}),
    "architecture": ({f"{GPUS}.architecture": "Hopper"}, {"architecture": "Hopper"}),
    "the larger bandwidth": (
        {f"{GPUS}.minBandwidthGBps": 25.5, f"{GPUS}.topology": {"minBandwidthGBps": 20}},
        {"min-bandwidth": "26"},
    ),
    "a topology": ({f"{GPUS}.topology": {"preference": "SameNUMA"}}, {"topology": "SameNUMA"}),
    "required NVLink": (
        {f"{GPUS}.topology": {"preference": "NVLinkRequired"}},
        {"topology": "NVLinkRequired"},
    ),
    "no topology": ({f"{GPUS}.topology": {"preference": "None"}}, {}),
}


@pytest.mark.parametrize(("changes", "expected"), REQUIREMENTS.values(), ids=REQUIREMENTS)
def test_requirements_are_annotations_for_the_scheduler(
    changes: Any, expected: dict[str, str]
) -> None:
    annotations = pod_of(changes=changes)["metadata"]["annotations"]
    found = {
        name.removeprefix("gpu.kilonova.dev/"): value
        for name, value in annotations.items()
        if name.startswith("gpu.kilonova.dev/")
    }
    assert found == expected


SIDE = {"name": "side", "image": "b"}
MIG = {"profile": "1g.10gb+me", "count": 2}
RESOURCES: dict[str, tuple[int, int, Any, list[dict[str, str]]]] = {
    "the first container": (8, 1, {f"{POD}.containers": [TRAINER, SIDE]}, [{"gpu": "8"}, {}]),
    "the one that requests some": (
        8,
        1,
        {
            f"{POD}.containers": [
                SIDE,
                {**TRAINER, "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": 4}}},
            ]
        },
        [{}, {"gpu": "8", "cpu": "4"}],
    ),
    "several that share them": (
        8,
        1,
        {
            f"{POD}.containers": [
                {**TRAINER, "resources": {"limits": {"nvidia.com/gpu": 6}}},
                {**SIDE, "resources": {"limits": {"nvidia.com/gpu": 2}}},
            ]
        },
        [{"gpu": "6"}, {"gpu": "2"}],
    ),
    "a part of all": (
        16,
        2,
        {f"{POD}.containers": [{**TRAINER, "resources": {"requests": {"nvidia.com/gpu": 16}}}]},
        [{"gpu": "8"}],
    ),
    "MIG instances": (1, 1, {f"{GPUS}.mig": MIG}, [{"mig-1g.10gb.me": "2"}]),
}


@pytest.mark.parametrize(("gpus", "pods", "changes", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_containers_get_gpus(
    gpus: int, pods: int, changes: Any, expected: list[dict[str, str]]
) -> None:
    containers = pod_of(gpus, changes, pods=pods)["spec"]["containers"]
    found = [
        {
            name.removeprefix("nvidia.com/"): str(value)
            for name, value in each.get("resources", {}).get("limits", {}).items()
        }
        for each in containers
    ]
    assert found == expected
    assert all(
        each.get("resources", {}).get("requests", {}).items()
        <= each.get("resources", {}).get("limits", {}).items()
        for each in containers
    )


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({}, "OnFailure"),
        ({"spec.workloadType": "FineTuning"}, "OnFailure"),
        ({"spec.workloadType": "Inference"}, "Always"),
        ({"spec.workloadType": "Inference", f"{POD}.restartPolicy": "Never"}, "Never"),
    ],
)
def test_restart_policy_follows_the_type(changes: Any, policy: str) -> None:
    assert pod_of(changes=changes)["spec"]["restartPolicy"] == policy


def test_processes_find_the_first_pod() -> None:
    changes = {"spec.distributedConfig": {"worldSize": 16, "strategy": "FSDP"}}
    found = environment_of(pod_of(16, changes, pods=2, rank=1))
    assert found == {
        "MASTER_ADDR": "job-0.gw-job.default.svc.cluster.local",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "16",
        "RANK": "8",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "8",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "8",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "8",
        "PET_MASTER_ADDR": "job-0.gw-job.default.svc.cluster.local",
        "PET_MASTER_PORT": "29500",
        "KGWE_BACKEND": "NCCL",
        "KGWE_STRATEGY": "FSDP",
    }


def test_own_variables_take_precedence_except_for_ranks() -> None:
    env = [{"name": "MASTER_PORT", "value": "1234"}, {"name": "RANK", "value": "0"}]
    changes = {f"{POD}.containers[0].env": env}
    found = environment_of(pod_of(16, changes, pods=2, rank=1))
    assert (found["MASTER_PORT"], found["RANK"]) == ("1234", "8")


def test_single_pod_without_processes_has_no_variables() -> None:
    assert environment_of(pod_of()) == {}


HINTS: dict[str, tuple[int, Any, dict[str, str]]] = {
    "required NVLink": (
        1,
        {f"{GPUS}.topology": {"preference": "NVLinkRequired"}},
        {"NCCL_P2P_LEVEL": "NVL"},
    ),
    "required NVLink between nodes": (
        2,
        {f"{GPUS}.topology": {"preference": "NVLinkRequired"}},
        {"NCCL_P2P_LEVEL": "NVL", "NCCL_MNNVL_ENABLE": "1"},
    ),
    "preferred NVLink": (1, {f"{GPUS}.topology": {"preference": "NVLinkOptimal"}}, {}),
    "one switch": (
        1,
        {f"{GPUS}.topology": {"preference": "SamePCIeSwitch"}},
        {"NCCL_P2P_LEVEL": "PXB"},
    ),
    "slices": (1, {f"{GPUS}.mig": {"profile": "1g.10gb"}}, {"NCCL_P2P_DISABLE": "1"}),
    "another backend": (
        1,
        {
            f"{GPUS}.topology": {"preference": "SameNUMA"},
            "spec.distributedConfig": {"backend": "Gloo"},
        },
        {},
    ),
}


@pytest.mark.parametrize(("pods", "changes", "expected"), HINTS.values(), ids=HINTS)
def test_topology_is_a_hint_for_nccl(pods: int, changes: Any, expected: dict[str, str]) -> None:
    found = environment_of(pod_of(8, {"spec.distributedConfig": {}, **changes}, pods=pods))
    assert {name: each for name, each in found.items() if name.startswith("NCCL")} == expected


def test_frameworks_have_variables_of_their_own() -> None:
    found = environment_of(pod_of(16, {"spec.framework": "TensorFlow"}, pods=2, rank=1))
    config = msgspec.json.decode(found["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"]["worker"][0] == "job-0.gw-job.default.svc.cluster.local:29500"
    found = environment_of(pod_of(16, {"spec.framework": "JAX"}, pods=2, rank=1))
    assert found["JAX_PROCESS_ID"] == "8"
    assert found["JAX_COORDINATOR_ADDRESS"] == "job-0.gw-job.default.svc.cluster.local:29500"


TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
OTHER = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
NODES = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM, OTHER]}}}


def name_term(operator: str, name: str) -> Any:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


CONSTRAINED: dict[str, tuple[Any, str, Any]] = {
    "labels of both": (
        {f"{POD}.nodeSelector": {"a": "1"}, CONSTRAINTS: {"nodeSelector": {"b": "2"}}},
        "nodeSelector",
        {"a": "1", "b": "2"},
    ),
    "excluded nodes": (
        {CONSTRAINTS: {"excludeNodes": ["n2", "n1"]}},
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        [{"matchFields": [name_term("NotIn", "n1"), name_term("NotIn", "n2")]}],
    ),
    "alternatives of both": (
        {
            f"{POD}.affinity": NODES,
            CONSTRAINTS: {
                "nodeAffinity": {"requiredDuringScheduling": [OTHER]},
                "excludeNodes": ["n1"],
            },
        },
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        [
            {
                "matchExpressions": [*each["matchExpressions"], *OTHER["matchExpressions"]],
                "matchFields": [name_term("NotIn", "n1")],
            }
            for each in (TERM, OTHER)
        ],
    ),
    "preferred nodes": (
        {
            CONSTRAINTS: {
                "nodeAffinity": {"preferredDuringScheduling": [{"weight": 5, "selector": TERM}]}
            }
        },
        f"affinity.nodeAffinity.{PREFERRED}",
        [{"weight": 5, "preference": TERM}],
    ),
    "beside a pod": (
        {CONSTRAINTS: {"colocateWith": [{"name": "cache"}]}},
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        [{"matchFields": [name_term("In", "n7")]}],
    ),
    "away from a pod, and from one that does not exist": (
        {CONSTRAINTS: {"antiAffinity": [{"name": "cache"}, {"name": "gone"}]}},
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        [{"matchFields": [name_term("NotIn", "n7")]}],
    ),
    "beside a workload": (
        {CONSTRAINTS: {"colocateWith": [{"name": "b", "kind": "GPUWorkload", "namespace": "t"}]}},
        f"affinity.podAffinity.{REQUIRED}",
        [
            {
                "topologyKey": "kubernetes.io/hostname",
                "namespaces": ["t"],
                "labelSelector": {"matchLabels": {"kilonova.dev/workload": "GPUWorkload_b"}},
            }
        ],
    ),
    "tolerations, and that of GPU nodes": (
        {CONSTRAINTS: {"tolerations": [{"key": "a", "operator": "Exists"}]}},
        "tolerations",
        [
            {"key": "a", "operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        ],
    ),
}


@pytest.mark.parametrize(("changes", "path", "expected"), CONSTRAINED.values(), ids=CONSTRAINED)
def test_constraints_are_added_to_the_template(changes: Any, path: str, expected: Any) -> None:
    referenced = {
        ("default", "cache"): ReferencedPod(exists=True, node="n7"),
        ("default", "gone"): ReferencedPod(exists=False),
    }
    spec = pod_of(changes=changes, referenced_pods=referenced)["spec"]
    assert value_at(spec, path) == expected


def gang_of(gpus: int = 8, changes: Any = None, pods: int = 1) -> Any:
    found = decode(gpus, changes)
    return build_gang(found, build_split(found.spec, pods), 0)


def test_gang_lists_all_pods() -> None:
    changes = {
        "metadata.labels": {"scheduling.kilonova.dev/queue": "research"},
        "spec.priority": 7,
        "spec.isPreemptible": True,
        "spec.expectedDuration": "2h30m",
    }
    gang = gang_of(16, changes, pods=2)
    assert gang["metadata"]["labels"]["scheduling.kilonova.dev/queue"] == "research"
    assert gang["metadata"]["annotations"] == {
        "scheduling.kilonova.dev/preemptible": "true",
        "scheduling.kilonova.dev/expected-duration": "2h30m",
    }
    assert gang["spec"]["priorityClassName"] == "kgwe-priority-7"
    (group,) = gang["spec"]["podgroups"]
    assert [each["name"] for each in group["podReferences"]] == ["job-0", "job-1"]
    assert group["minReplicas"] == 2


def test_gang_is_not_preempted_unless_allowed() -> None:
    annotations = gang_of()["metadata"]["annotations"]
    assert annotations == {"scheduling.kilonova.dev/preemptible": "false"}
    assert "priorityClassName" not in gang_of()["spec"]


@pytest.mark.parametrize(
    ("preference", "pods", "expected"),
    [
        ("NVLinkRequired", 2, {"required": "nvidia.com/gpu.clique"}),
        ("NVLinkOptimal", 2, {"preferred": "nvidia.com/gpu.clique"}),
        ("NVLinkRequired", 1, None),
        ("SameNUMA", 2, None),
    ],
)
def test_nvlink_between_nodes_is_within_a_domain(preference: str, pods: int, expected: Any) -> None:
    spec = gang_of(16, {f"{GPUS}.topology": {"preference": preference}}, pods)["spec"]
    found = spec.get("topologyConstraint")
    assert found == (None if expected is None else {"packConstraint": expected})


def test_service_selects_the_pods() -> None:
    service = build_service(decode())
    labels = pod_of()["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"spec.preemptible": True}, True),
        ({"spec.expectedDuration": "1h"}, True),
        ({CONSTRAINTS: {"maxSchedulingLatency": "5m"}}, True),
        ({"metadata.labels": {"a": "b"}}, True),
        ({"spec.priority": 1}, False),
        ({f"{POD}.containers[0].image": "c"}, False),
        ({CONSTRAINTS: {"excludeNodes": ["n"]}}, False),
    ],
)
def test_hash_follows_what_pods_are_made_from(changes: Any, is_same: bool) -> None:
    one, other = decode(), decode(changes=changes)
    split = build_split(one.spec, 1)
    found = compute_template_hash(one, split) == compute_template_hash(other, split)
    assert found == is_same
