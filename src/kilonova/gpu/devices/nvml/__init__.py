"""The GPUs of this machine, through NVML (`nvidia-ml-py`).

`NvmlBackend` (`backend`) is put together from `inventory` and `paths` (what is there), `mig`
(profiles and instances), `telemetry` with `profiling` (measurements), and `events`. All call the
driver through a `Session` (`session`), which opens it, and translates its errors. `library` says
which functions of the module `pynvml` are used, and their types, which it lacks; it is imported
when a session is opened.

A reading that a device does not support is None; any other failure is a `GpuError`.
"""

from kilonova.gpu.devices.nvml.backend import NvmlBackend

__all__ = ["NvmlBackend"]
