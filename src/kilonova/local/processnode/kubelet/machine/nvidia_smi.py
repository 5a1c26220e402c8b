"""Reads the GPUs of this machine from the output of `nvidia-smi`, given what runs it.

`-q -x` describes the GPUs; `topo -m` how they are connected; where a GPU is in MIG mode, `-L` has
the UUIDs of its instances and `mig -lgi` where they start.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilonova.api.gpu.annotations import Gpu, MigInstance, normalize_pci_address
from kilonova.kube.observability.structured_logging import get_logger

CommandRunner = Callable[[Sequence[str]], str]
"""Returns what a command writes; raises `GpuReadError` if it fails."""

NvLinks = tuple[int, int, int]
"""Two GPUs, and the number of NVLinks between them."""

_ABSENT = ("", "N/A", "None", "[N/A]")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_GPU_LINE = re.compile(r"GPU (\d+): ")
_MIG_LINE = re.compile(r"\s+MIG \S+\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")
_INSTANCE_LINE = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+\d+\s+(\d+)\s+(\d+):(\d+)\s+\|")


_MAX_LABEL_LENGTH = 63

_log = get_logger(__name__)


class GpuReadError(Exception):
    """The GPUs cannot be read; the message states why."""


@dataclass(frozen=True, slots=True)
class NvidiaSmiReport:
    """What `nvidia-smi` reports, in the order of the PCI bus, which is that of the indices."""

    driver: str
    cuda: str
    gpus: tuple[Gpu, ...]
    nvlinks: tuple[NvLinks, ...] = ()
    mig_slices: Mapping[str, int] = field(default_factory=dict[str, int])
    """The memory slices of an instance, by profile."""


def read_gpus(run: CommandRunner) -> NvidiaSmiReport:
    """All GPUs; `GpuReadError` if `nvidia-smi` fails or cannot be understood.

    What only some drivers, machines or users may read is left out where it fails: the topology,
    and where MIG instances start.
    """
    try:
        root = ElementTree.fromstring(run(["nvidia-smi", "-q", "-x"]))  # noqa: S314 (the driver's)
    except ElementTree.ParseError as error:
        raise GpuReadError(f"nvidia-smi -q -x: not XML: {error}") from error
    gpus = list(map(_parse_gpu, root.findall("gpu")))
    gpus, nvlinks = _add_topology(gpus, _run_optional(run, "topo", "-m"))
    slices: dict[str, int] = {}
    if any(gpu.mig_enabled for gpu in gpus):
        listing = _run_optional(run, "-L")
        placements = _run_optional(run, "mig", "-lgi")
        found = _parse_instances(root, listing, placements)
        gpus = [replace(gpu, instances=tuple(found[index])) for index, gpu in enumerate(gpus)]
        slices = {each[2]: int(each[5]) for each in _INSTANCE_LINE.finditer(placements)}
    driver, cuda = _text(root, "driver_version"), _text(root, "cuda_version")
    return NvidiaSmiReport(driver, cuda, tuple(gpus), tuple(nvlinks), slices)


def _run_optional(run: CommandRunner, *arguments: str) -> str:
    try:
        return run(["nvidia-smi", *arguments])
    except GpuReadError as error:
        _log.warning("part of the GPUs' state not read", error=str(error))
        return ""


def _add_topology(gpus: list[Gpu], matrix: str) -> tuple[list[Gpu], list[NvLinks]]:
    """The GPUs with NUMA nodes and PCIe switches, and their NVLinks.

    In the matrix `PIX` and `PXB` connect GPUs below one PCIe switch, `NV4` is four NVLinks.
    """
    rows = [_ESCAPES.sub("", line).split("\t") for line in matrix.splitlines()]
    cells = {row[0].strip(): [each.strip() for each in row] for row in rows}
    titles = next(([each.strip() for each in row] for row in rows if len(row) > 1), list[str]())
    nvlinks: list[NvLinks] = []
    switches = list(range(len(gpus)))
    placed: list[Gpu] = []
    for index, gpu in enumerate(gpus):
        row = cells.get(f"GPU{index}", [])
        for other in range(index + 1, len(gpus)):
            connection = _cell(row, titles, f"GPU{other}")
            if connection in ("PIX", "PXB"):
                switches[other] = switches[index]
            if connection.startswith("NV") and connection[2:].isdigit():
                nvlinks.append((index, other, int(connection[2:])))
        numa = _cell(row, titles, "NUMA Affinity")
        placed.append(
            replace(
                gpu,
                numa=int(numa) if numa.isdigit() else -1,
                pcie=str(switches[index]) if row else "",
            )
        )
    return placed, nvlinks


def _parse_gpu(element: ElementTree.Element) -> Gpu:
    memory = _text(element, "fb_memory_usage/total").partition(" ")[0]
    reason = _find_problem(element)
    return Gpu(
        uuid=_text(element, "uuid"),
        product=_format_product(_text(element, "product_name")),
        memory=int(memory) if memory.isdigit() else None,
        architecture=_text(element, "product_architecture"),
        pci=normalize_pci_address(element.get("id", "")),
        healthy=not reason,
        reason=reason,
        mig_enabled=_text(element, "mig_mode/current_mig") == "Enabled",
    )


def _format_product(name: str) -> str:
    """A product as GPU feature discovery writes it, so that it can be the value of a label."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-_.")[:_MAX_LABEL_LENGTH].strip("-_.")


def _find_problem(element: ElementTree.Element) -> str:
    """Why a GPU must not be used; empty if nothing is known against it."""
    if _text(element, "remapped_rows/remapped_row_failure") == "Yes":
        return "row remapping failed"
    action = _text(element, "gpu_recovery_action")
    return f"recovery action required: {action}" if action else ""


def _parse_instances(
    root: ElementTree.Element, listing: str, placements: str
) -> dict[int, list[MigInstance]]:
    """The MIG instances by GPU. A MIG device has its UUID in the listing by its index, and its
    start in the table of placements by the id of its GPU instance."""
    uuids = _parse_uuids(listing)
    starts = {
        (int(gpu), int(instance)): (profile, int(start))
        for gpu, profile, instance, start, _ in _INSTANCE_LINE.findall(placements)
    }
    found: dict[int, list[MigInstance]] = {}
    for index, gpu in enumerate(root.findall("gpu")):
        found[index] = []
        for device in gpu.findall("mig_devices/mig_device"):
            uuid = uuids.get((index, _text(device, "index")))
            instance = _text(device, "gpu_instance_id")
            placement = starts.get((index, int(instance))) if instance.isdigit() else None
            if uuid is not None and placement is not None:
                found[index].append(MigInstance(uuid, *placement))
    return found


def _parse_uuids(listing: str) -> dict[tuple[int, str], str]:
    """The UUIDs of MIG devices, by the indices of GPU and device."""
    found: dict[tuple[int, str], str] = {}
    gpu = -1
    for line in listing.splitlines():
        if (heading := _GPU_LINE.match(line)) is not None:
            gpu = int(heading[1])
        elif (device := _MIG_LINE.match(line)) is not None:
            found[gpu, device[1]] = device[2]
    return found


def _cell(row: Sequence[str], titles: Sequence[str], title: str) -> str:
    """A cell of the matrix by its column's title; empty if there is none."""
    column = titles.index(title) if title in titles else len(row)
    return row[column] if column < len(row) else ""


def _text(element: ElementTree.Element, path: str) -> str:
    """The text of an element; empty if there is none, or nothing in it."""
    text = (element.findtext(path) or "").strip()
    return "" if text in _ABSENT else text
