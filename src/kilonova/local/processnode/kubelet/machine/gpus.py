"""The GPUs of this machine: what the Node publishes of them, and what reads them."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from kilonova.api.gpu.annotations import (
    TOPOLOGY,
    Gpu,
    ReportedMigProfile,
    Topology,
    format_topology,
)
from kilonova.catalog import GpuModel, NvLink, load_catalog
from kilonova.catalog.gpu_features import build_gpu_labels
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.processnode.kubelet.machine.nvidia_smi import (
    GpuReadError,
    NvidiaSmiReport,
    read_gpus,
)

_TIMEOUT_SECONDS = 60.0
"""Without the persistence daemon, each call initialises all GPUs."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InstalledGpus:
    """The GPUs in the order of their index, links between them, and labels of the driver."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[int, int, int], ...] = ()
    """Two indices and GB/s."""
    mig_slices: Mapping[str, int] = field(default_factory=dict[str, int])
    """The memory slices of a MIG instance, by profile."""
    driver_labels: Mapping[str, str] = field(default_factory=dict[str, str])


def find_installed_gpus(proc: Path = Path("/proc")) -> InstalledGpus:
    """The GPUs of this machine; where `nvidia-smi` fails, only their number is known.

    It may take seconds: call it in a thread.
    """
    try:
        count = len(list((proc / "driver" / "nvidia" / "gpus").iterdir()))
    except OSError:
        return InstalledGpus()
    try:
        return describe_reading(read_gpus(_run_command))
    except GpuReadError as error:
        _log.warning("GPUs not read: only their number is published", gpus=count, error=str(error))
        return InstalledGpus((Gpu(),) * count)


def describe_reading(reading: NvidiaSmiReport) -> InstalledGpus:
    """What was read, with what the catalog knows of the models."""
    links: list[tuple[int, int, int]] = []
    gpus = [replace(gpu, sms=_find_sms(gpu)) for gpu in reading.gpus]
    for one, other, count in reading.nvlinks:
        nvlink = _find_nvlink(gpus[one])
        if nvlink is None:
            continue
        bandwidth = nvlink.bandwidth * count // nvlink.links
        # Behind an NVSwitch, every GPU reaches every other over all its links.
        if nvlink.wiring == "switch" and count == nvlink.links:
            for each in (one, other):
                gpus[each] = replace(gpus[each], port=bandwidth)
        else:
            links.append((one, other, bandwidth))
    labels = {
        **_version_labels("nvidia.com/cuda.driver-version", reading.driver),
        **_version_labels("nvidia.com/cuda.runtime-version", reading.cuda),
    }
    return InstalledGpus(tuple(gpus), tuple(links), reading.mig_slices, labels)


def build_feature_labels(installed: InstalledGpus) -> dict[str, str]:
    """The labels of NVIDIA GPU feature discovery; none without GPUs, or if only their number is
    known."""
    gpus = installed.gpus
    if not gpus or not gpus[0].product:
        return {}
    # GPU feature discovery describes the machine by its first GPU, too.
    model = _find_model(gpus[0])
    labels = build_gpu_labels(gpus[0].product, len(gpus), gpus[0].memory or 0, model)
    is_capable = any(gpu.mig_enabled for gpu in gpus) or (model is not None and bool(model.mig))
    labels["nvidia.com/mig.capable"] = "true" if is_capable else "false"
    if any(gpu.mig_enabled for gpu in gpus):
        labels["nvidia.com/mig.strategy"] = "mixed"
    return {**labels, **installed.driver_labels}


def build_topology_annotation(installed: InstalledGpus) -> dict[str, str]:
    """The annotation of the Node; none without GPUs, or if only their number is known.

    A GPU in MIG mode has a geometry of its own with just the instances that exist: this node
    creates none.
    """
    gpus = installed.gpus
    if not gpus or not gpus[0].product:
        return {}
    slices = installed.mig_slices
    geometries = {_geometry_name(gpu): _list_profiles(gpu, slices) for gpu in gpus if gpu.instances}
    first = gpus[0]
    topology = Topology(
        tuple(_omit_defaults(gpu, first) for gpu in gpus),
        installed.links,
        first.product or "",
        first.memory or 0,
        first.architecture or "",
        first.port or 0,
        geometries=geometries,
        sms=first.sms or 0,
    )
    return {TOPOLOGY: format_topology(topology)}


def _omit_defaults(gpu: Gpu, first: Gpu) -> Gpu:
    """Without what is the same as in the first GPU, which is the default of all."""
    return replace(
        gpu,
        product=None if gpu.product == first.product else gpu.product,
        memory=None if gpu.memory == first.memory else gpu.memory,
        architecture=None if gpu.architecture == first.architecture else gpu.architecture,
        port=None if gpu.port == first.port else gpu.port or 0,
        sms=None if gpu.sms == first.sms else gpu.sms,
        mig=_geometry_name(gpu) if gpu.instances else None,
    )


def _geometry_name(gpu: Gpu) -> str:
    return f"instances of {gpu.uuid}"


def _list_profiles(gpu: Gpu, slices: Mapping[str, int]) -> tuple[ReportedMigProfile, ...]:
    """The profiles of the instances of a GPU, each with the starts that exist."""
    starts: dict[str, list[int]] = {}
    for each in sorted(gpu.instances, key=lambda each: (each.profile, each.start)):
        starts.setdefault(each.profile, []).append(each.start)
    return tuple(
        ReportedMigProfile(
            name=profile,
            slices=slices.get(profile, 1),
            starts=tuple(existing),
            limit=len(existing),
            compute=int(profile.partition("g")[0]),
            extended="+me" in profile,
        )
        for profile, existing in starts.items()
    )


def _find_model(gpu: Gpu) -> GpuModel | None:
    return load_catalog().find_gpu(gpu.product or "", gpu.memory or 0)


def _find_sms(gpu: Gpu) -> int | None:
    model = _find_model(gpu)
    return model.sms if model is not None and model.sms else None


def _find_nvlink(gpu: Gpu) -> NvLink | None:
    model = _find_model(gpu)
    return model.nvlink if model is not None and model.nvlink and model.nvlink.links else None


def _version_labels(prefix: str, version: str) -> dict[str, str]:
    """`580.159.04` as the labels `PREFIX.full`, `.major`, `.minor` and `.revision`."""
    if not version:
        return {}
    names = ("major", "minor", "revision")
    parts = dict(zip(names, version.split("."), strict=False))
    return {f"{prefix}.{name}": part for name, part in {"full": version, **parts}.items()}


def _run_command(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 (a fixed command)
            list(command), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GpuReadError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        text = (done.stderr or done.stdout).strip()[:500]
        raise GpuReadError(f"{' '.join(command)} failed with {done.returncode}: {text}")
    return done.stdout
