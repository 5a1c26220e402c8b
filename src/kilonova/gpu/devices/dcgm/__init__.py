"""Telemetry of a DCGM exporter that runs already: where DCGM has the profiling counters, a second
reader would disturb it.

`DcgmExporter` (`exporter`) scrapes it over HTTP; `samples` reads the exposition format, and
`conversion` makes telemetry of samples. `DcgmTelemetry` (`telemetry`) is what a node agent uses: it
adds from the node's backend what DCGM does not report.
"""

from kilonova.gpu.devices.dcgm.exporter import DcgmExporter
from kilonova.gpu.devices.dcgm.telemetry import DcgmTelemetry

__all__ = ["DcgmExporter", "DcgmTelemetry"]
