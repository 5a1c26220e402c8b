"""The state of one ADS stream: what a gateway subscribed to, has, and is to be sent next. Pure.

At most one response of each type is in flight: what changes meanwhile is sent with the answer to
it, so a slow gateway gets fewer, later versions. A gateway answers each response, with an ACK or a
NACK; after a NACK it keeps what it has of the type, and gets nothing of it until that changes.

Order. A type is sent when those before it (`ResourceType`) are settled, so that a route never names
a cluster that the gateway lacks, nor a cluster endpoints. What is taken away is taken away last:

- a cluster without which the new routes do, when these are acknowledged;
- the last endpoint of a cluster whose requests are to be held, when the routes that hold them are.

Endpoints wait for nothing: Envoy answers a change of clusters when it has their endpoints.

A resource that was never sent on the stream waits for nothing: the gateway waits for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kilonova.serving.controlplane.ads.snapshot import (
    COMPLETE_TYPES,
    EncodedResource,
    Resources,
    ResourceType,
    Snapshot,
    compute_version,
)

_ROUTING = (ResourceType.LISTENER, ResourceType.ROUTES)


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """A subscription, or the answer to a response."""

    type: ResourceType
    version: str = ""
    nonce: str = ""
    names: tuple[str, ...] = ()
    error: str = ""
    """Why the gateway rejects the response, in a NACK."""
    node: str = ""
    """The name of the gateway's pod."""
    service: str = ""
    """The service of the gateway: `NAMESPACE/NAME`."""


@dataclass(frozen=True, slots=True)
class DiscoveryResponse:
    """Resources to send."""

    type: ResourceType
    version: str
    nonce: str
    bodies: tuple[bytes, ...] = field(repr=False)


@dataclass(slots=True)
class _Subscription:
    names: frozenset[str] | None
    """None for all."""
    has: dict[str, EncodedResource] = field(default_factory=dict[str, EncodedResource])
    """What was sent."""
    unanswered: frozenset[str] = frozenset()
    """Names that were subscribed to since the last response."""
    is_waited_for: bool = True
    """The gateway waits for some of these: it has no version of them."""
    version: str = ""
    """Of what the gateway has or was sent."""
    nonce: str = ""
    is_pending: bool = False
    is_rejected: bool = False
    """The last response was: the gateway keeps what it had before."""


