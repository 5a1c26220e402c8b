"""The embedded API as a separate process: the only module that knows how tests start it."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kilonova.component import find_components
from tests.harness.access import ServerAccess
from tests.harness.server_process import ServerProcess

_SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class EmbeddedServer(AbstractContextManager["EmbeddedServer"]):
    """A running embedded API on `data`, with no nodes."""

    data: Path
    access: ServerAccess
    process: ServerProcess

    @classmethod
    def start(cls, data: Path, *options: str) -> "EmbeddedServer":
        """Start on new or existing data and wait until it is ready."""
        # A file left by a killed server would contain its old address.
        (data / "running.json").unlink(missing_ok=True)
        process = launch_server(data, *options)
        kubeconfig = data / "kubeconfig"
        process.wait_until((data / "running.json").exists)
        access = ServerAccess.from_kubeconfig(kubeconfig, data.parent / "admin")
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


def launch_server(data: Path, *options: str) -> ServerProcess:
    """Start the command without waiting; its log is next to the data."""
    path = os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
    return ServerProcess(
        "kilonova up",
        build_up_command(data, *options),
        data.parent / f"{data.name}.log",
        {**os.environ, "PYTHONPATH": path},
    )


def build_up_command(data: Path, *options: str) -> Sequence[str]:
    """`kilonova up` in the foreground without components; the options `--process-node`,
    `--operator` and `--scheduler` add them.
    """
    command = [sys.executable, "-m", "kilonova.cli", "up", "--no-demo", *no_components()]
    command += ["--data", str(data)]
    return [*command, *(options or ("--port", "0"))]


def no_components() -> list[str]:
    """The flags of `kilonova up` that leave out every component that can be left out."""
    parts = [each for each in find_components() if each.embedded and each.embedded.help]
    return [f"--no-{each.name}" for each in parts]
