"""Checks of a cluster: permissions, CRDs and nodes."""

from collections.abc import Collection, Iterator, Sequence
from typing import cast

from kilonova.api.json import JsonObject
from kilonova.cli.doctor.facts import ClusterFacts, Permission
from kilonova.component import Component
from kilonova.component.command.output.formats import pluralize
from kilonova.component.finding import Finding, ok, problem, warning

_STALE_NODE_SECONDS = 60.0
_MAX_CLOCK_LEAD_SECONDS = 10.0
_MAX_NAMES = 3


def check_permissions(denied: Sequence[Permission]) -> Iterator[Finding]:
    """Permissions that this user lacks, by the commands that need them."""
    if not denied:
        yield ok("permissions", "all that the commands need")
    by_purpose: dict[str, list[str]] = {}
    for permission in denied:
        by_purpose.setdefault(permission.purpose, []).append(str(permission))
    for purpose, permissions in by_purpose.items():
        yield warning(
            "permissions",
            f"{purpose} will be forbidden: you may not {', '.join(permissions)}",
            "ask for a role with these permissions",
        )


def check_definitions(
    wanted: Sequence[JsonObject],
    stored: dict[str, JsonObject] | None,
    registered: Sequence[Component],
) -> Iterator[Finding]:
    """Whether our CRDs are installed, served, and of this version."""
    if stored is None:
        yield warning("CRDs", "cannot be listed", "ask for permission to list them")
        return
    left_out = components_not_installed(registered, stored)
    needed = {kind for each in registered if each.name not in left_out for kind in each.kinds}
    specs = {
        str(each["metadata"]["name"]): each["spec"]
        for each in wanted
        if each["metadata"]["name"] in needed
    }
    absent = [name for name in specs if name not in stored]
    differing = [
        name
        for name, spec in specs.items()
        if name in stored and not _contains(stored[name]["spec"], spec)
    ]
    unserved = [name for name in specs if name in stored and not _is_established(stored[name])]
    if len(absent) == len(specs):
        yield problem("CRDs", "none of Kilonova's is installed", "run `kilonova install`")
    elif absent:
        yield problem("CRDs", f"missing: {', '.join(absent)}", "run `kilonova install`")
    if unserved:
        yield problem("CRDs", f"not served: {', '.join(unserved)}", "see `kubectl describe crd`")
    if differing:
        yield warning(
            "CRDs", f"of another version: {', '.join(differing)}", "run `kilonova install`"
        )
    if not (absent or unserved or differing):
        others = f"; not installed: those of {', '.join(left_out)}" if left_out else ""
        yield ok("CRDs", f"all {len(specs)} are served, in this version{others}")


def components_not_installed(registered: Sequence[Component], stored: Collection[str]) -> list[str]:
    """Components of which no CRD is installed, beside those that installed components need too.

    They were not selected by `kilonova install --components`.
    """
    complete = [each for each in registered if each.kinds and set(each.kinds) <= set(stored)]
    shared = {kind for each in complete for kind in each.kinds}
    return [
        each.name
        for each in registered
        if each.kinds and complete and not (set(each.kinds) - shared) & set(stored)
        if each not in complete
    ]


def _contains(stored: object, wanted: object) -> bool:
    """Whether all of `wanted` is in `stored`, to which the server has added defaults."""
    if isinstance(wanted, dict):
        if not isinstance(stored, dict):
            return False
        have, want = cast("JsonObject", stored), cast("JsonObject", wanted)
        return all(name in have and _contains(have[name], each) for name, each in want.items())
    if isinstance(wanted, list):
        if not isinstance(stored, list):
            return False
        some, others = cast("list[object]", stored), cast("list[object]", wanted)
        return len(some) == len(others) and all(map(_contains, some, others))
    return stored == wanted


def _is_established(definition: JsonObject) -> bool:
    conditions: list[JsonObject] = definition.get("status", {}).get("conditions") or []
    return any(
        each.get("type") == "Established" and each.get("status") == "True" for each in conditions
    )


def check_nodes(cluster: ClusterFacts) -> Finding:
    """Whether nodes renew their Leases, and their clocks agree with the server's."""
    if cluster.nodes is None:
        return warning("nodes", "cannot be listed", "ask for permission to list nodes")
    if not cluster.nodes:
        return warning("nodes", "there are none", "add some, or start `kilonova up` with a fleet")
    if cluster.node_leases is None:
        found = f"{pluralize(len(cluster.nodes), 'node')}, whose Leases cannot be listed"
        return warning("nodes", found, "ask for permission to list leases")
    now = cluster.now if cluster.server_time is None else cluster.server_time
    ages = {lease.name: now - lease.renewed for lease in cluster.node_leases if lease.renewed}
    ahead = [name for name in cluster.nodes if ages.get(name, 0.0) < -_MAX_CLOCK_LEAD_SECONDS]
    stale = [name for name in cluster.nodes if ages.get(name, 0.0) > _STALE_NODE_SECONDS]
    without = [name for name in cluster.nodes if name not in ages]
    if ahead:
        return warning(
            "nodes",
            f"the clocks are ahead on {_abbreviate_names(ahead)}",
            "synchronise them by NTP",
        )
    if stale or without:
        fresh = len(cluster.nodes) - len(stale) - len(without)
        found = f"{fresh} of {len(cluster.nodes)} have a fresh Lease"
        found += f"; not renewed for a minute: {_abbreviate_names(stale)}" if stale else ""
        found += f"; without a Lease: {_abbreviate_names(without)}" if without else ""
        return warning("nodes", found, "see `kubectl describe node`")
    return ok("nodes", f"{pluralize(len(cluster.nodes), 'node')}, all with a fresh Lease")


def _abbreviate_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
