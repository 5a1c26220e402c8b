"""Which groups are overloaded now: an `OverloadedGroups` over the latest signals."""

from kilonova.kube import Key
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.caches import BY_SERVICE
from kilonova.serving.providers import Listener, SignalSource
from kilonova.serving.signals.collector import SignalCaches
from kilonova.serving.signals.overload import OverloadCause, find_overloaded
from kilonova.serving.signals.targets import count_ready_servers

_log = get_logger(__name__)


class OverloadTracker:
    """Answers whether requests of a group are to be refused; listens to the signals."""

    def __init__(self, caches: SignalCaches, source: SignalSource) -> None:
        self._caches = caches
        self._source = source
        self._causes: dict[Key, dict[str, OverloadCause]] = {}
        self._listeners: list[Listener] = []
        source.add_listener(self._judge)

    def overloaded(self, key: Key) -> frozenset[str]:
        """The groups of a service whose load is above `limits.load`."""
        return frozenset(self._causes.get(key, ()))

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever the answer changes."""
        self._listeners.append(listener)

    def _judge(self, key: Key) -> None:
        service, signals = self._caches.services.store.get(key), self._source.latest(key)
        before = self.overloaded(key)
        if service is None or signals is None:
            causes: dict[str, OverloadCause] = {}
        elif service.spec.limits.load is None and not before:
            return
        else:
            ready = count_ready_servers(self._caches.pods.store.by_index(BY_SERVICE, key))
            causes = find_overloaded(service.spec.limits.load, signals, ready, before)
        self._causes.pop(key, None)
        if causes:
            self._causes[key] = causes
        if before == frozenset(causes):
            return
        _log.info(
            "overloaded groups changed",
            service="/".join(key),
            overloaded={group: str(cause) for group, cause in causes.items()},
        )
        for listener in self._listeners:
            listener(key)
