"""Routes: from the address and port of a Service to the backends behind it. Pure."""

import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from .address import Address

POD_NETWORK = IPv4Network("127.64.0.0/11")
"""Where pods have their addresses."""
_POD_OCTETS = range(64, 96)

Backend = Address
"""A port of a pod."""

Choose = Callable[[Sequence[Backend]], Backend]


class RouteError(ValueError):
    """What came as a route is none."""


@dataclass(frozen=True, slots=True)
class Route:
    """All connections to (address, port) go to one of the backends, or are refused."""

    address: str
    port: int
    protocol: str
    backends: tuple[Backend, ...] = ()
    sticky: bool = False
    """A client always gets the same backend, as long as it is there."""
    virtual: bool = True
    """Nothing but routes is at that address: other ports are refused. A nameserver is real."""

    def backend(self, client: str, choose: Choose = random.choice) -> Backend | None:
        """Where a client goes now."""
        if not self.backends:
            return None
        if self.sticky:
            return max(self.backends, key=lambda each: zlib.crc32(f"{client}>{each}".encode()))
        return choose(self.backends)

    def as_json(self) -> dict[str, Any]:
        """For the way from Kilonova to the keeper."""
        return {
            "address": self.address,
            "port": self.port,
            "protocol": self.protocol,
            "backends": [list(backend) for backend in self.backends],
            "sticky": self.sticky,
            "virtual": self.virtual,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Route":
        """`RouteError` tells what is wrong with a value that is no route."""
        try:
            backends = tuple(Backend(str(ip), int(port)) for ip, port in value["backends"])
            return cls(
                str(value["address"]),
                int(value["port"]),
                str(value["protocol"]),
                backends,
                bool(value.get("sticky", False)),
                bool(value.get("virtual", True)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RouteError(f"{value!r} is not a route: {error!r}") from error


class Routes:
    """Routes by where they begin."""

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._routes = {(route.protocol, route.address, route.port): route for route in routes}
        self._virtual = {route.address for route in self._routes.values() if route.virtual}

    def find(self, protocol: str, address: Address) -> Route | None:
        return self._routes.get((protocol, address.ip, address.port))

    def is_virtual(self, ip: str) -> bool:
        """Whether there is nothing at that address but where routes begin."""
        return ip in self._virtual


def is_pod_address(ip: str) -> bool:
    """Whether a pod could have this address."""
    octets = ip.split(".")
    return len(octets) == 4 and octets[0] == "127" and int(octets[1]) in _POD_OCTETS
