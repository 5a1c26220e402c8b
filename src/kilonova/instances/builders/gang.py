"""The PodGang of an allocation: all agents and the conductor, which start together. Pure."""

from collections.abc import Iterable

from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.api.scheduling_names import AVOID_NODES, QUEUE
from kilonova.instances.allocation.strategy import AllocationConstraints
from kilonova.instances.builders.engine import Engine
from kilonova.instances.builders.identity import Identity

AGENTS, CONDUCTOR = "agents", "conductor"
"""The names of the groups."""


def build_gang(
    identity: Identity,
    engine: Engine,
    constraints: AllocationConstraints,
    *,
    agents: Iterable[str],
    conductor: str,
    allocation: int = 0,
    level: str = "",
    avoided_nodes: Iterable[str] = (),
    reservation: str = "",
) -> JsonObject:
    """The gang of the pods with these names. `level` is that of the domain which agents must not
    leave, where they have one already."""
    metadata = identity.build_metadata(names.gang(identity.name, allocation), allocation)
    if engine.spec.queue:
        metadata["labels"][QUEUE] = engine.spec.queue
    avoided = sorted({*constraints.avoided_nodes, *avoided_nodes})
    if avoided:
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            AVOID_NODES: ",".join(avoided),
        }
    required = level or engine.required or constraints.required
    preferred = [each for each in list_preferred_levels(engine, constraints) if each != required]
    *outer, inner = preferred or [""]
    group = _build_group(identity, AGENTS, sorted(agents), engine.agents)
    spec: JsonObject = {
        "podgroups": [group, _build_group(identity, CONDUCTOR, [conductor], 1)],
    }
    if outer:
        # The most preferred level is the outermost: without capacity there, the next one is tried.
        spec["topologyConstraintGroupConfigs"] = [
            {
                "name": f"{AGENTS}-{number}",
                "podGroupNames": [AGENTS],
                **_constrain("" if number else required, each),
            }
            for number, each in enumerate(outer)
        ]
        group |= _constrain("", inner)
    else:
        group |= _constrain(required, inner)
    if constraints.spread and names.DEPLOYMENT in metadata["labels"]:
        spec["spread"] = {"topologyKey": constraints.spread, "among": names.DEPLOYMENT}
    if engine.spec.priority_class_name:
        spec["priorityClassName"] = engine.spec.priority_class_name
    if reservation:
        spec["reuseReservationRef"] = {"namespace": identity.namespace, "name": reservation}
    return {"metadata": metadata, "spec": spec}


def list_constrained_levels(engine: Engine, constraints: AllocationConstraints) -> set[str]:
    """The levels that agents are packed into."""
    required = engine.required or constraints.required
    return {required, *list_preferred_levels(engine, constraints)} - {""}


def list_preferred_levels(engine: Engine, constraints: AllocationConstraints) -> tuple[str, ...]:
    """The levels that agents are preferably packed into, the most preferred first."""
    return (engine.preferred,) if engine.preferred else constraints.preferred


def _build_group(identity: Identity, name: str, pods: list[str], minimum: int) -> JsonObject:
    return {
        "name": name,
        "podReferences": [{"namespace": identity.namespace, "name": each} for each in pods],
        "minReplicas": minimum,
    }


def _constrain(required: str, preferred: str) -> JsonObject:
    pack = {"required": required, "preferred": preferred}
    present = {key: value for key, value in pack.items() if value}
    return {"topologyConstraint": {"packConstraint": present}} if present else {}
