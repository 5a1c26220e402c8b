"""Metrics under KGWE's names and our own: utilisation in both forms, health, MIG capacity."""

import pytest

from kilonova.catalog.mig import geometry_named
from kilonova.gpu.devices.model import MigInstance
from kilonova.gpu.exporter import ExporterReading, IdleNode, MigCounts, NodeReading, XidCount
from kilonova.gpu.exporter.collector import render
from kilonova.gpu.exporter.mig_capacity import MigCapacity, measure_capacity
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.exporter.readings import NODE, Exposition, expose, load, read, user


def test_every_metric_of_an_agent_is_there() -> None:
    backend = simulate("h100:3")  # a device in MIG mode uses no NVLink
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "1g.10gb", 0)
    found = expose(read(backend))
    names = {name for name in found.series if name.startswith("kgwe_")}
    assert names == {
        "kgwe_gpu_count",
        "kgwe_gpu_health_status",
        "kgwe_gpu_memory_total_bytes",
        "kgwe_gpu_memory_used_bytes",
        "kgwe_gpu_power_watts",
        "kgwe_gpu_temperature_celsius",
        "kgwe_gpu_utilization_percent",
        "kgwe_mig_allocations_total",
        "kgwe_mig_instance_count",
        "kgwe_mig_instance_utilization_percent",
        "kgwe_mig_releases_total",
        "kgwe_nvlink_bandwidth_gbps",
        "kgwe_pcie_bandwidth_gbps",
        "kgwe_topology_score",
    }


def test_topology_and_links_are_those_of_the_inventory() -> None:
    backend = simulate("h100:2")
    inventory = backend.read_inventory()
    found = expose(read(backend))
    first, second = inventory.devices
    ends = {"gpu_uuid_1": first.uuid, "gpu_uuid_2": second.uuid}
    assert found.value("kgwe_nvlink_bandwidth_gbps", **ends) == 900
    assert found.value("kgwe_topology_score", node=NODE) == 100
    assert found.value("kgwe_gpu_count", model=first.product) == 2
    assert expose(read(simulate("t4"))).value("kgwe_topology_score") == 50


def test_utilisation_of_an_instance_has_both_forms() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "3g.40gb", 0)
    backend.set_load(instance.uuid, load(7, 1.0, 8))
    found = expose(read(backend, user("a", "0:3g.40gb@0")))

    activity = "kilonova_mig_instance_activity_ratio"
    assert found.value(activity, relative_to="instance") == pytest.approx(0.92)
    assert found.value(activity, relative_to="gpu") == pytest.approx(0.46)
    assert found.value("kilonova_gpu_pod_utilization_ratio", pod="a", mode="mig") == 0.92
    assert found.value("kilonova_gpu_pod_device_ratio", pod="a") == pytest.approx(0.46)
    assert found.value("kgwe_mig_instance_utilization_percent") == pytest.approx(92)
    assert found.value("kgwe_gpu_utilization_percent") == pytest.approx(46)
    assert found.value("kilonova_gpu_pod_memory_used_bytes", pod="a") == 8 << 30
    assert found.value("kilonova_gpu_allocated_ratio") == 0.5


def test_pods_of_a_shared_device_have_utilisation_relative_to_their_share() -> None:
    backend = simulate("h100:1")
    backend.set_load(first_uuid(backend), load(7, 0.25, 10), load(8, 0.3, 20))
    users = (user("a", "0:250/500"), user("b", "0:750/500"))
    found = expose(read(backend, *users, pods_of={7: "uid-a", 8: "uid-b"}))
    ratio = "kilonova_gpu_pod_utilization_ratio"
    assert found.value(ratio, pod="a", mode="shared") == 1
    assert found.value(ratio, pod="b") == pytest.approx(0.4)
    assert found.total("kilonova_gpu_pod_device_ratio") == pytest.approx(0.55)
    memory = found.value("kgwe_gpu_memory_total_bytes")
    assert found.value("kilonova_gpu_pod_memory_bytes", pod="a") == memory / 2
    assert found.value("kilonova_gpu_allocated_ratio") == 1


