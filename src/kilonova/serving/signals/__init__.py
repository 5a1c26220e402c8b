"""Signals: what gateways and servers measure of the load, and who collects it."""

from kilonova.serving.signals.model import GroupSignals, LatencyQuantiles, ServiceSignals

__all__ = ["GroupSignals", "LatencyQuantiles", "ServiceSignals"]
