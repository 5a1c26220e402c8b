"""Whose processes run on which devices."""

import pytest

from kilonova.gpu.agent.verification.comparison import (
    find_mismatches,
    usage_by_processes,
)
from kilonova.gpu.agent.verification.evidence import parse_pod_uid
from kilonova.gpu.devices.model import DeviceTelemetry, ProcessUsage
from tests.gpu.agent.builders import holder, machine, with_instances

INVENTORY = with_instances(machine("h100:2"), 1, "1g.10gb@0", "3g.40gb@4")
FIRST, SECOND = INVENTORY.devices
UID = "0f7b1e6c-1d2c-4a5b-9c3d-2e1f0a9b8c7d"


@pytest.mark.parametrize(
    "line",
    [
        f"0::/kubepods/burstable/pod{UID}/abc",
        f"12:memory:/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/x.scope",
        f"1:name=systemd:/kubepods/pod{UID}/x\n0::/",
    ],
)
def test_pod_of_a_control_group(line: str) -> None:
    assert parse_pod_uid(line) == UID


@pytest.mark.parametrize("line", ["", "0::/user.slice", "0::/kubepods/podxyz/abc"])
def test_processes_outside_of_pods(line: str) -> None:
    assert parse_pod_uid(line) is None


def test_usage_is_by_device_or_instance() -> None:
    small, large = SECOND.instances
    samples = [
        DeviceTelemetry(FIRST.uuid, processes=(ProcessUsage(1), ProcessUsage(9))),
        DeviceTelemetry(
            SECOND.uuid,
            processes=(
                ProcessUsage(2, gpu_instance=small.gpu_instance),
                ProcessUsage(3, gpu_instance=large.gpu_instance),
            ),
        ),
    ]
    usage = usage_by_processes(INVENTORY, samples, {1: "a", 2: "a", 3: "b"})
    assert usage == {
        "a": frozenset({FIRST.uuid, small.uuid}),
        "b": frozenset({large.uuid}),
    }


def test_only_devices_that_were_not_assigned_are_mismatches() -> None:
    small, large = SECOND.instances
    pods = [holder("a", "0,1:1g.10gb@0"), holder("b", "1:3g.40gb@4")]
    right = {"uid-a": frozenset({FIRST.uuid}), "uid-b": frozenset({large.uuid})}
    assert find_mismatches(INVENTORY, pods, right) == ()
    wrong = {"uid-a": frozenset({large.uuid}), "uid-b": frozenset({small.uuid, FIRST.uuid})}
    found = find_mismatches(INVENTORY, pods, wrong)
    assert [(each.pod, each.used, each.assigned) for each in found] == [
        ("uid-a", "3g.40gb@4 on GPU 1", "0,1:1g.10gb@0"),
        ("uid-b", "1g.10gb@0 on GPU 1", "1:3g.40gb@4"),
        ("uid-b", "GPU 0", "1:3g.40gb@4"),
    ]
