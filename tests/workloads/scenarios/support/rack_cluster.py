"""A cluster with racks for topology scenarios, and where pods are placed in it.

Two blocks of two racks. The first rack is small, so that unconstrained pods do not end up together
by chance. A cage is another topology over the same machines.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import NotFound
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.local.embedded_cluster import NODES
from tests.workloads.manifests.load import load_manifest, load_set
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import GANGS, TOPOLOGY_BINDINGS

TOPOLOGY = "grove-topology"
CAGE = "example.com/cage"
_PREFIX = "kubernetes.io/"
_HOST_LEVEL = "hostname"


@asynccontextmanager
async def rack_cluster(api: ScenarioApi) -> AsyncGenerator[ScenarioCluster]:
    """A cluster with racks, and the binding that names its levels."""
    async with scenario_cluster(api, node_groups=build_racks(api.namespace)) as cluster:
        await cluster.uncordon_nodes(len(cluster.nodes))
        await bind_topology(cluster, load_topology())
        try:
            yield cluster
        finally:
            await remove_topology(cluster, TOPOLOGY)


def build_racks(namespace: str) -> list[NodeGroup]:
    small = [_build_nodes(namespace, 0, 1, memory, f"{memory}-") for memory in ("100Mi", "30Mi")]
    return [*small, *(_build_nodes(namespace, rack, 4, "150Mi") for rack in (1, 2, 3))]


def _build_nodes(namespace: str, rack: int, count: int, memory: str, infix: str = "") -> NodeGroup:
    labels = {
        f"{_PREFIX}zone": f"zone-{rack // 2}",
        f"{_PREFIX}block": f"block-{rack // 2}",
        f"{_PREFIX}rack": f"rack-{rack}",
        CAGE: "east" if rack in (0, 3) else "west",
    }
    name = f"{namespace}-r{rack}-{infix.lower()}".removesuffix("-")
    return NodeGroup(name, count, memory=memory, labels=labels, start="10ms", stop="10ms")


def load_topology() -> JsonObject:
    (found,) = load_manifest("topology")
    return found


async def bind_topology(cluster: ScenarioCluster, body: JsonObject) -> None:
    name = body["metadata"]["name"]
    await cluster.client.apply(TOPOLOGY_BINDINGS, name, body, field_manager="person")


async def remove_topology(cluster: ScenarioCluster, name: str) -> None:
    try:
        await cluster.client.delete(TOPOLOGY_BINDINGS, name)
    except NotFound:
        return


def with_constraints(
    name: str,
    *,
    whole: JsonObject | None = None,
    groups: JsonObject | None = None,
    cliques: JsonObject | None = None,
    **group_fields: Any,
) -> JsonObject:
    """The set of a manifest with these constraints instead of its own, by scaling group and clique.

    `group_fields` are laid over every scaling group.
    """
    body = load_set(name)
    template = body["spec"]["template"]
    _set_constraint(template, whole)
    for each in template.get("podCliqueScalingGroups", []):
        _set_constraint(each, (groups or {}).get(each["name"]))
        each |= group_fields
    for each in template["cliques"]:
        _set_constraint(each, (cliques or {}).get(each["name"]))
    return body


def pack_constraint(required: str | None = None, preferred: str | None = None) -> JsonObject:
    """A constraint."""
    sides = {"required": required, "preferred": preferred}
    return {"topologyName": TOPOLOGY, "pack": {side: each for side, each in sides.items() if each}}


def _set_constraint(part: JsonObject, constraint: JsonObject | None) -> None:
    part.pop("topologyConstraint", None)
    if constraint is not None:
        part["topologyConstraint"] = constraint


async def list_gang_constraints(
    cluster: ScenarioCluster, set_name: str
) -> dict[str, dict[str, str]]:
    """The constraints of a set's gangs: the level of each part by name, "" for the whole gang.

    Names are without the set's prefix, levels as `required~preferred`.
    """
    return {
        _strip_set_name(gang, set_name): {
            _strip_set_name(part, set_name): level
            for part, level in _list_constraints(found)
            if level is not None
        }
        for found in await cluster.list_objects(GANGS)
        if (gang := found["metadata"]["name"]).startswith(f"{set_name}-")
    }


def _strip_set_name(name: str, set_name: str) -> str:
    return name.removeprefix(f"{set_name}-")


def _list_constraints(gang: Any) -> list[tuple[str, str | None]]:
    spec = gang["spec"]
    parts = [*spec.get("topologyConstraintGroupConfigs", []), *spec["podgroups"]]
    return [("", _format_level(spec)), *((each["name"], _format_level(each)) for each in parts)]


def _format_level(part: Any) -> str | None:
    pack = part.get("topologyConstraint", {}).get("packConstraint")
    if pack is None:
        return None
    sides = [_get_domain(pack[side]) for side in ("required", "preferred") if side in pack]
    return "~".join(sides) if "required" in pack else f"~{sides[0]}"


def _get_domain(key: str) -> str:
    return key.removeprefix(_PREFIX).replace(_HOST_LEVEL, "host")


async def assert_packed(cluster: ScenarioCluster) -> None:
    """Assert that every part of every gang is in one domain of its required level."""
    for gang in await cluster.list_objects(GANGS):
        spec = gang["spec"]
        all_pods = [each["name"] for each in spec["podgroups"]]
        parts = [
            (spec, all_pods),
            *(
                (each, each["podGroupNames"])
                for each in spec.get("topologyConstraintGroupConfigs", [])
            ),
            *((each, [each["name"]]) for each in spec["podgroups"]),
        ]
        for part, cliques in parts:
            key = part.get("topologyConstraint", {}).get("packConstraint", {}).get("required")
            if key is not None:
                assert len(await list_domains(cluster, key, *cliques)) == 1, (gang, key, cliques)


async def list_domains(cluster: ScenarioCluster, key: str, *cliques: str) -> set[str]:
    """The domains of a level with pods of these cliques; of all, if none is given."""
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels", {})
        for each in (await cluster.client.list(NODES)).items
    }
    return {
        labels[pod["spec"]["nodeName"]][key]
        for pod in await cluster.list_pods()
        if not cliques or pod["metadata"]["labels"][names.POD_CLIQUE] in cliques
    }
