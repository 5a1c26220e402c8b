"""Whether and when a failed operation is tried again, by the kind of its failure."""

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 8.0

_ATTEMPTS: dict[GpuErrorKind, int] = {
    GpuErrorKind.IN_USE: 5,
    # A process that has ended leaves the device a moment later.
    GpuErrorKind.TIMEOUT: 2,
    GpuErrorKind.UNKNOWN: 3,
}
"""How often an operation is tried in all; once where its failure does not pass by itself."""


def retry_delay(error: GpuError, attempt: int) -> float | None:
    """Seconds to wait after the failure of an attempt, the first being 1; None to give up."""
    if attempt >= _ATTEMPTS.get(error.kind, 1):
        return None
    return min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY)
