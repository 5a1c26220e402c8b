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
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.providers import Listener

_UNACKNOWLEDGED_SECONDS = 2.0
"""How long a request is held for a gateway that does not acknowledge a server that is ready."""
_OTHER_REPLICA_SECONDS = 1.0
"""How long a request is held after a server is ready, if some gateway is connected to another
replica of the control plane: what it acknowledged is not known here."""

HeldGroup = tuple[ServiceKey, str]


class Gateways(Protocol):
    """What holds need to know of the connected gateways."""

    def have_endpoints(self, key: ServiceKey) -> bool:
        """Whether all that are connected here acknowledged the endpoints."""
        ...

    def are_all_here(self, key: ServiceKey) -> bool:
        """Whether all ready gateways of the service are connected to this process."""
        ...


class HoldsEnded(Exception):
    """The process stops: the gateway is to ask another one, or this one again."""


@dataclass(slots=True)
class _Group:
    waiting: set[asyncio.Future[HoldOutcome]] = field(
        default_factory=set["asyncio.Future[HoldOutcome]"]
    )
    timer: asyncio.TimerHandle | None = None
    """Opens the group although not all gateways acknowledged."""


class HeldRequestQueue:
    """The held requests of all services: `providers.HeldRequests`."""

    def __init__(
        self, publications: Publications, gateways: Gateways, metrics: ControlPlaneMetrics
    ) -> None:
        self._publications = publications
        self._gateways = gateways
        self._metrics = metrics
        self._groups: dict[HeldGroup, _Group] = {}
        self._listeners: list[Listener] = []
        self._is_stopped = False

    def count(self, key: ServiceKey, group: str) -> int:
        """The requests that are held for a group."""
        held = self._groups.get((key, group))
        return len(held.waiting) if held is not None else 0

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a first request is held for a group."""
        self._listeners.append(listener)

    async def hold(self, key: ServiceKey, group: str) -> HoldOutcome:
        """Wait for a server of a group. `HoldsEnded` if the process stops."""
        if self._is_stopped:
            raise HoldsEnded
        limits = self._find_limits(key, group)
        if limits is None:
            return HoldOutcome.NO_SERVER
        if self._has_server(key, group) and self._is_known_to_gateways(key):
            return HoldOutcome.READY
        held = self._groups.setdefault((key, group), _Group())
        if len(held.waiting) >= limits.max_held:
            self._metrics.count_hold(HoldOutcome.FULL)
            return HoldOutcome.FULL
        future = asyncio.get_running_loop().create_future()
        held.waiting.add(future)
        self._metrics.add_held(1)
        if len(held.waiting) == 1:
            for listener in self._listeners:
                listener(key)
        self._update_group(key, group)
        try:
            async with asyncio.timeout(parse_duration(limits.hold_timeout)):
                outcome = await future
        except TimeoutError:
            outcome = HoldOutcome.TIMEOUT
        finally:
            self._metrics.add_held(-1)
            held.waiting.discard(future)
            if not held.waiting:
                self._drop(key, group, held)
        self._metrics.count_hold(outcome)
        return outcome

    def update(self, key: ServiceKey) -> None:
        """Let the requests of a service go whose group has a server now; call it whenever the
        service changed or a gateway acknowledged something."""
        for service, group in list(self._groups):
            if service == key:
                self._update_group(service, group)

    def stop(self) -> None:
        """End all holds: gateways ask again, here or elsewhere."""
        self._is_stopped = True
        for held in self._groups.values():
            for future in held.waiting:
                if not future.done():
                    future.set_exception(HoldsEnded())

    def _update_group(self, key: ServiceKey, group: str) -> None:
        held = self._groups.get((key, group))
        if held is None:
            return
        if self._find_limits(key, group) is None:
            self._release(held, HoldOutcome.NO_SERVER)
        elif not self._has_server(key, group):
            self._cancel_timer(held)
        elif self._is_known_to_gateways(key):
            self._release(held, HoldOutcome.READY)
        elif held.timer is None:
            knows = self._gateways.have_endpoints(key)
            delay = _OTHER_REPLICA_SECONDS if knows else _UNACKNOWLEDGED_SECONDS
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(delay, self._release, held, HoldOutcome.READY)

    def _is_known_to_gateways(self, key: ServiceKey) -> bool:
        return self._gateways.have_endpoints(key) and self._gateways.are_all_here(key)

    def _has_server(self, key: ServiceKey, group: str) -> bool:
        published = self._publications.get(key)
        return published is not None and has_ready_endpoint(
            published.state.endpoints.get(group, ())
        )

    def _find_limits(self, key: ServiceKey, group: str) -> ScaleToZero | None:
        """The limits of the holds of a group; None if no server of it is to come."""
        published = self._publications.get(key)
        if published is None:
            return None
        if not self._has_server(key, group) and group not in published.state.starting:
            return None
        for each in published.spec.servers:
            if each.name == group:
                return each.autoscaling.scale_to_zero if each.autoscaling else ScaleToZero()
        return None

    def _release(self, held: _Group, outcome: HoldOutcome) -> None:
        self._cancel_timer(held)
        for future in held.waiting:
            if not future.done():
                future.set_result(outcome)

    def _cancel_timer(self, held: _Group) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None

    def _drop(self, key: ServiceKey, group: str, held: _Group) -> None:
        self._cancel_timer(held)
        if self._groups.get((key, group)) is held:
            del self._groups[key, group]
