"""Routes: from the address and port of a Service to its backends. Pure."""

import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from .address import SocketAddress

POD_NETWORK = IPv4Network("127.64.0.0/11")
"""The network of pod addresses."""
_POD_OCTETS = range(64, 96)

Backend = SocketAddress
"""The address and port of a pod."""

BackendSelector = Callable[[Sequence[Backend]], Backend]


class RouteError(ValueError):
    """A value is not a valid route."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """Connections to (address, port) go to one of the backends, or are refused if there is none."""

    address: str
    port: int
    protocol: str
    backends: tuple[Backend, ...] = ()
    has_session_affinity: bool = False
    """A client always gets the same backend, as long as it exists (ClientIP affinity)."""
    is_virtual: bool = True
    """Only routes exist at that address: other ports are refused. A nameserver's address is real.
    """

    def select_backend(
        self, client: str, select: BackendSelector = random.choice
    ) -> Backend | None:
        """The backend for a client."""
        if not self.backends:
            return None
        if self.has_session_affinity:
            return max(self.backends, key=lambda each: zlib.crc32(f"{client}>{each}".encode()))
        return select(self.backends)

    def as_json(self) -> dict[str, Any]:
        """JSON for the request to the shim."""
        return {
            "address": self.address,
            "port": self.port,
            "protocol": self.protocol,
            "backends": [list(backend) for backend in self.backends],
            "sticky": self.has_session_affinity,
            "virtual": self.is_virtual,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ServiceRoute":
        """Parse a route; `RouteError` describes an invalid value."""
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


class RouteMap:
    """Routes by address and port."""

    def __init__(self, routes: Iterable[ServiceRoute] = ()) -> None:
        self._routes = {(route.protocol, route.address, route.port): route for route in routes}
        self._virtual = {route.address for route in self._routes.values() if route.is_virtual}

    def find(self, protocol: str, address: SocketAddress) -> ServiceRoute | None:
        return self._routes.get((protocol, address.ip, address.port))

    def is_virtual(self, ip: str) -> bool:
        """Whether an address exists only as the start of routes."""
        return ip in self._virtual


def is_pod_address(ip: str) -> bool:
    """Whether an address is in the pod network."""
    octets = ip.split(".")
    return len(octets) == 4 and octets[0] == "127" and int(octets[1]) in _POD_OCTETS
