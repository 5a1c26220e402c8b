"""The health of a node's GPUs that must outlast its node agent: an annotation of the Node.

`gpu.kilonova.dev/health` is a JSON object: a **record** of each device that is not healthy, by its
UUID, and nothing for the others.

    {"GPU-…": {"state": "Unhealthy", "reason": "XID 48: double-bit ECC error", "xid": 48,
               "recovery": "Reset", "phase": "Draining", "since": "2026-05-01T10:00:00Z"}}
"""

from enum import StrEnum

import msgspec

HEALTH = "gpu.kilonova.dev/health"
UNHEALTHY_TAINT = "gpu.kilonova.dev/unhealthy"
"""On a node whose GPUs are all unhealthy."""
GPU_HEALTHY = "GPUHealthy"
MIG_READY = "MIGReady"
"""The conditions of a Node that its node agent writes."""


class Recovery(StrEnum):
    """What makes the device usable again."""

    NONE = "None"
    """Time: the error was transient."""
    RESET = "Reset"
    REBOOT = "Reboot"
    REPAIR = "Repair"


class Phase(StrEnum):
    """How far the recovery of a device is."""

    OBSERVING = "Observing"
    """It may be used; more errors of the kind make it unhealthy."""
    DRAINING = "Draining"
    """Pods that use it are evicted."""
    RESETTING = "Resetting"
    VERIFYING = "Verifying"
    """It was reset, and counts as healthy after some time without errors."""
    WAITING = "Waiting"
    """For what the agent cannot do: a reboot, or a repair."""


class HealthRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why a device is not healthy, and what is done about it. Times are RFC 3339."""

    state: str
    """`Unhealthy` or `Degraded`, as in the health of a device."""
    reason: str
    since: str
    recovery: Recovery = Recovery.NONE
    phase: Phase = Phase.OBSERVING
    xid: int = 0
    """The XID that caused it; 0 if it was something else."""
    count: int = 1
    """Errors of that kind since then."""
    resets: int = 0
    """How often it has been reset since then."""
    changed: str = ""
    """When the phase was entered."""

    @property
    def is_unhealthy(self) -> bool:
        """Whether no pod may get the device."""
        return self.state == "Unhealthy"


HealthRecords = dict[str, HealthRecord]
"""By the UUID of the device."""


def format_health(records: HealthRecords) -> str:
    """The value of the annotation."""
    return msgspec.json.encode(dict(sorted(records.items()))).decode()


def parse_health(text: str) -> HealthRecords:
    """The records of an annotation. None if it is missing or cannot be parsed: devices that are
    still unhealthy are found again."""
    try:
        return msgspec.json.decode(text, type=HealthRecords) if text else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
