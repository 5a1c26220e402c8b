"""Opaque configuration of claims: which counts, and what is rejected."""

from typing import Any

import pytest

from kilonova.gpu.dra.configs import (
    InvalidConfig,
    MpsConfig,
    OpaqueConfig,
    Sharing,
    SharingStrategy,
    TimeSlicingConfig,
    find_sharing,
)

MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}
SLICED = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


def config(sharing: Any, *requests: str, kind: str = "GpuConfig", **fields: Any) -> OpaqueConfig:
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
    return OpaqueConfig(requests, {**parameters, **fields})


def test_devices_without_configuration_are_not_shared() -> None:
    assert find_sharing([], "gpu", False) is None


def test_last_configuration_of_a_request_counts() -> None:
    configs = [config(MPS), config(SLICED, "a"), config(MPS, "b")]
    found = find_sharing(configs, "a", False)
    assert found is not None
    assert found.strategy is SharingStrategy.TIME_SLICING
    assert found.time_slicing_config == TimeSlicingConfig("Long")  # pyright: ignore[reportArgumentType]


def test_configuration_of_a_request_is_for_its_subrequests() -> None:
    expected = Sharing(SharingStrategy.MPS, mps_config=MpsConfig(50))
    assert find_sharing([config(MPS, "a")], "a/small", False) == expected
    assert find_sharing([config(MPS, "a/large")], "a/small", False) is None


def test_configurations_of_classes_are_for_one_type_of_device() -> None:
    """A claim with GPUs and MIG instances has the configurations of both classes."""
    configs = [config(SLICED), config(MPS, kind="MigDeviceConfig")]
    found = find_sharing(configs, "a", True)
    assert found is not None
    assert found.strategy is SharingStrategy.MPS


@pytest.mark.parametrize(
    ("given", "is_instance", "problem"),
    [
        (config(MPS, kind="VfioConfig"), False, "kind VfioConfig: use GpuConfig or MigDevice"),
        (config(MPS, apiVersion="v1"), False, "apiVersion v1: use gpu.kilonova.dev/v1alpha1 or"),
        (config(MPS, colour="red"), False, "opaque parameters: .*unknown field `colour`"),
        (config({"strategy": "Luck"}), False, "opaque parameters: Invalid enum value 'Luck'"),
        (
            config({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}}),
            False,
            "Expected `int` <= 100",
        ),
        (
            config({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "lots"}}),
            False,
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
        ),
        (
            config(
                {"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"0": "0"}}}
            ),
            False,
            r"defaultPerDevicePinnedMemoryLimit\[0\]: 0 is not a size of memory",
        ),
        (config(SLICED, kind="MigDeviceConfig"), True, "MIG instances support MPS alone"),
        (
            config({"strategy": "MPS", "timeSlicingConfig": {}}),
            False,
            "sharing.timeSlicingConfig: the strategy is MPS",
        ),
        (
            config({"strategy": "TimeSlicing", "mpsConfig": {}}),
            False,
            "sharing.mpsConfig: the strategy is TimeSlicing",
        ),
        (config(MPS, "a"), True, "request a has MIG instances, and its configuration is a Gpu"),
    ],
)
def test_configuration_that_is_rejected(
    given: OpaqueConfig, is_instance: bool, problem: str
) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        find_sharing([given], "a", is_instance)
