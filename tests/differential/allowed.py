"""Where the embedded API may answer otherwise than Kubernetes, and why that is right.

Keep it short. An entry that no longer hides anything fails the suite's last test.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`path` under the step's answer (a glob), in the cases whose `topic: name` fits `case`."""

    case: str
    path: str
    why: str


ALLOWED: tuple[Difference, ...] = ()
