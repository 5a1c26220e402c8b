"""What may go wrong when a GPU is read or changed. Every backend raises these, and nothing else."""

from enum import StrEnum


class GpuErrorKind(StrEnum):
    """Why an operation failed, and so what to do."""

    DRIVER_NOT_FOUND = "DriverNotFound"
    """No driver is loaded, or its library is missing."""
    NO_PERMISSION = "NoPermission"
    NOT_SUPPORTED = "NotSupported"
    """The device cannot do this."""
    INVALID_REQUEST = "InvalidRequest"
    """An unknown profile, a start that is not listed, an index that does not exist."""
    IN_USE = "InUse"
    """Processes, or other instances, use what was to be changed: nothing was changed."""
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    """The device lacks free capacity for what was requested."""
    NOT_FOUND = "NotFound"
    """There is no such device or instance, or it is gone already."""
    DEVICE_LOST = "DeviceLost"
    """The device has fallen off the bus: only a reboot brings it back."""
    RESET_REQUIRED = "ResetRequired"
    """The device does nothing before it is reset."""
    TIMEOUT = "Timeout"
    """No answer in time: it may have been done."""
    UNKNOWN = "Unknown"


RETRIABLE = frozenset({GpuErrorKind.IN_USE, GpuErrorKind.TIMEOUT, GpuErrorKind.UNKNOWN})
"""Kinds of failures that may pass by themselves."""


class GpuError(Exception):
    """An operation on a device, or on the driver, has failed."""

    def __init__(
        self, kind: GpuErrorKind, operation: str, *, device: str = "", detail: str = ""
    ) -> None:
        where = f" of {device}" if device else ""
        why = f": {detail}" if detail else ""
        super().__init__(f"{operation}{where} failed with {kind.value}{why}")
        self.kind = kind
        self.operation = operation
        """The call of the driver, or the method of the backend."""
        self.device = device
        """UUID of the device or instance; empty for the driver itself."""
        self.detail = detail

    @property
    def is_retriable(self) -> bool:
        """Whether it may succeed when it is tried again."""
        return self.kind in RETRIABLE
