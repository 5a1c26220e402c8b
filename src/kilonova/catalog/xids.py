"""XIDs: the error codes that NVIDIA's driver writes to the kernel log and reports as NVML events.

Most XIDs are caused by an application: it ends, and the device goes on. Others mean that nothing
new may start on the device before a reset, or that the machine needs a reboot. What makes the
device usable again is the **action** of an XID.

Source: the immediate actions for A100 to GB200 in NVIDIA's Xid catalog
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of r580). Its workflows are
simplified: NVLink errors (74, 144-150) count as errors of a link, of which many in a short time are
a fault of the device.
"""

from enum import StrEnum

import msgspec

FALLEN_OFF_BUS = 79
"""The code of a GPU that does not answer any more."""


class XidAction(StrEnum):
    """What makes a device usable again after an XID."""

    NONE = "None"
    """Nothing: it is information, or the driver has recovered by itself."""
    RESTART_APPLICATION = "RestartApplication"
    """The processes that used the device end; the device goes on."""
    CHECK_LINK = "CheckLink"
    """Nothing if it is rare; a reset if it recurs."""
    RESET_GPU = "ResetGpu"
    """A reset of the device; until then nothing new starts on it."""
    RESTART_NODE = "RestartNode"
    """A reboot of the machine."""
    CONTACT_SUPPORT = "ContactSupport"
    """A repair: no reset is known to help."""


class Xid(msgspec.Struct, frozen=True):
    """An XID: its code, what happened, and what to do."""

    code: int
    text: str
    action: XidAction

    @property
    def is_transient(self) -> bool:
        """Whether the device stays usable without a reset, a reboot or a repair."""
        return self.action in _TRANSIENT

    def __str__(self) -> str:
        return f"XID {self.code}: {self.text}"


def find_xid(code: int) -> Xid:
    """What an XID means. A code that is unknown here counts as one that needs a reset, since it is
    not known to be harmless."""
    return XIDS.get(code) or Xid(code, "unknown error", XidAction.RESET_GPU)


_TRANSIENT = frozenset({XidAction.NONE, XidAction.RESTART_APPLICATION, XidAction.CHECK_LINK})

_COPY_ENGINE = "copy engine error"
_VIDEO_DECODER = "video decoder error"
_JPEG_DECODER = "JPEG decoder error"
_LINK = "NVLink error"

_TEXTS: dict[XidAction, dict[int, str]] = {
    XidAction.NONE: {
        14: "internal test error",
        37: "unknown method of the context switch firmware",
        38: "watchdog timeout of the context switch firmware",
        43: "GPU stopped processing for one channel",
        44: "fault during a context switch",
        63: "row remapping or page retirement recorded",
        66: "illegal register access of the context switch firmware",
        67: "verification error of the context switch firmware",
        92: "high rate of single-bit ECC errors",
        93: "limit of InfoROM erasures exceeded",
        106: "test message of the management interface",
        107: "silent test message of the management interface",
        108: "address translation error of a remote NVLink device",
        121: "corrected C2C link error",
        137: "NVLink privilege error",
        141: "fast path error",
        154: "the recommended recovery action changed",
        157: "resource could not be retired",
        160: "channel retired",
        161: "channel could not be retired",
    },
    XidAction.RESTART_APPLICATION: {
        8: "GPU stopped processing",
        11: "invalid or missing graphics engine method",
        13: "graphics engine exception",
        25: "illegal graphics notification",
        31: "GPU memory page fault",
        32: "invalid or corrupted push buffer",
        **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85), _COPY_ENGINE),
        45: "channel removed after earlier errors",
        60: "security processor error",
        **dict.fromkeys((68, 83, 84, 88, 89, 96, 97, 98), _VIDEO_DECODER),
        69: "graphics engine class error",
        80: "push buffer checksum mismatch",
        **dict.fromkeys((82, *range(99, 106)), _JPEG_DECODER),
        86: "optical flow accelerator error",
        94: "contained memory error",
        **dict.fromkeys(range(126, 136), _COPY_ENGINE),
        139: "optical flow accelerator error",
    },
    XidAction.CHECK_LINK: {
        74: _LINK,
        **dict.fromkeys(range(144, 151), _LINK),
    },
    XidAction.RESET_GPU: {
        46: "GPU timeout",
        48: "double-bit ECC error",
        61: "breakpoint of the power management unit",
        62: "power management unit halted",
        64: "row remapping or page retirement could not be recorded",
        95: "uncontained memory error",
        109: "context switch timeout",
        110: "security fault",
        119: "GSP firmware does not answer",
        120: "GSP firmware error",
        136: "link training failed",
        140: "unrecovered ECC error",
        143: "GPU initialization failed",
        155: "NVLink error found by the driver",
        156: "resource retired",
        158: "fatal GPU timeout",
    },
    XidAction.RESTART_NODE: {
        FALLEN_OFF_BUS: "GPU has fallen off the bus",
        151: "key rotation error",
    },
    XidAction.CONTACT_SUPPORT: {
        54: "auxiliary power is not connected",
        142: "video encoder error",
    },
}

XIDS: dict[int, Xid] = {
    code: Xid(code, text, action)
    for action, texts in _TEXTS.items()
    for code, text in texts.items()
}
"""The known XIDs by code."""
