"""Signals: what gateways and servers measure of the load, and who collects it.

Words:

- a **target** is a gateway or a server that is read; a **reading** is what it reports of a group;
- an **increment** is what happened between two readings, so that restarts, and targets that come
  and go, do no harm;
- **signals** are the figures of a service: gauges of now, rates and quantiles of the last seconds.

A figure that is not known is None, and the problem is stated: never a 0 for what could not be read.
`readings`, `targets` and `overload` are pure, `collector` is the shell, `assembly.build_signals`
builds all.
"""

from kilonova.serving.signals.model import GroupSignals, LatencyQuantiles, ServiceSignals
from kilonova.serving.signals.readings.histogram import Histogram

__all__ = ["GroupSignals", "Histogram", "LatencyQuantiles", "ServiceSignals"]
