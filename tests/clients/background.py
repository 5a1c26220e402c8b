"""A kubectl that goes on while a test does something else."""

import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

from tests.harness.kubectl import Kubectl


@contextmanager
def running(kubectl: Kubectl, command: str, namespace: str = "") -> Generator[IO[str]]:
    """What it prints, while it runs; it ends with the context."""
    with subprocess.Popen(
        [*kubectl.prefix(namespace), *command.split()],
        stdout=subprocess.PIPE,
        cwd=kubectl.home,
        env=kubectl.environment(),
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def local_port(lines: IO[str]) -> int:
    """The port that `kubectl proxy` or `kubectl port-forward` says it has taken."""
    line = lines.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert found, line
    return int(found[1])
