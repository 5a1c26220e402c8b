"""KGWE's three kinds as its definitions and Go types have them: names, every value of every
enumeration, limits, and every field of the statuses. On both servers."""

from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from tests.api.manifests import collection, minimal_object, value_at
from tests.conftest import Api

GPUS = "spec.gpuRequirements"
MIG_PROFILES = (
    "1g.5gb",
    "1g.10gb",
    "2g.10gb",
    "2g.20gb",
    "3g.20gb",
    "3g.40gb",
    "4g.20gb",
    "4g.40gb",
    "7g.40gb",
    "7g.80gb",
)

ACCEPTED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("gpuworkloads", f"{GPUS}.count"): (1, 64),
    ("gpuworkloads", f"{GPUS}.minMemoryGB"): (1, 80),
    ("gpuworkloads", f"{GPUS}.minBandwidthGBps"): (600,),
    ("gpuworkloads", f"{GPUS}.gpuModel"): ("H100",),
    ("gpuworkloads", f"{GPUS}.topology.preference"): (
        "None",
        "NVLinkOptimal",
        "NVLinkRequired",
        "SameNUMA",
        "SamePCIeSwitch",
    ),
    ("gpuworkloads", f"{GPUS}.topology.minBandwidthGBps"): (600,),
    ("gpuworkloads", f"{GPUS}.architecture"): (
        "Volta",
        "Turing",
        "Ampere",
        "Hopper",
        "Ada",
        "Blackwell",
    ),
    ("gpuworkloads", "spec.workloadType"): (
        "Training",
        "Inference",
        "FineTuning",
        "DataPreprocessing",
        "Reinforcement",
        "Visualization",
        "DistributedTraining",
    ),
    ("gpuworkloads", "spec.framework"): ("PyTorch", "TensorFlow", "JAX", "MXNet", "Triton"),
    ("gpuworkloads", "spec.distributedConfig.strategy"): (
        "DataParallel",
        "ModelParallel",
        "PipelineParallel",
        "Hybrid",
        "FSDP",
        "DeepSpeed",
    ),
    ("gpuworkloads", "spec.distributedConfig.worldSize"): (1, 8),
    ("gpuworkloads", "spec.distributedConfig.backend"): ("NCCL", "Gloo", "MPI"),
    ("gpuworkloads", "spec.priority"): (0, 1_000_000),
    ("gpuworkloads", "spec.preemptible"): (True, False),
    ("gpuworkloads", "spec.memoryProfile"): ("Low", "Medium", "High", "Maximum"),
    ("migstrategies", "spec.nodeSelector"): ({"node-pool": "inference"},),
    ("migstrategies", "spec.gpuSelector.model"): ("H100",),
    ("migstrategies", "spec.gpuSelector.minMemoryGB"): (40,),
    ("migstrategies", "spec.gpuSelector.architecture"): ("Hopper",),
    ("migstrategies", "spec.gpuSelector.migCapable"): (True,),
    ("migstrategies", "spec.profileDistribution"): (
        {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1},
    ),
    ("migstrategies", "spec.allowDynamicReconfig"): (True, False),
    ("migstrategies", "spec.allowPodEviction"): (True, False),
    ("migstrategies", "spec.rebalanceInterval"): ("5m",),
    ("migstrategies", "spec.minUtilizationThreshold"): (0.3,),
    ("migstrategies", "spec.priority"): (10,),
    ("gpubudgets", "spec.limit"): ("10000", "99.50"),
    ("gpubudgets", "spec.currency"): ("USD", "EUR"),
    ("gpubudgets", "spec.period"): ("Daily", "Weekly", "Monthly"),
    ("gpubudgets", "spec.scope"): ("Namespace", "Team", "Project", "Cluster"),
    ("gpubudgets", "spec.teamId"): ("research",),
    ("gpubudgets", "spec.alertsEnabled"): (True, False),
    ("gpubudgets", "spec.alertThresholds"): ([0.5, 0.75, 0.9, 1.0],),
    ("gpubudgets", "spec.enforcementPolicy"): ("Alert", "Throttle", "Block"),
}
"""Fields and what they may have."""

REJECTED: dict[tuple[str, str], Any] = {
    ("gpuworkloads", f"{GPUS}.count"): 65,
    ("gpuworkloads", f"{GPUS}.minMemoryGB"): 0,
    ("gpuworkloads", f"{GPUS}.topology.preference"): "Near",
    ("gpuworkloads", f"{GPUS}.architecture"): "Fermi",
    ("gpuworkloads", "spec.workloadType"): "Mining",
    ("gpuworkloads", "spec.framework"): "Caffe",
    ("gpuworkloads", "spec.distributedConfig.strategy"): "Random",
    ("gpuworkloads", "spec.distributedConfig.worldSize"): 0,
    ("gpuworkloads", "spec.distributedConfig.backend"): "Carrier pigeon",
    ("gpuworkloads", "spec.priority"): 1_000_001,
    ("migstrategies", "spec.profileDistribution"): {"1g.10gb": 0.8, "2g.20gb": 0.3},
    ("migstrategies", "spec.rebalanceInterval"): "soon",
    ("migstrategies", "spec.minUtilizationThreshold"): 1.5,
    ("gpubudgets", "spec.limit"): "much",
    ("gpubudgets", "spec.period"): "Yearly",
    ("gpubudgets", "spec.scope"): "Galaxy",
    ("gpubudgets", "spec.enforcementPolicy"): "Ignore",
}