class GatewayStream:
    """One stream of one gateway."""

    def __init__(self) -> None:
        self._subscriptions: dict[ResourceType, _Subscription] = {}
        self._nonces = 0
        self.drains = False
        """The gateway is to close its listeners, because its pod is being deleted."""

    def receive(self, request: DiscoveryRequest) -> bool:
        """Take in a request; returns whether it answers the last response of its type."""
        sub = self._subscriptions.get(request.type)
        names = _select_names(request)
        if sub is None:
            # A gateway that connects again reports which version it has. Of endpoints, routes and
            # secrets it is sent all the same: of which resources the version is, is not known.
            self._subscriptions[request.type] = _Subscription(
                names,
                unanswered=names or frozenset(),
                is_waited_for=not request.version,
                version=request.version,
            )
            return False
        if request.nonce != sub.nonce:
            return False  # it answers a response that was followed by another one
        is_answer, sub.is_pending = sub.is_pending, False
        if is_answer:
            sub.is_rejected = bool(request.error)
            if sub.is_rejected and request.type not in COMPLETE_TYPES:
                sub.has = {}  # which of them it has now is not known: all are sent again
        if names is not None and sub.names is not None:
            added = names - sub.names
            sub.is_waited_for |= bool(added)
            sub.unanswered = (sub.unanswered | added) & names
            sub.has = {name: each for name, each in sub.has.items() if name in names}
        sub.names = names
        return is_answer

    def plan(self, snapshot: Snapshot) -> DiscoveryResponse | None:
        """The next response to send, if there is one. Call it until there is none, whenever a
        request was received or the snapshot changed."""
        earlier_settled = clusters_accepted = True
        for type_ in ResourceType:
            sub = self._subscriptions.get(type_)
            if sub is None:
                continue
            if sub.is_pending:
                earlier_settled = False
                continue
            wanted = self._select(type_, sub, snapshot)
            version = compute_version((name, each.version) for name, each in wanted.items())
            waits = type_ in _ROUTING and not (earlier_settled and clusters_accepted)
            response = self._respond(type_, sub, wanted, version, waits=waits)
            if response is not None:
                return response
            earlier_settled &= sub.version == version
            if type_ is ResourceType.CLUSTER:
                clusters_accepted = not sub.is_rejected
            if type_ is ResourceType.ENDPOINTS:
                earlier_settled &= snapshot.endpoint_names <= (sub.names or frozenset())
        return None

    @property
    def is_waiting(self) -> bool:
        """Whether a response is not answered yet."""
        return any(each.is_pending for each in self._subscriptions.values())

    def has_acknowledged(self, snapshot: Snapshot, type_: ResourceType) -> bool:
        """Whether the gateway has all that it subscribed to of a type, as it is now."""
        sub = self._subscriptions.get(type_)
        if sub is None or sub.is_pending or sub.is_rejected:
            return False
        wanted = self._select(type_, sub, snapshot)
        return sub.version == compute_version((name, each.version) for name, each in wanted.items())

    def _respond(
        self,
        type_: ResourceType,
        sub: _Subscription,
        wanted: Resources,
        version: str,
        *,
        waits: bool,
    ) -> DiscoveryResponse | None:
        new = sub.unanswered & wanted.keys()
        if sub.version == version and not new:
            if not sub.has and not sub.is_rejected:
                sub.has = dict(wanted)  # it has them from a former stream
            return None
        if waits and not sub.is_waited_for:
            return None
        if type_ in COMPLETE_TYPES:
            sent = dict(wanted)
        else:
            changed = {name for name, each in wanted.items() if sub.has.get(name) != each}
            sent = {name: wanted[name] for name in sorted({*changed, *new})}
            if not sent:
                # Resources that ceased to be are not sent: nothing refers to them any more.
                sub.version, sub.unanswered = version, frozenset()
                sub.has = dict(wanted)
                return None
        if type_ is ResourceType.CLUSTER:
            self._repeat_endpoints(name for name, each in sent.items() if sub.has.get(name) != each)
        self._nonces += 1
        sub.nonce, sub.version = str(self._nonces), version
        sub.is_pending, sub.is_rejected = True, False
        sub.unanswered, sub.is_waited_for = frozenset(), False
        sub.has = dict(wanted)
        bodies = tuple(each.body for each in sent.values())
        return DiscoveryResponse(type_, version, sub.nonce, bodies)

    def _repeat_endpoints(self, clusters: Iterable[str]) -> None:
        """Send the endpoints of clusters that change once more: the gateway waits for them, though
        it has them, before it uses a cluster and before it answers."""
        sub = self._subscriptions.get(ResourceType.ENDPOINTS)
        if sub is not None and sub.names is not None:
            sub.unanswered |= sub.names.intersection(clusters)

    def _select(self, type_: ResourceType, sub: _Subscription, snapshot: Snapshot) -> Resources:
        """What the gateway is to have now."""
        if type_ is ResourceType.LISTENER and self.drains:
            return {}
        found = snapshot.of_type(type_)
        if sub.names is not None:
            found = {name: found[name] for name in sub.names if name in found}
        if type_ is ResourceType.CLUSTER and sub.has.keys() - found.keys():
            if not self._is_routed(snapshot, rejected=False):
                return {**sub.has, **found}
        elif type_ is ResourceType.ENDPOINTS:
            held = snapshot.held_clusters & found.keys() & sub.has.keys()
            if held and not self._is_routed(snapshot, rejected=True):
                return {**found, **{name: sub.has[name] for name in held}}
        return found

    def _is_routed(self, snapshot: Snapshot, *, rejected: bool) -> bool:
        """Whether the gateway uses the listeners and routes of the snapshot. `rejected` is the
        answer for one that refuses them."""
        for type_ in _ROUTING:
            sub = self._subscriptions.get(type_)
            if sub is None:
                continue
            wanted = self._select(type_, sub, snapshot)
            version = compute_version((name, each.version) for name, each in wanted.items())
            if sub.is_pending or sub.version != version:
                return False
            if sub.is_rejected:
                return rejected
        return True


def _select_names(request: DiscoveryRequest) -> frozenset[str] | None:
    if request.type in COMPLETE_TYPES and (not request.names or "*" in request.names):
        return None
    return frozenset(request.names)