def test_containers_that_share_a_claim_are_counted_once() -> None:
    backend = simulate("h100:1")
    backend.set_load(first_uuid(backend), load(7, 0.5, 10))
    found = expose(read(backend, user("a", "0", "one"), user("a", "0", "two")))
    assert found.value("kilonova_gpu_pod_memory_used_bytes", container="one") == 10 << 30
    assert not found.find("kilonova_gpu_pod_memory_used_bytes", container="two")
    assert found.value("kilonova_gpu_pod_allocated_ratio", container="two") == 1
    assert found.value("DCGM_FI_DEV_FB_USED", pod="a", container="") == 10 * 1024
    assert found.value("kilonova_gpu_allocated_ratio") == 1


def test_lost_device_does_not_answer_and_is_unhealthy() -> None:
    backend = simulate("h100:2")
    backend.lose(first_uuid(backend))
    found = expose(read(backend))
    assert found.value("kilonova_gpu_answers", gpu="0") == 0
    assert found.value("kilonova_gpu_answers", gpu="1") == 1
    assert found.value("kgwe_gpu_health_status", gpu_uuid=first_uuid(backend)) == 0
    assert found.value("kilonova_gpu_health", gpu="0", state="Unhealthy") == 1
    assert found.value("kilonova_gpu_health", gpu="1", state="Healthy") == 1
    assert found.value("kgwe_gpu_count") == 2


def test_xids_say_what_helps() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    node = read(backend)
    reading = NodeReading(NODE, node.inventory, xids=(XidCount(uuid, 79, 2, 1_780_000_000.0),))
    found = expose(reading)
    labels = {"xid": "79", "gpu": "0", "action": "RestartNode"}
    assert found.value("kilonova_gpu_xid_errors_total", **labels) == 2
    assert found.value("kilonova_gpu_xid_timestamp_seconds", **labels) == 1_780_000_000.0
    assert not found.find("kilonova_gpu_answers"), "nothing was measured yet"


def test_mig_counts_are_counters_of_the_node() -> None:
    node = read(simulate("h100:1"))
    found = expose(NodeReading(NODE, node.inventory, mig=MigCounts(5, 2)))
    assert found.value("kgwe_mig_allocations_total", node=NODE) == 5
    assert found.value("kgwe_mig_releases_total", node=NODE) == 2


@pytest.mark.parametrize(
    ("held", "expected", "fragmentation"),
    [
        ((), MigCapacity(8, 8, 8), 0.0),
        ((("1g.10gb", 0),), MigCapacity(7, 4, 4), 0.0),
        ((("1g.10gb", 0), ("1g.10gb", 4)), MigCapacity(6, 2, 4), 0.5),
        ((("7g.80gb", 0),), MigCapacity(0, 0, 0), 0.0),
    ],
)
def test_capacity_is_what_fits_beside_held_instances(
    held: tuple[tuple[str, int], ...], expected: MigCapacity, fragmentation: float
) -> None:
    geometry = geometry_named("H100-80GB")
    assert geometry is not None
    found = measure_capacity(geometry, (MigInstance("", name, start) for name, start in held))
    assert found == expected
    assert found.fragmentation == fragmentation


def test_instances_without_pod_count_as_free_capacity() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "1g.10gb", 0)
    backend.create_instance(uuid, "1g.10gb", 4)
    assert expose(read(backend)).value("kilonova_mig_free_slices") == 8
    found = expose(read(backend, user("a", "0:1g.10gb@4")))
    assert found.value("kilonova_mig_free_slices") == 7
    assert found.total("kilonova_mig_instance_allocated") == 1


def test_idle_node_has_the_number_of_its_gpus() -> None:
    topology = '{"product": "NVIDIA-H200", "gpus": [{}, {}, {"product": "NVIDIA-L4"}]}'
    idle = (IdleNode("node-b", topology), IdleNode("node-c", "not JSON"))
    found = Exposition(render(ExporterReading((), idle))[0].decode())
    assert found.value("kgwe_gpu_count", node="node-b", model="NVIDIA H200") == 2
    assert found.value("kgwe_gpu_count", node="node-b", model="NVIDIA L4") == 1
    assert not found.find("kgwe_gpu_count", node="node-c")
