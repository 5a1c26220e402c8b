"""Simulated GPUs: personas, what is measured under load, XIDs, loss and recovery."""

from collections.abc import Callable

import pytest

from kilonova.api.gpu.annotations import Topology, parse_topology
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import EventKind, GpuEvent, HealthState, PathKind
from kilonova.gpu.devices.paths import port_bandwidth
from kilonova.gpu.devices.simulated import (
    PERSONAS,
    ProcessLoad,
    SimulatedBackend,
    UnknownPersona,
    find_persona,
    machine_from_topology,
)
from tests.gpu.devices.machines import CATALOG, FakeTime, first_uuid, simulate

GIB = 1 << 30


@pytest.mark.parametrize(
    ("persona", "count", "product", "links", "has_mig"),
    [
        ("a100-40", 8, "NVIDIA A100 SXM4 40GB", 12, True),
        ("a100-80", 8, "NVIDIA A100 SXM4 80GB", 12, True),
        ("h100", 8, "NVIDIA H100 80GB HBM3", 18, True),
        ("h200", 8, "NVIDIA H200", 18, True),
        ("b200", 8, "NVIDIA B200", 18, True),
        ("gb200-nvl72", 4, "NVIDIA GB200", 18, True),
        ("l40s", 8, "NVIDIA L40S", 0, False),
        ("l4", 8, "NVIDIA L4", 0, False),
        ("t4", 4, "Tesla T4", 0, False),
        ("mixed", 6, "NVIDIA H100 NVL", 12, True),
    ],
)
def test_persona_is_the_machine_that_it_names(
    persona: str, count: int, product: str, links: int, has_mig: bool
) -> None:
    devices = simulate(persona).read_inventory().devices
    assert len(devices) == count
    assert len({device.uuid for device in devices}) == count
    assert len({device.pci for device in devices}) == count
    first = devices[0]
    assert (first.product, len(first.nvlinks), first.geometry is not None) == (
        product,
        links,
        has_mig,
    )
    assert len(PERSONAS) == 10


def test_mixed_persona_links_its_pair_alone() -> None:
    paths = simulate("mixed").read_inventory().paths
    linked = [(path.first, path.second) for path in paths if path.kind is PathKind.NVLINK]
    assert linked == [(0, 1)]


def test_nvl72_devices_name_their_domain() -> None:
    devices = simulate("gb200-nvl72").read_inventory().devices
    assert len({device.fabric and device.fabric.key for device in devices}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h100:0", "must be 1 to 64"),
        ("h100:many", "must be 1 to 64"),
        ("voodoo", "voodoo: neither a persona .a100-40, .*mixed. nor a GPU of the catalog"),
    ],
)
def test_unknown_persona_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnknownPersona, match=message):
        find_persona(text, CATALOG)


def test_machine_of_an_annotation_keeps_identity_links_and_instances() -> None:
    topology = parse_topology(
        '{"product":"NVIDIA-A100-SXM4-40GB","memory":40960,"architecture":"Ampere","mig":"A100-40GB",'
        '"gpus":[{"uuid":"GPU-a","numa":0,"pcie":"p"},{"uuid":"GPU-b","numa":1,"migEnabled":true,'
        '"instances":[{"uuid":"MIG-x","profile":"2g.10gb","start":2}]}],"links":[[0,1,100]]}'
    )
    assert isinstance(topology, Topology)
    inventory = machine_from_topology(topology, CATALOG)
    first, second = inventory.devices
    assert (first.uuid, first.numa, first.memory_mib) == ("GPU-a", 0, 40960)
    assert [(port.remote, port.version) for port in first.nvlinks] == [(second.pci, 3)] * 2
    assert [(each.uuid, each.start, each.slices) for each in second.instances] == [("MIG-x", 2, 2)]
    assert inventory.paths[0].kind is PathKind.SYSTEM, "a device in MIG mode uses no NVLink"
    backend = SimulatedBackend(inventory)
    backend.destroy_instance("GPU-b", "MIG-x")
    assert not backend.read_inventory().devices[1].instances


def test_machine_of_an_unknown_product_keeps_its_port() -> None:
    gpus = '[{"uuid":"GPU-a"},{"uuid":"GPU-b"}]'
    topology = parse_topology(f'{{"product":"Prototype","memory":1000,"port":450,"gpus":{gpus}}}')
    assert isinstance(topology, Topology)
    inventory = machine_from_topology(topology, CATALOG)
    assert [port_bandwidth(device) for device in inventory.devices] == [450, 450]
    assert inventory.paths[0].is_switched
    assert inventory.devices[0].product == "Prototype"


def test_measurements_follow_the_load() -> None:
    time = FakeTime()
    backend = simulate("h100:1", time=time)
    uuid = first_uuid(backend)
    (idle,) = backend.read_telemetry()
    assert idle.activity.gpu == 0
    assert idle.throttle_reasons == ("GpuIdle",)
    backend.set_load(uuid, ProcessLoad(7, 0.5, 10 * GIB), ProcessLoad(8, 0.3, 5 * GIB))
    time.sleep(300)
    (busy,) = backend.read_telemetry()
    assert busy.activity.gpu == pytest.approx(0.8)
    assert busy.activity.tensor is not None
    assert busy.memory_used_bytes == 15 * GIB
    assert [each.pid for each in busy.processes] == [7, 8]
    assert busy.power_watts is not None
    assert busy.power_watts == pytest.approx(700 * (0.12 + 0.88 * 0.8))
    assert idle.temperature_celsius is not None
    assert busy.temperature_celsius is not None
    assert busy.temperature_celsius > idle.temperature_celsius + 20
    assert busy.energy_millijoules == pytest.approx(busy.power_watts * 300 * 1000, rel=1e-6)


