"""The process that holds the namespaces of a pod on the real node, from Kubernetes' source."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import CachedPart, PartUnavailable
from tools.realparts.parts.control_plane import LOCK, VERSION
from tools.realparts.progress import Progress
from tools.realparts.sources.go_modules import LOCKS, find_go
from tools.realparts.sources.processes import run_command

_SOURCE = "build/pause/linux/pause.c"


@dataclass(frozen=True)
class PauseProgram:
    """A static binary of one file of C."""

    pins: bytes = VERSION.encode()
    files: tuple[str, ...] = ("pause",)

    def make(self, folder: Path, progress: Progress) -> str | None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise PartUnavailable("a C compiler is needed, and there is no `cc` on the PATH")
        module = _find_kubernetes()
        with progress.step("compiling pause"):
            flags = ["-Os", "-static", f"-DVERSION={VERSION}"]
            run_command([compiler, *flags, "-o", folder / "pause", module / _SOURCE])


def _find_kubernetes() -> Path:
    """The folder of the pinned module, downloaded if necessary."""
    command = [find_go(LOCK), "mod", "download", "-json", "k8s.io/kubernetes"]
    reply = subprocess.run(command, cwd=LOCKS / LOCK, capture_output=True, text=True, check=False)
    if reply.returncode:
        raise PartUnavailable(f"the source of Kubernetes cannot be downloaded: {reply.stderr}")
    return Path(json.loads(reply.stdout)["Dir"])


PART = CachedPart("pause", VERSION, PauseProgram())
