"""Defaults and validation of workloads and strategies, as tables."""

from typing import Any

import pytest

from kilonova.gpu.admission.defaults import apply_defaults
from kilonova.gpu.admission.validation import validate_strategy, validate_workload
from kilonova.gpu.controllers.settings import ControllerSettings
from tests.api.manifests import value_at
from tests.gpu.controllers.manifests import TRAINER, workload

GPUS = "spec.gpuRequirements"
POD = "spec.podTemplate.spec"
CONTAINER = f"{POD}.containers[0]"
LIMITS = f"{CONTAINER}.resources.limits"


def errors_of(changes: Any, gpus: int = 8, old: Any = None) -> list[str]:
    obj = workload(gpus=gpus, changes=changes)
    result = validate_workload(obj, old, ControllerSettings())
    return [f"{each.field}: {each.message}" for each in result.errors]


VALID: dict[str, tuple[int, Any]] = {
    "the least": (8, {}),
    "a template that requests the same": (8, {LIMITS: {"nvidia.com/gpu": 8}}),
    "a template for one of two pods": (16, {LIMITS: {"nvidia.com/gpu": 8}}),
    "a template for all GPUs of several pods": (16, {LIMITS: {"nvidia.com/gpu": "16"}}),
    "MIG in the template": (
        1,
        {
            f"{GPUS}.mig": {"profile": "2g.20gb", "count": 1},
            LIMITS: {"nvidia.com/mig-2g.20gb": 1},
        },
    ),
    "MIG with the media extension": (1, {f"{GPUS}.mig": {"profile": "1g.10gb+me"}}),
    "fewer processes than GPUs": (8, {"spec.distributedConfig": {"worldSize": 4}}),
    "more processes than GPUs": (8, {"spec.distributedConfig": {"worldSize": 16}}),
    "a count that only some clusters can split": (13, {}),
    "a pod that is named before it exists": (
        8,
        {"spec.constraints": {"colocateWith": [{"name": "x"}]}},
    ),
}


@pytest.mark.parametrize(("gpus", "changes"), VALID.values(), ids=VALID)
def test_valid_workload_is_admitted(gpus: int, changes: Any) -> None:
    assert errors_of(changes, gpus) == []


INVALID: dict[str, tuple[int, Any, str]] = {
    "an unknown profile": (
        1,
        {f"{GPUS}.mig": {"profile": "2g.21gb"}},
        'spec.gpuRequirements.mig.profile: Not found: "2g.21gb": no GPU of the catalog has this MIG'
        " profile; of that size there are 2g.10gb, 2g.12gb",
    ),
    "processes with unequal GPUs": (
        8,
        {"spec.distributedConfig": {"worldSize": 3}},
        "spec.distributedConfig.worldSize: Invalid value: 3 processes cannot have equally many of 8"
        " GPUs: use a divisor of 8",
    ),
    "a template that requests other GPUs": (
        8,
        {LIMITS: {"nvidia.com/gpu": 3}},
        "spec.podTemplate.spec.containers[0].resources: Invalid value: requests 3 nvidia.com/gpu, "
        "and by spec.gpuRequirements its pod has 8: leave nvidia.com/gpu out of the template",
    ),
    "whole GPUs in the template of a slice": (
        1,
        {f"{GPUS}.mig": {"profile": "2g.20gb"}, LIMITS: {"nvidia.com/gpu": 1}},
        "spec.podTemplate.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: the "
        "workload has nvidia.com/mig-2g.20gb: leave nvidia.com/gpu out of the template",
    ),
    "a fraction of a GPU": (
        1,
        {LIMITS: {"nvidia.com/gpu": "0.5"}},
        "spec.podTemplate.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: '0.5'"
        " is not a whole number",
    ),
    "two priorities": (
        8,
        {"spec.priority": 5, f"{POD}.priorityClassName": "high"},
        "spec.podTemplate.spec.priorityClassName: Invalid value: 'high', and spec.priority is 5: "
        "leave one of them out",
    ),
    "two selectors for one label": (
        8,
        {f"{POD}.nodeSelector": {"pool": "a"}, "spec.constraints": {"nodeSelector": {"pool": "b"}}},
        "spec.podTemplate.spec.nodeSelector[pool]: Invalid value: 'a' contradicts 'b' in "
        "spec.constraints.nodeSelector: leave one of them out",
    ),
    "a template without containers": (
        8,
        {f"{POD}.containers": []},
        "spec.podTemplate.spec.containers: Invalid value: at least one container is needed, with an"
        " image",
    ),
    "a container without image": (
        8,
        {f"{POD}.containers": [{"name": "a"}]},
        "spec.podTemplate.spec.containers[0]: Invalid value: needs a name and an image",
    ),
    "containers in the wrong place": (
        8,
        {"spec.podTemplate": {"containers": [TRAINER]}},
        "spec.podTemplate.spec: Invalid value: is missing: move containers into "
        "spec.podTemplate.spec",
    ),
    "a pod spec of other types": (
        8,
        {f"{POD}.tolerations": [{"key": 1}]},
        "spec.podTemplate.spec: Invalid value: Expected `str`, got `int` - at "
        "`$.spec.tolerations[0].key`",
    ),
    "an annotation that asks for a share": (
        8,
        {"spec.podTemplate.metadata": {"annotations": {"gpu.kilonova.dev/milli": "500"}}},
        "requests a GPU share in addition to nvidia.com/gpu: leave one of them out",
    ),
}


