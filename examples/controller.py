"""A complete controller: every namespace labelled `team` gets a ConfigMap that names the team.

kilonova up --detach --wait
export KUBECONFIG=~/.local/share/kilonova/default/kubeconfig
python examples/controller.py &
kubectl create namespace lab && kubectl label namespace lab team=blue
kubectl get configmap team -n lab -o yaml
"""

import asyncio

import msgspec

from kilonova.kube import Client, Controller, Key, Manager, Reflector, Resource, Watch, connect
from kilonova.kube.client.merge_patch import minimal_merge_patch

# Types have only the fields that are used: the parser skips the rest of a large object.


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class Namespace(msgspec.Struct):
    metadata: Metadata


class ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] = {}


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


def desire(namespace: Namespace) -> dict[str, str] | None:
    """All decisions are here, without I/O: the desired data of the ConfigMap, or None for none."""
    team = namespace.metadata.labels.get("team")
    if team is None or namespace.metadata.deletion_timestamp:
        return None
    return {"team": team}


class TeamConfig:
    """Observe the stores, compute `desire`, write what differs."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.namespaces = Reflector(client, NAMESPACES)
        self.config_maps = Reflector(client, CONFIG_MAPS, field_selector="metadata.name=team")
        self.controller = Controller(
            "team-config",
            self.reconcile,
            [
                Watch(self.namespaces),
                # A changed or deleted ConfigMap enqueues its namespace.
                Watch(self.config_maps, lambda each: [("", each.metadata.namespace)]),
            ],
        )

    async def reconcile(self, key: Key) -> None:
        namespace = self.namespaces.store.get(key)
        desired = desire(namespace) if namespace else None
        if desired is None:
            return
        present = self.config_maps.store.get((key[1], "team"))
        live = {"data": present.data} if present else {}
        if minimal_merge_patch(live, {"data": desired}) is None:
            return
        await self.client.apply(CONFIG_MAPS, "team", {"data": desired}, key[1])


async def main() -> None:
    async with connect(field_manager="team-config") as client:
        team_config = TeamConfig(client)
        manager = Manager()
        manager.add(team_config.namespaces, team_config.config_maps, team_config.controller)
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
