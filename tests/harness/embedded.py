"""The embedded API as a process of its own: the one place that knows how tests start it."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.harness.access import Access
from tests.harness.process import ServerProcess

_SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class EmbeddedServer(AbstractContextManager["EmbeddedServer"]):
    """A running embedded API on `data`, with no nodes."""

    data: Path
    access: Access
    process: ServerProcess

    @classmethod
    def start(cls, data: Path, *options: str) -> "EmbeddedServer":
        """Start on new or existing data and wait until it answers."""
        # Left by a server that was killed, it would lead to where that one listened.
        (data / "running.json").unlink(missing_ok=True)
        process = launch(data, *options)
        kubeconfig = data / "kubeconfig"
        process.wait_until((data / "running.json").exists)
        access = Access.from_kubeconfig(kubeconfig, data.parent / "admin")
        process.wait_until(access.is_ready)
        return cls(data, access, process)

    def stop(self) -> None:
        self.process.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def launch(data: Path, *options: str) -> ServerProcess:
    """Start the command and return at once; its log lies beside the data."""
    path = os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
    return ServerProcess(
        "kilonova up",
        up_command(data, *options),
        data.parent / f"{data.name}.log",
        {**os.environ, "PYTHONPATH": path},
    )


def up_command(data: Path, *options: str) -> Sequence[str]:
    """`kilonova up` in the foreground, bare; `--process-node`, `--operator` or `--scheduler` among
    the options adds that one."""
    command = [sys.executable, "-m", "kilonova.cli", "up", "--no-demo", "--no-process-node"]
    command += ["--no-operator", "--no-scheduler", "--no-console", "--data", str(data)]
    return [*command, *(options or ("--port", "0"))]
