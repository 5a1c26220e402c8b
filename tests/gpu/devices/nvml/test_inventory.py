"""The inventory, as NVML and the kernel report it."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.catalog.mig import geometry_named
from kilonova.gpu.devices.model import Device, Fabric, HealthState, NvLinkPort, PathKind
from tests.gpu.devices.nvml.fake_driver import (
    A100_PROFILES,
    MIB,
    UNSUPPORTED,
    Code,
    FakeDriver,
    FakeGpu,
    Link,
    Profile,
)
from tests.gpu.devices.nvml.machines import (
    a100_board,
    hgx_h100,
    one_h100,
    open_backend,
    recorded_h200,
)

CLUSTER = bytes(range(1, 17))
CLUSTER_UUID = "01020304-0506-0708-090a-0b0c0d0e0f10"


def read_one(driver: FakeDriver, sysfs: Path | None = None) -> Device:
    return open_backend(driver, sysfs).read_inventory().devices[0]


def test_recorded_h200_is_described_completely() -> None:
    inventory = open_backend(recorded_h200()).read_inventory()
    (device,) = inventory.devices
    assert (inventory.driver, inventory.cuda, inventory.backend) == ("580.159.04", "13.0", "nvml")
    assert (device.product, device.architecture, device.capability) == (
        "NVIDIA H200",
        "Hopper",
        (9, 0),
    )
    assert (device.pci, device.pci_id) == ("0000:00:06.0", 0x233510DE)
    assert (device.memory_mib, device.sms, device.minor) == (143771, 132, 0)
    assert (device.pcie_generation, device.pcie_width) == (5, 16)
    assert device.power_limit_watts == 700
    assert (device.mig_enabled, device.mig_pending, device.instances) == (False, None, ())
    assert (device.nvlinks, device.fabric, device.pcie_switch) == ((), None, "")
    assert device.health.state is HealthState.HEALTHY


def test_recorded_h200_has_the_geometry_of_the_catalog() -> None:
    device = read_one(recorded_h200())
    assert device.geometry == geometry_named("H200-141GB")
    resources = {each.profile: each for each in device.mig_resources}
    assert resources["3g.71gb"].memory_mib == 71424
    assert resources["3g.71gb"].sms == 60
    assert (resources["1g.18gb"].ofa_engines, resources["1g.18gb+me"].ofa_engines) == (0, 1)


def test_profiles_of_an_unknown_product_make_a_geometry_of_its_name() -> None:
    profiles = [Profile(0, 3, "MIG 1g.9gb", 1, 1, (0, 1), 2, 20, 9216)]
    driver, _ = one_h100(name="NVIDIA X1", profiles=profiles)
    geometry = read_one(driver).geometry
    assert geometry is not None
    assert geometry.name == "NVIDIA X1"
    (profile,) = geometry.profiles
    assert (profile.name, profile.memory, profile.sms, profile.starts) == ("1g.9gb", 9, 20, (0, 1))


def test_profiles_whose_rules_are_not_slices_are_left_out() -> None:
    driver, gpu = one_h100()
    gpu.profiles.append(Profile(15, 41, "MIG 1g.10gb+me.all", 1, 1, (0,), 1, 16, 1))
    assert "1g.10gb+me.all" not in [each.profile for each in read_one(driver).mig_resources]


def test_ampere_without_mode_has_the_geometry_of_the_catalog() -> None:
    driver, _ = one_h100(name="NVIDIA A100-SXM4-80GB", memory=(81920 * MIB, 0, 0), profiles=[])
    assert read_one(driver).geometry == geometry_named("A100-80GB")


def test_device_without_mig_has_no_geometry() -> None:
    driver, _ = one_h100(name="NVIDIA L4", mig=UNSUPPORTED, profiles=[])
    device = read_one(driver)
    assert (device.geometry, device.mig_enabled, device.mig_pending) == (None, False, None)


def test_slices_beyond_what_is_known_count_as_no_mig() -> None:
    driver, _ = one_h100(profiles=[Profile(0, 3, "MIG 1g.9gb", 1, 1, (0, 11), 2, 20, 9216)])
    assert read_one(driver).geometry is None


@pytest.mark.parametrize(("mode", "expected"), [((0, 1), True), ((1, 0), False), ((1, 1), None)])
def test_pending_mig_mode(mode: tuple[int, int], expected: bool | None) -> None:
    driver, _ = one_h100(mig=mode)
    device = read_one(driver)
    assert (device.mig_enabled, device.mig_pending) == (bool(mode[0]), expected)


def test_instances_have_start_slices_and_uuid() -> None:
    driver, gpu = one_h100(mig=(1, 1))
    gpu.instances = {
        2: [gpu.profiles[4], 4, 0],
        7: [gpu.profiles[0], 1, 0],
        9: [gpu.profiles[0], 0, None],
    }
    partial, small, large = read_one(driver).instances
    assert (large.profile, large.start, large.slices, large.gpu_instance) == ("3g.40gb", 4, 4, 2)
    assert (large.uuid, large.compute_instance, large.sms) == (gpu.mig_uuid(2), 0, 60)
    assert (small.profile, small.start, small.slices) == ("1g.10gb", 1, 1)
    assert partial.is_partial
    assert partial.uuid == f"GI-{gpu.uuid}/9"


@pytest.mark.parametrize(
    "missing",
    [
        "serial",
        "minor",
        "architecture",
        "capability",
        "cores",
        "memory",
        "pcie",
        "max_clocks",
        "power_limit",
        "numa_nodes",
    ],
)
@pytest.mark.parametrize("code", [2, 3, 4, 6, 13, 25, 26])
def test_optional_readings_may_be_absent(missing: str, code: int) -> None:
    driver, gpu = one_h100(**{missing: Code(code)})
    device = read_one(driver)
    assert device.health.state is HealthState.HEALTHY
    assert device.uuid == gpu.uuid


def test_older_driver_without_newer_functions_is_enough() -> None:
    driver, gpu = one_h100()
    driver.missing = {
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetNumGpuCores",
        "nvmlDeviceGetMemoryAffinity",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
    }
    device = read_one(driver)
    assert (device.uuid, device.sms, device.fabric) == (gpu.uuid, None, None)


def test_numa_node_comes_from_the_kernel_where_nvml_has_none(tmp_path: Path) -> None:
    for text, expected in (("1\n", 1), ("-1\n", -1), ("none", -1)):
        folder = tmp_path / "0000:18:00.0"
        folder.mkdir(exist_ok=True)
        (folder / "numa_node").write_text(text)
        driver, _ = one_h100(numa_nodes=UNSUPPORTED)
        assert read_one(driver, tmp_path).numa == expected


def test_device_near_several_nodes_has_the_node_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "0000:18:00.0").mkdir()
    (tmp_path / "0000:18:00.0" / "numa_node").write_text("0")
    driver, _ = one_h100(numa_nodes=(0, 1))
    assert read_one(driver, tmp_path).numa == 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:18:00.0", "0000:16:00.0"),
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:20:00.0/0000:21:04.0/0000:18:00.0",
            "0000:20:00.0",
        ),
        ("pci0000:15/0000:15:01.0/0000:18:00.0", ""),
        ("pci0000:00/0000:18:00.0", ""),
    ],
)
def test_pcie_switch_is_its_upstream_port(tmp_path: Path, path: str, expected: str) -> None:
    device = tmp_path / "devices" / path
    device.mkdir(parents=True)
    links = tmp_path / "bus"
    links.mkdir()
    (links / "0000:18:00.0").symlink_to(device)
    driver, _ = one_h100()
    assert read_one(driver, links).pcie_switch == expected


def test_devices_behind_nvswitches_share_their_port() -> None:
    inventory = open_backend(hgx_h100()).read_inventory()
    assert len(inventory.paths) == 28
    assert {
        (path.kind, path.nvlinks, path.bandwidth, path.is_switched) for path in inventory.paths
    } == {(PathKind.NVLINK, 18, 900, True)}
    assert inventory.devices[0].nvlinks[3] == NvLinkPort(3, True, 4, "0000:ff:00.0", True)
    assert [device.numa for device in inventory.devices] == [0] * 4 + [1] * 4


def test_switch_is_found_by_peer_access_where_links_name_no_remote() -> None:
    driver = hgx_h100(2)
    for gpu in driver.gpus:
        gpu.links = [Link("", kind=255) for _ in range(18)]
    (path,) = open_backend(driver).read_inventory().paths
    assert (path.nvlinks, path.bandwidth, path.is_switched) == (18, 900, True)


def test_inactive_link_narrows_the_path() -> None:
    driver = hgx_h100(2)
    driver.gpus[1].links[5].active = False
    (path,) = open_backend(driver).read_inventory().paths
    assert (path.nvlinks, path.bandwidth) == (17, 850)


def test_direct_links_are_counted_by_their_remote() -> None:
    inventory = open_backend(a100_board()).read_inventory()
    assert {
        (path.kind, path.nvlinks, path.bandwidth, path.is_switched) for path in inventory.paths
    } == {(PathKind.NVLINK, 4, 200, False)}
    assert len(inventory.paths) == 6


@pytest.mark.parametrize(
    ("ancestor", "kind"),
    [
        (0, PathKind.INTERNAL),
        (10, PathKind.PCIE_SWITCH),
        (20, PathKind.PCIE_SWITCHES),
        (30, PathKind.HOST_BRIDGE),
        (40, PathKind.NODE),
        (50, PathKind.SYSTEM),
        (UNSUPPORTED, PathKind.NODE),
    ],
)
def test_path_over_pcie_is_the_common_ancestor(ancestor: Any, kind: PathKind) -> None:
    gpus = [FakeGpu(f"GPU-{index}", pci=f"00000000:1{index}:00.0") for index in range(2)]
    driver = FakeDriver(*gpus, ancestors={(0, 1): ancestor})
    (path,) = open_backend(driver).read_inventory().paths
    assert (path.kind, path.nvlinks, path.bandwidth) == (kind, 0, 0)


def test_links_without_peer_access_are_not_a_path() -> None:
    driver = hgx_h100(2)
    driver.p2p = {(0, 1): 5}
    (path,) = open_backend(driver).read_inventory().paths
    assert path.kind is PathKind.NODE


@pytest.mark.parametrize("summary", [1, None])
def test_fabric_names_the_domain(summary: int | None) -> None:
    driver, _ = one_h100(fabric=(3, 0, 32766, CLUSTER, 0x5555 & ~0xF | 0xA, summary))
    device = read_one(driver)
    assert isinstance(device.fabric, Fabric)
    assert device.fabric.key == f"{CLUSTER_UUID}.32766"
    assert device.fabric.state == "completed"


@pytest.mark.parametrize(
    ("mask", "summary", "problems"),
    [
        (0x0, 1, ()),
        (0x2 | 0x8 | 0x20 | 0x80 | 0x100 | 0x1000 | 0x4000, 1, ()),
        (0x1, 3, ("degraded bandwidth",)),
        (0x4, 1, ("route recovery in progress",)),
        (0x10, 2, ("unhealthy route",)),
        (0x40, 1, ("access timeout recovery",)),
        (0x500, 2, ("incorrect configuration: insufficient NVLinks",)),
        (0x2000, 2, ("no partition assigned",)),
        (0x8000, 2, ("fabric manager is disconnected",)),
        (0x0, 2, ("unhealthy",)),
        (0x0, 3, ("limited capacity",)),
    ],
)
def test_problems_of_the_fabric_degrade_the_device(
    mask: int, summary: int, problems: tuple[str, ...]
) -> None:
    driver, _ = one_h100(fabric=(3, 0, 1, CLUSTER, mask, summary))
    device = read_one(driver)
    assert device.fabric is not None
    assert device.fabric.problems == problems
    expected = HealthState.DEGRADED if problems else HealthState.HEALTHY
    assert device.health.state is expected
    assert device.health.reasons == tuple(f"NVLink fabric: {each}" for each in problems)


def test_unfinished_fabric_makes_the_device_unusable() -> None:
    driver, _ = one_h100(fabric=(2, 0, 0, bytes(16), 0, 0))
    device = read_one(driver)
    assert device.health.state is HealthState.UNHEALTHY
    assert device.health.reasons == ("NVLink fabric: in-progress",)
    assert device.health.is_transient
    assert device.fabric is None, "without a UUID it belongs to no domain"


def test_lost_device_keeps_its_index_and_is_unhealthy() -> None:
    driver = hgx_h100(3)
    backend = open_backend(driver)
    before = backend.read_inventory()
    driver.gpus[1].is_lost = True
    after = backend.read_inventory()
    assert [each.uuid for each in after.devices] == [each.uuid for each in before.devices]
    assert [each.health.state for each in after.devices] == [
        HealthState.HEALTHY,
        HealthState.UNHEALTHY,
        HealthState.HEALTHY,
    ]
    assert after.devices[1].memory_mib == before.devices[1].memory_mib


def test_device_that_the_driver_lists_no_more_keeps_its_index() -> None:
    driver = hgx_h100(3)
    backend = open_backend(driver)
    before = backend.read_inventory()
    gone = driver.gpus.pop(0)
    after = backend.read_inventory()
    assert [(each.index, each.uuid) for each in after.devices] == [
        (each.index, each.uuid) for each in before.devices
    ]
    assert after.devices[0].health.reasons == ("the driver does not list it any more",)
    driver.gpus.append(gone)
    assert [each.index for each in backend.read_inventory().devices] == [0, 1, 2]


def test_device_that_never_answered_holds_its_place() -> None:
    driver = hgx_h100(3)
    driver.gpus[0].is_lost = True
    first, second, _ = open_backend(driver).read_inventory().devices
    assert (first.uuid, first.health.state) == ("GPU-unreadable-0", HealthState.UNHEALTHY)
    assert (second.index, second.health.state) == (1, HealthState.HEALTHY)


def test_ampere_profiles_have_their_names() -> None:
    device = open_backend(a100_board()).read_inventory().devices[0]
    assert device.geometry == geometry_named("A100-80GB")
    assert [each.profile for each in device.mig_resources] == [
        "1g.10gb",
        "1g.10gb+me",
        "1g.20gb",
        "2g.20gb",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
    ]
    assert len(A100_PROFILES) == 7
