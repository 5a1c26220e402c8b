"""What becomes of a call: a function of the call, its pod and the routes. Pure."""

import errno
import random
from dataclasses import dataclass, field

from .address import Address
from .listener import Verb
from .routes import Choose, Routes, is_pod_address

_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 (what others bind)
_LOCAL = _WILDCARDS | {"127.0.0.1", "::1"}
_RESOLVER_DAEMONS = frozenset(
    {
        "/run/systemd/resolve/io.systemd.Resolve",
        "/run/nscd/socket",
        "/var/run/nscd/socket",
    }
)
"""They resolve names for the C library, and know nothing of the cluster's."""


@dataclass(slots=True)
class Pod:
    """What the network knows of a pod."""

    address: str
    bound: dict[tuple[str, int], bool] = field(default_factory=dict[tuple[str, int], bool])
    """The (protocol, port)s that it has taken, and whether the next taker may share."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a process wants: to bind or connect a socket. `protocol` is TCP or UDP."""

    verb: Verb
    protocol: str
    address: Address


@dataclass(frozen=True, slots=True)
class Proceed:
    """Nothing to change: the kernel does what was asked for."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call fails."""

    error: int


@dataclass(frozen=True, slots=True)
class BindTo:
    """The socket gets this address."""

    address: Address


@dataclass(frozen=True, slots=True)
class ConnectTo:
    """The socket is connected to this address; `source` is shown to the server, if given."""

    address: Address
    source: str | None = None


Decision = Proceed | Refuse | BindTo | ConnectTo
PROCEED = Proceed()


def decide(call: Call, pod: Pod, routes: Routes, choose: Choose = random.choice) -> Decision:
    """What becomes of a call."""
    if call.verb is Verb.BIND:
        return _bind(call.address, pod)
    return _connect(call, pod, routes, choose)


def decide_unix(verb: Verb, path: str) -> Decision:
    """What becomes of a call that is about a Unix socket."""
    if verb is Verb.CONNECT and path in _RESOLVER_DAEMONS:
        return Refuse(errno.ECONNREFUSED)
    return PROCEED


def _bind(address: Address, pod: Pod) -> Decision:
    ip, port = address
    if ip not in _LOCAL or (port == 0 and ip in _WILDCARDS):
        return PROCEED
    return BindTo(Address(pod.address, port))


def _connect(call: Call, pod: Pod, routes: Routes, choose: Choose) -> Decision:
    ip, port = call.address
    if ip in _LOCAL and (call.protocol, port) in pod.bound:
        return ConnectTo(Address(pod.address, port))
    route = routes.find(call.protocol, call.address)
    if route is not None:
        backend = route.backend(pod.address, choose)
        if backend is None:
            return Refuse(errno.ECONNREFUSED)
        return ConnectTo(backend, _source(call, pod, backend.ip))
    if call.protocol == "TCP" and routes.is_virtual(ip):
        # The real network would keep silent. UDP sockets proceed: the C library connects some,
        # with whatever port, only to learn which way an address lies.
        return Refuse(errno.ECONNREFUSED)
    if call.protocol == "TCP" and is_pod_address(ip):
        return ConnectTo(call.address, pod.address)
    return PROCEED


def _source(call: Call, pod: Pod, ip: str) -> str | None:
    """A UDP socket may be connected elsewhere later, where a pod's address does not lead."""
    return pod.address if call.protocol == "TCP" and is_pod_address(ip) else None
