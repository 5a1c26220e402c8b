"""`gpu-discovery`: the NVML backend on a real GPU.

Reads inventory and health, compares measurements with nvidia-smi at rest and under load, and drives
MIG on one GPU: enable, create mixed profiles, list, refuse what is not possible, destroy a free
instance beside a busy one, destroy all, disable. A GPU that is in use, or in MIG mode, is only
read.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.catalog.mig import MigGeometry, geometry_named
from kilonova.catalog.tables import load_catalog
from kilonova.catalog.xids import find_xid
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.geometries import is_same_layout
from kilonova.gpu.devices.model import (
    Device,
    DeviceTelemetry,
    EventKind,
    MigInstance,
    NodeInventory,
)
from kilonova.gpu.health import IMMEDIATE, HealthHistory, assess_device, find_problems
from tools.hardware.restoration import is_untouched, restore_device
from tools.hardware.rig import Load, Rig, open_rig
from tools.hardware.smi_comparison import compare_with_smi
from tools.hardware.transcript import Transcript, median_milliseconds

_LOAD_SECONDS = 60.0
_LOAD_MIB = 2048
_MMU_FAULT = 31


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.hardware gpu-discovery")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    parser.add_argument("--read-only", action="store_true", help="do not change MIG or modes")
    parser.add_argument(
        "--xid",
        action="store_true",
        help="let a process fault, to see its XID 31; it is also written to the kernel log",
    )
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    with open_rig() as rig:
        return run_discovery(rig, transcript, read_only=options.read_only, causes_xid=options.xid)


def run_discovery(
    rig: Rig,
    transcript: Transcript,
    *,
    read_only: bool = False,
    causes_xid: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """All steps; the exit code."""
    transcript.write("# GPU discovery, health and MIG on hardware", "")
    transcript.write("`python -m tools.hardware gpu-discovery`", "")
    try:
        inventory = rig.backend.read_inventory()
    except GpuError as error:
        transcript.check("the GPUs can be read", False, str(error))
        return transcript.summary()
    describe_inventory(transcript, inventory)
    describe_health(transcript, inventory, rig.backend.read_telemetry())
    for device in inventory.devices:
        reading = _read(rig, device.uuid)
        if transcript.check(f"GPU {device.index} is measured", reading is not None) and reading:
            compare_with_smi(rig, transcript, device, reading, f"GPU {device.index}, at rest")
    measure_cost(rig, transcript)
    candidates = [each for each in inventory.devices if each.geometry and is_untouched(each)]
    busy = {each.uuid for each in rig.backend.read_telemetry() if each.processes}
    candidates = [each for each in candidates if each.uuid not in busy]
    if read_only or not candidates:
        transcript.write("", "No GPU is changed: " + ("read-only" if read_only else "none is free"))
        return transcript.summary()
    device = candidates[0]
    try:
        measure_load(rig, transcript, device, sleep)
        drive_mig(rig, transcript, device, sleep)
        check_compute_mode(rig, transcript, device)
        if causes_xid:
            check_xid(rig, transcript, device)
    except GpuError as error:
        transcript.check("no call of the driver fails unexpectedly", False, str(error))
    finally:
        transcript.heading("Restored")
        restore_device(rig, transcript, device.uuid)
        transcript.code(rig.run(("nvidia-smi", "-L"))[1])
    return transcript.summary()


def describe_inventory(transcript: Transcript, inventory: NodeInventory) -> None:
    """Everything that is known of the devices."""
    transcript.heading("Discovery")
    transcript.write(f"Driver {inventory.driver}, CUDA {inventory.cuda}.", "")
    for device in inventory.devices:
        transcript.table(
            (f"GPU {device.index}", ""),
            [
                (name, value)
                for name, value in (
                    ("UUID", device.uuid),
                    ("PCI", f"{device.pci}, id 0x{device.pci_id:08X}"),
                    ("product", f"{device.product}, {device.architecture} {device.capability}"),
                    ("memory", f"{device.memory_mib} MiB"),
                    ("multiprocessors", device.sms),
                    ("NUMA node, PCIe switch", f"{device.numa}, {device.pcie_switch or '-'}"),
                    ("PCIe", f"{device.pcie_generation} x{device.pcie_width}"),
                    ("NVLinks", len(device.nvlinks)),
                    ("fabric", device.fabric.key if device.fabric else "-"),
                    ("power limit", f"{device.power_limit_watts} W"),
                    ("MIG", f"enabled {device.mig_enabled}, pending {device.mig_pending}"),
                    ("geometry", device.geometry.name if device.geometry else "-"),
                )
            ],
        )
        if device.geometry is None:
            continue
        resources = {each.profile: each for each in device.mig_resources}
        transcript.table(
            ("profile", "compute", "slices", "starts", "limit", "SMs", "MiB"),
            [
                (
                    each.name,
                    each.compute,
                    each.slices,
                    " ".join(map(str, each.starts)),
                    each.limit,
                    each.sms,
                    resources[each.name].memory_mib if each.name in resources else "-",
                )
                for each in device.geometry.profiles
            ],
        )
        model = load_catalog().find_gpu(device.product, device.memory_mib)
        known = None if model is None else geometry_named(model.mig)
        transcript.check(
            f"the catalog knows GPU {device.index}, and its MIG profiles are those of the device",
            known is not None and is_same_layout(known.profiles, device.geometry.profiles),
            model.name if model else device.product,
        )


def describe_health(
    transcript: Transcript, inventory: NodeInventory, readings: Sequence[DeviceTelemetry]
) -> None:
    """The health of each device, and why."""
    transcript.heading("Health")
    by_uuid = {each.uuid: each for each in readings}
    catalog = load_catalog()
    for device in inventory.devices:
        model = catalog.find_gpu(device.product, device.memory_mib)
        problems = find_problems(device, by_uuid.get(device.uuid), model)
        health, _ = assess_device(problems, HealthHistory(), 0.0, IMMEDIATE)
        reasons = "; ".join(health.reasons) or "no problem found"
        transcript.write(f"- GPU {device.index}: {health.state.value}, {reasons}")


def measure_cost(rig: Rig, transcript: Transcript) -> None:
    """How long readings take."""
    transcript.heading("Cost of a reading")
    transcript.table(
        ("call", "median"),
        [
            ("read_inventory", f"{median_milliseconds(rig.backend.read_inventory):.1f} ms"),
            ("read_telemetry", f"{median_milliseconds(rig.backend.read_telemetry):.1f} ms"),
        ],
    )


def measure_load(
    rig: Rig, transcript: Transcript, device: Device, sleep: Callable[[float], None]
) -> None:
    """The whole device under load, against nvidia-smi."""
    transcript.heading(f"GPU {device.index} under load")
    load = rig.start_load(device.uuid, _LOAD_SECONDS, _LOAD_MIB)
    if load is None:
        transcript.write("No CUDA driver: not measured.")
        return
    sleep(2)
    rig.backend.read_telemetry()
    sleep(2)
    reading = _read(rig, device.uuid)
    if reading is not None:
        compare_with_smi(rig, transcript, device, reading, f"GPU {device.index}, under load")
        _show_activity(transcript, "whole device", reading.activity.sm_active)
        pids = {each.pid: each for each in reading.processes}
        found = pids.get(load.pid) or (next(iter(pids.values())) if len(pids) == 1 else None)
        transcript.check("the process is seen", found is not None, f"{sorted(pids)}")
        if found is not None:
            transcript.write(
                f"- memory of the process: {(found.memory_bytes or 0) >> 20} MiB, "
                f"utilisation {found.utilisation}"
            )
        _expect(
            transcript,
            "MIG mode of a GPU in use",
            GpuErrorKind.IN_USE,
            lambda: rig.backend.set_mig_mode(device.uuid, True),
        )
    rig.stop_loads()
    sleep(1)


def drive_mig(
    rig: Rig, transcript: Transcript, device: Device, sleep: Callable[[float], None]
) -> None:
    """MIG from enabling to disabling."""
    transcript.heading(f"MIG on GPU {device.index}")
    backend, uuid, geometry = rig.backend, device.uuid, device.geometry
    assert geometry is not None
    try:
        with transcript.timed("MIG mode enabled"):
            backend.set_mig_mode(uuid, True)
    except GpuError as error:
        transcript.check("MIG mode is enabled without a reset", False, str(error))
        return
    placements = choose_placements(geometry)
    created: list[MigInstance] = []
    for profile, start in placements:
        with transcript.timed(f"created {profile} at {start}"):
            created.append(backend.create_instance(uuid, profile, start))
    listed = _instances(rig, uuid)
    transcript.table(
        ("UUID", "profile", "start", "slices", "GI", "CI", "MiB", "SMs"),
        [
            (
                *(each.uuid, each.profile, each.start, each.slices, each.gpu_instance),
                *(each.compute_instance, each.memory_mib, each.sms),
            )
            for each in listed
        ],
    )
    transcript.check("what was created is listed", set(listed) == set(created))
    _, smi = rig.run(("nvidia-smi", "-L"))
    transcript.check("nvidia-smi lists the same UUIDs", all(each.uuid in smi for each in created))
    transcript.code(smi)
    transcript.code(rig.run(("nvidia-smi", "mig", "-lgi"))[1])
    profile, start = placements[0]
    for what, kind, attempt in (
        (
            "an instance on used slices",
            GpuErrorKind.INSUFFICIENT_RESOURCES,
            lambda: backend.create_instance(uuid, profile, start),
        ),
        (
            "an unknown profile",
            GpuErrorKind.INVALID_REQUEST,
            lambda: backend.create_instance(uuid, "9g.999gb", 0),
        ),
        (
            "a start that is not listed",
            GpuErrorKind.INVALID_REQUEST,
            lambda: backend.create_instance(uuid, profile, 7),
        ),
        (
            "an instance that does not exist",
            GpuErrorKind.NOT_FOUND,
            lambda: backend.destroy_instance(uuid, "MIG-00000000-0000-0000-0000-000000000000"),
        ),
        (
            "MIG mode with instances",
            GpuErrorKind.IN_USE,
            lambda: backend.set_mig_mode(uuid, False),
        ),
    ):
        _expect(transcript, what, kind, attempt)
    transcript.check("refused calls changed nothing", set(_instances(rig, uuid)) == set(created))
    _use_instance(rig, transcript, uuid, created, sleep)
    for each in _instances(rig, uuid):
        with transcript.timed(f"destroyed {each.profile} at {each.start}"):
            backend.destroy_instance(uuid, each.uuid)
    transcript.check("no instance is left", not _instances(rig, uuid))
    with transcript.timed("MIG mode disabled"):
        backend.set_mig_mode(uuid, False)
    after = backend.read_inventory().find(uuid)
    transcript.check("MIG mode is disabled", after is not None and is_untouched(after))


def _use_instance(
    rig: Rig,
    transcript: Transcript,
    uuid: str,
    created: Sequence[MigInstance],
    sleep: Callable[[float], None],
) -> None:
    """A busy instance is measured, kept, and lives on while a sibling is destroyed and created."""
    busy, sibling = created[0], created[-1]
    load: Load | None = rig.start_load(busy.uuid, _LOAD_SECONDS, _LOAD_MIB // 2)
    if load is None:
        transcript.write("- no CUDA driver: no load on an instance")
        return
    sleep(2)
    rig.backend.read_telemetry()
    sleep(2)
    reading = _read(rig, uuid)
    measured = {each.uuid: each for each in reading.instances} if reading else {}
    for each in created:
        found = measured.get(each.uuid)
        if found is not None:
            activity = found.activity
            transcript.write(
                f"- {each.profile}@{each.start}: "
                f"{(found.memory_used_bytes or 0) >> 20} MiB used, "
                f"graphics {activity.gpu}, SM active {activity.sm_active}, "
                f"occupancy {activity.sm_occupancy}, DRAM {activity.dram}"
            )
    if reading is not None:
        owners = [each.gpu_instance for each in reading.processes]
        transcript.check(
            "the process is seen on its instance", busy.gpu_instance in owners, f"{owners}"
        )
        _show_activity(transcript, "whole device", reading.activity.sm_active)
    _expect(
        transcript,
        "a busy instance",
        GpuErrorKind.IN_USE,
        lambda: rig.backend.destroy_instance(uuid, busy.uuid),
    )
    with transcript.timed(f"sibling {sibling.profile} destroyed beside it"):
        rig.backend.destroy_instance(uuid, sibling.uuid)
    with transcript.timed(f"sibling {sibling.profile} created again beside it"):
        again = rig.backend.create_instance(uuid, sibling.profile, sibling.start)
    transcript.write(f"- UUID of the sibling: {sibling.uuid}, again {again.uuid}")
    sleep(1)
    transcript.check("the busy instance still computes", load.is_running)
    rig.stop_loads()
    sleep(1)


def check_compute_mode(rig: Rig, transcript: Transcript, device: Device) -> None:
    """Exclusive process mode, and back."""
    transcript.heading("Compute mode")
    query = ("nvidia-smi", "-i", device.uuid, "--query-gpu=compute_mode", "--format=csv,noheader")
    for enabled, expected in ((True, "Exclusive_Process"), (False, "Default")):
        rig.backend.set_exclusive_process_mode(device.uuid, enabled)
        seen = rig.run(query)[1].strip()
        transcript.check(f"the compute mode is {expected}", seen == expected, seen)


def check_xid(rig: Rig, transcript: Transcript, device: Device) -> None:
    """An XID arrives as an event; one of an application leaves the device healthy."""
    transcript.heading("XID")
    rig.backend.wait_events(0)
    rig.cause_fault(device.uuid)
    events = rig.backend.wait_events(10)
    seen = [f"{each.kind.value} {each.code}" for each in events if each.uuid == device.uuid]
    xid = EventKind.XID, _MMU_FAULT
    arrived = any((each.kind, each.code) == xid for each in events)
    transcript.check("XID 31 arrives as an event", arrived, ", ".join(seen))
    reading = _read(rig, device.uuid)
    if reading is not None:
        keys = [each.key for each in find_problems(device, reading)]
        harmless = f"xid:{_MMU_FAULT}" not in keys
        transcript.check("the XID leaves the GPU usable", harmless, str(find_xid(_MMU_FAULT)))


def choose_placements(geometry: MigGeometry) -> list[tuple[str, int]]:
    """A mix of profiles that fits: of 3 slices at the end, of 2, of 1, and of 1 with media."""
    placements: list[tuple[str, int]] = []
    mask = 0
    for compute, extended, last in (
        (3, False, True),
        (2, False, False),
        (1, False, False),
        (1, True, False),
    ):
        for profile in geometry.profiles:
            if (profile.compute, profile.extended) != (compute, extended):
                continue
            starts = geometry.free_starts(mask, profile.name)
            if starts:
                start = starts[-1] if last else starts[0]
                placements.append((profile.name, start))
                mask |= profile.mask_at(start)
                break
    return placements


def _expect(
    transcript: Transcript, what: str, kind: GpuErrorKind, attempt: Callable[[], object]
) -> None:
    try:
        attempt()
    except GpuError as error:
        transcript.check(f"{what} is refused with {kind.value}", error.kind is kind, str(error))
    else:
        transcript.check(f"{what} is refused with {kind.value}", False, "it succeeded")


def _read(rig: Rig, uuid: str) -> DeviceTelemetry | None:
    return next((each for each in rig.backend.read_telemetry() if each.uuid == uuid), None)


def _instances(rig: Rig, uuid: str) -> tuple[MigInstance, ...]:
    device = rig.backend.read_inventory().find(uuid)
    return () if device is None else device.instances


def _show_activity(transcript: Transcript, what: str, value: float | None) -> None:
    transcript.write(f"- SM active, {what}: {'-' if value is None else f'{value:.2f}'}")
