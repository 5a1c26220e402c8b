"""What a hardware program works with: the backend, nvidia-smi, and processes that load a GPU."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kilonova.gpu.devices.backend import GpuBackend

RunCommand = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command; its exit code and output."""


class Load(Protocol):
    """A process that keeps a device or MIG instance busy."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it still computes."""
        ...


LoadStarter = Callable[[str, float, int], Load | None]
"""Starts a load on a device or instance by its UUID, for some seconds, with so many MiB; None where
there is no CUDA driver."""


@dataclass(frozen=True)
class Rig:
    """The machine."""

    backend: GpuBackend
    run: RunCommand
    start_load: LoadStarter
    stop_loads: Callable[[], None]
    cause_fault: Callable[[str], None]
    """Runs a process on a device that writes to an address that does not exist."""


class LoadProcess:
    """A process of `cuda_load`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


class LoadProcesses:
    """The loads of this program."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, target: str, seconds: float, mebibytes: int) -> Load | None:
        """Start a load, and wait until it computes."""
        program = Path(__file__).with_name("cuda_load.py")
        process = subprocess.Popen(
            [sys.executable, str(program), str(seconds), str(mebibytes)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": target},
        )
        self._processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line == "running":
            return LoadProcess(process)
        process.wait(30)
        print(f"<!-- no load on {target}: {line or process.returncode} -->")
        return None

    def cause_fault(self, target: str) -> None:
        """Run a process that faults, to its end."""
        program = Path(__file__).with_name("cuda_load.py")
        subprocess.run(
            [sys.executable, str(program), "1", "16", "fault"],
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": target},
        )

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self._processes.clear()


def run_command(command: Sequence[str]) -> tuple[int, str]:
    """Run a command of this machine."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def open_rig() -> Generator[Rig]:
    """This machine; its loads end, and the driver is closed, at the end."""
    from kilonova.gpu.devices.nvml import NvmlBackend

    backend, loads = NvmlBackend(), LoadProcesses()
    try:
        yield Rig(backend, run_command, loads.start, loads.stop, loads.cause_fault)
    finally:
        loads.stop()
        backend.close()
