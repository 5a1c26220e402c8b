"""What the definitions of `kgwe.nvidia.io` accept and reject, as tables, on both servers."""

from typing import Any

import pytest

from tests.api.manifests import ABSENT, collection, minimal_object, value_at
from tests.conftest import Api

GPUS = "spec.gpuRequirements"
CONSTRAINTS = "spec.constraints"

Case = tuple[str, dict[str, Any], dict[str, Any]]

ACCEPTED: dict[str, Case] = {
    "the least workload": (
        "gpuworkloads",
        {},
        {
            "spec.workloadType": "Training",
            "spec.priority": 0,
            "spec.preemptible": False,
            f"{GPUS}.topology": ABSENT,
        },
    ),
    "requirements of all kinds": (
        "gpuworkloads",
        {
            f"{GPUS}.minMemoryGB": 80,
            f"{GPUS}.minBandwidthGBps": 25.5,
            f"{GPUS}.gpuModel": "H100,H200",
            f"{GPUS}.architecture": "Hopper",
            f"{GPUS}.topology": {"preference": "NVLinkRequired", "minBandwidthGBps": 600},
        },
        {f"{GPUS}.minBandwidthGBps": 25.5, f"{GPUS}.topology.minBandwidthGBps": 600},
    ),
    "a topology without preference": (
        "gpuworkloads",
        {f"{GPUS}.topology": {}},
        {f"{GPUS}.topology.preference": "None"},
    ),
    "a type that KGWE's product document uses and its definition lacks": (
        "gpuworkloads",
        {"spec.workloadType": "DistributedTraining"},
        {"spec.workloadType": "DistributedTraining"},
    ),
    "a MIG profile of a GPU that KGWE does not know": (
        "gpuworkloads",
        {f"{GPUS}.count": 1, f"{GPUS}.mig": {"profile": "3g.71gb", "count": 2}},
        {f"{GPUS}.mig.count": 2, f"{GPUS}.mig.allowPartialPlacement": ABSENT},
    ),
    "a MIG profile with the media extension": (
        "gpuworkloads",
        {f"{GPUS}.count": 2, f"{GPUS}.mig": {"profile": "1g.18gb+me"}},
        {f"{GPUS}.mig.profile": "1g.18gb+me"},
    ),
    "how processes work together": (
        "gpuworkloads",
        {
            "spec.distributedConfig": {
                "strategy": "DeepSpeed",
                "worldSize": 8,
                "localRank": 0,
                "masterAddr": "head.team",
                "masterPort": 2222,
            }
        },
        {"spec.distributedConfig.backend": "NCCL", "spec.distributedConfig.masterPort": 2222},
    ),
    "everything of the Go types": (
        "gpuworkloads",
        {
            "spec.expectedDuration": "2h30m",
            "spec.isPreemptible": True,
            "spec.memoryProfile": "High",
            CONSTRAINTS: {
                "nodeSelector": {"pool": "a"},
                "nodeAffinity": {
                    "requiredDuringScheduling": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                    ],
                    "preferredDuringScheduling": [
                        {
                            "weight": 5,
                            "selector": {
                                "matchExpressions": [{"key": "fast", "operator": "Exists"}]
                            },
                        }
                    ],
                },
                "tolerations": [{"key": "maintenance", "operator": "Exists"}],
                "excludeNodes": ["node-1"],
                "colocateWith": [{"name": "cache-0"}],
                "antiAffinity": [{"kind": "GPUWorkload", "name": "b", "namespace": "other"}],
                "maxSchedulingLatency": "10m",
            },
        },
        {
            f"{CONSTRAINTS}.colocateWith[0].kind": "Pod",
            f"{CONSTRAINTS}.tolerations[0].operator": "Exists",
            f"{CONSTRAINTS}.maxSchedulingLatency": "10m",
        },
    ),
    "a pod template with any fields": (
        "gpuworkloads",
        {"spec.podTemplate": {"spec": {"containers": [{"name": "a", "new": {"field": 1}}]}}},
        {"spec.podTemplate.spec.containers[0].new.field": 1},
    ),
    "the least strategy": (
        "migstrategies",
        {},
        {
            "spec.allowDynamicReconfig": False,
            "spec.allowPodEviction": False,
            "spec.rebalanceInterval": "5m",
            "spec.minUtilizationThreshold": 0.3,
            "spec.priority": 0,
        },
    ),
    "the stock strategy": (
        "migstrategies",
        {
            "spec.gpuSelector": {"model": "H100"},
            "spec.profileDistribution": {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1},
        },
        {"spec.gpuSelector.migCapable": True, "spec.profileDistribution": 3},
    ),
    "fractions that are rounded up": (
        "migstrategies",
        {"spec.profileDistribution": {"1g.10gb": 0.34, "2g.20gb": 0.33, "3g.40gb": 0.34}},
        {},
    ),
    "the least budget": (
        "gpubudgets",
        {},
        {
            "spec.currency": "USD",
            "spec.period": "Monthly",
            "spec.scope": "Namespace",
            "spec.alertsEnabled": True,
            "spec.alertThresholds[3]": 1.0,
            "spec.enforcementPolicy": "Alert",
        },
    ),
}
"""And what is at some paths afterwards; of a map, the number of its keys."""

REJECTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no requirements": ("gpuworkloads", {GPUS: ABSENT}, "spec.gpuRequirements: Required value"),
    "no count": ("gpuworkloads", {f"{GPUS}.count": ABSENT}, "count: Required value"),
    "no GPUs": (
        "gpuworkloads",
        {f"{GPUS}.count": 0},
        "spec.gpuRequirements.count in body should be greater than or equal to 1",
    ),
    "too many GPUs": (
        "gpuworkloads",
        {f"{GPUS}.count": 65},
        "spec.gpuRequirements.count in body should be less than or equal to 64",
    ),
    "an unknown preference": (
        "gpuworkloads",
        {f"{GPUS}.topology": {"preference": "Near"}},
        'spec.gpuRequirements.topology.preference: Unsupported value: "Near"',
    ),
    "an unknown architecture": (
        "gpuworkloads",
        {f"{GPUS}.architecture": "Fermi"},
        'spec.gpuRequirements.architecture: Unsupported value: "Fermi"',
    ),
    "what is no MIG profile": (
        "gpuworkloads",
        {f"{GPUS}.mig": {"profile": "small"}},
        "spec.gpuRequirements.mig.profile in body should match",
    ),
    "MIG and NVLink": (
        "gpuworkloads",
        {
            f"{GPUS}.mig": {"profile": "1g.10gb"},
            f"{GPUS}.topology": {"preference": "NVLinkRequired"},
        },
        "MIG instances cannot use NVLink: leave out mig, or the preference NVLinkRequired",
    ),
    "MIG and bandwidth": (
        "gpuworkloads",
        {f"{GPUS}.mig": {"profile": "1g.10gb"}, f"{GPUS}.minBandwidthGBps": 10},
        "leave out mig, or minBandwidthGBps",
    ),
    "two numbers of instances": (
        "gpuworkloads",
        {f"{GPUS}.count": 3, f"{GPUS}.mig": {"profile": "1g.10gb", "count": 2}},
        "with mig, mig.count is the number of instances: set count to 1 or to mig.count",
    ),
    "several instances on one GPU": (
        "gpuworkloads",
        {
            f"{GPUS}.count": 2,
            f"{GPUS}.mig": {"profile": "1g.10gb", "allowPartialPlacement": False},
        },
        "set mig.allowPartialPlacement to true",
    ),
    "a negative priority": ("gpuworkloads", {"spec.priority": -1}, "spec.priority"),
    "too high a priority": (
        "gpuworkloads",
        {"spec.priority": 1_000_001},
        "spec.priority in body should be less than or equal to 1000000",
    ),
    "an unknown type": (
        "gpuworkloads",
        {"spec.workloadType": "Mining"},
        'spec.workloadType: Unsupported value: "Mining"',
    ),
    "a duration without unit": (
        "gpuworkloads",
        {"spec.expectedDuration": "90"},
        "spec.expectedDuration in body should match",
    ),
    "an operator without values": (
        "gpuworkloads",
        {
            f"{CONSTRAINTS}.nodeAffinity": {
                "requiredDuringScheduling": [
                    {"matchExpressions": [{"key": "zone", "operator": "In"}]}
                ]
            }
        },
        "values are needed with In, NotIn, Gt and Lt",
    ),
    "a name with dots": (
        "gpuworkloads",
        {"metadata.name": "a.b"},
        "metadata.name must have at most 47 lower-case letters, digits and hyphens",
    ),
    "a long name": ("gpuworkloads", {"metadata.name": "a" * 48}, "at most 47"),
    "more than everything": (
        "migstrategies",
        {"spec.profileDistribution": {"1g.10gb": 0.7, "2g.20gb": 0.4}},
        "the fractions of profileDistribution must have a sum of at most 1",
    ),
    "percentages": (
        "migstrategies",
        {"spec.profileDistribution": {"1g.10gb": 70}},
        "should be less than or equal to 1",
    ),
    "a profile that is none": (
        "migstrategies",
        {"spec.profileDistribution": {"large": 0.5}},
        "the keys of profileDistribution must be MIG profiles, such as 1g.10gb",
    ),
    "GPUs without MIG": (
        "migstrategies",
        {"spec.gpuSelector": {"migCapable": False}},
        "GPUs without MIG cannot be divided",
    ),
    "the shape of KGWE's product document": (
        "migstrategies",
        {
            "spec.nodeSelector": {"gpu.nvidia.com/class": "H100"},
            "spec.partitionStrategy": {
                "preferredProfiles": [{"1g.10gb": "70%"}, {"2g.20gb": "20%"}],
                "rebalanceInterval": "5m",
            },
        },
        "write profileDistribution {1g.10gb: 0.7}",
    ),
    "a budget without limit": ("gpubudgets", {"spec.limit": ABSENT}, "spec.limit: Required value"),
    "a budget in words": (
        "gpubudgets",
        {"spec.limit": "much"},
        "spec.limit in body should match",
    ),
}


@pytest.mark.parametrize(("plural", "changes", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_valid_field_is_accepted(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    code, response = _create(api_with_definitions, plural, changes)
    assert code == 201, response
    found = {path: value_at(response, path) for path in expected}
    counted = {path: len(each) if isinstance(each, dict) else each for path, each in found.items()}
    assert counted == expected


@pytest.mark.parametrize(("plural", "changes", "message"), REJECTED.values(), ids=REJECTED)
def test_invalid_field_is_rejected(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], message: str
) -> None:
    code, response = _create(api_with_definitions, plural, changes)
    assert code in (400, 422), response
    assert message in response["message"]


def _create(api: Api, plural: str, changes: dict[str, Any]) -> tuple[int, Any]:
    path = f"{collection(plural, api.namespace)}?dryRun=All&fieldValidation=Strict"
    return api.access.request("POST", path, minimal_object(plural, **changes))
