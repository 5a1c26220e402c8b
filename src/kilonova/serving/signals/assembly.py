"""The parts of the signals, for a process."""

from dataclasses import dataclass

from kilonova.api.serving import STATS_PORT
from kilonova.kube import Runnable
from kilonova.serving.context import ServingContext
from kilonova.serving.providers import OverloadedGroups, SignalSource
from kilonova.serving.signals.collector import SignalCaches, SignalCollector
from kilonova.serving.signals.overload_tracker import OverloadTracker


@dataclass(frozen=True, slots=True)
class Signals:
    """Every replica of the process has them: the control plane admits by load."""

    source: SignalSource
    overloaded: OverloadedGroups
    runnables: tuple[Runnable, ...]


def build_signals(context: ServingContext, stats_port: int = STATS_PORT) -> Signals:
    """Build the parts; the caches of the context must be running."""
    caches = SignalCaches(context.caches.services, context.caches.pods)
    collector = SignalCollector(caches, context.settings, context.monotonic, stats_port)
    return Signals(collector, OverloadTracker(caches, collector), (collector,))
