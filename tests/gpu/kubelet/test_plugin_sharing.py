"""Shares by MPS and time slices, for pods and for claims, with the control program as a process."""

import contextlib
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.deviceplugin.sharing import MpsPodSharing
from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.dra.configs import (
    Interval,
    MpsConfig,
    Sharing,
    SharingStrategy,
    TimeSlicingConfig,
)
from kilonova.gpu.dra.sharing import NodeClaimSharing
from kilonova.gpu.kubelet import AllocationRefused, HeldDevice, InventoryFeed
from kilonova.gpu.sharing.time_slicing import TimeSlice
from tests.gpu.sharing.conftest import MpsLaboratory

GPU_1, GPU_2 = "GPU-1", "GPU-2"
NODE = NodeInventory((Device(0, GPU_1, memory_mib=81_920), Device(1, GPU_2, memory_mib=81_920)))


class TimeSlices:
    """The lengths of turns, as set last."""

    def __init__(self) -> None:
        self.lengths: dict[str, TimeSlice] = {}

    def set_time_slice(self, device: str, length: TimeSlice) -> None:
        self.lengths[device] = length


@pytest.fixture
def mps(tmp_path: Path) -> Generator[MpsLaboratory]:
    laboratory = MpsLaboratory(tmp_path)
    yield laboratory
    for file in laboratory.root.glob("*/pipe/*.pid"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def variables(edits: ContainerEdits) -> dict[str, str]:
    return dict(each.split("=", 1) for each in edits.env)


async def test_share_of_a_pod_is_one_of_mps(mps: MpsLaboratory) -> None:
    sharing = MpsPodSharing(mps.sharing(), InventoryFeed(NODE))
    edits = await sharing.prepare_pod("uid-1", [DeviceAssignment(1, 250, memory=500)])
    pipe = str(mps.pipe(GPU_2))
    assert variables(edits) == {
        "CUDA_MPS_PIPE_DIRECTORY": pipe,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=40960M",
    }
    assert [(each.host_path, each.options[0]) for each in edits.mounts] == [
        (pipe, "rw"),
        ("/dev/shm", "rw"),
    ]
    with pytest.raises(AllocationRefused, match=r"memory: 90112 MiB would be assigned"):
        await sharing.prepare_pod("uid-2", [DeviceAssignment(1, 100, memory=600)])
    await sharing.release_pod("uid-1")
    assert mps.exclusive.devices == set()


@pytest.mark.parametrize("assignment", [DeviceAssignment(0), DeviceAssignment(0, 0, "1g.10gb", 2)])
async def test_pods_without_shares_have_no_server(
    mps: MpsLaboratory, assignment: DeviceAssignment
) -> None:
    sharing = MpsPodSharing(mps.sharing(), InventoryFeed(NODE))
    assert await sharing.prepare_pod("uid-1", [assignment]) == ContainerEdits()
    await sharing.release_pod("uid-1")
    assert mps.exclusive.devices == set()


async def test_claim_has_a_server_for_each_request(mps: MpsLaboratory) -> None:
    sharing = NodeClaimSharing(mps.sharing(), TimeSlices(), InventoryFeed(NODE))
    config = MpsConfig(50, "10Gi", {GPU_2: "20Gi"})
    wanted = Sharing(SharingStrategy.MPS, mps_config=config)
    held = [
        HeldDevice(uuid, DeviceAssignment(at), request=uuid.lower())
        for at, uuid in enumerate((GPU_1, GPU_2))
    ]
    first, second = [await sharing.prepare_claim("uid", [each], wanted) for each in held]
    assert variables(first)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10240M"
    assert variables(second)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"
    assert mps.exclusive.devices == {GPU_1, GPU_2}
    await sharing.release_claim("uid")
    await sharing.release_claim("uid")
    assert mps.exclusive.devices == set()


async def test_server_has_one_gpu(mps: MpsLaboratory) -> None:
    sharing = NodeClaimSharing(mps.sharing(), TimeSlices(), InventoryFeed(NODE))
    devices = [
        HeldDevice(uuid, DeviceAssignment(at), request="gpus")
        for at, uuid in enumerate((GPU_1, GPU_2))
    ]
    with pytest.raises(AllocationRefused, match=r"request gpus has 2 GPUs to be shared by MPS"):
        await sharing.prepare_claim("uid", devices, Sharing(SharingStrategy.MPS))


async def test_daemon_that_does_not_start_refuses_the_claim(mps: MpsLaboratory) -> None:
    node = mps.sharing(FAKE_MPS_START="fails")
    sharing = NodeClaimSharing(node, TimeSlices(), InventoryFeed(NODE))
    held = [HeldDevice(GPU_1, DeviceAssignment(0), request="a")]
    with pytest.raises(AllocationRefused, match=r"Failed to start"):
        await sharing.prepare_claim("uid", held, Sharing(SharingStrategy.MPS))
    await sharing.release_claim("uid")


async def test_time_slices_of_a_claim_are_set_and_reset(mps: MpsLaboratory) -> None:
    slices = TimeSlices()
    sharing = NodeClaimSharing(mps.sharing(), slices, InventoryFeed(NODE))
    config = TimeSlicingConfig(Interval.LONG)
    wanted = Sharing(SharingStrategy.TIME_SLICING, time_slicing_config=config)
    held = [HeldDevice(GPU_1, DeviceAssignment(0), request="a")]
    assert await sharing.prepare_claim("uid", held, wanted) == ContainerEdits()
    assert slices.lengths == {GPU_1: TimeSlice.LONG}
    await sharing.release_claim("uid")
    assert slices.lengths == {GPU_1: TimeSlice.DEFAULT}
