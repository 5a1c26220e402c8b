"""Snapshot files of version 1: the same content as version 2, with former names of fields, and
without the memory and multiprocessors of MIG profiles."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.catalog.mig import geometry_named

_CLUSTER = {
    "bookings": "placements",
    "standing": "running_gangs",
    "waiting": "pending_gangs",
    "not_yet": "not_ready",
}
_POLICY = {"evicts": "preemption_enabled"}
_WEIGHTS = {"wishes": "preferences"}
_GANG = {
    "apart": "anti_affinity",
    "within": "base_nodes",
    "room": "reservation",
    "before": "previous_nodes",
}
_ANTI_AFFINITY = {"others": "avoided_nodes", "among": "group_key"}
_GROUP = {"standing": "placed_members", "placed": "placed_nodes", "coming": "expected_pods"}
_MEMBER = {"leaving": "terminating", "returns": "has_controller"}
_SHAPE = {
    "selector": "node_selector",
    "one_of": "required_node_terms",
    "preferred": "preferred_node_terms",
    "avoided": "avoided_nodes",
    "peers": "pod_rules",
}
_POD_RULES = {
    "near": "affinity",
    "apart": "anti_affinity",
    "liked": "preferred",
    "spreads": "topology_spread",
    "first_of_kind": "matches_own_affinity",
    "own_affinity": "has_node_affinity",
}
_POD_TERM = {
    "kind": "selector",
    "most": "max_skew",
    "least_domains": "min_domains",
    "by_affinity": "honors_node_affinity",
    "by_taints": "honors_taints",
    "counts_itself": "matches_itself",
}
"""Of affinity terms and topology spread constraints."""
_POD_SELECTOR = {"staying": "excludes_terminating"}


def migrate_from_version_1(document: JsonObject) -> None:
    """Convert a document; values of wrong types are left for validation to report."""
    _rename_keys(document, _CLUSTER)
    for policy in _objects_at(document, "policy"):
        _rename_keys(policy, _POLICY)
    for weights in _objects_at(document, "weights"):
        _rename_keys(weights, _WEIGHTS)
    for shape in _objects_at(document, "shapes"):
        _rename_keys(shape, _SHAPE)
        for rules in _objects_at(shape, "pod_rules"):
            _rename_in_pod_rules(rules)
    for placement in _objects_at(document, "placements"):
        for member in _objects_at(placement, "member"):
            _rename_keys(member, _MEMBER)
    for gang in _objects_at(document, "pending_gangs"):
        _rename_in_gang(gang)
    for running_gang in _objects_at(document, "running_gangs"):
        for gang in _objects_at(running_gang, "gang"):
            _rename_in_gang(gang)
    for layout in _objects_at(document, "layouts"):
        for gpu in _objects_at(layout, "gpus"):
            for geometry in _objects_at(gpu, "mig"):
                _complete_mig_profiles(geometry)


def _complete_mig_profiles(geometry: JsonObject) -> None:
    known = geometry_named(str(geometry.get("name")))
    for profile in _objects_at(geometry, "profiles"):
        found = known.profile(str(profile.get("name"))) if known is not None else None
        if found is not None:
            profile.setdefault("memory", found.memory)
            profile.setdefault("sms", found.sms)


def _rename_in_pod_rules(rules: JsonObject) -> None:
    _rename_keys(rules, _POD_RULES)
    for terms in ("affinity", "anti_affinity", "preferred", "topology_spread"):
        for term in _objects_at(rules, terms):
            _rename_keys(term, _POD_TERM)
            for selector in _objects_at(term, "selector"):
                _rename_keys(selector, _POD_SELECTOR)


def _rename_in_gang(gang: JsonObject) -> None:
    _rename_keys(gang, _GANG)
    for anti_affinity in _objects_at(gang, "anti_affinity"):
        _rename_keys(anti_affinity, _ANTI_AFFINITY)
    for group in _objects_at(gang, "groups"):
        _rename_keys(group, _GROUP)
        for members in ("members", "placed_members"):
            for member in _objects_at(group, members):
                _rename_keys(member, _MEMBER)


def _objects_at(parent: JsonObject, key: str) -> Iterator[JsonObject]:
    """The object at a key, or the objects in the list there and in lists within it."""
    remaining: list[Any] = [parent.get(key)]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            yield cast(JsonObject, value)
        elif isinstance(value, list):
            remaining.extend(cast(list[Any], value))


def _rename_keys(values: JsonObject, names: Mapping[str, str]) -> None:
    for former, name in names.items():
        if former in values:
            values.setdefault(name, values.pop(former))