@pytest.mark.parametrize(("gpus", "changes", "message"), INVALID.values(), ids=INVALID)
def test_invalid_workload_is_rejected(gpus: int, changes: Any, message: str) -> None:
    (found,) = errors_of(changes, gpus)
    assert message in found


PLACED = workload(changes={"status": {"phase": "Running"}})


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({f"{GPUS}.count": 4}, ["spec.gpuRequirements"]),
        ({"spec.priority": 7}, ["spec.priority"]),
        ({f"{CONTAINER}.image": "other"}, ["spec.podTemplate"]),
        ({"spec.preemptible": True, "spec.expectedDuration": "2h"}, []),
        ({"metadata.labels": {"team": "a"}}, []),
    ],
    ids=["GPUs", "priority", "template", "how it is scheduled", "labels"],
)
def test_spec_of_a_placed_workload_may_not_change(changes: Any, fields: list[str]) -> None:
    found = errors_of({"status": {"phase": "Running"}, **changes}, old=PLACED)
    assert [each.partition(":")[0] for each in found] == fields
    assert all("delete the workload and create it again" in each for each in found)


def test_spec_of_a_waiting_workload_may_change() -> None:
    old = workload(changes={"status": {"phase": "Scheduling"}})
    assert errors_of({f"{GPUS}.count": 4}, old=old) == []


def test_manifest_without_template_is_admitted_with_a_warning() -> None:
    obj = workload(changes={"spec.podTemplate": None})
    result = validate_workload(obj, None, ControllerSettings())
    assert result.errors == ()
    assert result.warnings == (
        "spec.podTemplate: is missing: add spec.podTemplate.spec.containers with the image that "
        "uses the GPUs",
    )


def test_fields_without_effect_are_warned_about() -> None:
    changes = {
        "spec.memoryProfile": "Low",
        "spec.distributedConfig": {"localRank": 1},
        f"{GPUS}.minBandwidthGBps": 10,
    }
    result = validate_workload(workload(gpus=1, changes=changes), None, ControllerSettings())
    assert [each.partition(" ")[0] for each in result.warnings] == [
        "spec.memoryProfile",
        "spec.distributedConfig.localRank",
        "minBandwidthGBps",
    ]


def test_defaults_show_what_a_manifest_means() -> None:
    changes = {
        f"{GPUS}.mig": {"profile": "1g.10gb"},
        "spec.distributedConfig": {"strategy": "FSDP"},
        "spec.isPreemptible": True,
    }
    obj = workload(gpus=3, changes=changes)
    found = apply_defaults(obj)
    assert value_at(found, f"{GPUS}.mig.count") == 3
    assert value_at(found, "spec.distributedConfig.masterPort") == 29500
    assert value_at(found, "spec.preemptible") is True
    assert apply_defaults(found) == found


@pytest.mark.parametrize(
    "spec", [None, 3, {"gpuRequirements": 1}, {"distributedConfig": [1], "gpuRequirements": {}}]
)
def test_defaults_leave_what_the_schema_will_reject(spec: Any) -> None:
    obj: Any = {"metadata": {"name": "a"}, "spec": spec}
    assert apply_defaults(obj) == obj


def strategy(**distribution: float) -> Any:
    profiles = {name.replace("_", "."): each for name, each in distribution.items()}
    return {
        "kind": "MIGStrategy",
        "metadata": {"name": "a"},
        "spec": {"profileDistribution": profiles},
    }


def test_strategy_with_profiles_of_the_catalog_is_admitted() -> None:
    obj = strategy(**{"1g_10gb": 0.7, "3g_71gb": 0.3})
    assert validate_strategy(obj).errors == ()


def test_strategy_with_an_unknown_profile_is_rejected() -> None:
    (error,) = validate_strategy(strategy(**{"1g_11gb": 0.7})).errors
    assert error.field == "spec.profileDistribution[1g.11gb]"
    assert "of that size there are 1g.10gb" in error.message


def test_profile_of_a_size_that_no_gpu_has_says_what_there_is() -> None:
    (error,) = validate_strategy(strategy(**{"9g_999gb": 0.7})).errors
    expected = "no GPU of the catalog has this MIG profile; names of profiles begin with 1g, 2g"
    assert expected in error.message


def test_strategy_without_profiles_is_warned_about() -> None:
    assert "does nothing" in validate_strategy(strategy()).warnings[0]
