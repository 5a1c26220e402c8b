"""Which pod a process belongs to, by its control group."""

import re
from collections.abc import Iterable
from pathlib import Path

_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


def parse_pod_uid(cgroup: str) -> str | None:
    """The UID of the pod in the lines of `/proc/PID/cgroup`; None if the process is in no pod.

    The kubelet names the group `pod` and the UID; its systemd driver writes underscores.
    """
    found = _POD.search(cgroup)
    return None if found is None else found[1].replace("_", "-")


def read_pods_of(pids: Iterable[int], proc: Path = Path("/proc")) -> dict[int, str]:
    """The pods of processes; those that have ended, or are in no pod, are left out."""
    found: dict[int, str] = {}
    for pid in pids:
        try:
            text = (proc / str(pid) / "cgroup").read_text()
        except OSError:
            continue
        uid = parse_pod_uid(text)
        if uid is not None:
            found[pid] = uid
    return found
