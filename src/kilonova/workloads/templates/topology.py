"""From the levels that people name to the node labels that a scheduler knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.api.json import JsonObject

ALL_AVAILABLE = "AllClusterTopologyLevelsAvailable"
UNAVAILABLE = "ClusterTopologyLevelsUnavailable"
NOT_FOUND = "ClusterTopologyNotFound"
NAME_MISSING = "TopologyNameMissing"
DISABLED = "TopologyAwareSchedulingDisabled"

Reason = Literal[
    "AllClusterTopologyLevelsAvailable",
    "ClusterTopologyLevelsUnavailable",
    "ClusterTopologyNotFound",
    "TopologyNameMissing",
    "TopologyAwareSchedulingDisabled",
]


@dataclass(frozen=True, slots=True)
class Levels:
    """What the levels that a set names come to; what can not be had is left out of gangs."""

    topology: str = ""
    """Name of the ClusterTopologyBinding that is used; empty where none is."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node label keys by the name of the level."""
    reason: Reason | None = None
    """Whether all levels can be had, and if not, why; None where nothing is constrained."""
    message: str = ""
    """The same for people."""
    missing: tuple[str, ...] = ()
    """Levels that are asked for and that the topology does not have."""

    @property
    def unavailable(self) -> str:
        """Status of the condition TopologyLevelsUnavailable."""
        return {ALL_AVAILABLE: "False", UNAVAILABLE: "True"}.get(self.reason or "", "Unknown")

    def constraint(self, wanted: TopologyConstraint | None) -> JsonObject | None:
        """A constraint as a gang has it; None where nothing is left of it."""
        sides = {"required": required_domain(wanted), "preferred": preferred_domain(wanted)}
        pack = {
            side: self.keys[domain]
            for side, domain in sides.items()
            if domain is not None and domain in self.keys
        }
        return {"packConstraint": pack} if pack else None

    def spread(self, wanted: SetTopologyConstraint | None, among: str) -> JsonObject | None:
        """How gangs with the same value of a label keep apart; None where they need not."""
        apart = wanted.spread if wanted is not None else None
        if apart is None or apart.domain not in self.keys:
            return None
        result: JsonObject = {"topologyKey": self.keys[apart.domain], "among": among}
        return {**result, "required": True} if apart.required else result


def levels_of(
    set_: PodCliqueSet,
    topologies: Mapping[str, ClusterTopologyBinding],
    *,
    enabled: bool = True,
) -> Levels:
    """The levels that a set names, among the topologies that there are, by their names."""
    constraints = _constraints(set_)
    if not constraints:
        return Levels()
    if not enabled:
        return Levels(reason=DISABLED, message="Topology-aware scheduling is turned off")
    name = next((each.topology_name for each in constraints if each.topology_name), "")
    if not name:
        return Levels(reason=NAME_MISSING, message="No constraint of the set names a topology")
    found = topologies.get(name)
    if found is None:
        message = f"There is no ClusterTopologyBinding {name!r}"
        return Levels(reason=NOT_FOUND, message=message)
    keys = {level.domain: level.key for level in found.spec.levels}
    missing = tuple(sorted(set(_domains(constraints)) - keys.keys()))
    if missing:
        message = f"ClusterTopologyBinding {name!r} has no level {', '.join(missing)}"
        return Levels(name, keys, UNAVAILABLE, message, missing)
    message = f"ClusterTopologyBinding {name!r} has all levels that the set names"
    return Levels(name, keys, ALL_AVAILABLE, message)


def required_domain(constraint: TopologyConstraint | None) -> str | None:
    """The level in one domain of which all must stand, if any."""
    if constraint is None:
        return None
    required = constraint.pack.required if constraint.pack is not None else None
    return required or constraint.pack_domain


def preferred_domain(constraint: TopologyConstraint | None) -> str | None:
    """The level in few domains of which they should stand, if any."""
    if constraint is None or constraint.pack is None:
        return None
    return constraint.pack.preferred


def _constraints(set_: PodCliqueSet) -> list[TopologyConstraint]:
    template = set_.spec.template
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    return [each.topology_constraint for each in parts if each.topology_constraint is not None]


def _domains(constraints: list[TopologyConstraint]) -> list[str]:
    found: list[str | None] = []
    for each in constraints:
        found += [required_domain(each), preferred_domain(each)]
        if isinstance(each, SetTopologyConstraint) and each.spread is not None:
            found.append(each.spread.domain)
    return [each for each in found if each is not None]
