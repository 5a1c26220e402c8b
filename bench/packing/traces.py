"""Nodes and tasks of a trace, and the order in which tasks arrive."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np

from kilonova.scheduler.core.demand import Ask
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.fragments import Largest, Left

OVERLOAD = 1.3
"""Arrivals end when so many times the capacity was asked for."""

_MIB = 1 << 20
_LEAST_CPU = 100
"""A task that asks for no CPU counts as one that asks for so many milli."""
_FOLDER = "openb"


class BadTrace(RuntimeError):
    """A file that is not a trace."""

    def __init__(self, file: Path, line: int, what: str) -> None:
        super().__init__(f"{file}, line {line}: {what}")


@dataclass(frozen=True)
class Nodes:
    """Nodes in order of their names."""

    left: Left
    models: tuple[str, ...]

    @property
    def capacity(self) -> int:
        """Milli of devices."""
        return int(self.left.gpus.sum(dtype=np.int64))

    @cached_property
    def devices_of(self) -> dict[str, int]:
        """Devices by model."""
        devices: dict[str, int] = {}
        for model, free in zip(self.models, self.left.gpus, strict=True):
            devices[model] = devices.get(model, 0) + int(np.count_nonzero(free))
        return devices

    @cached_property
    def largest(self) -> Largest:
        left = self.left
        return Largest(int(left.cpu.max()), int(left.memory.max()), left.gpus.shape[1])


def read_nodes(file: Path) -> Nodes:
    """Columns `sn,cpu_milli,memory_mib,gpu,model`; a node without a model has an unnamed one."""
    found: list[tuple[str, int, int, int, str]] = []
    for line, row in _rows(file, ("sn", "cpu_milli", "memory_mib", "gpu")):
        cpu = _number(file, line, row, "cpu_milli")
        memory = _number(file, line, row, "memory_mib")
        gpus = _number(file, line, row, "gpu")
        found.append((row["sn"], cpu, memory, gpus, row.get("model") or ""))
    if not any(gpus for _, _, _, gpus, _ in found):
        raise BadTrace(file, 1, "no node has a GPU")
    found.sort()
    width = max(gpus for _, _, _, gpus, _ in found)
    free = np.zeros((len(found), width), np.int16)
    for index, (_, _, _, gpus, _) in enumerate(found):
        free[index, :gpus] = WHOLE
    cpu = np.array([cpu for _, cpu, _, _, _ in found], np.int64)
    memory = np.array([memory * _MIB for _, _, memory, _, _ in found], np.int64)
    return Nodes(Left(cpu, memory, free), tuple(model for *_, model in found))


def read_tasks(file: Path) -> tuple[Ask, ...]:
    """Columns `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, where there is one, `gpu_spec`
    (models with `|` between them); in order of their names."""
    found: list[tuple[str, Ask]] = []
    needed = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for line, row in _rows(file, needed):
        cpu, memory, gpus, milli = (_number(file, line, row, name) for name in needed[1:])
        if gpus and not 0 < milli <= WHOLE:
            raise BadTrace(file, line, f"gpu_milli is {milli}: it must be 1 to {WHOLE}")
        models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
        share = milli if gpus else WHOLE
        found.append((row["name"], Ask(cpu or _LEAST_CPU, memory * _MIB, gpus, share, models)))
    if not any(ask.gpus for _, ask in found):
        raise BadTrace(file, 1, "no task asks for a GPU")
    found.sort(key=lambda each: each[0])
    return tuple(ask for _, ask in found)


def arrivals(tasks: tuple[Ask, ...], capacity: int, seed: int) -> list[Ask]:
    """All tasks in an order drawn by the seed, then more of them until enough is asked for."""
    random = Random(seed)
    order = list(tasks)
    random.shuffle(order)
    asked = sum(ask.amount for ask in order)
    pool = tuple(order)
    while asked < OVERLOAD * capacity:
        order.append(random.choice(pool))
        asked += order[-1].amount
    return order


def mix_of(file: Path) -> str:
    """What the tasks of a file are called: `default` of `openb_pod_list_default.csv`."""
    return file.stem.removeprefix("openb_pod_list_")


def usual_files() -> tuple[Path, list[Path]]:
    """Nodes and tasks of the shipped traces."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("KILONOVA_DATA", beside)) / _FOLDER
    nodes = folder / "openb_node_list_gpu_node.csv"
    tasks = sorted(folder.glob("openb_pod_list_*.csv"))
    if not nodes.exists() or not tasks:
        raise RuntimeError(
            f"there is no trace in {folder}: name files with --nodes and --pods, "
            "or the folder above it with KILONOVA_DATA"
        )
    return nodes, tasks


def _rows(file: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    with file.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines)
        missing = [name for name in needed if name not in (reader.fieldnames or ())]
        if missing:
            raise BadTrace(file, 1, f"there is no column {', '.join(missing)}")
        for row in reader:
            yield reader.line_num, row


def _number(file: Path, line: int, row: Mapping[str, str | None], name: str) -> int:
    text = row[name] or "0"
    try:
        number = int(float(text))
    except ValueError:
        raise BadTrace(file, line, f"{name} is {text!r}: it must be a number") from None
    if number < 0:
        raise BadTrace(file, line, f"{name} is {number}: it must not be below 0")
    return number
