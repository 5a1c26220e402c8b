"""Metrics of a node's GPUs for Prometheus, under the names of NVIDIA's DCGM exporter and of KGWE.

- A **node reading** (`model.NodeReading`) is all that the metrics of one node are computed from:
  the inventory, the last telemetry, and who uses what. It is a value; the agent keeps the last one.
  The exporter of `kilonova up` has one for each simulated node on which anything happens.
- A **user** (`model.DeviceUser`) is a container and the devices, shares or MIG instances that its
  pod was assigned. **Attribution** (`attribution`) says whose a device, an instance or a process
  is.
- A **sample** (`metrics.Sample`) is one line of an exposition. Pure functions make samples of a
  reading: `dcgm`, `kgwe`, and `pods`, `health` and `mig_capacity` for what neither has a name for.
- `collector` gives the samples to prometheus_client; `server.build_exporter_server` serves them.

A scrape reads no device and waits for none: it renders the last reading, in a thread.
"""

from kilonova.gpu.exporter.model import (
    DeviceUser,
    ExporterReading,
    IdleNode,
    MigCounts,
    NodeReading,
    XidCount,
)

__all__ = [
    "DeviceUser",
    "ExporterReading",
    "IdleNode",
    "MigCounts",
    "NodeReading",
    "XidCount",
]
