"""How requests of a model are executed: queue, batches, statistics."""

from kilonova.serving.modelserver.execution.in_flight import InFlight
from kilonova.serving.modelserver.execution.served_model import ServedModel
from kilonova.serving.modelserver.execution.statistics import ModelStatistics

__all__ = ["InFlight", "ModelStatistics", "ServedModel"]
