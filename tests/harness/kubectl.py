"""kubectl for tests, isolated from the user's configuration, cache and home."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.control_plane import find_binaries


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    code: int
    out: str
    err: str


def find_kubectl() -> Path | None:
    """The kubectl built with the control plane, else the one on the PATH."""
    built = find_binaries()
    if built is not None:
        return built / "kubectl"
    found = shutil.which("kubectl")
    return Path(found) if found else None


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl against one server, in a directory that is also its home."""

    binary: Path
    kubeconfig: Path
    home: Path

    def __call__(
        self,
        command: str | Sequence[str],
        *,
        stdin: str = "",
        namespace: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> CommandResult:
        """Run a kubectl command line, given as text or as arguments."""
        words = shlex.split(command) if isinstance(command, str) else list(command)
        done = subprocess.run(
            [*self.build_prefix(namespace), *words],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.home,
            env=self.build_environment(env),
            timeout=timeout,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def build_prefix(self, namespace: str = "") -> list[str]:
        """The arguments before a command, for callers that start kubectl themselves."""
        words = [str(self.binary), f"--kubeconfig={self.kubeconfig}"]
        words.append(f"--cache-dir={self.home / 'cache'}")
        return [*words, f"--namespace={namespace}"] if namespace else words

    def build_environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment without the caller's KUBECONFIG and the like."""
        # A command that ends in a moment needs no garbage collection: a tenth of its CPU.
        common = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GOGC": "off"}
        return {**common, **(env or {})}
