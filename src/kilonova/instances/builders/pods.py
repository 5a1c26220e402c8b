"""Pods of agents and of the conductor. Pure.

A pod is the pod template of its role with the accelerators, and with what its processes need to
find each other: agents join the conductor through its Service.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from kilonova.api.gpu.annotations import MIN_MEMORY
from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import DEFAULT_ACCELERATOR, PodTemplate, names
from kilonova.api.json import JsonObject
from kilonova.api.quantity import quantity_from_json
from kilonova.instances.allocation.strategy import NodePreference
from kilonova.instances.builders.engine import Engine, InvalidSpec
from kilonova.instances.builders.identity import Identity

_MEBIBYTE = 1 << 20
_HASH_LENGTH = 10


def build_agent_pod(
    identity: Identity,
    engine: Engine,
    index: int,
    *,
    scheduler_name: str,
    allocation: int = 0,
    generation: int = 0,
    node_preferences: Sequence[NodePreference] = (),
) -> JsonObject:
    """The pod of an agent, gated, as it is created; raises `InvalidSpec`."""
    labels = {names.AGENT_INDEX: str(index), grove_names.POD_INDEX: str(index)}
    variables = {"ENGINE_AGENT_INDEX": str(index)}
    pod = _build_pod(
        identity,
        engine,
        "agent",
        names.agent_pod(identity.name, index, generation),
        allocation,
        scheduler_name,
        labels,
        variables,
    )
    spec = pod["spec"]
    spec["containers"] = _with_accelerators(spec["containers"], engine)
    if engine.memory is not None and engine.count and engine.resource == DEFAULT_ACCELERATOR:
        mebibytes = -(-quantity_from_json(engine.memory).value // _MEBIBYTE)
        pod["metadata"]["annotations"].setdefault(MIN_MEMORY, str(mebibytes))
    if node_preferences:
        spec["affinity"] = _with_preferences(spec.get("affinity"), node_preferences)
    return pod


def build_conductor_pod(
    identity: Identity,
    engine: Engine,
    *,
    scheduler_name: str,
    allocation: int = 0,
    generation: int = 0,
    levels: Sequence[str] = (),
) -> JsonObject:
    """The pod of the conductor, gated, as it is created; raises `InvalidSpec`. It is preferably in
    the agents' domains of these levels."""
    pod = _build_pod(
        identity,
        engine,
        "conductor",
        names.conductor_pod(identity.name, generation),
        allocation,
        scheduler_name,
        {},
        {"ENGINE_PORT": str(names.HTTP_PORT)},
    )
    if levels:
        labels = pod["metadata"]["labels"]
        agents = {
            names.MODEL_INSTANCE: identity.name,
            names.ALLOCATION: labels[names.ALLOCATION],
            names.ROLE: "agent",
        }
        pod["spec"]["affinity"] = _with_neighbours(pod["spec"].get("affinity"), agents, levels)
    return pod


def compute_template_hash(engine: Engine) -> str:
    """The hash of everything that pods are made from."""
    spec = cast("JsonObject", msgspec.to_builtins(engine.spec))
    kept = {name: value for name, value in spec.items() if name not in _NOT_IN_PODS}
    used = [kept, engine.resource, engine.count, engine.memory, engine.image, engine.config]
    text = msgspec.json.encode(used, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]


_NOT_IN_PODS = frozenset({"targetAgents", "topology", "allocation", "repair", "queue"})
"""Fields of a spec that pods are not made from."""


def _build_pod(
    identity: Identity,
    engine: Engine,
    role: names.Role,
    name: str,
    allocation: int,
    scheduler_name: str,
    labels: dict[str, str],
    variables: dict[str, str],
) -> JsonObject:
    template = engine.spec.agent if role == "agent" else engine.spec.conductor
    given = template or PodTemplate()
    metadata = identity.build_metadata(name, allocation)
    gang = names.gang(identity.name, allocation)
    metadata["labels"] = {
        **given.metadata.labels,
        **metadata["labels"],
        names.ROLE: role,
        grove_names.POD_GANG: gang,
        **labels,
    }
    metadata["annotations"] = {
        **given.metadata.annotations,
        **metadata.get("annotations", {}),
        names.TEMPLATE_HASH: compute_template_hash(engine),
    }
    service = f"{names.join_service(identity.name, allocation)}.{identity.namespace}.svc"
    environment = {**_build_environment(service, engine, role), **variables, **engine.config}
    containers = _get_containers(given, engine, role)
    spec: JsonObject = {
        "schedulerName": scheduler_name,
        **given.spec,
        "containers": [_with_environment(each, environment) for each in containers],
        "schedulingGates": [*_list_gates(given), {"name": grove_names.POD_GANG_GATE}],
    }
    if engine.spec.priority_class_name:
        spec.setdefault("priorityClassName", engine.spec.priority_class_name)
    return {"metadata": metadata, "spec": spec}


