"""Requests that wait until their group has a server and the gateways know it.

A request costs a future here, its HTTP connection is in the gateway. When a client gives up, Envoy
cancels the check, and with it the wait.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from kilonova.api.durations import parse_duration
from kilonova.api.serving import ScaleToZero
from kilonova.serving.controlplane.holds.answer import HoldOutcome
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.controlplane.state import has_ready_endpoint
from kilonova.serving.gateway.model import EndpointState, ServiceKey
from kilonova.serving.providers import Listener

_UNACKNOWLEDGED_SECONDS = 2.0
"""How long a request is held for a gateway that does not acknowledge a server that is ready."""
_OTHER_REPLICA_SECONDS = 1.0
"""How long a request is held after a server is ready, if some gateway is connected to another
replica of the control plane: what it acknowledged is not known here."""
_RECONNECT_SECONDS = 5.0
"""After a start, gateways connect again within this time, each in its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request waits for: a server of a group, with a model if one is named."""

    key: ServiceKey
    group: str
    model: str = ""


class Gateways(Protocol):
    """What holds need to know of the connected gateways."""

    def have_endpoints(self, key: ServiceKey) -> bool:
        """Whether all that are connected here acknowledged the endpoints."""
        ...

    def are_all_here(self, key: ServiceKey) -> bool:
        """Whether all ready gateways of the service are connected to this process."""
        ...


class HoldUnavailable(Exception):
    """The gateway is to ask again: the process stops, or does not know the service yet."""


@dataclass(slots=True)
class _Hold:
    """The requests that wait for the same."""

    waiting: set[asyncio.Future[HoldOutcome]] = field(
        default_factory=set["asyncio.Future[HoldOutcome]"]
    )
    timer: asyncio.TimerHandle | None = None
    """Lets them go although not all gateways acknowledged."""


class HeldRequestQueue:
    """The held requests of all services: `providers.HeldRequests` and `RequestedModels`."""

    def __init__(
        self, publications: Publications, gateways: Gateways, metrics: ControlPlaneMetrics
    ) -> None:
        self._publications = publications
        self._gateways = gateways
        self._metrics = metrics
        self._holds: dict[Wanted, _Hold] = {}
        self._listeners: list[Listener] = []
        self._is_stopped = False
        self._reconnected_at: float | None = None
        """When all gateways are expected to be connected, on the clock of the loop."""

    def count(self, key: ServiceKey, group: str) -> int:
        """The requests that are held for a group."""
        return sum(len(each.waiting) for _, each in self._list_holds(key, group))

    def requested(self, key: ServiceKey, group: str) -> frozenset[str]:
        """The models of a group that requests are held for."""
        return frozenset(wanted.model for wanted, _ in self._list_holds(key, group)) - {""}

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a first request is held for a group or a model."""
        self._listeners.append(listener)

    async def hold(self, wanted: Wanted) -> HoldOutcome:
        """Wait for a server; `HoldUnavailable` if that cannot be said here and now."""
        if self._is_stopped or self._publications.get(wanted.key) is None:
            raise HoldUnavailable("the control plane is starting or stopping")
        limits = self._find_limits(wanted)
        if limits is None:
            return HoldOutcome.NO_SERVER
        if self._has_server(wanted) and self._is_known_to_gateways(wanted.key):
            return HoldOutcome.READY
        if self.count(wanted.key, wanted.group) >= limits.max_held:
            self._metrics.count_hold(HoldOutcome.FULL)
            return HoldOutcome.FULL
        outcome = await self._wait(wanted, parse_duration(limits.hold_timeout))
        self._metrics.count_hold(outcome)
        return outcome

    def update(self, key: ServiceKey) -> None:
        """Let the requests of a service go that have a server now; call it whenever the service
        changed or a gateway acknowledged something."""
        if self._reconnected_at is None:
            self._reconnected_at = asyncio.get_running_loop().time() + _RECONNECT_SECONDS
        for wanted, held in list(self._holds.items()):
            if wanted.key == key:
                self._update_hold(wanted, held)

    def stop(self) -> None:
        """End all holds: gateways ask again, here or elsewhere."""
        self._is_stopped = True
        for held in self._holds.values():
            for future in held.waiting:
                if not future.done():
                    future.set_exception(HoldUnavailable("the control plane is stopping"))

    async def _wait(self, wanted: Wanted, seconds: float) -> HoldOutcome:
        future = asyncio.get_running_loop().create_future()
        held = self._holds.setdefault(wanted, _Hold())
        held.waiting.add(future)
        self._metrics.add_held(1)
        if len(held.waiting) == 1:
            for listener in self._listeners:
                listener(wanted.key)
        self._update_hold(wanted, held)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return HoldOutcome.TIMEOUT
        finally:
            self._metrics.add_held(-1)
            held.waiting.discard(future)
            if not held.waiting:
                _cancel_timer(held)
                del self._holds[wanted]

    def _update_hold(self, wanted: Wanted, held: _Hold) -> None:
        if self._find_limits(wanted) is None:
            _release(held, HoldOutcome.NO_SERVER)
        elif not self._has_server(wanted):
            _cancel_timer(held)
        elif self._is_known_to_gateways(wanted.key):
            _release(held, HoldOutcome.READY)
        elif held.timer is None:
            loop = asyncio.get_running_loop()
            latest = loop.time() + self._get_patience(wanted.key)
            held.timer = loop.call_at(latest, _release, held, HoldOutcome.READY)

    def _is_known_to_gateways(self, key: ServiceKey) -> bool:
        return self._gateways.have_endpoints(key) and self._gateways.are_all_here(key)

    def _get_patience(self, key: ServiceKey) -> float:
        """How long to wait for gateways that did not acknowledge, or are not connected."""
        if not self._gateways.have_endpoints(key):
            return _UNACKNOWLEDGED_SECONDS
        still = (self._reconnected_at or 0.0) - asyncio.get_running_loop().time()
        return max(_OTHER_REPLICA_SECONDS, still)

    def _has_server(self, wanted: Wanted) -> bool:
        published = self._publications.get(wanted.key)
        if published is None:
            return False
        return any(
            each.state is EndpointState.READY
            and (not wanted.model or each.models is None or wanted.model in each.models)
            for each in published.state.endpoints.get(wanted.group, ())
        )

    def _find_limits(self, wanted: Wanted) -> ScaleToZero | None:
        """The limits of the holds of a group; None if no server of it is to come."""
        published = self._publications.get(wanted.key)
        if published is None:
            return None
        state = published.state
        if wanted.group not in state.starting and not has_ready_endpoint(
            state.endpoints.get(wanted.group, ())
        ):
            return None
        for each in published.spec.servers:
            if each.name == wanted.group:
                return each.autoscaling.scale_to_zero if each.autoscaling else ScaleToZero()
        return None

    def _list_holds(self, key: ServiceKey, group: str) -> list[tuple[Wanted, _Hold]]:
        return [
            (wanted, each)
            for wanted, each in self._holds.items()
            if wanted.key == key and wanted.group == group
        ]


def _release(held: _Hold, outcome: HoldOutcome) -> None:
    _cancel_timer(held)
    for future in held.waiting:
        if not future.done():
            future.set_result(outcome)


def _cancel_timer(held: _Hold) -> None:
    if held.timer is not None:
        held.timer.cancel()
        held.timer = None
