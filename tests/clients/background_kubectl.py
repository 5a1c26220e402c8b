"""A kubectl that runs in the background of a test."""

import io
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from tests.harness import child_process
from tests.harness.kubectl import Kubectl


@contextmanager
def running_kubectl(
    kubectl: Kubectl, command: str, namespace: str = ""
) -> Generator[io.TextIOWrapper]:
    """Its output while it runs; it ends with the context, or with the test run."""
    with child_process.start_child(
        [*kubectl.build_prefix(namespace), *command.split()],
        output=subprocess.PIPE,
        env=kubectl.build_environment(),
        cwd=kubectl.home,
    ) as process:
        assert process.stdout is not None
        try:
            yield io.TextIOWrapper(process.stdout)
        finally:
            process.kill()


def read_local_port(lines: io.TextIOWrapper) -> int:
    """The port that `kubectl proxy` or `kubectl port-forward` prints."""
    line = lines.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert found, line
    return int(found[1])
