"""What is wrong with the configuration of gateways: the condition ConfigurationAccepted."""

from kilonova.serving.controlplane.ads.connections import GatewayConnections
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.controlplane.publisher import Publisher
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.providers import Listener


class GatewayConfigurations:
    """`providers.GatewayProblems`, of the gateways that are connected to this process."""

    def __init__(
        self, publications: Publications, connections: GatewayConnections, publisher: Publisher
    ) -> None:
        self._publications = publications
        self._connections = connections
        self._publisher = publisher

    def count_connected(self, key: ServiceKey) -> int:
        """The gateways that have an open stream."""
        return len(self._connections.list_gateways(key))

    def list_problems(self, key: ServiceKey) -> tuple[str, ...]:
        """What was not built, not accepted, or left out; empty if nothing is wrong."""
        published = self._publications.get(key)
        known = (*published.state.secrets.problems, *published.warnings) if published else ()
        rejected = sorted(
            f"gateway {each.node} rejected {type_.short_name}: {error}"
            for each in self._connections.list_gateways(key)
            for type_, error in each.rejections.items()
        )
        return (*self._publisher.list_failures(key), *known, *rejected)

    def is_closed(self, key: ServiceKey) -> bool:
        """Whether the gateways refuse all requests: Secrets are missing or invalid."""
        published = self._publications.get(key)
        return published is not None and bool(published.state.secrets.problems)

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever the answer may have changed."""
        self._publications.add_listener(listener)
        self._connections.add_listener(listener)
