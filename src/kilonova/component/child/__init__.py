"""Child processes: programs that a component runs, such as a proxy or a database.

`ChildProcess` is a runnable: it starts the program, waits until it is ready, and fails when the
program exits, so that the supervisor of its component restarts it with backoff and shows it as
degraded. Between both is a **shim** (`shim`), a small process that writes the program's output to a
file of bounded size, and ends the program and all its descendants on request, or when this
process dies, be it by `kill -9`: nothing is left behind. It needs no privileges.
"""

from kilonova.component.child.probes import ReadinessProbe, http_ready, tcp_ready
from kilonova.component.child.process import ChildFailed, ChildProcess, ChildProgram

__all__ = [
    "ChildFailed",
    "ChildProcess",
    "ChildProgram",
    "ReadinessProbe",
    "http_ready",
    "tcp_ready",
]
