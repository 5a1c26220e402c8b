"""Reset of a device by `nvidia-smi`: NVML has no function for it."""

import subprocess
from collections.abc import Callable, Sequence

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind

RunCommand = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a command with a time limit: its exit code and output. `TimeoutError`, `OSError`."""

_SECONDS = 180.0
_MESSAGES = (
    ("in use", GpuErrorKind.IN_USE),
    ("currently being used", GpuErrorKind.IN_USE),
    ("insufficient permissions", GpuErrorKind.NO_PERMISSION),
    ("not supported", GpuErrorKind.NOT_SUPPORTED),
    ("no devices were found", GpuErrorKind.NOT_FOUND),
    ("is lost", GpuErrorKind.DEVICE_LOST),
)
"""Of messages that it prints."""


def reset_device(device: str, run: RunCommand) -> None:
    """Reset a device by its UUID. No process may use it, and NVML must be closed."""
    command = ("nvidia-smi", "--gpu-reset", "-i", device)
    operation = " ".join(command[:2])
    try:
        code, output = run(command, _SECONDS)
    except TimeoutError as error:
        why = f"no answer within {_SECONDS:.0f} s"
        raise GpuError(GpuErrorKind.TIMEOUT, operation, device=device, detail=why) from error
    except OSError as error:
        why = f"nvidia-smi cannot be run: {error.strerror}"
        raise GpuError(
            GpuErrorKind.DRIVER_NOT_FOUND, operation, device=device, detail=why
        ) from error
    if code:
        text = " ".join(output.split())
        kinds = (kind for message, kind in _MESSAGES if message in text.lower())
        kind = next(kinds, GpuErrorKind.UNKNOWN)
        raise GpuError(kind, operation, device=device, detail=text[:300] or f"exit code {code}")


def run_command(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run a command of this machine."""
    try:
        done = subprocess.run(  # noqa: S603 (a fixed command)
            list(command), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    return done.returncode, f"{done.stdout}\n{done.stderr}"