STATUSES: dict[str, Any] = {
    "gpuworkloads": {
        "phase": "Running",
        "scheduledNode": "node-0",
        "allocatedGPUs": ["GPU-1"],
        "migInstances": [{"parentGPU": "GPU-1", "instanceUUID": "MIG-1", "profile": "2g.20gb"}],
        "schedulingScore": 97,
        "estimatedBandwidth": 900,
        "conditions": [],
        "startTime": "2026-05-01T00:00:00Z",
        "completionTime": "2026-05-01T01:00:00Z",
    },
    "migstrategies": {
        "appliedNodes": ["node-0"],
        "currentDistribution": {"1g.10gb": 0.7},
        "lastRebalanceTime": "2026-05-01T00:00:00Z",
        "conditions": [],
    },
    "gpubudgets": {
        "currentSpend": "120.50",
        "utilizationPercent": 1.2,
        "periodStart": "2026-05-01T00:00:00Z",
        "periodEnd": "2026-06-01T00:00:00Z",
        "alerts": [
            {"threshold": 0.5, "triggeredAt": "2026-05-01T00:00:00Z", "acknowledged": False}
        ],
        "conditions": [],
    },
}


@pytest.mark.parametrize(("plural", "path"), ACCEPTED, ids=lambda each: each)
def test_every_value_is_accepted_and_kept(
    api_with_definitions: Api, plural: str, path: str
) -> None:
    url = f"{collection(plural, api_with_definitions.namespace)}?dryRun=All"
    for value in ACCEPTED[plural, path]:
        status, answer = api_with_definitions.access.request(
            "POST", url, _with(plural, path, value)
        )
        assert status == 201, answer
        assert value_at(answer, path) == value


def test_every_profile_of_its_list_is_accepted(api_with_definitions: Api) -> None:
    url = f"{collection('gpuworkloads', api_with_definitions.namespace)}?dryRun=All"
    for profile in MIG_PROFILES:
        body = _with("gpuworkloads", f"{GPUS}.mig", {"profile": profile, "count": 1})
        body["spec"]["gpuRequirements"]["count"] = 1
        status, answer = api_with_definitions.access.request("POST", url, body)
        assert status == 201, answer
        assert value_at(answer, f"{GPUS}.mig") == {"profile": profile, "count": 1}


@pytest.mark.parametrize(("plural", "path"), REJECTED, ids=lambda each: each)
def test_other_values_are_rejected(api_with_definitions: Api, plural: str, path: str) -> None:
    url = f"{collection(plural, api_with_definitions.namespace)}?dryRun=All"
    body = _with(plural, path, REJECTED[plural, path])
    status, answer = api_with_definitions.access.request("POST", url, body)
    assert status == 422, answer
    assert path.rpartition(".")[2] in answer["message"]


@pytest.mark.parametrize("plural", STATUSES)
def test_every_field_of_the_status_is_kept(api_with_definitions: Api, plural: str) -> None:
    url = collection(plural, api_with_definitions.namespace)
    body = minimal_object(plural)
    name = body["metadata"]["name"] = f"of-{api_with_definitions.namespace}"
    status, answer = api_with_definitions.access.request("POST", url, body)
    assert status == 201, answer
    answer["status"] = STATUSES[plural]
    status, answer = api_with_definitions.access.request("PUT", f"{url}/{name}/status", answer)
    assert status == 200, answer
    found = {field: answer["status"].get(field) for field in STATUSES[plural]}
    assert found == STATUSES[plural]
    api_with_definitions.access.request("DELETE", f"{url}/{name}")


@pytest.mark.parametrize(
    ("plural", "names", "scope"),
    [
        ("gpuworkloads", {"gw", "gpuw"}, "Namespaced"),
        ("migstrategies", {"migs"}, "Cluster"),
        ("gpubudgets", {"gb", "gpub"}, "Namespaced"),
    ],
)
def test_short_names_scope_and_status_are_those_of_kgwe(
    plural: str, names: set[str], scope: str
) -> None:
    name = f"{plural}.kgwe.nvidia.io"
    (found,) = (each for each in load_definitions() if each["metadata"]["name"] == name)
    spec: Any = found["spec"]
    assert set(spec["names"]["shortNames"]) >= names
    assert spec["scope"] == scope
    (version,) = spec["versions"]
    assert (version["name"], version["subresources"]["status"]) == ("v1", {})


def _with(plural: str, path: str, value: Any) -> Any:
    body = minimal_object(plural)
    place = body
    *parents, last = path.split(".")
    for each in parents:
        place = place.setdefault(each, {})
    place[last] = value
    return body
