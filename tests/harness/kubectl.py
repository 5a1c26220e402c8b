"""kubectl as a test calls it: nothing of the user's configuration, cache or home is touched."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.controlplane import binaries


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


def kubectl_binary() -> Path | None:
    """The one built with the control plane, else the one on the PATH."""
    built = binaries()
    if built is not None:
        return built / "kubectl"
    found = shutil.which("kubectl")
    return Path(found) if found else None


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl against one server, in a folder of its own that is also its home."""

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
    ) -> Outcome:
        """Run `command`, a command line as a person types it after `kubectl`, or its words."""
        words = shlex.split(command) if isinstance(command, str) else list(command)
        done = subprocess.run(
            [*self.prefix(namespace), *words],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.home,
            env=self.environment(env),
            timeout=timeout,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def prefix(self, namespace: str = "") -> list[str]:
        """The words before a command, for those who start kubectl themselves."""
        words = [str(self.binary), f"--kubeconfig={self.kubeconfig}"]
        words.append(f"--cache-dir={self.home / 'cache'}")
        return [*words, f"--namespace={namespace}"] if namespace else words

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """Without the caller's KUBECONFIG and the like."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **(env or {})}
