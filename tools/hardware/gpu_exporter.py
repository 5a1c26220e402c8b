"""Compares what the exporter serves with `nvidia-smi` of the same moment.

    python -m tools.hardware gpu-exporter [--seconds N] [--out FILE]

The devices are read by the NVML backend, once while idle and once under a load where CUDA is
there; the metrics are what a scrape would get. Then an unused GPU gets two MIG instances, of which
a pod has one: memory and activity are those of the instance, with the pod's labels. The GPU is left
as it was found. It needs the wheels of msgspec, nvidia-ml-py and prometheus-client alone.
"""

import argparse
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.devices.model import Device, MigInstance
from kilonova.gpu.exporter import DeviceUser, ExporterReading, NodeReading
from kilonova.gpu.exporter.collector import render
from tools.hardware.gpu_discovery import choose_placements
from tools.hardware.restoration import is_untouched, restore_device
from tools.hardware.rig import Rig, open_rig
from tools.hardware.transcript import Transcript

_NODE = "this-machine"
_LOAD_MEBIBYTES = 2048
_TOLERANCE_MIB = 64
_BUSY = 0.5
"""The activity from which an instance counts as busy."""


@dataclass(frozen=True)
class ExportedField:
    """A field of nvidia-smi, the metric that says the same, and how far both may be apart."""

    name: str
    metric: str
    tolerance: float
    factor: float = 1.0


FIELDS = (
    ExportedField("utilization.gpu", "DCGM_FI_DEV_GPU_UTIL", 15),
    ExportedField("utilization.memory", "DCGM_FI_DEV_MEM_COPY_UTIL", 15),
    ExportedField("memory.total", "DCGM_FI_DEV_FB_TOTAL", 1),
    ExportedField("memory.used", "DCGM_FI_DEV_FB_USED", 64),
    ExportedField("memory.free", "DCGM_FI_DEV_FB_FREE", 64),
    ExportedField("memory.reserved", "DCGM_FI_DEV_FB_RESERVED", 64),
    ExportedField("temperature.gpu", "DCGM_FI_DEV_GPU_TEMP", 3),
    ExportedField("temperature.memory", "DCGM_FI_DEV_MEMORY_TEMP", 3),
    ExportedField("power.draw", "DCGM_FI_DEV_POWER_USAGE", 60),
    ExportedField("power.limit", "DCGM_FI_DEV_POWER_MGMT_LIMIT", 1),
    ExportedField("clocks.sm", "DCGM_FI_DEV_SM_CLOCK", 300),
    ExportedField("clocks.mem", "DCGM_FI_DEV_MEM_CLOCK", 50),
    ExportedField("ecc.errors.corrected.volatile.total", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 0),
    ExportedField("ecc.errors.uncorrected.volatile.total", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0),
    ExportedField("remapped_rows.uncorrectable", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 0),
    ExportedField("temperature.gpu", "kgwe_gpu_temperature_celsius", 3),
    ExportedField("power.draw", "kgwe_gpu_power_watts", 60),
    ExportedField("memory.used", "kgwe_gpu_memory_used_bytes", 64, 1 / (1 << 20)),
)


