"""Nodes and tasks of a trace, and the order in which tasks arrive."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np

from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.scoring.demand import PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import FreeResources, LargestNode

OVERLOAD = 1.3
"""Arrivals end when so many times the capacity has been requested."""

_MIB = 1 << 20
_MIN_CPU = 100
"""Milli CPU of a task that requests none."""
_FOLDER = "openb"


class InvalidTrace(RuntimeError):
    """A file that is not a valid trace."""

    def __init__(self, file: Path, line: int, what: str) -> None:
        super().__init__(f"{file}, line {line}: {what}")


@dataclass(frozen=True)
class TraceNodes:
    """Nodes sorted by name."""

    free: FreeResources
    models: tuple[str, ...]

    @property
    def capacity(self) -> int:
        """GPU milli."""
        return int(self.free.gpus.sum(dtype=np.int64))

    @cached_property
    def devices_of(self) -> dict[str, int]:
        """Devices by model."""
        devices: dict[str, int] = {}
        for model, free in zip(self.models, self.free.gpus, strict=True):
            devices[model] = devices.get(model, 0) + int(np.count_nonzero(free))
        return devices

    @cached_property
    def largest(self) -> LargestNode:
        left = self.free
        return LargestNode(int(left.cpu.max()), int(left.memory.max()), left.gpus.shape[1])


def read_nodes(file: Path) -> TraceNodes:
    """Read columns `sn,cpu_milli,memory_mib,gpu,model`; the model may be missing."""
    found: list[tuple[str, int, int, int, str]] = []
    for line, row in _read_rows(file, ("sn", "cpu_milli", "memory_mib", "gpu")):
        cpu = _parse_number(file, line, row, "cpu_milli")
        memory = _parse_number(file, line, row, "memory_mib")
        gpus = _parse_number(file, line, row, "gpu")
        found.append((row["sn"], cpu, memory, gpus, row.get("model") or ""))
    if not any(gpus for _, _, _, gpus, _ in found):
        raise InvalidTrace(file, 1, "no node has a GPU")
    found.sort()
    width = max(gpus for _, _, _, gpus, _ in found)
    free = np.zeros((len(found), width), np.int16)
    for index, (_, _, _, gpus, _) in enumerate(found):
        free[index, :gpus] = MILLI_PER_GPU
    cpu = np.array([cpu for _, cpu, _, _, _ in found], np.int64)
    memory = np.array([memory * _MIB for _, _, memory, _, _ in found], np.int64)
    return TraceNodes(FreeResources(cpu, memory, free), tuple(model for *_, model in found))


def read_tasks(file: Path) -> tuple[PackingRequest, ...]:
    """Read columns `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and optionally `gpu_spec` (models
    separated by `|`), sorted by name.
    """
    found: list[tuple[str, PackingRequest]] = []
    required = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for line, row in _read_rows(file, required):
        cpu, memory, gpus, milli = (_parse_number(file, line, row, name) for name in required[1:])
        if gpus and not 0 < milli <= MILLI_PER_GPU:
            raise InvalidTrace(
                file, line, f"gpu_milli is {milli}: must be between 1 and {MILLI_PER_GPU}"
            )
        models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
        share = milli if gpus else MILLI_PER_GPU
        found.append(
            (row["name"], PackingRequest(cpu or _MIN_CPU, memory * _MIB, gpus, share, models))
        )
    if not any(request.gpus for _, request in found):
        raise InvalidTrace(file, 1, "no task requests a GPU")
    found.sort(key=lambda each: each[0])
    return tuple(request for _, request in found)


def order_arrivals(
    tasks: tuple[PackingRequest, ...], capacity: int, seed: int
) -> list[PackingRequest]:
    """All tasks in an order drawn by the seed, then more of them until enough is requested."""
    random = Random(seed)
    order = list(tasks)
    random.shuffle(order)
    requested = sum(request.gpu_milli for request in order)
    pool = tuple(order)
    while requested < OVERLOAD * capacity:
        order.append(random.choice(pool))
        requested += order[-1].gpu_milli
    return order


def get_mix_name(file: Path) -> str:
    """The name of a mix: `default` for `openb_pod_list_default.csv`."""
    return file.stem.removeprefix("openb_pod_list_")


def default_files() -> tuple[Path, list[Path]]:
    """Nodes and tasks of the included traces."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("KILONOVA_DATA", beside)) / _FOLDER
    nodes = folder / "openb_node_list_gpu_node.csv"
    tasks = sorted(folder.glob("openb_pod_list_*.csv"))
    if not nodes.exists() or not tasks:
        raise RuntimeError(
            f"no trace in {folder}: set --nodes and --pods, or set KILONOVA_DATA to its parent "
            "directory"
        )
    return nodes, tasks


def _read_rows(file: Path, required: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    with file.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines)
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise InvalidTrace(file, 1, f"missing column {', '.join(missing)}")
        for row in reader:
            yield reader.line_num, row


def _parse_number(file: Path, line: int, row: Mapping[str, str | None], name: str) -> int:
    text = row[name] or "0"
    try:
        number = int(float(text))
    except ValueError:
        raise InvalidTrace(file, line, f"{name} is {text!r}: must be a number") from None
    if number < 0:
        raise InvalidTrace(file, line, f"{name} is {number}: must not be negative")
    return number
