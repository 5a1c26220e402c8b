"""A kubectl that goes on while a test does something else."""

import io
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from tests.harness import lifeline
from tests.harness.kubectl import Kubectl


@contextmanager
def running(kubectl: Kubectl, command: str, namespace: str = "") -> Generator[io.TextIOWrapper]:
    """What it prints, while it runs; it ends with the context, or with the test run."""
    with lifeline.start(
        [*kubectl.prefix(namespace), *command.split()],
        output=subprocess.PIPE,
        env=kubectl.environment(),
        cwd=kubectl.home,
    ) as process:
        assert process.stdout is not None
        try:
            yield io.TextIOWrapper(process.stdout)
        finally:
            process.kill()


def local_port(lines: io.TextIOWrapper) -> int:
    """The port that `kubectl proxy` or `kubectl port-forward` says it has taken."""
    line = lines.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert found, line
    return int(found[1])
