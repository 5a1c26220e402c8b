"""A place with racks, for scenarios about topology, and who stands where in it.

Two blocks of two racks. The first rack is small, so that pods which may stand anywhere do not end
up together by chance. A cage is another way to look at the same machines.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import NotFound
from kilonova.local.nodes.fleet import NodeGroup
from tests.conftest import Api
from tests.local.embedded_cluster import NODES
from tests.workloads.ground import GANGS, TOPOLOGIES
from tests.workloads.manifests.load import manifest, set_of
from tests.workloads.scenarios.world import World, world

TOPOLOGY = "grove-topology"
CAGE = "example.com/cage"
_PREFIX = "kubernetes.io/"
_HOST = "hostname"


@asynccontextmanager
async def plant(api: Api) -> AsyncGenerator[World]:
    """A world with racks, and the binding that names its levels."""
    async with world(api, group=racks(api.namespace)) as stage:
        await stage.free(len(stage.nodes))
        await bind_topology(stage, topology())
        try:
            yield stage
        finally:
            await remove_topology(stage, TOPOLOGY)


def racks(namespace: str) -> list[NodeGroup]:
    small = [_hosts(namespace, 0, 1, memory, f"{memory}-") for memory in ("100Mi", "30Mi")]
    return [*small, *(_hosts(namespace, rack, 4, "150Mi") for rack in (1, 2, 3))]


def _hosts(namespace: str, rack: int, count: int, memory: str, infix: str = "") -> NodeGroup:
    labels = {
        f"{_PREFIX}zone": f"zone-{rack // 2}",
        f"{_PREFIX}block": f"block-{rack // 2}",
        f"{_PREFIX}rack": f"rack-{rack}",
        CAGE: "east" if rack in (0, 3) else "west",
    }
    name = f"{namespace}-r{rack}-{infix.lower()}".removesuffix("-")
    return NodeGroup(name, count, memory=memory, labels=labels, start="10ms", stop="10ms")


def topology() -> JsonObject:
    (found,) = manifest("topology")
    return found


async def bind_topology(stage: World, body: JsonObject) -> None:
    name = body["metadata"]["name"]
    await stage.client.apply(TOPOLOGIES, name, body, manager="person")


async def remove_topology(stage: World, name: str) -> None:
    try:
        await stage.client.delete(TOPOLOGIES, name)
    except NotFound:
        return


def constrained(
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
    body = set_of(name)
    template = body["spec"]["template"]
    _constrain(template, whole)
    for each in template.get("podCliqueScalingGroups", []):
        _constrain(each, (groups or {}).get(each["name"]))
        each |= group_fields
    for each in template["cliques"]:
        _constrain(each, (cliques or {}).get(each["name"]))
    return body


def within(required: str | None = None, preferred: str | None = None) -> JsonObject:
    """A constraint."""
    sides = {"required": required, "preferred": preferred}
    return {"topologyName": TOPOLOGY, "pack": {side: each for side, each in sides.items() if each}}


def _constrain(part: JsonObject, constraint: JsonObject | None) -> None:
    part.pop("topologyConstraint", None)
    if constraint is not None:
        part["topologyConstraint"] = constraint


async def told(stage: World, set_name: str) -> dict[str, dict[str, str]]:
    """What the gangs of a set say: the level for each part by its name, "" for the whole.

    Names are told without the set's, levels as `required~preferred`.
    """
    return {
        _short(gang, set_name): {
            _short(part, set_name): level
            for part, level in _constraints(found)
            if level is not None
        }
        for found in await stage.all(GANGS)
        if (gang := found["metadata"]["name"]).startswith(f"{set_name}-")
    }


def _short(name: str, set_name: str) -> str:
    return name.removeprefix(f"{set_name}-")


def _constraints(gang: Any) -> list[tuple[str, str | None]]:
    spec = gang["spec"]
    parts = [*spec.get("topologyConstraintGroupConfigs", []), *spec["podgroups"]]
    return [("", _level(spec)), *((each["name"], _level(each)) for each in parts)]


def _level(part: Any) -> str | None:
    pack = part.get("topologyConstraint", {}).get("packConstraint")
    if pack is None:
        return None
    sides = [_domain(pack[side]) for side in ("required", "preferred") if side in pack]
    return "~".join(sides) if "required" in pack else f"~{sides[0]}"


def _domain(key: str) -> str:
    return key.removeprefix(_PREFIX).replace(_HOST, "host")


async def see_packed(stage: World) -> None:
    """See every part of every gang stand in one domain of the level that is required for it."""
    for gang in await stage.all(GANGS):
        spec = gang["spec"]
        everyone = [each["name"] for each in spec["podgroups"]]
        parts = [
            (spec, everyone),
            *(
                (each, each["podGroupNames"])
                for each in spec.get("topologyConstraintGroupConfigs", [])
            ),
            *((each, [each["name"]]) for each in spec["podgroups"]),
        ]
        for part, cliques in parts:
            key = part.get("topologyConstraint", {}).get("packConstraint", {}).get("required")
            if key is not None:
                assert len(await domains(stage, key, *cliques)) == 1, (gang, key, cliques)


async def domains(stage: World, key: str, *cliques: str) -> set[str]:
    """The domains of a level in which pods of these cliques stand; of all, if none is named."""
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels", {})
        for each in (await stage.client.list(NODES)).items
    }
    return {
        labels[pod["spec"]["nodeName"]][key]
        for pod in await stage.pods()
        if not cliques or pod["metadata"]["labels"][names.POD_CLIQUE] in cliques
    }
