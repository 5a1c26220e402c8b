"""Recorded readings of GPUs: what a machine had, when it is not available.

`read_recording` (`recording`) reads a file of one of two forms: what `gpu discover -o json`
prints, or the raw readings of NVML functions of one device (`raw_readings`). `RecordedBackend`
(`backend`) serves a recording; nothing can be changed in it.
"""

from kilonova.gpu.devices.recorded.backend import RecordedBackend
from kilonova.gpu.devices.recorded.recording import Recording, read_recording

__all__ = ["RecordedBackend", "Recording", "read_recording"]
