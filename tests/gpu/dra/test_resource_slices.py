"""ResourceSlices of real nodes, as a pure function of their inventory."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.gpu.devices.model import DeviceHealth, Fabric, HealthState, NodeInventory
from kilonova.gpu.dra import (
    SliceFeatures,
    build_device_classes,
    build_resource_slices,
    list_pool_devices,
)
from kilonova.gpu.dra.attributes import find_pcie_root
from kilonova.scheduler.convert.devices.resource_slices import convert_resource_pool
from kilonova.scheduler.objects.resource_v1 import ResourceSlice
from tests.gpu.deviceplugin.node_pods import machine, with_health, with_withheld
from tests.gpu.devices.machines import simulate

DRIVER = "gpu.kilonova.dev"
DEPLOYED = Path(__file__).parents[3] / "deploy" / "agent"
PERSONAS = ("a100-40:8", "h100:8", "h200:8", "b200:8", "gb200:4", "l40s:4", "t4:2")


def build(node: NodeInventory, **options: Any) -> list[JsonObject]:
    return build_resource_slices("n-1", "uid-1", DRIVER, node, **options)


def devices(slices: list[JsonObject]) -> dict[str, JsonObject]:
    return {d["name"]: d for each in slices for d in each["spec"].get("devices", ())}


def test_gpu_with_seven_compute_slices_is_26_devices() -> None:
    slices = build(machine("h200:8"))
    assert len(devices(slices)) == 8 * 26
    parts = [len(each["spec"].get("devices", ())) for each in slices]
    assert parts == [0, 64, 64, 64, 16]
    assert [each["spec"]["pool"] for each in slices] == [
        {"name": "n-1", "generation": 1, "resourceSliceCount": 5}
    ] * 5


@pytest.mark.parametrize("persona", PERSONAS)
def test_slices_keep_to_the_limits_of_kubernetes(persona: str) -> None:
    slices = build(machine(persona))
    names = list(devices(slices))
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in names)
    for each in slices:
        sets = each["spec"].get("sharedCounters", [])
        assert not (sets and each["spec"].get("devices"))
        assert len(sets) <= 8
        assert all(len(one["counters"]) <= 32 for one in sets)
    for each in devices(slices).values():
        assert len(each["attributes"]) + len(each["capacity"]) <= 32
        for name, value in each["attributes"].items():
            assert len(name.rpartition("/")[2]) <= 32
            assert len(str(next(iter(value.values())))) <= 64


@pytest.mark.parametrize("persona", PERSONAS)
def test_scheduler_knows_what_each_device_is(persona: str) -> None:
    """Kilonova's scheduler reads the slices: every device is the GPU, and the part of it, that the
    name stands for on the node."""
    node = machine(persona)
    stored = {"uid": "u", "resourceVersion": "1"}
    typed = [
        msgspec.convert({**each, "metadata": {**each["metadata"], **stored}}, ResourceSlice)
        for each in build(node)
    ]
    pool = convert_resource_pool(typed)
    assert pool is not None
    assert pool.complete
    known = list_pool_devices(node)
    assert {each.id.name for each in pool.devices} == set(known)
    for each in pool.devices:
        expected = known[each.id.name]
        assert each.gpu is not None
        assert each.gpu.uuid == expected.device.uuid
        if expected.profile is not None:
            assert each.gpu.mask == expected.profile.mask_at(expected.assignment.start)


def test_attributes_are_those_of_nvidias_driver_and_of_the_connections() -> None:
    node = machine("h100:8")
    first = node.devices[0]
    roots = {first.pci: "pci0000:15"}
    whole = devices(build(node, pcie_roots=roots))["gpu-0"]
    assert whole["attributes"] == {
        "type": {"string": "gpu"},
        "uuid": {"string": first.uuid},
        "nvlinks": {"int": 18},
        "nvlinkBandwidth": {"int": 900},
        "nvSwitch": {"bool": True},
        "productName": {"string": first.product},
        "architecture": {"string": "Hopper"},
        "pciBusID": {"string": first.pci},
        "resource.kubernetes.io/pciBusID": {"string": first.pci},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
        "index": {"int": 0},
        "minor": {"int": 0},
        "numaNode": {"int": 0},
        "pcieSwitch": {"string": first.pcie_switch},
        "driverVersion": {"version": "580.159.4"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "cudaComputeCapability": {"version": "9.0.0"},
    }
    assert whole["capacity"]["memory"] == {"value": f"{first.memory_mib}Mi"}
    (consumed,) = whole["consumesCounters"]
    assert len(consumed["counters"]) == 9


def test_instance_consumes_the_slices_that_it_would_occupy() -> None:
    found = devices(build(machine("h200:1")))
    one = found["gpu-0-mig-3g71gb-9-4"]
    assert one["attributes"]["profile"] == {"string": "3g.71gb"}
    assert one["capacity"]["multiprocessors"] == {"value": "60"}
    (consumed,) = one["consumesCounters"]
    assert consumed == {
        "counterSet": "gpu-0-counter-set",
        "counters": {f"memory-slice-{n}": {"value": "1"} for n in (4, 5, 6, 7)},
    }
    (extended,) = found["gpu-0-mig-1g18gb-me-20-2"]["consumesCounters"]
    assert sorted(extended["counters"]) == ["media-extensions", "memory-slice-2"]


def test_nvlink_domain_is_an_attribute() -> None:
    node = machine("gb200:4")
    fabric = Fabric("0e8b7f0a-1111-4222-8333-444455556666", 7)
    node = replace(node, devices=tuple(replace(each, fabric=fabric) for each in node.devices))
    cliques = {each["attributes"]["clique"]["string"] for each in devices(build(node)).values()}
    assert cliques == {"0e8b7f0a-1111-4222-8333-444455556666.7"}


def test_gpu_without_mig_needs_no_counters() -> None:
    (only,) = build(machine("l40s:4"))
    assert all("consumesCounters" not in each for each in only["spec"]["devices"])


def test_unhealthy_gpu_is_tainted_with_its_instances() -> None:
    node = with_health(machine("h100:2"), 1, HealthState.UNHEALTHY)
    found = devices(build(node))
    taints = {name: each.get("taints") for name, each in found.items()}
    expected = [{"key": "gpu.kilonova.dev/unhealthy", "value": "permanent", "effect": "NoSchedule"}]
    assert all((given == expected) == name.startswith("gpu-1") for name, given in taints.items())


def test_unhealthy_gpu_is_left_out_where_taints_are_not_supported() -> None:
    node = with_health(machine("h100:2"), 1, HealthState.UNHEALTHY)
    found = devices(build(node, features=SliceFeatures(taints=False)))
    assert {name[:5] for name in found} == {"gpu-0"}


def test_gpu_that_is_to_be_partitioned_is_tainted_without_its_instances() -> None:
    found = devices(build(with_withheld(machine("h100:2"), 1)))
    taints = {name: each["taints"] for name, each in found.items() if "taints" in each}
    assert taints == {"gpu-1": [{"key": "gpu.kilonova.dev/withheld", "effect": "NoSchedule"}]}


def test_gpu_that_is_to_be_partitioned_is_left_out_where_taints_are_not_supported() -> None:
    node = with_withheld(machine("h100:2"), 1)
    found = devices(build(node, features=SliceFeatures(taints=False)))
    assert "gpu-1" not in found
    assert {name[:5] for name in found} == {"gpu-0", "gpu-1"}


def test_degraded_gpu_has_no_taint() -> None:
    node = with_health(machine("h100:1"), 0, HealthState.DEGRADED)
    assert "taints" not in devices(build(node))["gpu-0"]


def test_only_what_exists_is_published_without_counters() -> None:
    backend = simulate("h100:2")
    first, second = backend.read_inventory().devices
    backend.set_mig_mode(first.uuid, True)
    instance = backend.create_instance(first.uuid, "3g.40gb", 4)
    node = backend.read_inventory()
    slices = build(node, features=SliceFeatures(counters=False))
    found = devices(slices)
    assert list(found) == ["gpu-0-mig-3g40gb-9-4", "gpu-1"]
    attributes = found["gpu-0-mig-3g40gb-9-4"]["attributes"]
    assert attributes["uuid"] == {"string": instance.uuid}
    assert all("sharedCounters" not in each["spec"] for each in slices)
    assert found["gpu-1"]["attributes"]["uuid"] == {"string": second.uuid}


def test_instances_that_come_and_go_change_nothing() -> None:
    backend = simulate("h100:1")
    before = build(backend.read_inventory())
    uuid = backend.read_inventory().devices[0].uuid
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "3g.40gb", 4)
    assert build(backend.read_inventory()) == before


def test_node_without_gpus_has_no_slices() -> None:
    assert build(NodeInventory()) == []


def test_unknown_facts_are_left_out() -> None:
    device = machine("h100:1").devices[0]
    bare = replace(
        device, pci="", minor=None, numa=-1, capability=None, architecture="", health=DeviceHealth()
    )
    attributes = devices(build(NodeInventory((bare,), driver="r580-beta")))["gpu-0"]["attributes"]
    missing = {"pciBusID", "minor", "numaNode", "cudaComputeCapability", "architecture"}
    assert not missing & set(attributes)
    assert "driverVersion" not in attributes


def test_device_classes_select_by_type() -> None:
    whole, mig = build_device_classes(DRIVER)
    assert [whole["metadata"]["name"], mig["metadata"]["name"]] == [DRIVER, "mig.kilonova.dev"]
    assert mig["spec"]["selectors"][0]["cel"]["expression"] == (
        "device.driver == 'gpu.kilonova.dev' && device.attributes['gpu.kilonova.dev'].type == 'mig'"
    )


def test_pcie_root_is_read_from_the_kernel(tmp_path: Path) -> None:
    device = tmp_path / "devices/pci0000:15/0000:15:01.0/0000:18:00.0"
    device.mkdir(parents=True)
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:18:00.0").symlink_to("../../../devices/pci0000:15/0000:15:01.0/0000:18:00.0")
    assert find_pcie_root("0000:18:00.0", tmp_path) == "pci0000:15"
    assert find_pcie_root("0000:99:00.0", tmp_path) == ""


def test_deployed_classes_are_those_of_the_driver() -> None:
    documents = yaml.safe_load_all((DEPLOYED / "deviceclasses.yaml").read_text())
    deployed = {each["metadata"]["name"]: each["spec"] for each in documents}
    assert deployed == {
        each["metadata"]["name"]: each["spec"] for each in build_device_classes(DRIVER)
    }
