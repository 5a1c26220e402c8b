"""Telemetry of a DCGM exporter that runs already: where DCGM has the profiling counters, a second
reader would disturb it.

`DcgmExporter` (`exporter`) scrapes it over HTTP; `samples` reads the exposition format, and
`conversion` makes telemetry of samples.
"""

from kilonova.gpu.devices.dcgm.exporter import DcgmExporter

__all__ = ["DcgmExporter"]