def test_power_stays_within_the_limit() -> None:
    backend = simulate("t4:1")
    backend.set_load(first_uuid(backend), *(ProcessLoad(pid, 1.0) for pid in range(5)))
    (reading,) = backend.read_telemetry()
    assert reading.power_watts == 70
    assert reading.throttle_reasons == ("SwPowerCap",)


def test_instances_are_measured_relative_to_what_they_have() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "4g.40gb", 0)
    backend.create_instance(uuid, "1g.10gb", 4)
    backend.set_load(instance.uuid, ProcessLoad(9, 1.0, 3 * GIB))
    (reading,) = backend.read_telemetry()
    busy, idle = reading.instances
    assert reading.activity.gpu is None, "NVML has no utilisation of a device in MIG mode"
    assert busy.activity.gpu == 1.0, "one of the counters"
    assert busy.activity.sm_active == pytest.approx(0.92)
    assert busy.memory_used_bytes == 3 * GIB
    assert idle.activity.sm_active == 0
    assert reading.power_watts == pytest.approx(700 * (0.12 + 0.88 * 0.5))
    (process,) = reading.processes
    assert (process.gpu_instance, process.utilisation) == (instance.gpu_instance, None)


def test_profiling_counters_exist_from_hopper_on() -> None:
    backend = simulate("a100-80:1")
    backend.set_load(first_uuid(backend), ProcessLoad(1, 1.0))
    (reading,) = backend.read_telemetry()
    assert (reading.activity.gpu, reading.activity.sm_active) == (1.0, None)


def test_exclusive_mode_admits_one_process() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.set_exclusive_process_mode(uuid, True)
    backend.set_load(uuid, ProcessLoad(1))
    with pytest.raises(GpuError, match="admits one process"):
        backend.set_load(uuid, ProcessLoad(1), ProcessLoad(2))
    backend.set_exclusive_process_mode(uuid, False)
    backend.set_load(uuid, ProcessLoad(1), ProcessLoad(2))


def test_application_xid_ends_the_process_alone() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.set_load(uuid, ProcessLoad(1, 0.2), ProcessLoad(2, 0.2))
    assert backend.inject_xid(uuid, 31, (2,)) == (2,)
    assert backend.wait_events(0) == [GpuEvent(EventKind.XID, uuid, 31, (2,))]
    (reading,) = backend.read_telemetry()
    assert [each.pid for each in reading.processes] == [1]
    assert reading.last_xid == 31


def test_fatal_xid_needs_a_reset() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.set_load(uuid, ProcessLoad(1))
    backend.inject_xid(uuid, 95)
    with pytest.raises(GpuError) as error:
        backend.set_load(uuid, ProcessLoad(3))
    assert error.value.kind is GpuErrorKind.RESET_REQUIRED
    backend.reset(uuid)
    backend.set_load(uuid, ProcessLoad(3))


def test_lost_device_is_unhealthy_until_its_reset() -> None:
    backend = simulate("h100:2")
    uuid = first_uuid(backend)
    backend.lose(uuid)
    lost, other = backend.read_inventory().devices
    assert lost.health.state is HealthState.UNHEALTHY
    assert other.health.state is HealthState.HEALTHY
    assert [each.uuid for each in backend.read_telemetry()] == [other.uuid]
    with pytest.raises(GpuError) as error:
        backend.set_mig_mode(uuid, True)
    assert error.value.kind is GpuErrorKind.DEVICE_LOST
    backend.reset(uuid)
    kinds = [event.kind for event in backend.wait_events(0)]
    assert kinds == [EventKind.XID, EventKind.DEVICE_LOST, EventKind.DEVICE_RECOVERED]
    assert len(backend.read_telemetry()) == 2


def test_device_off_the_bus_needs_a_reboot() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.inject_xid(uuid, 79)
    with pytest.raises(GpuError, match="only a reboot") as error:
        backend.reset(uuid)
    assert error.value.kind is GpuErrorKind.DEVICE_LOST
    backend.reboot()
    assert backend.read_inventory().devices[0].health.state is HealthState.HEALTHY


def test_uncorrected_error_remaps_a_row_by_the_next_reset() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.add_ecc_errors(uuid, corrected=3, uncorrected=1)
    (reading,) = backend.read_telemetry()
    assert (reading.ecc_corrected, reading.ecc_uncorrected, reading.row_remap_pending) == (
        3,
        1,
        True,
    )
    backend.reset(uuid)
    (reading,) = backend.read_telemetry()
    assert (reading.ecc_uncorrected, reading.row_remap_pending) == (0, False)
    assert reading.rows_remapped_uncorrected == 1


def test_waiting_ends_with_the_first_event() -> None:
    backend = simulate()
    assert backend.wait_events(0.001) == []
    backend.inject_xid(first_uuid(backend), 13)
    assert len(backend.wait_events(60)) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda backend: backend.set_mig_mode("GPU-x", True),
        lambda backend: backend.create_instance("GPU-x", "1g.10gb", 0),
        lambda backend: backend.destroy_instance("GPU-x", "MIG-x"),
        lambda backend: backend.reset("GPU-x"),
        lambda backend: backend.set_load("GPU-x"),
    ],
)
def test_unknown_device_is_not_found(call: Callable[[SimulatedBackend], None]) -> None:
    with pytest.raises(GpuError, match="GPU-x") as error:
        call(simulate())
    assert error.value.kind is GpuErrorKind.NOT_FOUND
