"""What processes have used, from /proc."""

from collections.abc import Iterable
from pathlib import Path

import psutil


def read_cpu_seconds(pid: int) -> float:
    """CPU time of all threads: the process's own times have steps of 10 ms, which is too coarse."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


def list_tree(pid: int) -> list[psutil.Process]:
    """A process and all that it started, as far as they run."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def sum_cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """CPU time of some processes, in steps of 10 ms for each."""
    times = [each.cpu_times() for each in processes]
    return sum(each.user + each.system for each in times)