def _build_environment(service: str, engine: Engine, role: names.Role) -> dict[str, str]:
    variables = {
        "ENGINE_ROLE": role,
        "ENGINE_MODEL": engine.spec.model,
        "ENGINE_AGENTS": str(engine.agents),
        "ENGINE_CONDUCTOR": f"{service}:{names.JOIN_PORT}",
        "ENGINE_TOKENIZER": engine.spec.tokenizer,
    }
    return {name: value for name, value in variables.items() if value}


def _get_containers(template: PodTemplate, engine: Engine, role: names.Role) -> list[JsonObject]:
    path = f"spec.{role}.spec.containers"
    given = template.spec.get("containers") or [{"name": role}]
    containers: list[JsonObject] = []
    for index, each in enumerate(cast("list[JsonObject]", given)):
        container = {**each, "image": each.get("image") or engine.image}
        if not container["image"]:
            fix = "set it, or set spec.image"
            raise InvalidSpec("NoImage", f"{path}[{index}].image", f"is missing: {fix}")
        containers.append(container)
    return containers


def _with_environment(container: JsonObject, variables: dict[str, str]) -> JsonObject:
    """A container with variables before its own, so that its own may refer to them; its own take
    precedence."""
    own: list[JsonObject] = list(container.get("env") or ())
    named = {each.get("name") for each in own}
    added = [
        {"name": name, "value": value} for name, value in variables.items() if name not in named
    ]
    return {**container, "env": [*added, *own]}


def _with_accelerators(containers: list[JsonObject], engine: Engine) -> list[JsonObject]:
    """Containers of which the first has the accelerators, unless one requests them itself."""
    if not engine.count or any(_requests(each, engine.resource) for each in containers):
        return containers
    first, *others = containers
    wanted: JsonObject = dict(first.get("resources") or {})
    for each in ("limits", "requests"):
        wanted[each] = {**(wanted.get(each) or {}), engine.resource: str(engine.count)}
    return [{**first, "resources": wanted}, *others]


def _requests(container: JsonObject, resource: str) -> bool:
    resources: JsonObject = container.get("resources") or {}
    return any(resource in (resources.get(each) or {}) for each in ("limits", "requests"))


def _with_preferences(affinity: Any, preferences: Iterable[NodePreference]) -> JsonObject:
    """An affinity with preferred nodes beside its own."""
    given = cast("JsonObject", affinity or {})
    node: JsonObject = given.get("nodeAffinity") or {}
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [
        {
            "weight": each.weight,
            "preference": {
                "matchExpressions": [
                    {"key": label, "operator": "In", "values": [value]}
                    for label, value in sorted(each.labels.items())
                ]
            },
        }
        for each in preferences
    ]
    return {**given, "nodeAffinity": {**node, key: [*(node.get(key) or ()), *terms]}}


def _with_neighbours(affinity: Any, labels: dict[str, str], levels: Iterable[str]) -> JsonObject:
    """An affinity that prefers domains with pods of these labels, beside its own: the more levels
    are shared with them, the better."""
    given = cast("JsonObject", affinity or {})
    pods: JsonObject = given.get("podAffinity") or {}
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    selector = {"matchLabels": labels}
    terms = [
        {"weight": 100, "podAffinityTerm": {"topologyKey": level, "labelSelector": selector}}
        for level in levels
    ]
    return {**given, "podAffinity": {**pods, key: [*(pods.get(key) or ()), *terms]}}


def _list_gates(template: PodTemplate) -> list[JsonObject]:
    gates = cast("list[JsonObject]", template.spec.get("schedulingGates") or [])
    return [each for each in gates if each.get("name") != grove_names.POD_GANG_GATE]
