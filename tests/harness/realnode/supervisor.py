"""The process beside a node that outlives the test run: `python -m … SPEC`, with a pipe as input.

It makes the cgroups and the namespaces of the node, connects its network, and prints its process
id. When the pipe is closed, by the test or because the test run is gone, it ends the node and
removes its cgroups and files. If it is killed itself, the node ends with it, and the next
supervisor removes the cgroups.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harness.realnode.cgroups import (
    create_groups,
    enter_groups,
    remove_abandoned_groups,
    remove_groups,
)
from tests.harness.realnode.network import connect, disconnect
from tests.harness.realnode.spec import NodeSpec

GROUP_PREFIX = "kilonova-node-"
INTERFACE_PREFIX = "kn"
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.2
_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup")


def main() -> None:
    """Run a node until standard input is closed or the node ends."""
    spec = NodeSpec.read(Path(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pipe says when to end
    remove_abandoned_groups(GROUP_PREFIX)
    groups = create_groups(f"{GROUP_PREFIX}{os.getpid()}")
    interface = f"{INTERFACE_PREFIX}{os.getpid()}"
    try:
        node = start_namespaces(spec, groups)
        with contextlib.suppress(subprocess.CalledProcessError):  # the node may have ended already
            connect(spec.network, interface, node.pid)
            print(node.pid, flush=True)
            wait_for_end(node)
        node.kill()
        node.wait()
    finally:
        disconnect(interface)
        remove_groups(groups)
        for folder in (spec.filesystem, spec.folder / "upper", spec.folder / "work"):
            shutil.rmtree(folder, ignore_errors=True)


def start_namespaces(spec: NodeSpec, groups: list[Path]) -> subprocess.Popen[bytes]:
    """`unshare`, whose death ends every process in the namespaces."""
    outside = os.readlink("/proc/self/ns/net")
    command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc"]
    init = [sys.executable, "-m", "tests.harness.realnode.init", str(spec.path)]

    def prepare() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        enter_groups(groups)

    with (spec.folder / "init.log").open("ab") as log:
        node = subprocess.Popen(
            [*command, *init],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=prepare,
        )
    while node.poll() is None and os.readlink(f"/proc/{node.pid}/ns/net") == outside:
        time.sleep(_POLL_SECONDS / 10)
    return node


def wait_for_end(node: subprocess.Popen[bytes]) -> None:
    """Until the pipe is closed, or the node has ended."""
    while node.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return


if __name__ == "__main__":
    main()
