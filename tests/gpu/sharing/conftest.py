"""A real subprocess in the place of `nvidia-cuda-mps-control`."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from kilonova.gpu.sharing.mps.control import MpsControlProgram
from kilonova.gpu.sharing.mps.sharing import MpsSharing
from kilonova.gpu.sharing.shares import MpsCapacity

FAKE = Path(__file__).parent / "fake_mps_control.py"


class Exclusive:
    """The compute mode of devices."""

    def __init__(self) -> None:
        self.devices: set[str] = set()

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        if enabled:
            self.devices.add(device)
        else:
            self.devices.discard(device)


class MpsLaboratory:
    """A node with two devices, and the program; what tests see of daemons."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "mps"
        self.program = folder / "nvidia-cuda-mps-control"
        self.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{FAKE}" "$@"\n')
        self.program.chmod(0o755)
        self.exclusive = Exclusive()

    def control(self, **environment: str) -> MpsControlProgram:
        return MpsControlProgram(self.program, environment={**os.environ, **environment})

    def sharing(self, **environment: str) -> MpsSharing:
        capacity = MpsCapacity(81_920)
        return MpsSharing(
            self.root,
            self.control(**environment),
            self.exclusive,
            {"GPU-1": capacity, "GPU-2": capacity},
        )

    def pipe(self, device: str) -> Path:
        return self.root / device / "pipe"

    def state(self, device: str) -> dict[str, object]:
        return json.loads((self.pipe(device) / "state.json").read_text())

    def add_server(self, device: str, pid: int, *clients: int, status: str = "ACTIVE") -> None:
        state = self.state(device)
        servers = {str(pid): {"status": status, "clients": list(clients)}}
        (self.pipe(device) / "state.json").write_text(json.dumps({**state, "servers": servers}))

    def pid(self, device: str) -> int:
        return int((self.pipe(device) / "nvidia-cuda-mps-control.pid").read_text())

    def crash(self, device: str) -> None:
        """The daemon ends; its files stay."""
        os.kill(self.pid(device), signal.SIGKILL)
        wait_until_gone(self.pid(device))


def wait_until_gone(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return
        if state == "Z":
            return


@pytest.fixture
def mps(tmp_path: Path) -> Generator[MpsLaboratory]:
    laboratory = MpsLaboratory(tmp_path)
    yield laboratory
    for file in laboratory.root.glob("*/pipe/*.pid"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)
