"""How a call is handled: a function of the call, its pod and the routes. Pure."""

import errno
import random
from dataclasses import dataclass, field

from .address import SocketAddress
from .listener import SocketVerb
from .routes import BackendSelector, RouteMap, is_pod_address

_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 (what others bind)
_LOCAL_ADDRESSES = _WILDCARDS | {"127.0.0.1", "::1"}
_RESOLVER_DAEMONS = frozenset(
    {
        "/run/systemd/resolve/io.systemd.Resolve",
        "/run/nscd/socket",
        "/var/run/nscd/socket",
    }
)
"""Resolver daemons of the C library, which do not know the cluster's names."""


@dataclass(slots=True)
class NetworkPod:
    """The network's state of a pod."""

    address: str
    bound_ports: dict[tuple[str, int], bool] = field(default_factory=dict[tuple[str, int], bool])
    """The (protocol, port)s that the pod has bound, and whether they can be shared (SO_REUSEPORT).
    """


@dataclass(frozen=True, slots=True)
class SocketCall:
    """A bind or connect call of a process. `protocol` is TCP or UDP."""

    verb: SocketVerb
    protocol: str
    address: SocketAddress


@dataclass(frozen=True, slots=True)
class Proceed:
    """Unchanged: the kernel executes the call."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The call fails with an error number."""

    error: int


@dataclass(frozen=True, slots=True)
class BindTo:
    """Bind the socket to this address."""

    address: SocketAddress


@dataclass(frozen=True, slots=True)
class ConnectTo:
    """Connect the socket to this address; `source` is the client address, if given."""

    address: SocketAddress
    source: str | None = None


CallDecision = Proceed | Reject | BindTo | ConnectTo
PROCEED = Proceed()


def decide_call(
    call: SocketCall,
    pod: NetworkPod,
    routes: RouteMap,
    select_backend: BackendSelector = random.choice,
) -> CallDecision:
    """How to handle a call."""
    if call.verb is SocketVerb.BIND:
        return _decide_bind(call.address, pod)
    return _decide_connect(call, pod, routes, select_backend)


def decide_unix_call(verb: SocketVerb, path: str) -> CallDecision:
    """How to handle a call on a Unix socket."""
    if verb is SocketVerb.CONNECT and path in _RESOLVER_DAEMONS:
        return Reject(errno.ECONNREFUSED)
    return PROCEED


def _decide_bind(address: SocketAddress, pod: NetworkPod) -> CallDecision:
    ip, port = address
    if ip not in _LOCAL_ADDRESSES or (port == 0 and ip in _WILDCARDS):
        return PROCEED
    return BindTo(SocketAddress(pod.address, port))


def _decide_connect(
    call: SocketCall, pod: NetworkPod, routes: RouteMap, select_backend: BackendSelector
) -> CallDecision:
    ip, port = call.address
    if ip in _LOCAL_ADDRESSES and (call.protocol, port) in pod.bound_ports:
        return ConnectTo(SocketAddress(pod.address, port))
    route = routes.find(call.protocol, call.address)
    if route is not None:
        backend = route.select_backend(pod.address, select_backend)
        if backend is None:
            return Reject(errno.ECONNREFUSED)
        return ConnectTo(backend, _select_source(call, pod, backend.ip))
    if call.protocol == "TCP" and routes.is_virtual(ip):
        # On a real network the connection would time out. UDP sockets proceed: the C library
        # connects some, with any port, only to find out the source address of a route.
        return Reject(errno.ECONNREFUSED)
    if call.protocol == "TCP" and is_pod_address(ip):
        return ConnectTo(call.address, pod.address)
    return PROCEED


def _select_source(call: SocketCall, pod: NetworkPod, ip: str) -> str | None:
    """None for UDP: the socket may later be connected to where a pod's address is not routed."""
    return pod.address if call.protocol == "TCP" and is_pod_address(ip) else None
