"""What a configuration is rendered from, and what follows from it for several of its parts."""

from dataclasses import dataclass

from kilonova.api.serving import InferenceServiceSpec, ServerGroup
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER
from kilonova.serving.gateway.model import Endpoint, EndpointState, GatewayState, ServiceKey
from kilonova.serving.gateway.stat_names import ServerPort


@dataclass(frozen=True, slots=True)
class GatewayInputs:
    """A service, and its state."""

    key: ServiceKey
    spec: InferenceServiceSpec
    state: GatewayState

    def get_group(self, name: str) -> ServerGroup:
        """A group of servers; routes only name those that there are."""
        return next(each for each in self.spec.servers if each.name == name)

    def list_ready(self, group: str) -> list[Endpoint]:
        """The servers of a group that take requests."""
        endpoints = self.state.endpoints.get(group, ())
        return [each for each in endpoints if each.state is EndpointState.READY]

    def is_ready(self, group: str) -> bool:
        """Whether any server of the group takes requests."""
        return bool(self.list_ready(group))

    def is_starting(self, group: str) -> bool:
        """Whether requests of the group are held until its first server is ready."""
        return group in self.state.starting and not self.is_ready(group)

    def has_placement(self) -> bool:
        """Whether some servers have other models than others."""
        return any(list_placed_models(each) for each in self.spec.servers)

    def hashes(self, source: str) -> bool:
        """Whether servers are chosen by a key of this source."""
        balancing = self.spec.gateway.load_balancing
        return balancing.policy in ("RingHash", "Maglev") and any(
            each.source == source for each in balancing.hash
        )

    def reads_models(self) -> bool:
        """Whether anything depends on the model that a request names. If not, no body is read."""
        return (
            any(each.models for each in self.spec.routes)
            or self.has_placement()
            or self.hashes("Model")
        )

    def reads_bodies(self) -> bool:
        """Whether requests wait in the gateway until enough of their body was read."""
        return self.reads_models() or self.hashes("PromptPrefix")

    def routes_by_client(self) -> bool:
        """Whether any route depends on who the client is."""
        matched = (each for route in self.spec.routes for each in route.headers)
        return any(each.name.lower() == CLIENT_HEADER for each in matched)

    def changes_routes(self) -> bool:
        """Whether the route of a request is chosen again, after filters found out more about it."""
        return self.reads_bodies() or self.routes_by_client()

    def divide(self, limit: int) -> int:
        """The part of a limit that each of the gateways enforces."""
        return max(1, -(-limit // max(1, self.state.gateways)))


def has_port(group: ServerGroup, port: ServerPort) -> bool:
    """Whether servers of the group have the port."""
    return bool(group.ports.grpc if port == "grpc" else group.ports.http)


def list_placed_models(group: ServerGroup) -> list[str]:
    """The models that are loaded at run time, on some of the servers."""
    return [] if group.model_placement is None else [m.name for m in group.model_placement.models]
