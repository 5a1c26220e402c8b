"""The worst requests of the last minutes, in memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kilonova.api.serving import TracedRequest
from kilonova.serving.controlplane.request_log.requests import MAX_REQUESTS, WINDOW, is_failed
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.providers import Listener

_MINUTE = 60.0
_MINUTES = int(WINDOW.total_seconds() // _MINUTE) + 1


@dataclass(slots=True)
class _Minute:
    number: int
    failed: list[TracedRequest] = field(default_factory=list[TracedRequest])
    """The latest."""
    slowest: list[TracedRequest] = field(default_factory=list[TracedRequest])

    def add(self, request: TracedRequest) -> bool:
        """Keep it if it is one of the worst; returns whether it is."""
        if is_failed(request):
            self.failed.append(request)
            del self.failed[:-MAX_REQUESTS]
            return True
        slowest = self.slowest
        if len(slowest) >= MAX_REQUESTS and request.duration <= slowest[-1].duration:
            return False
        slowest.append(request)
        slowest.sort(key=lambda each: each.duration, reverse=True)
        del slowest[MAX_REQUESTS:]
        return True


class RecentRequests:
    """The worst requests of all services: at most 20 of each minute, for eleven minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._minutes: dict[ServiceKey, list[_Minute]] = {}
        self._listeners: list[Listener] = []

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a service has another request that is worth a look."""
        self._listeners.append(listener)

    def add(self, key: ServiceKey, requests: Iterable[TracedRequest]) -> None:
        """Take in what a gateway of a service logged."""
        minutes = self._minutes.setdefault(key, [])
        number = int(self._monotonic() // _MINUTE)
        if not minutes or minutes[-1].number != number:
            minutes.append(_Minute(number))
            minutes[:] = [each for each in minutes if each.number > number - _MINUTES]
        latest = minutes[-1]
        kept = sum(latest.add(each) for each in requests)
        if kept:
            for listener in self._listeners:
                listener(key)

    def list_worst(self, key: ServiceKey) -> list[TracedRequest]:
        """Those that are kept of a service."""
        minutes = self._minutes.get(key, ())
        return [request for each in minutes for request in (*each.failed, *each.slowest)]

    def forget(self, key: ServiceKey) -> None:
        """Drop those of a service."""
        self._minutes.pop(key, None)