def main(arguments: Sequence[str]) -> int:
    """Run it on this machine; the number of failed checks as exit code, at most 1."""
    parser = argparse.ArgumentParser(prog="gpu-exporter", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the load")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    transcript.write("# The exporter", "", "`python -m tools.hardware gpu-exporter`")
    with open_rig() as rig:
        compare_exporter(rig, transcript, options.seconds)
        for device in rig.backend.read_inventory().devices:
            if device.geometry is not None and is_untouched(device):
                try:
                    compare_instances(rig, transcript, device, options.seconds)
                finally:
                    restore_device(rig, transcript, device.uuid)
                break
    return transcript.summary()


def compare_exporter(
    rig: Rig,
    transcript: Transcript,
    seconds: float = 20.0,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Compare each device while idle, then under load."""
    transcript.heading("The exporter's figures and nvidia-smi's")
    rig.backend.read_telemetry()  # counters say something from the second reading on
    sleep(1)
    _compare(rig, transcript, "idle")
    for device in rig.backend.read_inventory().devices:
        if device.mig_enabled:
            continue
        if rig.start_load(device.uuid, seconds, _LOAD_MEBIBYTES) is None:
            continue
        sleep(3)
        rig.backend.read_telemetry()
        sleep(1)
        _compare(rig, transcript, f"GPU {device.index} under load")
        rig.stop_loads()


def compare_instances(
    rig: Rig,
    transcript: Transcript,
    device: Device,
    seconds: float = 20.0,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Divide a device, load the instance that a pod has, and compare what is said of both."""
    transcript.heading("MIG instances, and the pod that has one")
    assert device.geometry is not None
    rig.backend.set_mig_mode(device.uuid, True)
    large, small = (
        rig.backend.create_instance(device.uuid, profile, start)
        for profile, start in choose_placements(device.geometry)[:2]
    )
    if rig.start_load(large.uuid, seconds, _LOAD_MEBIBYTES) is None:
        transcript.write("No CUDA here: the instances stay idle.")
    sleep(3)
    rig.backend.read_telemetry()
    sleep(2)
    inventory = rig.backend.read_inventory()
    telemetry = tuple(rig.backend.read_telemetry())
    code, output = rig.run(("nvidia-smi", "-q", "-x", "-i", device.uuid))
    transcript.check("nvidia-smi answers (MIG)", code == 0, "" if not code else output[:200])
    assigned = DeviceAssignment(device.index, 0, large.profile, large.start)
    user = DeviceUser("default", "trainer", "uid-1", "main", (assigned,))
    reading = NodeReading(_NODE, inventory, telemetry, users=(user,), measured=time.time())
    exposition = render(ExporterReading((reading,)))[0].decode()
    theirs = read_instance_memory(output)
    rows: list[tuple[object, ...]] = []
    for instance, pod in ((large, "trainer"), (small, "")):
        ours = read_instance_values(exposition, instance)
        used = ours.get("DCGM_FI_DEV_FB_USED")
        known = theirs.get(instance.gpu_instance)
        agrees = used is not None and known is not None and abs(used[0] - known) <= _TOLERANCE_MIB
        active = ours.get("DCGM_FI_PROF_GR_ENGINE_ACTIVE", (None, ""))
        title = f"{instance.profile}@{instance.start}"
        cells = (None if used is None else round(used[0]), known, active[0], active[1] or "-")
        rows.append((title, *cells))
        transcript.check(f"used memory of {title} is nvidia-smi's", agrees, f"±{_TOLERANCE_MIB}")
        labelled = all(each[1] == pod for each in ours.values()) and bool(ours)
        transcript.check(f"{title} belongs to {pod or 'no pod'}", labelled)
        is_busy = (active[0] or 0.0) > _BUSY
        transcript.check(
            f"{title} is {'busy' if pod else 'idle'}, relative to itself", is_busy is bool(pod)
        )
    header = ("instance", "used MiB, exporter", "nvidia-smi", "graphics active", "pod")
    transcript.write("")
    transcript.table(header, rows)
    rig.stop_loads()


def read_instance_values(exposition: str, instance: MigInstance) -> dict[str, tuple[float, str]]:
    """The values of an instance's DCGM metrics, and the pod of each."""
    return {
        sample.name: (sample.value, sample.labels.get("pod", ""))
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name.startswith("DCGM_")
        and sample.labels.get("GPU_I_ID") == str(instance.gpu_instance)
    }


def read_instance_memory(text: str) -> dict[int, float]:
    """The used MiB of each GPU instance, from `nvidia-smi -q -x`."""
    found: dict[int, float] = {}
    for each in ElementTree.fromstring(text).iter("mig_device"):
        number, used = each.findtext("gpu_instance_id"), each.findtext("fb_memory_usage/used")
        if number is not None and used is not None:
            found[int(number)] = float(used.split()[0])
    return found


def _compare(rig: Rig, transcript: Transcript, title: str) -> None:
    inventory = rig.backend.read_inventory()
    telemetry = tuple(rig.backend.read_telemetry())
    names = list(dict.fromkeys(field.name for field in FIELDS))
    query = ",".join(["uuid", *names])
    code, output = rig.run(("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"))
    if not transcript.check(f"nvidia-smi answers ({title})", code == 0, "" if not code else output):
        return
    reading = NodeReading(_NODE, inventory, telemetry, measured=time.time())
    exposition = render(ExporterReading((reading,)))[0].decode()
    for line in output.strip().splitlines():
        uuid, *cells = (each.strip() for each in line.split(","))
        theirs = dict(zip(names, cells, strict=True))
        differing, rows = compare_values(read_values(exposition, uuid), theirs)
        transcript.write("")
        transcript.table(("metric", "exporter", "nvidia-smi", "expected", ""), rows)
        transcript.check(
            f"the exporter agrees with nvidia-smi ({uuid}, {title})",
            not differing,
            ", ".join(differing),
        )


def read_values(exposition: str, uuid: str) -> dict[str, float]:
    """The values of a device's metrics: those of its MIG instances are not among them."""
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if uuid in (sample.labels.get("UUID"), sample.labels.get("gpu_uuid"))
        and "GPU_I_ID" not in sample.labels
    }


def compare_values(
    ours: Mapping[str, float], theirs: Mapping[str, str]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """The metrics that differ, and a row of each. What nvidia-smi does not know must not be
    exported."""
    differing: list[str] = []
    rows: list[tuple[object, ...]] = []
    for field in FIELDS:
        value, text = ours.get(field.metric), theirs[field.name]
        try:
            expected = float(text)
        except ValueError:
            agrees = value is None
        else:
            agrees = value is not None and (abs(value * field.factor - expected) <= field.tolerance)
        if not agrees:
            differing.append(field.metric)
        shown = "-" if value is None else f"{value * field.factor:.1f}"
        within = f"±{field.tolerance:g}" if field.tolerance else "equal"
        rows.append((field.metric, shown, text, within, "ok" if agrees else "**differs**"))
    return differing, rows
