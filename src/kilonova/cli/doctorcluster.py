"""What `kilonova doctor` makes of a cluster: rights, kinds, leaders and nodes."""

from collections.abc import Iterator, Sequence
from typing import cast

from kilonova.api.json import JsonObject
from kilonova.api.times import human_duration
from kilonova.cli.doctorfacts import Cluster, Lease, Right
from kilonova.cli.doctorfinding import Finding, ok, problem, warning
from kilonova.cli.process import NAMESPACE
from kilonova.cli.served import EMBEDDED
from kilonova.cli.tables import counted

_PARTS = ("operator", "scheduler")
_STALE_NODE = 60.0
_AHEAD = 10.0
_NAMED = 3


def right_findings(denied: Sequence[Right]) -> Iterator[Finding]:
    """What this user may not do, by the commands that want it."""
    if not denied:
        yield ok("rights", "all that the commands need")
    by_purpose: dict[str, list[str]] = {}
    for right in denied:
        by_purpose.setdefault(right.purpose, []).append(str(right))
    for purpose, rights in by_purpose.items():
        yield warning(
            "rights",
            f"{purpose} will be refused: you may not {', '.join(rights)}",
            "ask for a role with these rights",
        )


def definition_findings(
    wanted: Sequence[JsonObject], stored: dict[str, JsonObject] | None
) -> Iterator[Finding]:
    """Whether our kinds are there, served, and those of this version."""
    if stored is None:
        yield warning("kinds", "can not be seen", "ask for the right to list definitions")
        return
    names = [str(each["metadata"]["name"]) for each in wanted]
    absent = [name for name in names if name not in stored]
    there = [each for each in wanted if each["metadata"]["name"] in stored]
    other = [
        name
        for name, each in ((str(each["metadata"]["name"]), each) for each in there)
        if not _holds(stored[name]["spec"], each["spec"])
    ]
    unserved = [name for name in names if name in stored and not _is_served(stored[name])]
    if len(absent) == len(names):
        yield problem("kinds", "none of Kilonova's is on this cluster", "run `kilonova install`")
    elif absent:
        yield problem("kinds", f"missing: {', '.join(absent)}", "run `kilonova install`")
    if unserved:
        yield problem("kinds", f"not served: {', '.join(unserved)}", "see `kubectl describe crd`")
    if other:
        yield warning("kinds", f"of another version: {', '.join(other)}", "run `kilonova install`")
    if not (absent or unserved or other):
        yield ok("kinds", f"all {len(names)} are served, in this version")


def _holds(stored: object, wanted: object) -> bool:
    """Whether all that is wanted is stored; servers add defaults to it."""
    if isinstance(wanted, dict):
        if not isinstance(stored, dict):
            return False
        have, want = cast("JsonObject", stored), cast("JsonObject", wanted)
        return all(name in have and _holds(have[name], each) for name, each in want.items())
    if isinstance(wanted, list):
        if not isinstance(stored, list):
            return False
        some, others = cast("list[object]", stored), cast("list[object]", wanted)
        return len(some) == len(others) and all(map(_holds, some, others))
    return stored == wanted


def _is_served(definition: JsonObject) -> bool:
    conditions: list[JsonObject] = definition.get("status", {}).get("conditions") or []
    return any(
        each.get("type") == "Established" and each.get("status") == "True" for each in conditions
    )


def lease_findings(cluster: Cluster) -> Iterator[Finding]:
    """Whether an operator and a scheduler work on the cluster, and which."""
    if EMBEDDED in cluster.version and cluster.rooms is None:
        text = "run inside of `kilonova up`, unless it was started without them"
        yield ok("operator, scheduler", f"{text}: `kilonova status` tells, on its machine")
        return
    rooms = cluster.rooms or {}
    inside = {name: rooms[name] for name in _PARTS if rooms.get(name, "off") != "off"}
    for name, state in inside.items():
        if state != "degraded":
            yield ok(name, f"is {state}, inside of `kilonova up`")
    for name, state in rooms.items():
        if state == "degraded":
            yield problem(
                name,
                "failed inside of `kilonova up`, and is being restarted",
                "`kilonova status` says why; its log is the file `log` in the data folder",
            )
    outside = [name for name in _PARTS if name not in inside]
    if not outside:
        return
    if cluster.leaders is None:
        yield warning(
            ", ".join(outside),
            f"can not be seen: you may not list leases in namespace {NAMESPACE}",
            "ask for that right",
        )
        return
    for name, lease in cluster.leaders.items():
        if name not in inside:
            yield _leader(name, lease, cluster.now)
    for name in outside:
        if name not in cluster.leaders:
            yield _nobody(name, left_out=name in rooms)


def _leader(name: str, lease: Lease, now: float) -> Finding:
    again = f"`kilonova run {name}`, or the pods of its Deployment (deploy/{name})"
    if not lease.holder or lease.renewed is None:
        return warning(name, "none leads: the last one has stepped down", f"start one: {again}")
    silent = max(0.0, now - lease.renewed)
    if silent > 2 * lease.duration:
        return problem(
            name,
            f"{lease.holder} has not been heard of for {human_duration(silent)}",
            f"see its log, and start it again: {again}",
        )
    return ok(name, f"{lease.holder} leads, heard of {human_duration(silent)} ago")


def _nobody(name: str, *, left_out: bool) -> Finding:
    none = f"there is no Lease kilonova-{name} in namespace {NAMESPACE}"
    start = f"run `kilonova run {name}`"
    if left_out:
        return warning(
            name,
            f"left out of this `kilonova up` (--no-{name}), and none has led from outside: {none}",
            f"{start}, or start the cluster without --no-{name}",
        )
    other = "one with another --namespace, or --no-leader-elect, is not seen here"
    return warning(
        name, f"none has led here: {none}", f"{start}, or deploy it (deploy/{name}); {other}"
    )


def node_finding(cluster: Cluster) -> Finding:
    """Whether nodes are heard of, and their clocks agree."""
    if cluster.nodes is None:
        return warning("nodes", "can not be seen", "ask for the right to list nodes")
    if not cluster.nodes:
        return warning("nodes", "there are none", "add some, or start `kilonova up` with a fleet")
    if cluster.node_leases is None:
        found = f"{counted(len(cluster.nodes), 'node')}, whose Leases can not be seen"
        return warning("nodes", found, "ask for the right to list leases")
    now = cluster.now if cluster.server_time is None else cluster.server_time
    ages = {lease.name: now - lease.renewed for lease in cluster.node_leases if lease.renewed}
    ahead = [name for name in cluster.nodes if ages.get(name, 0.0) < -_AHEAD]
    silent = [name for name in cluster.nodes if ages.get(name, 0.0) > _STALE_NODE]
    without = [name for name in cluster.nodes if name not in ages]
    if ahead:
        return warning(
            "nodes", f"the clocks are ahead on {_some(ahead)}", "let them follow a time server"
        )
    if silent or without:
        fresh = len(cluster.nodes) - len(silent) - len(without)
        found = f"{fresh} of {len(cluster.nodes)} have a fresh Lease"
        found += f"; not heard of for a minute: {_some(silent)}" if silent else ""
        found += f"; without any Lease: {_some(without)}" if without else ""
        return warning("nodes", found, "see `kubectl describe node`")
    return ok("nodes", f"{counted(len(cluster.nodes), 'node')}, all with a fresh Lease")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
