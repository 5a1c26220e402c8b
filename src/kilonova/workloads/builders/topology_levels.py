"""Resolves topology levels that users name to node label keys that schedulers know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.api.json import JsonObject

ALL_LEVELS_AVAILABLE = "AllClusterTopologyLevelsAvailable"
LEVELS_UNAVAILABLE = "ClusterTopologyLevelsUnavailable"
TOPOLOGY_NOT_FOUND = "ClusterTopologyNotFound"
TOPOLOGY_NAME_MISSING = "TopologyNameMissing"
TOPOLOGY_DISABLED = "TopologyAwareSchedulingDisabled"

LevelsReason = Literal[
    "AllClusterTopologyLevelsAvailable",
    "ClusterTopologyLevelsUnavailable",
    "ClusterTopologyNotFound",
    "TopologyNameMissing",
    "TopologyAwareSchedulingDisabled",
]


@dataclass(frozen=True, slots=True)
class ResolvedLevels:
    """The levels that a set names, resolved; unavailable levels are omitted from gangs."""

    topology: str = ""
    """Name of the ClusterTopologyBinding in use; empty if none is."""
    node_label_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node label keys by the name of the level."""
    reason: LevelsReason | None = None
    """Whether all levels are available, and why not; None without constraints."""
    message: str = ""
    """The message of the condition."""
    missing: tuple[str, ...] = ()
    """Levels that are named and that the topology lacks."""

    @property
    def condition_status(self) -> str:
        """Status of the condition TopologyLevelsUnavailable."""
        return {ALL_LEVELS_AVAILABLE: "False", LEVELS_UNAVAILABLE: "True"}.get(
            self.reason or "", "Unknown"
        )

    def build_constraint(self, wanted: TopologyConstraint | None) -> JsonObject | None:
        """The constraint of a gang; None if no level of it is available."""
        sides = {"required": get_required_domain(wanted), "preferred": get_preferred_domain(wanted)}
        pack = {
            side: self.node_label_keys[domain]
            for side, domain in sides.items()
            if domain is not None and domain in self.node_label_keys
        }
        return {"packConstraint": pack} if pack else None

    def build_spread(self, wanted: SetTopologyConstraint | None, among: str) -> JsonObject | None:
        """How gangs with the same value of a label are spread; None without a spread constraint."""
        spread = wanted.spread if wanted is not None else None
        if spread is None or spread.domain not in self.node_label_keys:
            return None
        result: JsonObject = {"topologyKey": self.node_label_keys[spread.domain], "among": among}
        return {**result, "required": True} if spread.required else result


def resolve_levels(
    set_: PodCliqueSet,
    topologies: Mapping[str, ClusterTopologyBinding],
    *,
    enabled: bool = True,
) -> ResolvedLevels:
    """Resolve the levels that a set names among the existing topologies, given by name."""
    constraints = _list_constraints(set_)
    if not constraints:
        return ResolvedLevels()
    if not enabled:
        return ResolvedLevels(
            reason=TOPOLOGY_DISABLED, message="Topology-aware scheduling is disabled"
        )
    name = next((each.topology_name for each in constraints if each.topology_name), "")
    if not name:
        return ResolvedLevels(
            reason=TOPOLOGY_NAME_MISSING, message="No constraint of the set names a topology"
        )
    found = topologies.get(name)
    if found is None:
        message = f"ClusterTopologyBinding {name!r} does not exist"
        return ResolvedLevels(reason=TOPOLOGY_NOT_FOUND, message=message)
    keys = {level.domain: level.key for level in found.spec.levels}
    missing = tuple(sorted(set(_list_domains(constraints)) - keys.keys()))
    if missing:
        message = f"ClusterTopologyBinding {name!r} has no level {', '.join(missing)}"
        return ResolvedLevels(name, keys, LEVELS_UNAVAILABLE, message, missing)
    message = f"ClusterTopologyBinding {name!r} has all levels that the set names"
    return ResolvedLevels(name, keys, ALL_LEVELS_AVAILABLE, message)


def get_required_domain(constraint: TopologyConstraint | None) -> str | None:
    """The level within one domain of which all pods must be placed, if any."""
    if constraint is None:
        return None
    required = constraint.pack.required if constraint.pack is not None else None
    return required or constraint.pack_domain


def get_preferred_domain(constraint: TopologyConstraint | None) -> str | None:
    """The level within few domains of which pods should be placed, if any."""
    if constraint is None or constraint.pack is None:
        return None
    return constraint.pack.preferred


def _list_constraints(set_: PodCliqueSet) -> list[TopologyConstraint]:
    template = set_.spec.template
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    return [each.topology_constraint for each in parts if each.topology_constraint is not None]


def _list_domains(constraints: list[TopologyConstraint]) -> list[str]:
    found: list[str | None] = []
    for each in constraints:
        found += [get_required_domain(each), get_preferred_domain(each)]
        if isinstance(each, SetTopologyConstraint) and each.spread is not None:
            found.append(each.spread.domain)
    return [each for each in found if each is not None]
